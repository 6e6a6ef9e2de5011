// Ring. With p ranks in a circle and the vector in p parts, step s of the reduce-scatter sends part (i - s) from
// position i to position i + 1, which adds it; after p - 1 steps position i holds the sum of part i + 1. The
// all-gather sends finished parts around the same way. Each rank moves 2 (p - 1) / p of the vector.
// For reduce_scatter and all_gather alone the parts are named so that rank r owns part r.
#include <numeric>

#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

int wrapped(int value, int count) { return ((value % count) + count) % count; }

struct Circle {
  const std::vector<int>& order;
  int size() const { return static_cast<int>(order.size()); }
  int rank(int position) const { return order[static_cast<std::size_t>(wrapped(position, size()))]; }
};

Phase step(const Circle& circle, int shift, Effect effect, const std::string& name) {
  Phase phase{name, Sync::data, {}};
  for (int i = 0; i < circle.size(); ++i) {
    const int part = circle.rank(i + shift);  // parts are named after the rank that owns them
    const Range range{part, part + 1, circle.size()};
    phase.transfers.push_back({circle.rank(i), circle.rank(i + 1), range, range, effect, Operation::write});
  }
  return phase;
}

}  // namespace

std::vector<int> in_rank_order(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Schedule ring(Collective kind, const std::vector<int>& order) {
  const Circle circle{order};
  const int p = circle.size();
  Schedule schedule{"ring", kind, p, {}, {}, false};
  if (kind != Collective::all_gather)
    for (int s = 1; s < p; ++s) schedule.phases.push_back(step(circle, -s, Effect::combine, "reduce-scatter"));
  if (kind != Collective::reduce_scatter)
    for (int s = 0; s + 1 < p; ++s) schedule.phases.push_back(step(circle, -s, Effect::copy, "all-gather"));
  return schedule;
}

}  // namespace specstep::comm
