// Divisions of ranks into islands. Which pair map is safe on a fabric follows from pricing each: where several
// destination roots trigger a slowdown, the map that keeps each switch to one root is the cheap one.
#include "comm/island_plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "comm/schedule_price.h"
#include "comm/schedules/schedules.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

bool even(const Islands& islands) {
  return islands.size() > 1 && islands.front().size() > 1 &&
         std::all_of(islands.begin(), islands.end(),
                     [&](const auto& members) { return members.size() == islands.front().size(); });
}

Islands grouped(int ranks, const auto& key_of) {
  std::map<int, std::vector<int>> groups;
  for (int r = 0; r < ranks; ++r) groups[key_of(r)].push_back(r);
  Islands islands;
  for (auto& [key, members] : groups) islands.push_back(std::move(members));
  return islands;
}

/// Ranks that reach each other without passing between sockets.
int socket_group(const Topology& t, int rank) {
  for (int first = 0; first < rank; ++first)
    if (t.distance(first, rank) < NcclLevel::sys) return first;
  return rank;
}

}  // namespace

std::vector<Islands> island_plans(const Topology& topology, int ranks) {
  std::vector<Islands> divisions{grouped(ranks, [&](int r) { return topology.switch_of(r); }),
                                 grouped(ranks, [&](int r) { return topology.root_of(r); }),
                                 grouped(ranks, [&](int r) { return socket_group(topology, r); })};
  std::vector<Islands> plans;
  for (const Islands& islands : divisions) {
    if (!even(islands) || std::find(plans.begin(), plans.end(), islands) != plans.end()) continue;
    for (std::size_t shift = 0; shift < islands.front().size(); ++shift) {
      Islands plan = islands;
      for (std::size_t i = 1; i < plan.size(); i += 2)
        std::rotate(plan[i].begin(), plan[i].begin() + static_cast<std::ptrdiff_t>(shift), plan[i].end());
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

std::optional<DivisionFault> division_fault(const Islands& islands) {
  const int ranks = ranks_of(islands);
  std::vector<bool> seen(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < islands.size(); ++i) {
    if (islands[i].empty()) return DivisionFault{formatted("[{}]", i), "is empty", "one rank or more"};
    if (islands[i].size() != islands.front().size())
      return DivisionFault{formatted("[{}]", i), formatted("has {} ranks", islands[i].size()),
                           formatted("{}, as the first: islands are equally large", islands.front().size())};
    for (std::size_t j = 0; j < islands[i].size(); ++j) {
      const int rank = islands[i][j];
      const std::string key = formatted("[{}][{}]", i, j);
      if (rank < 0 || rank >= ranks)
        return DivisionFault{
            key, formatted("is {}", rank),
            formatted("a rank below {}: so many ranks are named, each of 0 to {} once", ranks, ranks - 1)};
      if (seen[static_cast<std::size_t>(rank)])
        return DivisionFault{key, formatted("names rank {} again", rank), "each rank in one island"};
      seen[static_cast<std::size_t>(rank)] = true;
    }
  }
  return std::nullopt;
}

int ranks_of(const Islands& islands) {
  std::size_t ranks = 0;
  for (const auto& members : islands) ranks += members.size();
  return static_cast<int>(ranks);
}

Islands cheapest_islands(const Topology& topology, int ranks) {
  constexpr double bytes = 65536;
  if (gpu_count(topology) < ranks)
    throw Unsupported(
        formatted("the fabric has {} GPUs, not {}: where islands are, it does not say", gpu_count(topology), ranks));
  Islands cheapest;
  double least = std::numeric_limits<double>::infinity();
  for (const Islands& plan : island_plans(topology, ranks)) {
    const SchedulePrice price = price_schedule(island(plan, Operation::write), topology, {});
    const double seconds = price.fixed + price.per_byte * bytes;
    if (seconds >= least) continue;
    least = seconds;
    cheapest = plan;
  }
  if (cheapest.empty())
    throw Unsupported("the ranks do not divide into islands of equal size above one: all of one switch, or uneven");
  return cheapest;
}

}  // namespace specstep::comm
