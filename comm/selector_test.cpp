// Tables from curves: changes where curves cross, none for noise.
#include "comm/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "model/base/error.h"

namespace specstep::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Seconds = std::function<double(double)>;

Curve curve(const std::string& name, const Seconds& seconds, std::int64_t first = 1024, std::int64_t last = 1 << 20) {
  Curve out{name, {}};
  for (std::int64_t bytes = first; bytes <= last; bytes *= 2)
    out.points.emplace_back(bytes, seconds(static_cast<double>(bytes)));
  return out;
}

/// Latency and bandwidth: crosses another line where both are equal.
Seconds line(double latency_us, double gb_s) {
  return [=](double bytes) { return latency_us * 1e-6 + bytes / gb_s / 1e9; };
}

std::vector<std::string> backends(const Selection& s) {
  std::vector<std::string> out;
  for (const SelectedRow& row : s.rows) out.push_back(row.backend);
  return out;
}

TEST(Select, ChangesWhereTheCurvesCross) {
  // 4 us + b / 20 = 8 us + b / 100 at 100 kB
  const Selection s = select({curve("push1", line(4, 20)), curve("rsag", line(8, 100)), curve("nccl", line(30, 40))});
  ASSERT_THAT(backends(s), ElementsAre("push1", "rsag"));
  EXPECT_NEAR(static_cast<double>(*s.rows[0].up_to_bytes), 100e3, 5e3);  // straight in the logarithms between sizes
  EXPECT_EQ(*s.rows[0].up_to_bytes % 16, 0);
  EXPECT_FALSE(s.rows[1].up_to_bytes);
  ASSERT_EQ(s.crossovers.size(), 1U);
  EXPECT_EQ(s.crossovers[0].below, "push1");
  EXPECT_LT(s.crossovers[0].low, s.crossovers[0].at);
  EXPECT_EQ(s.pick(14336), "push1");
  EXPECT_EQ(s.pick(1 << 19), "rsag");
  EXPECT_EQ(s.pick(std::int64_t{1} << 40), "rsag");
}

// Two backends of the same speed, measured with 3 % of noise: whichever it is, one carries all.
TEST(Select, NoiseMakesNoRows) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    std::uniform_real_distribution<double> noise(-0.015, 0.015);
    const auto noisy = [&](double bytes) { return line(6, 50)(bytes) * (1 + noise(random)); };
    const Selection s = select({curve("a", noisy), curve("b", noisy)});
    EXPECT_EQ(s.rows.size(), 1U) << "seed " << seed << "\n" << text_of(s);
  }
}

TEST(Select, OneBadReadingInTheMiddleIsNoRow) {
  const auto spoilt = [](double bytes) { return line(6, 50)(bytes) * (bytes == 16384 ? 1.15 : 1); };
  const auto other = [](double bytes) { return line(6, 50)(bytes) * 1.02; };
  EXPECT_THAT(backends(select({curve("a", spoilt), curve("b", other)})), ElementsAre("a"));
}

TEST(Select, TakesAChangeThatPaysEvenIfLittleAtEachSize) {
  // b is 3 % better at eight sizes: a change, though each alone is within the noise.
  const auto a = line(6, 50);
  const auto b = [&](double bytes) { return a(bytes) * (bytes <= 4096 ? 1.2 : 0.97); };
  EXPECT_THAT(backends(select({curve("a", a), curve("b", b)})), ElementsAre("a", "b"));
}

TEST(Select, UsesABackendOnlyWhereItServes) {
  const Selection s = select({curve("fast", line(2, 100), 1024, 32768), curve("nccl", line(20, 100))});
  ASSERT_THAT(backends(s), ElementsAre("fast", "nccl"));
  EXPECT_EQ(*s.rows[0].up_to_bytes, 32768);
}

TEST(Select, OfNothingIsEmpty) {
  EXPECT_TRUE(select({}).rows.empty());
  EXPECT_TRUE(select({{"a", {}}}).rows.empty());
  EXPECT_THROW(select({}).pick(8), InputError);
}

TEST(Select, IsTheBestOfAllTables) {
  // Against every assignment of three backends to six sizes, counted out.
  std::minstd_rand random(7);
  std::uniform_real_distribution<double> factor(1, 1.15);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<Curve> curves;
    for (const char* name : {"a", "b", "c"})
      curves.push_back(curve(
          name, [&](double) { return factor(random) * 1e-6; }, 1024, 32768));
    const auto cost = [&](const std::vector<std::size_t>& choice) {
      double sum = 0;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        double best = 1;
        for (const Curve& one : curves) best = std::min(best, one.points[i].second);
        sum += std::log(curves[choice[i]].points[i].second / best);
        if (i > 0 && choice[i] != choice[i - 1]) sum += std::log(1.05);
      }
      return sum;
    };
    double least = 1e9;
    std::vector<std::size_t> choice(6), found(6);
    for (int code = 0; code < 729; ++code) {
      int rest = code;
      for (std::size_t& one : choice) {
        one = static_cast<std::size_t>(rest % 3);
        rest /= 3;
      }
      least = std::min(least, cost(choice));
    }
    const Selection s = select(curves, 0.05);
    for (std::size_t i = 0; i < 6; ++i) {
      const std::string& name = s.pick(curves[0].points[i].first);
      found[i] = name == "a" ? 0U : name == "b" ? 1U : 2U;
    }
    EXPECT_NEAR(cost(found), least, 1e-12);
  }
}

MeasuredSize timed(std::int64_t bytes, double graph_us, double cold_us, std::int64_t wrong = 0) {
  MeasuredSize size;
  size.bytes = bytes;
  size.checked = 8;
  size.wrong = wrong;
  size.graph = Timing{0, graph_us * 1e-6, 0, 1, 1};
  size.cold = Timing{0, cold_us * 1e-6, 0, 1, 1};
  return size;
}

TEST(CurvesToSelect, AreOfExactBackendsThatWereRight) {
  Measurement m;
  MeasuredBackend push, q8, wrong;
  push.id = "push1";
  push.sizes = {timed(4096, 4, 6), timed(1024, 3, 5)};
  q8.id = "q8";
  q8.sizes = {timed(1024, 1, 1)};
  wrong.id = "pull1";
  wrong.sizes = {timed(1024, 1, 1, 3)};
  m.backends = {push, q8, wrong};
  const std::vector<Curve> curves = curves_to_select(m);
  ASSERT_EQ(curves.size(), 2U);
  ASSERT_EQ(curves[0].points.size(), 2U);
  EXPECT_EQ(curves[0].points[0].first, 1024);
  EXPECT_NEAR(curves[0].points[0].second, 4e-6, 1e-12);  // the mean of warm and cold
  EXPECT_TRUE(curves[1].points.empty());
  EXPECT_THAT(backends(select(curves)), ElementsAre("push1"));
}

TEST(Selection, GoesToOtherRanksAndBack) {
  const Selection s = select({curve("push1", line(4, 20)), curve("rsag", line(8, 100))});
  const Selection back = unpacked(packed(s));
  EXPECT_EQ(back.rows, s.rows);
  ASSERT_EQ(back.crossovers.size(), 1U);
  EXPECT_EQ(back.crossovers[0].at, s.crossovers[0].at);
  EXPECT_THROW(unpacked("rows"), Error);
  EXPECT_THROW(unpacked("{}"), Error);
}

TEST(Selection, IsWrittenAsYaml) {
  Selection s;
  s.rows = {{57344, "push1"}, {1000 * 1024 + 16, "rsag"}, {std::nullopt, "nccl"}};
  EXPECT_EQ(yaml_of(s, {"machine: a", "date: b"}),
            "# machine: a\n# date: b\ntable:\n  - {up_to_kib: 56, backend: push1}\n"
            "  - {up_to_kib: 1000.015625, backend: rsag}\n  - {backend: nccl}\n");
}

}  // namespace
}  // namespace specstep::comm
