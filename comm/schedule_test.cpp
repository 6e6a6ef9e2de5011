// Every schedule proved on host buffers, and counted.
#include "comm/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "comm/run_host.h"
#include "comm/schedules/schedules.h"
#include "model/base/error.h"

namespace specstep::comm {
namespace {

using Vectors = std::vector<std::vector<std::int64_t>>;

std::vector<int> in_order(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Distinct values, so that a part summed twice or from the wrong place cannot hide.
Vectors inputs(int ranks, std::size_t count) {
  Vectors vectors(static_cast<std::size_t>(ranks), std::vector<std::int64_t>(count));
  for (std::size_t r = 0; r < vectors.size(); ++r)
    for (std::size_t i = 0; i < count; ++i)
      vectors[r][i] = static_cast<std::int64_t>((r + 1) * 1000003 + i * 7919 + (r + 2) * (i + 3));
  return vectors;
}

Vectors sums(const Vectors& in) {
  std::vector<std::int64_t> sum(in.front().size(), 0);
  for (const auto& v : in)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += v[i];
  return Vectors(in.size(), sum);
}

const std::vector<std::size_t> lengths{0, 1, 7, 64, 1021, 7168};

struct Named {
  std::string name;
  std::function<Schedule(int)> build;
};

std::vector<std::vector<int>> halves(int ranks) {
  std::vector<std::vector<int>> islands(2);
  for (int r = 0; r < ranks; ++r) islands[static_cast<std::size_t>(2 * r / ranks)].push_back(r);
  return islands;
}

std::vector<std::vector<int>> pairs(int ranks) {
  std::vector<std::vector<int>> islands;
  for (int r = 0; r < ranks; r += 2) islands.push_back({r, r + 1});
  return islands;
}

std::vector<std::vector<int>> crossed(int ranks) {
  auto islands = halves(ranks);
  std::rotate(islands[1].begin(), islands[1].begin() + 1, islands[1].end());
  return islands;
}

const std::vector<Named> any_ranks{
    {"ring", [](int n) { return ring(Collective::all_reduce, in_order(n)); }},
    {"ring in another order",
     [](int n) {
       auto order = in_order(n);
       std::reverse(order.begin(), order.end());
       std::swap(order.front(), order[order.size() / 2]);
       return ring(Collective::all_reduce, order);
     }},
    {"chain", [](int n) { return chain(in_order(n)); }},
    {"tree", [](int n) { return tree(n); }},
    {"one-shot pull", [](int n) { return one_shot(n, Operation::read); }},
    {"one-shot push", [](int n) { return one_shot(n, Operation::write); }},
    {"two-stage pull", [](int n) { return two_stage(n, Operation::read); }},
    {"two-stage push", [](int n) { return two_stage(n, Operation::write); }},
    {"doubling", [](int n) { return recursive_doubling(n); }},
    {"host broadcast", [](int n) { return host_broadcast(n); }},
    {"multicast", [](int n) { return multicast(n); }},
};
const std::vector<Named> even_ranks{
    {"two islands", [](int n) { return island(halves(n), Operation::write); }},
    {"two islands, reads", [](int n) { return island(halves(n), Operation::read); }},
    {"two islands, crossed pairs", [](int n) { return island(crossed(n), Operation::write); }},
    {"islands of two", [](int n) { return island(pairs(n), Operation::write); }},
};

void expect_sums(const Named& named, int ranks) {
  for (std::size_t count : lengths) {
    SCOPED_TRACE(named.name + " ranks " + std::to_string(ranks) + " length " + std::to_string(count));
    Vectors vectors = inputs(ranks, count);
    const Vectors expected = sums(vectors);
    run_on_host(named.build(ranks), vectors);
    EXPECT_EQ(vectors, expected);
  }
}

TEST(AllReduce, SumsOnEveryRankForEveryWorldSizeAndLength) {
  for (const Named& named : any_ranks)
    for (int ranks = 2; ranks <= 16; ++ranks) expect_sums(named, ranks);
  for (const Named& named : even_ranks)
    for (int ranks = 4; ranks <= 16; ranks += 2) expect_sums(named, ranks);
}

TEST(AllReduce, OfOneRankMovesNothing) {
  for (const Named& named : any_ranks) {
    if (named.name == "multicast" || named.name == "host broadcast") continue;
    EXPECT_EQ(count(named.build(1)).transfers, 0) << named.name;
  }
}

void expect_reduce_scatter(const Schedule& schedule, std::size_t length) {
  Vectors vectors = inputs(schedule.ranks, length);
  const Vectors expected = sums(vectors);
  run_on_host(schedule, vectors);
  for (int r = 0; r < schedule.ranks; ++r)
    for (std::size_t i = part_begin(length, r, schedule.ranks); i < part_begin(length, r + 1, schedule.ranks); ++i)
      EXPECT_EQ(vectors[static_cast<std::size_t>(r)][i], expected[0][i]) << schedule.name << " rank " << r;
}

void expect_all_gather(const Schedule& schedule, std::size_t length) {
  Vectors vectors = inputs(schedule.ranks, length);
  std::vector<std::int64_t> expected(length);
  for (int r = 0; r < schedule.ranks; ++r)
    for (std::size_t i = part_begin(length, r, schedule.ranks); i < part_begin(length, r + 1, schedule.ranks); ++i)
      expected[i] = vectors[static_cast<std::size_t>(r)][i];
  run_on_host(schedule, vectors);
  for (const auto& v : vectors) EXPECT_EQ(v, expected) << schedule.name;
}

TEST(Halves, ReduceScatterAndAllGather) {
  for (int ranks = 2; ranks <= 16; ++ranks)
    for (std::size_t length : lengths) {
      expect_reduce_scatter(ring(Collective::reduce_scatter, in_order(ranks)), length);
      expect_reduce_scatter(direct(Collective::reduce_scatter, ranks, Operation::read), length);
      expect_all_gather(ring(Collective::all_gather, in_order(ranks)), length);
      expect_all_gather(direct(Collective::all_gather, ranks, Operation::write), length);
    }
}

TEST(AllToAll, PartsChangePlaces) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    const std::size_t part = 5;
    Vectors vectors = inputs(ranks, part * static_cast<std::size_t>(ranks));
    const Vectors before = vectors;
    run_on_host(direct(Collective::all_to_all, ranks, Operation::write), vectors);
    for (std::size_t r = 0; r < vectors.size(); ++r)
      for (std::size_t s = 0; s < vectors.size(); ++s)
        for (std::size_t i = 0; i < part; ++i) EXPECT_EQ(vectors[r][s * part + i], before[s][r * part + i]);
  }
}

// The counts that the seed reports tell in words.
TEST(Counts, OneShotHas56InFlightAndARingEight) {
  EXPECT_EQ(count(one_shot(8, Operation::read)).most_in_flight, 56);
  EXPECT_EQ(count(one_shot(8, Operation::read)).bytes, 56);
  const ScheduleCounts circle = count(ring(Collective::all_reduce, in_order(8)));
  EXPECT_EQ(circle.phases, 14);
  EXPECT_EQ(circle.transfers, 112);
  EXPECT_EQ(circle.most_in_flight, 8);
  EXPECT_DOUBLE_EQ(circle.bytes, 14);
  EXPECT_EQ(count(two_stage(8, Operation::read)).transfers, 112);
  EXPECT_EQ(count(recursive_doubling(8)).phases, 3);
  EXPECT_EQ(count(tree(8)).transfers, 14);
}

TEST(Interpreter, ABackendThatDropsARankFailsTheSum) {
  Schedule broken = one_shot(8, Operation::write);
  broken.phases[0].transfers.pop_back();
  Vectors vectors = inputs(8, 64);
  const Vectors expected = sums(vectors);
  run_on_host(broken, vectors);
  EXPECT_NE(vectors, expected);
}

TEST(Interpreter, RefusesWhatDoesNotFit) {
  Vectors three = inputs(3, 4);
  EXPECT_THROW(run_on_host(one_shot(4, Operation::read), three), Error);
  Schedule wild = one_shot(3, Operation::read);
  wild.phases[0].transfers[0].dst = 9;
  EXPECT_THROW(run_on_host(wild, three), Error);
}

TEST(Wire, BytesFollowFromTheFormats) {
  EXPECT_DOUBLE_EQ(wire_factor(Wire::plain, 2), 1);
  EXPECT_DOUBLE_EQ(wire_factor(Wire::ll, 2), 16.0 / 8);
  EXPECT_DOUBLE_EQ(wire_factor(Wire::ll128, 2), 128.0 / 120);
  EXPECT_DOUBLE_EQ(wire_factor(Wire::fp8, 2), (256 + 4.0) / 512);
}

}  // namespace
}  // namespace specstep::comm
