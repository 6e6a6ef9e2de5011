// Islands. Inside an island of k ranks the vector has k parts and member j sums part j; the members j of all islands
// exchange their parts and add them; then each island gathers. With two islands of four, 1/4 of the vector crosses per
// rank and direction: 1 S for an uplink of four, where one-shot sends 16 S.
#include "comm/schedules/schedules.h"
#include "model/base/error.h"

namespace specstep::comm {
namespace {

Sync sync_of(Operation operation) { return operation == Operation::read ? Sync::barrier : Sync::data; }

void inside(const std::vector<int>& members, Operation operation, Effect effect, Phase& phase) {
  const int k = static_cast<int>(members.size());
  for (int j = 0; j < k; ++j)
    for (int i = 1; i < k; ++i) {
      const int other = (j + i) % k;
      const int part = effect == Effect::combine ? j : other;
      const Range range{part, part + 1, k};
      phase.transfers.push_back({members[static_cast<std::size_t>(other)], members[static_cast<std::size_t>(j)], range,
                                 range, effect, operation});
    }
}

}  // namespace

Schedule island(const std::vector<std::vector<int>>& islands, Operation operation) {
  const std::size_t k = islands.front().size();
  for (const auto& members : islands)
    if (members.size() != k) throw Error("islands of different sizes");
  const bool pull = operation == Operation::read;
  const int ranks = static_cast<int>(k * islands.size());
  Schedule schedule{pull ? "island pull" : "island push", Collective::all_reduce, ranks, {}, {}, pull};
  Phase reduce{"reduce-scatter in islands", sync_of(operation), {}};
  Phase exchange{"exchange between islands", sync_of(operation), {}};
  Phase gather{"all-gather in islands", sync_of(operation), {}};
  for (const auto& members : islands) {
    inside(members, operation, Effect::combine, reduce);
    inside(members, operation, Effect::copy, gather);
  }
  const int parts = static_cast<int>(k);
  for (std::size_t a = 0; a < islands.size(); ++a)
    for (std::size_t b = 0; b < islands.size(); ++b)
      for (std::size_t j = 0; j < k && a != b; ++j) {
        const Range range{static_cast<int>(j), static_cast<int>(j) + 1, parts};
        exchange.transfers.push_back({islands[a][j], islands[b][j], range, range, Effect::combine, operation});
      }
  for (Phase* phase : {&reduce, &exchange, &gather})
    if (!phase->transfers.empty()) schedule.phases.push_back(std::move(*phase));
  return schedule;
}

}  // namespace specstep::comm
