// q8 on devices: equal bits on all ranks, errors within the bound, and exact sums of numbers that fp8 holds.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/cuda/own/test_own.h"
#include "comm/protocol/quantised.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

CommRequest q8_request() {
  CommRequest request;
  request.backend = "q8";
  request.wait_limit_seconds = 20;
  return request;
}

/// Values of a rank, over several magnitudes.
float random_value(std::minstd_rand& random) {
  const auto uniform = [&] { return static_cast<float>(random() % 20001) / 10000.0F - 1.0F; };
  return uniform() * std::exp2(8.0F * uniform());
}

std::string encoded_floats(const std::vector<float>& values, DType dtype) {
  std::string out;
  for (const float v : values) {
    // Whole multiples of 2^-8 of few bits are exact in all three types.
    const auto bits = std::bit_cast<std::uint32_t>(v) >> (dtype == DType::f32 ? 0 : 16);
    out.append(reinterpret_cast<const char*>(&bits), width(dtype));
  }
  return out;
}

class Q8OnRanks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Q8OnRanks, testing::Values(1, 2, 3, 5, 8));

/// Each rank's results for values of all magnitudes, and the exact sums.
struct Sums {
  std::vector<std::string> got;
  std::vector<std::vector<float>> values;  // of each rank
};

Sums sums_of(int ranks, std::size_t count, DType dtype, int calls) {
  Sums sums{std::vector<std::string>(static_cast<std::size_t>(ranks)), {}};
  for (int r = 0; r < ranks; ++r) {
    std::minstd_rand random(static_cast<unsigned>(r) * 31 + 7);
    std::vector<float> values(count);
    for (float& v : values) {
      // What bf16 holds is what is put in, whatever the type.
      v = std::bit_cast<float>(std::bit_cast<std::uint32_t>(random_value(random)) & 0xFFFF0000U);
    }
    sums.values.push_back(values);
  }
  const auto thrown = on_ranks(ranks, 60, visible_gpus() < ranks, [&](Bootstrap& group) {
    const auto comm = open_comm(q8_request(), group);
    const Stream stream = make_stream();
    const auto me = static_cast<std::size_t>(group.rank());
    const std::string given = encoded_floats(sums.values[me], dtype);
    const DeviceBytes source(given.size()), values(given.size());
    check(cudaMemcpy(source.data(), given.data(), given.size(), cudaMemcpyHostToDevice), "filling");
    const DeviceBytes words(Integers{0, 0}, DType::f32);
    load_what_tests_launch(group, reinterpret_cast<unsigned*>(words.data()), stream.get());
    for (int call = 0; call < calls; ++call) {
      check(cudaMemcpyAsync(values.data(), source.data(), given.size(), cudaMemcpyDeviceToDevice, stream.get()),
            "filling");
      comm->all_reduce(values.data(), static_cast<std::int64_t>(count), dtype, stream.get());
    }
    wait_for(stream.get(), *comm, 30, "sums");
    comm->check_health();
    sums.got[me] = values.read();
    group.barrier("done");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
  return sums;
}

TEST_P(Q8OnRanks, BitsAreEqualAndErrorsWithinTheBound) {
  const int ranks = GetParam();
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const std::size_t count : {std::size_t{1}, std::size_t{255}, std::size_t{7168}, std::size_t{100'003}}) {
      const Sums sums = sums_of(ranks, count, dtype, 5);
      for (const std::string& mine : sums.got) ASSERT_EQ(mine == sums.got.front(), true) << count << " values differ";
      const std::vector<float> got = decoded(sums.got.front(), dtype);
      ASSERT_EQ(got.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t begin = i / 256 * 256, end = std::min(count, begin + 256);
        double exact = 0, magnitudes = 0, largest = 0;
        for (const std::vector<float>& of_rank : sums.values) {
          exact += static_cast<double>(of_rank[i]);
          magnitudes += std::abs(static_cast<double>(of_rank[i]));
          double of_group = 0;
          for (std::size_t k = begin; k < end; ++k)
            of_group = std::max(of_group, std::abs(static_cast<double>(of_rank[k])));
          largest += of_group;
        }
        const double bound = protocol::error_bound(magnitudes, largest) + 1.2 * std::ldexp(magnitudes, -8);
        ASSERT_LE(std::abs(static_cast<double>(got[i]) - exact), bound)
            << ranks << " ranks, value " << i << " of " << count << " of " << name_of(dtype) << ": got " << got[i]
            << ", exact " << exact;
      }
    }
}

/// Sums of ones and zeros of at most eight ranks have four significant bits.
TEST_P(Q8OnRanks, SumsOfOnesAreExactInAllTypesAndSizesAndReplays) {
  const int ranks = GetParam();
  const auto thrown = on_ranks(ranks, 60, visible_gpus() < ranks, [&](Bootstrap& group) {
    CommRequest request = q8_request();
    request.first_epoch = 0xFFFFFFFBU;
    const auto comm = open_comm(request, group);
    const Stream stream = make_stream();
    const DeviceBytes counter(Integers{0, 0}, DType::f32);
    auto* wrong = reinterpret_cast<unsigned*>(counter.data());
    struct Site {
      std::size_t count;
      DType dtype;
      DeviceBytes given, expected, values;
    };
    load_what_tests_launch(group, wrong, stream.get());
    std::vector<Site> sites;
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
      for (const std::size_t count : {1U, 15U, 17U, 255U, 257U, 4097U, 21504U, 100'003U}) {
        Integers given(count), expected(count, 0);
        for (std::size_t i = 0; i < count; ++i)
          for (int r = 0; r < ranks; ++r) {
            const int value = static_cast<int>((i * 7 + static_cast<std::size_t>(r) * 5) % 3) - 1;
            if (r == group.rank()) given[i] = value;
            expected[i] += value;
          }
        sites.push_back(
            {count, dtype, DeviceBytes(given, dtype), DeviceBytes(expected, dtype), DeviceBytes(count * width(dtype))});
      }
    std::minstd_rand random(static_cast<unsigned>(group.rank()) + 1);
    const auto all = [&] {
      for (const Site& site : sites) {
        check(cudaMemcpyAsync(site.values.data(), site.given.data(), site.given.size(), cudaMemcpyDeviceToDevice,
                              stream.get()),
              "filling");
        if (random() % 4 == 0) launch_pause(random() % 20000, stream.get());
        comm->all_reduce(site.values.data(), static_cast<std::int64_t>(site.count), site.dtype, stream.get());
        count_differences(site.values.data(), site.expected.data(), site.expected.size(), wrong, stream.get());
      }
    };
    group.barrier("all memory is there");
    all();
    wait_for(stream.get(), *comm, 30, "eager calls");
    const GraphExec graph = capture(stream.get(), all);
    group.barrier("captured");
    for (int i = 0; i < 200; ++i) check(cudaGraphLaunch(graph.get(), stream.get()), "replaying");
    wait_for(stream.get(), *comm, 30, "replays");
    unsigned count = 0;
    check(cudaMemcpy(&count, wrong, sizeof(count), cudaMemcpyDeviceToHost), "reading");
    EXPECT_EQ(count, 0U) << "wrong bytes on rank " << group.rank();
    comm->check_health();
    group.barrier("done");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST(Q8, NotesSayWhatItCosts) {
  if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  std::string notes;
  const auto thrown = on_ranks(1, 20, true, [&](Bootstrap& group) {
    for (const std::string& note : open_comm(q8_request(), group)->notes()) notes += note;
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
  EXPECT_THAT(notes, HasSubstr("not exact"));
}

}  // namespace
}  // namespace specstep::comm
