// Memory rules against tables that were worked out by hand from the engines' sources.
#include "sim/engine/memory.h"

#include <gtest/gtest.h>

#include "comm/nccl_footprint.h"
#include "sim/engine/budget.h"

namespace specstep {
namespace {

ReserveQuery rtx_pro(std::int64_t max_batch) {
  ReserveQuery q;
  q.gpu_mib = 97887;
  q.tensor = 8;
  q.max_batch = max_batch;
  return q;
}

double fraction(const ReserveQuery& q, MemoryRule rule = MemoryRule::reserve_2026) {
  return sglang_fraction(rule, q).value;
}

// 97,887 MiB, tensor parallel 8; the vision tower of Kimi-K2.5 has 27 layers of width 1152.
TEST(MemoryRules, SglangFractionOfAnRtxPro6000) {
  const std::tuple<std::int64_t, double, double, double, double> rows[]{{512, .848, .827, .7715, .7524},
                                                                        {256, .854, .833, .7769, .7578},
                                                                        {128, .856, .835, .7787, .7596},
                                                                        {32, .858, .837, .7806, .7614}};
  for (const auto& [batch, text, drafted, vision, both] : rows) {
    ReserveQuery q = rtx_pro(batch);
    EXPECT_DOUBLE_EQ(fraction(q), text) << batch;
    q.draft = DraftReserve::layer;
    EXPECT_DOUBLE_EQ(fraction(q), drafted) << batch;
    q.vision_layers = 27;
    q.vision_hidden = 1152;
    EXPECT_NEAR(fraction(q), both, 5e-5) << batch;
    q.draft = DraftReserve::none;
    EXPECT_NEAR(fraction(q), vision, 5e-5) << batch;
  }
  EXPECT_NEAR(vision_factor(27, 1152), 0.90974, 5e-6);
  EXPECT_DOUBLE_EQ(vision_factor(1, 16), 0.95 * 1.05) << "small towers";
  EXPECT_DOUBLE_EQ(vision_factor(100, 4096), 0.95 * 0.8) << "large towers";
}

double reserve(const ReserveQuery& q, MemoryRule rule = MemoryRule::reserve_2026) {
  double sum = 0;
  for (const ReserveTerm& t : sglang_fraction(rule, q).terms) sum += t.mib;
  return sum;
}

// The same sums by hand, MiB.
TEST(MemoryRules, SglangReserveTermByTerm) {
  EXPECT_DOUBLE_EQ(reserve(rtx_pro(128)), 512 + 1.5 * 8192 + 2 * 128 + 1024);
  ReserveQuery q = rtx_pro(512);
  q.attention_data = 8;
  EXPECT_DOUBLE_EQ(reserve(q), 512 + 1.5 * 8192 + 2 * 512 + 1024 + 3 * 512 * 8 + 1.5 * 512 * 8);
  q.max_batch = 300;
  EXPECT_DOUBLE_EQ(reserve(q), 512 + 1.5 * 8192 + 2 * 300 + 1024 + 3 * 300 * 8);
  q = rtx_pro(32);
  q.piecewise_sizes = 74;
  q.draft = DraftReserve::standalone;
  EXPECT_DOUBLE_EQ(reserve(q), 512 + 1.5 * 8192 + 64 + 1024 + 8 * 74 + 6144);
  q = rtx_pro(8);
  q.chunk_tokens = 2048;
  q.tensor = 1;
  EXPECT_DOUBLE_EQ(reserve(q), 10240) << "the least on GPUs above 60 GiB";
  q.draft = DraftReserve::layer;
  EXPECT_DOUBLE_EQ(reserve(q), 10240 + 2048) << "the draft comes on top of the least";
  q.gpu_mib = 24576;
  q.draft = DraftReserve::none;
  EXPECT_DOUBLE_EQ(reserve(q), 512 + 3072 + 16 + 128);
  EXPECT_EQ(sglang_chunk_tokens(24576), 2048);
  EXPECT_EQ(sglang_chunk_tokens(49140), 4096);
  EXPECT_EQ(sglang_chunk_tokens(97887), 8192);
  EXPECT_EQ(sglang_chunk_tokens(183359), 16384);
}

TEST(MemoryRules, SglangOlderAndLater) {
  ReserveQuery q = rtx_pro(512);
  EXPECT_DOUBLE_EQ(reserve(q, MemoryRule::fixed_2025), (12 + 4) * 1024);
  q.draft = DraftReserve::layer;
  EXPECT_DOUBLE_EQ(reserve(q, MemoryRule::fixed_2025), (12 + 4 + 2) * 1024);
  q.draft = DraftReserve::standalone;
  q.attention_data = 2;
  EXPECT_DOUBLE_EQ(reserve(q, MemoryRule::fixed_2025), (12 + 4 + 6 + 4) * 1024);
  q.gpu_mib = 81559;
  EXPECT_THROW(sglang_fraction(MemoryRule::fixed_2025, q), InputError);

  q = rtx_pro(128);
  q.mla_prefill_graphs = q.deepep = true;
  EXPECT_DOUBLE_EQ(reserve(q, MemoryRule::reserve_late_2026), reserve(rtx_pro(128)) + 1536 + 2048);
  q.after_capture = true;
  q.vision_layers = 27;
  q.vision_hidden = 1152;
  EXPECT_DOUBLE_EQ(reserve(q, MemoryRule::reserve_late_2026), 1536 + 1024 + 8192);
  EXPECT_EQ(sglang_fraction(MemoryRule::reserve_late_2026, q).vision_factor, 1);
}

TEST(MemoryRules, ByPresetAndVersion) {
  const auto rule = [](EnginePreset preset, const char* version) { return memory_rule({}, preset, version); };
  EXPECT_EQ(rule(EnginePreset::sglang, ""), MemoryRule::reserve_2026);
  EXPECT_EQ(rule(EnginePreset::sglang, "0.5.9"), MemoryRule::reserve_2026);
  EXPECT_EQ(rule(EnginePreset::sglang, "0.4.7"), MemoryRule::fixed_2025);
  EXPECT_EQ(rule(EnginePreset::vllm, "0.4.7"), MemoryRule::utilisation);
  EXPECT_EQ(rule(EnginePreset::trtllm, ""), MemoryRule::free_share);
}

// vLLM's log lines (vllm-project/vllm#57595, 2026-09): 0.8200 <-> 0.8352 / 0.8048 with an estimate of 0.36 GiB, 0.9200
// <-> 0.9271 / 0.9129 with 0.17 GiB, on cards of 23.7 GiB.
TEST(MemoryRules, SharesThatGiveTheSamePool) {
  EXPECT_NEAR(equivalent_shares(0.82, 0.36, 23.7).up, 0.8352, 1e-4);
  EXPECT_NEAR(equivalent_shares(0.82, 0.36, 23.7).down, 0.8048, 1e-4);
  EXPECT_NEAR(equivalent_shares(0.92, 0.17, 23.7).up, 0.9271, 1e-4);
  EXPECT_NEAR(equivalent_shares(0.92, 0.17, 23.7).down, 0.9129, 1e-4);
}

// Whole pages of tokens. 10.42 and 0.90 as GiB, as SGLang prints "GB", and as 10^9 bytes.
TEST(MemoryRules, TokensOfAPool) {
  EXPECT_EQ(pool_tokens(10.42e9, 70272, 1), 148280);
  EXPECT_EQ(pool_tokens(0.90e9, 70272, 1), 12807);
  EXPECT_NEAR(static_cast<double>(pool_tokens(10.42 * (1 << 30), 70272, 1)), 159.2e3, 50);
  EXPECT_NEAR(static_cast<double>(pool_tokens(0.90 * (1 << 30), 70272, 1)), 13.75e3, 5);
  EXPECT_EQ(pool_tokens(100, 1, 16), 96);
  EXPECT_EQ(pool_tokens(15, 1, 16), 0);
  EXPECT_EQ(pool_tokens(-1, 1, 1), 0);
  // vLLM, fp8: 437,520 tokens are 15.37 GB; 337,296 with a draft, 11.85 GB by the target's cells alone.
  EXPECT_EQ(pool_tokens(15.3727e9 + 1e5, 35136, 16), 437520);
  EXPECT_NEAR(337296 * 35136.0, 11.85e9, 5e6);
}

// 12 MiB a ring channel: 10 MiB on the receiving side (an out-of-memory report shows 10,485,760 B), 2 MiB on the other.
TEST(NcclFootprint, ChannelsPeersProtocols) {
  constexpr double mib = 1024.0 * 1024;
  const auto bytes = [](std::int64_t channels) {
    comm::NcclBuffers b;
    b.channels = channels;
    return comm::nccl_buffer_bytes(b) / mib;
  };
  EXPECT_DOUBLE_EQ(bytes(2), 24);
  EXPECT_DOUBLE_EQ(bytes(4), 48);
  EXPECT_DOUBLE_EQ(bytes(8), 96);
  EXPECT_DOUBLE_EQ(bytes(32), 384);
  comm::NcclBuffers b;
  b.channels = 32;
  b.simple_bytes = 64 * mib;
  EXPECT_NEAR(comm::nccl_buffer_bytes(b) / mib / 1024, 2.3, 0.06);
  b = {};
  b.channels = 1;
  b.p2p_read = true;
  EXPECT_DOUBLE_EQ(comm::nccl_buffer_bytes(b) / mib, 6 + 6) << "Simple lies with the sender";
  b.simple = false;
  EXPECT_DOUBLE_EQ(comm::nccl_buffer_bytes(b) / mib, 6 + 2);
  b = {};
  b.channels = 1;
  b.peers = 5;
  EXPECT_DOUBLE_EQ(comm::nccl_buffer_bytes(b) / mib, 60);
}

}  // namespace
}  // namespace specstep
