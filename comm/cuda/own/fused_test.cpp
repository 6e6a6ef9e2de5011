// Allreduces that go on with a norm: residuals exact to the bit, norms within one rounding of sums in double, equal
// bits on all ranks, by graphs and eagerly.
#include "comm/cuda/own/fused.h"

#include <cmath>

#include "comm/cuda/own/test_own.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

struct RowShape {
  std::int64_t rows = 1, width = 8;
  DType dtype = DType::bf16;
  bool copies = false;  // the residual, as for features of a draft
  std::size_t values() const { return static_cast<std::size_t>(rows * width); }
  std::string text() const { return formatted("[{}, {}] {}{}", rows, width, name_of(dtype), copies ? ", copied" : ""); }
};

int residual_value(std::size_t i) { return static_cast<int>((i * 31 + 5) % 501) - 250; }
int gain_value(std::size_t i) { return static_cast<int>(i % 5) - 1; }

/// Nearest number of a type, ties to even; up to 512 only bf16, with its 8 digits, does not hold every integer.
int rounded(int value, DType dtype) {
  if (dtype != DType::bf16 || std::abs(value) <= 256 || value % 2 == 0) return value;
  return (value - 1) % 4 == 0 ? value - 1 : value + 1;
}

Integers made(std::size_t count, int (*value)(std::size_t)) {
  Integers out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value(i);
  return out;
}

Integers residuals(int ranks, const RowShape& shape, int call) {
  Integers out = own_sums(ranks, shape.values(), call);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = rounded(out[i] + residual_value(i), shape.dtype);
  return out;
}

/// Where norms differ most from those in double, beyond one rounding and what fp32 may add to it.
std::string norm_fault(const RowShape& shape, const Integers& residual, const std::string& got) {
  const std::vector<float> values = decoded(got, shape.dtype);
  const double rounding = shape.dtype == DType::bf16 ? 0x1p-8 : shape.dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
  const auto width = static_cast<std::size_t>(shape.width);
  double worst = 0;
  std::string text;
  for (std::size_t row = 0; row < residual.size() / width; ++row) {
    const int* const summed = residual.data() + row * width;
    double squares = 0;
    for (std::size_t c = 0; c < width; ++c) squares += static_cast<double>(summed[c]) * summed[c];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-6);
    for (std::size_t c = 0; c < width; ++c) {
      const double expected = summed[c] * scale * gain_value(c);
      const double is = static_cast<double>(values[row * width + c]);
      const double excess = std::abs(is - expected) - std::abs(expected) * (rounding + 0x1p-19);
      if (excess <= worst) continue;  // a NaN goes on
      worst = excess;
      text = formatted("{}: the norm of row {}, column {} is {}, expected {}\n", shape.text(), row, c, is, expected);
    }
  }
  return text;
}

/// One call with its data on one rank's device.
class RowSite {
 public:
  RowSite(int rank, int ranks, const RowShape& shape, int call)
      : shape_(shape),
        sums_(residuals(ranks, shape, call)),
        given_(own_values(rank, shape.values(), call), shape.dtype),
        before_(made(shape.values(), residual_value), shape.dtype),
        after_(sums_, shape.dtype),
        gain_(made(static_cast<std::size_t>(shape.width), gain_value), shape.dtype),
        values_(given_.size()),
        residual_(given_.size()),
        out_(given_.size()),
        first_out_(given_.size()),
        copy_(3 * given_.size()) {}

  /// Fills the arrays, calls, compares the residual exactly and the norm with that of the first time.
  void issue(DeviceComm& comm, unsigned* wrong, cudaStream_t stream) const {
    const auto fill = [&](const DeviceBytes& to, const DeviceBytes& from) {
      check(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice, stream), "filling");
    };
    fill(values_, given_);
    fill(residual_, before_);
    check(cudaMemsetAsync(out_.data(), 0xFF, out_.size(), stream), "filling");
    const std::size_t row = given_.size() / static_cast<std::size_t>(shape_.rows);
    FusedNorm call{values_.data(), residual_.data(), gain_.data(), out_.data(),
                   shape_.rows,    shape_.width,     shape_.dtype};
    if (shape_.copies) {
      call.copy_residual = copy_.data() + row;
      call.copy_stride = 3 * shape_.width;
    }
    comm.all_reduce_norm(call, stream);
    count_differences(residual_.data(), after_.data(), after_.size(), wrong, stream);
    for (std::size_t r = 0; shape_.copies && r < static_cast<std::size_t>(shape_.rows); ++r)
      count_differences(copy_.data() + (3 * r + 1) * row, after_.data() + r * row, row, wrong, stream);
    if (seen_) count_differences(out_.data(), first_out_.data(), out_.size(), wrong, stream);
  }
  /// Behind the first time: what is wrong with the norm.
  std::string look() {
    const std::string fault = difference(residual_.read(), sums_, shape_.dtype, shape_.text() + ", residual") +
                              norm_fault(shape_, sums_, out_.read());
    check(cudaMemcpy(first_out_.data(), out_.data(), out_.size(), cudaMemcpyDeviceToDevice), "keeping a norm");
    seen_ = true;
    return fault;
  }
  std::string norm() const { return first_out_.read(); }

 private:
  RowShape shape_;
  Integers sums_;
  DeviceBytes given_, before_, after_, gain_, values_, residual_, out_, first_out_, copy_;
  bool seen_ = false;
};

struct RowTrial {
  CommRequest request;
  int ranks = 2;
  std::vector<RowShape> shapes;
  int replays = 20;
  bool skew = false;
};

/// As faults_of, with an allreduce alone between the calls.
std::string row_faults(const RowTrial& trial) {
  std::vector<std::string> faults(static_cast<std::size_t>(trial.ranks));
  const auto thrown = on_ranks(trial.ranks, 60, visible_gpus() < trial.ranks, [&](Bootstrap& group) {
    std::string& fault = faults[static_cast<std::size_t>(group.rank())];
    const auto comm = open_comm(trial.request, group);
    const Stream stream = make_stream();
    std::vector<RowSite> sites;
    for (const RowShape& shape : trial.shapes)
      sites.emplace_back(group.rank(), group.ranks(), shape, static_cast<int>(sites.size()));
    const OwnSite alone(group.rank(), group.ranks(), 1001, DType::bf16, 3);
    const DeviceBytes wrong(Integers{0, 0}, DType::f32);
    load_what_tests_launch(group, reinterpret_cast<unsigned*>(wrong.data()), stream.get());
    auto* counter = reinterpret_cast<unsigned*>(wrong.data());
    load_what_tests_launch(group, counter, stream.get());
    std::minstd_rand random(static_cast<unsigned>(group.rank()) + 1);
    const auto all = [&] {
      for (const RowSite& site : sites) {
        if (trial.skew && random() % 4 == 0) launch_pause(random() % 20000, stream.get());
        site.issue(*comm, counter, stream.get());
        alone.issue(*comm, counter, stream.get());
      }
    };
    all();
    wait_for(stream.get(), *comm, 30, "eager calls");
    std::string norms;
    for (RowSite& site : sites) fault += site.look(), norms += site.norm();
    const std::vector<std::string> every = group.all_gather(norms, "norms of every rank");
    for (const std::string& other : every)
      if (other != every[0] && fault.empty()) fault = "ranks have different norms\n";
    const GraphExec graph = capture(stream.get(), all);
    group.barrier("captured");
    for (int i = 0; i < trial.replays; ++i) {
      check(cudaGraphLaunch(graph.get(), stream.get()), "replaying");
      if (i % 64 == 63) wait_for(stream.get(), *comm, 30, "replays");
    }
    wait_for(stream.get(), *comm, 30, "replays");
    all();
    wait_for(stream.get(), *comm, 30, "eager calls again");
    unsigned count = 0;
    check(cudaMemcpy(&count, counter, sizeof(count), cudaMemcpyDeviceToHost), "reading");
    if (count > 0) fault += formatted("rank {}: {} wrong bytes in all rounds\n", group.rank(), count);
    comm->check_health();
    group.barrier("done");
  });
  std::string text;
  for (std::size_t r = 0; r < faults.size(); ++r)
    text += faults[r] + (thrown[r].text.empty() ? "" : thrown[r].text + "\n");
  return text;
}

/// Two of them where the ranks allow it, with pairs of unequal places; else one.
std::vector<std::vector<int>> islands(int ranks) {
  std::vector<std::vector<int>> out(ranks % 2 == 0 ? 2 : 1);
  for (int r = 0; r < ranks; ++r) out[static_cast<std::size_t>(r) % out.size()].push_back(r);
  if (ranks == 8) out = {{0, 1, 2, 3}, {5, 6, 7, 4}};
  return out;
}

struct Fused {
  std::string name;
  std::string backend;
  OwnSettings settings;
  friend void PrintTo(const Fused& one, std::ostream* out) { *out << one.name; }
  CommRequest request(int ranks) const {
    CommRequest out;
    out.backend = backend;
    out.own = settings;
    out.wait_limit_seconds = 20;
    if (backend == "island") out.own.islands = islands(ranks);
    return out;
  }
};
std::vector<Fused> every_fused() {
  return {{"push1", "push1", {}},    {"push1_ll", "push1", {.wire = "ll"}},       {"pull1", "pull1", {}},
          {"rsag_push", "rsag", {}}, {"rsag_pull", "rsag", {.transfer = "pull"}}, {"island", "island", {}}};
}

class FusedOnRanks : public testing::TestWithParam<std::tuple<Fused, int>> {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    trial_.ranks = std::get<1>(GetParam());
    trial_.request = std::get<0>(GetParam()).request(trial_.ranks);
  }
  RowTrial trial_;
};
INSTANTIATE_TEST_SUITE_P(Backends, FusedOnRanks,
                         testing::Combine(testing::ValuesIn(every_fused()), testing::Values(1, 2, 3, 4, 8)),
                         [](const auto& one) {
                           return std::get<0>(one.param).name + "_" + std::to_string(std::get<1>(one.param)) + "_ranks";
                         });

TEST_P(FusedOnRanks, RowsAndWidths) {
  for (const std::int64_t width : {8, 64, 72, 512, 1000, 7168, 16384})
    for (const std::int64_t rows : {1, 2, 3, 4, 8}) trial_.shapes.push_back({rows, width, DType::bf16, rows == 3});
  for (const DType dtype : {DType::f16, DType::f32})
    for (const std::int64_t width : {64, 1000, 7168, 16384}) trial_.shapes.push_back({3, width, dtype, width == 1000});
  trial_.replays = 5;
  EXPECT_EQ(row_faults(trial_), "");
}

TEST_P(FusedOnRanks, RanksMayComeAtDifferentTimesAndTheCountOfCallsMayWrap) {
  trial_.request.first_epoch = 0xFFFFFFFBU;
  trial_.shapes = {{1, 7168}, {3, 7168}, {2, 1000}, {8, 64}};
  trial_.skew = true;
  trial_.replays = 50;
  EXPECT_EQ(row_faults(trial_), "");
}

TEST_P(FusedOnRanks, OtherRowsTakeTwoStepsOrSeveralPieces) {
  trial_.request.own.largest_kib = 32;
  trial_.shapes = {{3, 1001},  {2, 4, DType::f16},       {70, 512}, {8, 7168}, {5, 8192},
                   {1, 20000}, {3, 33, DType::f32, true}};
  EXPECT_EQ(row_faults(trial_), "");
}

class FusedBackends : public testing::TestWithParam<Fused> {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, FusedBackends, testing::ValuesIn(every_fused()),
                         [](const auto& one) { return one.param.name; });

TEST_P(FusedBackends, TenThousandReplays) {
  EXPECT_EQ(row_faults({GetParam().request(4), 4, {{1, 7168}, {3, 1000}}, 10'000, false}), "");
}

TEST_P(FusedBackends, ARankThatDoesNotComeIsNamed) {
  constexpr int ranks = 3, dead = 1;
  CommRequest request = GetParam().request(ranks);
  request.wait_limit_seconds = 1;
  std::vector<std::string> told(ranks);
  const auto thrown = on_ranks(ranks, 60, visible_gpus() < ranks, [&](Bootstrap& group) {
    const auto comm = open_comm(request, group);
    const Stream stream = make_stream();
    const RowSite site(group.rank(), ranks, {3, 7168}, 0);
    const DeviceBytes wrong(Integers{0, 0}, DType::f32);
    auto* counter = reinterpret_cast<unsigned*>(wrong.data());
    load_what_tests_launch(group, counter, stream.get());
    site.issue(*comm, counter, stream.get());
    wait_for(stream.get(), *comm, 10, "a good call");
    group.barrier("good calls");
    if (group.rank() != dead) {
      for (int i = 0; i < 20; ++i) site.issue(*comm, counter, stream.get());
      check(cudaStreamSynchronize(stream.get()), "draining");
      try {
        comm->check_health();
      } catch (const Error& e) {
        told[static_cast<std::size_t>(group.rank())] = e.what();
      }
    }
    group.barrier("all have given up");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
  for (const int rank : {0, 2})
    EXPECT_THAT(told[static_cast<std::size_t>(rank)], HasSubstr(formatted("rank {} waited in vain for rank", rank)));
}

TEST(FusedNorm, BackendsWithoutItSaySo) {
  if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  const auto thrown = on_ranks(2, 20, true, [&](Bootstrap& group) {
    CommRequest request;
    request.backend = "null";
    const auto comm = open_comm(request, group);
    EXPECT_FALSE(comm->fuses_norm());
    comm->all_reduce_norm({}, nullptr);
  });
  for (const Thrown& one : thrown) EXPECT_TRUE(one.unsupported) << one.text;
}

// No GPU is needed here. 7168 bf16 values are 896 packs.
TEST(RowGrid, RowsGetTheBlocksThatThereAre) {
  const auto grid = [](std::uint32_t rows, std::uint32_t work, unsigned blocks, int cluster) {
    const RowGrid g = row_grid(rows, work, {blocks, cluster});
    return std::vector<unsigned>{g.grid.blocks, g.grid.threads, static_cast<unsigned>(g.cluster)};
  };
  using Grid3 = std::vector<unsigned>;
  EXPECT_EQ(grid(1, 896, 64, 8), (Grid3{8, 128, 8}));
  EXPECT_EQ(grid(3, 896, 64, 8), (Grid3{24, 128, 8}));
  EXPECT_EQ(grid(3, 896, 16, 8), (Grid3{12, 224, 4}));  // eight ranks share a device
  EXPECT_EQ(grid(40, 896, 16, 8), (Grid3{16, 512, 1}));
  EXPECT_EQ(grid(1, 896, 64, 1), (Grid3{1, 512, 1}));  // no clusters there
  EXPECT_EQ(grid(1, 8, 64, 8), (Grid3{1, 32, 1}));     // a warp has all
  EXPECT_EQ(grid(1, 4096, 64, 8), (Grid3{8, 256, 8}));
}

}  // namespace
}  // namespace specstep::comm
