#include "comm/protocol/islands.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm::protocol {

IslandPlan island_plan_of(const std::vector<std::vector<int>>& lists, int ranks) {
  if (ranks < 1 || ranks > most_island_ranks)
    throw Unsupported(formatted("{} ranks; islands are built for at most {}", ranks, most_island_ranks));
  if (lists.empty() || lists.front().empty()) throw Unsupported("there is no island, or an empty one");
  IslandPlan plan;
  plan.islands = static_cast<int>(lists.size());
  plan.members = static_cast<int>(lists.front().size());
  std::vector<bool> seen(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].size() != lists.front().size())
      throw Unsupported(formatted("islands differ in size: the first has {} members, another {}", lists.front().size(),
                                  lists[i].size()));
    for (std::size_t j = 0; j < lists[i].size(); ++j) {
      const int rank = lists[i][j];
      if (rank < 0 || rank >= ranks) throw Unsupported(formatted("islands name rank {} of {}", rank, ranks));
      const auto r = static_cast<std::size_t>(rank);
      if (seen[r]) throw Unsupported(formatted("islands name rank {} twice", rank));
      seen[r] = true;
      plan.rank_at[i * lists.front().size() + j] = static_cast<std::int8_t>(rank);
      plan.island_of[r] = static_cast<std::int8_t>(i);
      plan.place_of[r] = static_cast<std::int8_t>(j);
    }
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end())
    throw Unsupported(formatted("no island holds rank {} of {}", missing - seen.begin(), ranks));
  return plan;
}

}  // namespace specstep::comm::protocol
