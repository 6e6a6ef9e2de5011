// The roofline against its limits and against measured GEMMs.
#include "sim/cost/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "model/base/config_io.h"
#include "model/base/units.h"

namespace specstep {
namespace {

GpuSpec gpu(const std::string& name) {
  return load_config<GpuSpec>(std::filesystem::path(SPECSTEP_SOURCE_DIR) / "configs" / "gpus" / (name + ".yaml"));
}

TEST(Roofline, LargeTransfersApproachTheEfficiency) {
  const GpuSpec h200 = gpu("h200-sxm");
  const double bytes = 2.0 * 65536 * 65536;
  const double peak = h200.memory_bandwidth_gb_s.value * 1e9;
  const double seconds = price_kernel(h200, Gemm{.m = 1, .n = 65536, .k = 65536, .format = {}}).seconds;
  EXPECT_NEAR(bytes / seconds / peak, h200.kernels.gemm.bandwidth_efficiency.value, 0.002);
}

TEST(Roofline, HalfTheEfficiencyAtTheRamp) {
  GpuSpec g = gpu("h200-sxm");
  g.kernels.gemm.ramp_mb.value = 2.0 * 1000 * 1000 / 1e6;  // bytes of a 1000 x 1000 bf16 matrix
  g.kernels.gemm.floor_us.value = 0;
  const double seconds = price_kernel(g, Gemm{.m = 0, .n = 1000, .k = 1000, .format = {}}).seconds;
  const double bandwidth = g.memory_bandwidth_gb_s.value * 1e9 * g.kernels.gemm.bandwidth_efficiency.value;
  EXPECT_NEAR(seconds, 2.0 * 2e6 / bandwidth, 1e-12);
}

TEST(Roofline, WideProductsAreBoundByCompute) {
  const GpuSpec h200 = gpu("h200-sxm");
  const double seconds = price_kernel(h200, Gemm{.m = 65536, .n = 8192, .k = 8192, .format = {}}).seconds;
  EXPECT_NEAR(seconds,
              2.0 * 65536 * 8192 * 8192 / (h200.bf16_tflops.value * 1e12 * h200.kernels.gemm.compute_efficiency.value),
              1e-9);
}

TEST(Roofline, SmallKernelsCostTheFloorAndSayWhereItComesFrom) {
  const GpuSpec rtx = gpu("rtx-pro-6000-blackwell");
  const KernelPrice price = price_kernel(rtx, RmsNorm{1, 7168, true});
  EXPECT_DOUBLE_EQ(price.seconds, rtx.kernels.other.floor_us.value * us);
  EXPECT_EQ(price.provenance, comm::Provenance::measured);
  EXPECT_EQ(price_kernel(rtx, Gemm{.m = 1, .n = 7168, .k = 7168, .format = {}}).provenance, comm::Provenance::fit);
}

// traces/h200/gemm.csv: cublas bf16 with weights from HBM. The fit used rows with M <= 8; M = 64 was left out.
TEST(Roofline, MeasuredGemmsOfH200) {
  const GpuSpec h200 = gpu("h200-sxm");
  std::ifstream in(std::filesystem::path(SPECSTEP_SOURCE_DIR) / "traces" / "h200" / "gemm.csv");
  std::string line;
  std::getline(in, line);
  std::vector<double> errors, left_out;
  while (std::getline(in, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    std::string name;
    std::int64_t m = 0, n = 0, k = 0;
    double latency = 0;
    row >> name >> m >> n >> k >> latency;
    const double predicted =
        price_kernel(h200, Gemm{.m = m, .n = n, .k = k, .format = {}}).seconds / us + h200.graph_node_us.value;
    (m <= 8 ? errors : left_out).push_back(std::abs(predicted / latency - 1));
  }
  ASSERT_EQ(errors.size(), 30u);
  ASSERT_EQ(left_out.size(), 10u);
  const auto median = [](std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  EXPECT_LT(median(errors), 0.16);
  EXPECT_LT(median(left_out), 0.20);
  EXPECT_LT(*std::max_element(errors.begin(), errors.end()), 0.35);
}

Attention mla(std::int64_t sequences, std::int64_t queries, std::int64_t context) {
  return {.kind = AttentionKind::mla,
          .sequences = sequences,
          .queries = queries,
          .context = context,
          .heads = 8,
          .score_dim = 576,
          .value_dim = 512,
          .cached_values = 576,
          .kv = DType::fp8,
          .queries_share_kv = false};
}

// Blocks by hand: 188 multiprocessors, 64 splits, 400 ns a token; the class's fixed part taken away.
TEST(SplitAttention, RunsInWavesOfBlocks) {
  const GpuSpec rtx = gpu("rtx-pro-6000-blackwell");
  const SplitAttention split{.splits = 64, .heads_per_block = 16, .token_ns = {.value = 400}};
  const double bandwidth = 1792e9 * rtx.kernels.attention.bandwidth_efficiency.value;
  const double fixed = rtx.kernels.attention.ramp_mb.value * 1e6 / bandwidth;
  const auto blocks = [&](const Attention& op) { return price_split_attention(rtx, split, op).seconds - fixed; };
  const double wave = 65536.0 / 64 * 400e-9;
  EXPECT_NEAR(blocks(mla(1, 1, 65535)), wave, 1e-9);      // 64 blocks
  EXPECT_NEAR(blocks(mla(2, 1, 65535)), wave, 1e-9);      // 128
  EXPECT_NEAR(blocks(mla(3, 1, 65535)), 2 * wave, 1e-9);  // 192
  EXPECT_NEAR(blocks(mla(1, 4, 65535)), 2 * wave * (65537.5 / 65536), 1e-9);
  EXPECT_NEAR(blocks(mla(47, 1, 65535)), 16 * wave, 1e-9);  // 3,008 blocks are 16 full waves
  // Queries that share the read fill a block of 16 heads together: 4 x 8 heads are two blocks instead of four.
  Attention shared = mla(8, 4, 65535);
  shared.queries_share_kv = true;
  EXPECT_NEAR(blocks(shared), 6 * wave * (65537.5 / 65536), 1e-9);
  // Four ranks that split the cache: 32 heads, two blocks over a quarter of it.
  Attention part = mla(1, 1, 65535);
  part.heads = 32;
  part.context_ranks = 4;
  EXPECT_NEAR(blocks(part), wave / 4, 1e-9);
}

TEST(SplitAttention, IsNeverFasterThanMemory) {
  const GpuSpec rtx = gpu("rtx-pro-6000-blackwell");
  const SplitAttention fast{.splits = 64, .heads_per_block = 16, .token_ns = {.value = 1}};
  Attention whole = mla(16, 4, 100000);
  const double seconds = price_split_attention(rtx, fast, whole).seconds;
  whole.queries_share_kv = true;  // rows of a sequence are read from memory once
  EXPECT_NEAR(seconds, price_kernel(rtx, whole).seconds, 1e-9);
}

}  // namespace
}  // namespace specstep
