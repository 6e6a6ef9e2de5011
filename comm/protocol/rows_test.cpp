// Protocols with rows, with threads as ranks: each sum comes once, to the thread that finishes its row; calls with and
// without rows follow each other in the same inboxes; an epilogue meets everybody after a failure too.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>

#include "comm/protocol/run_lane.h"
#include "comm/protocol/run_rows.h"
#include "comm/protocol/test_team.h"

namespace specstep::comm::protocol {
namespace {

constexpr Protocol all[] = {Protocol::push_sentinel,  Protocol::push_ll,        Protocol::pull_one_stage,
                            Protocol::pull_two_stage, Protocol::push_two_stage, Protocol::push_islands};
constexpr std::uint32_t most_blocks = 6;

/// Calls f with the protocol as a constant.
template <class F>
bool with(Protocol protocol, F f) {
  switch (protocol) {
    case Protocol::push_ll:
      return f.template operator()<Protocol::push_ll>();
    case Protocol::pull_one_stage:
      return f.template operator()<Protocol::pull_one_stage>();
    case Protocol::pull_two_stage:
      return f.template operator()<Protocol::pull_two_stage>();
    case Protocol::push_two_stage:
      return f.template operator()<Protocol::push_two_stage>();
    case Protocol::push_islands:
      return f.template operator()<Protocol::push_islands>();
    default:
      return f.template operator()<Protocol::push_sentinel>();
  }
}

/// Notes the sums of its rows once they are finished, and what was not as promised.
class Recorder {
 public:
  Recorder(const Rows& rows, std::vector<Pack>& out, int keeps) : rows_(rows), out_(out), keeps_(keeps) {}
  void expect(int k, std::uint32_t row, std::uint32_t p) { expected_[static_cast<std::size_t>(k)] = {row, p}; }
  void add(int k, bool keep, std::uint32_t row, std::uint32_t p, const Pack& sum) {
    if (!added_.emplace(p, sum).second) fault_ += "added twice; ";
    if (k < 0 || k >= keeps_) fault_ += "k " + std::to_string(k) + "; ";
    if (keep) kept_[static_cast<std::size_t>(k)] = p;
    if (keep && expected_[static_cast<std::size_t>(k)] != std::pair{row, p}) fault_ += "not expected; ";
  }
  template <class Visit>
  void finish(std::uint32_t row, Visit visit) {
    ++finished;
    std::size_t visited = 0;
    visit([&](int k, bool keep, std::uint32_t p) {
      ++visited;
      if (keep && kept_[static_cast<std::size_t>(k)] != p) fault_ += "another pack is kept; ";
      const auto found = added_.find(p);
      if (found != added_.end()) out_[row * rows_.packs + p] = found->second;
    });
    if (visited != added_.size()) fault_ += "visits and sums differ; ";
    added_.clear();
  }
  const std::string& fault() const { return fault_; }
  std::uint32_t finished = 0;

 private:
  const Rows& rows_;
  std::vector<Pack>& out_;
  int keeps_;
  std::array<std::uint32_t, 8> kept_{};
  std::array<std::pair<std::uint32_t, std::uint32_t>, 8> expected_{};
  std::map<std::uint32_t, Pack> added_;
  std::string fault_;
};

/// As HostTeam, for calls of both kinds.
struct RowTeam {
  RowTeam(int ranks, std::uint32_t packs, std::chrono::milliseconds time) : limit(time) {
    control.capacity = {ranks, packs, most_blocks};
    auto islands = testing::islands_of(ranks);
    std::vector<int> all_ranks(static_cast<std::size_t>(ranks));
    std::iota(all_ranks.begin(), all_ranks.end(), 0);
    if (islands.empty()) islands.push_back(all_ranks);
    control.islands = island_plan_of(islands, ranks);
    for (int r = 0; r < ranks; ++r) {
      members.push_back(std::make_unique<HostRank>(control.capacity, control.islands));
      members.back()->reset(0xFFFFFFFAU);
      control.inboxes.push_back(members.back()->inbox());
    }
  }
  /// `each` blocks to a row. Where a thread may take what any other one has sent, blocks run beside each other, as a
  /// cluster does; else one after the other.
  std::string run(Protocol protocol, int rank, const Rows& rows, std::uint32_t each, std::vector<Pack>& out) {
    const std::uint32_t clusters = std::min(rows.count, most_blocks / each);
    std::vector<std::string> faults(clusters * each);
    const auto block = [&](std::uint32_t b) { faults[b] = run_block(protocol, rank, {rows, each, clusters, b}, out); };
    if (by_places(protocol) || faults.size() == 1) {
      for (std::uint32_t b = 0; b < faults.size(); ++b) block(b);
    } else {
      std::vector<std::jthread> threads;
      for (std::uint32_t b = 0; b < faults.size(); ++b) threads.emplace_back(block, b);
    }
    return std::accumulate(faults.begin(), faults.end(), std::string());
  }
  struct BlockOf {
    Rows rows;
    std::uint32_t each, clusters, block;
  };
  std::string run_block(Protocol protocol, int rank, const BlockOf& b, std::vector<Pack>& out) {
    const Rows& rows = b.rows;
    Recorder recorder(rows, out, kept_packs(protocol, HostMemory::most_ranks));
    HostMemory memory(control, own(rank), {protocol, 0, 0, {}}, rank, std::chrono::steady_clock::now() + limit);
    const std::uint32_t epoch = enter_call(memory, b.clusters * b.each);
    const RowLane at{{b.block % b.each, b.each, b.block, epoch}, b.block / b.each, b.clusters};
    memory.set_epoch(at.lane.epoch);
    const bool usable = !control.abort.load();
    const Call call = call_of(rank, rows, out);
    const bool good =
        with(protocol, [&]<Protocol P>() { return run_rows<P>(memory, call, rows, at, recorder, usable); });
    std::string fault = good ? recorder.fault() : "gave up; ";
    const std::uint32_t mine = (rows.count - at.first_row + b.clusters - 1) / b.clusters;
    if (recorder.finished != mine) fault += "not every row was finished; ";
    return fault;
  }
  /// The same packs without rows.
  bool run_flat(Protocol protocol, int rank, const Rows& rows, std::uint32_t blocks, std::vector<Pack>& out) {
    bool good = true;
    for (std::uint32_t block = 0; block < blocks; ++block) {
      HostMemory memory(control, own(rank), {protocol, 0, 0, {}}, rank, std::chrono::steady_clock::now() + limit);
      const Lane lane{block, blocks, block, enter_call(memory, blocks)};
      memory.set_epoch(lane.epoch);
      const Call call = call_of(rank, rows, out);
      good = with(protocol, [&]<Protocol P>() { return run_lane<P>(memory, call, lane); }) && good;
    }
    return good;
  }
  HostRank& own(int rank) { return *members[static_cast<std::size_t>(rank)]; }
  Call call_of(int rank, const Rows& rows, std::vector<Pack>& out) {
    return {0, rank, control.capacity.ranks, rows.count * rows.packs, own(rank).input().data(), out.data()};
  }

  std::chrono::milliseconds limit;
  std::vector<std::unique_ptr<HostRank>> members;
  HostMemory::Control control;
};

using Setting = std::tuple<Protocol, int>;
std::string setting_name(const ::testing::TestParamInfo<Setting>& one) {
  return std::string(name_of(std::get<0>(one.param))) + "_" + std::to_string(std::get<1>(one.param)) + "_ranks";
}
class EachRows : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Protocol, EachRows,
                         ::testing::Combine(::testing::ValuesIn(all), ::testing::Values(1, 2, 3, 4, 8)), setting_name);
class MissingRank : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Protocol, MissingRank,
                         ::testing::Combine(::testing::ValuesIn(all), ::testing::Values(2, 3, 8)), setting_name);

TEST_P(EachRows, SumsComeOnceAndCallsOfBothKindsMix) {
  const auto& [protocol, ranks] = GetParam();
  constexpr std::uint32_t packs = 64;  // room for the shards of four rows of eleven, whatever the ranks
  RowTeam team(ranks, packs, std::chrono::minutes(1));
  const testing::Words words(ranks);
  std::vector<std::string> faults(static_cast<std::size_t>(ranks));
  const auto play = [&, p = protocol](int rank) {
    std::string& fault = faults[static_cast<std::size_t>(rank)];
    std::minstd_rand same(3), mine(static_cast<std::uint32_t>(rank) + 1);
    for (std::uint32_t call = 0; call < 300 && fault.empty(); ++call) {
      const Rows rows{1 + static_cast<std::uint32_t>(same() % 4), 1 + static_cast<std::uint32_t>(same() % 11)};
      const auto each = 1 + static_cast<std::uint32_t>(same() % 3);
      words.fill(team.own(rank).input(), rank, call);
      std::vector<Pack> out(packs);
      if (mine() % 8 == 0) std::this_thread::yield();
      if (same() % 3 == 0) {
        if (!team.run_flat(p, rank, rows, each, out)) fault = "gave up";
      } else {
        fault = team.run(p, rank, rows, each, out);
      }
      if (!words.holds(out, rows.count * rows.packs, call)) fault += "a wrong sum";
      if (!fault.empty()) fault += ", call " + std::to_string(call);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(play, rank);
  }
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(faults[static_cast<std::size_t>(rank)], "") << "rank " << rank;
}

TEST_P(MissingRank, EveryRowIsFinishedByTheOthers) {
  const auto& [protocol, ranks] = GetParam();
  RowTeam team(ranks, 64, std::chrono::milliseconds(50));
  std::vector<std::string> faults(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 1; rank < ranks; ++rank)
      threads.emplace_back([&, rank, p = protocol] {
        std::vector<Pack> out(64);
        faults[static_cast<std::size_t>(rank)] = team.run(p, rank, {3, 5}, 1, out);
      });
  }
  for (int rank = 1; rank < ranks; ++rank) {
    EXPECT_EQ(faults[static_cast<std::size_t>(rank)].find("finished"), std::string::npos);
    EXPECT_NE(faults[static_cast<std::size_t>(rank)].find("gave up"), std::string::npos);
  }
}

}  // namespace
}  // namespace specstep::comm::protocol
