// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).
//
// All rates grow together until a resource r is full: the common rate is
//   min over r of  (capacity_r - sum of weight * rate over fixed flows) / (sum of weight over growing flows).
// The flows of that resource are fixed at this rate, and the rest grow on. No flow can then gain without taking from a
// flow that has no more than itself. With w = 1 it is the usual fair share; a weight expresses a window: a reader with
// b bytes in flight and round trip t_i to peer i obeys  sum of t_i * rate_i <= b.
//
// Time to move bytes: the rates hold until a flow ends, then they are shared anew. Scaling all bytes scales the time,
// so a phase whose ranges are fractions of a message is one number of seconds per byte.
#include "comm/fair_share.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace specstep::comm {
namespace {

constexpr double forever = std::numeric_limits<double>::infinity();
constexpr double together = 1e-9;  // relative difference below which two events are one

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Filling {
  std::vector<double> left;     // capacity not yet given away
  std::vector<double> growing;  // weight of the flows still growing
};

void fix(const Flow& flow, double rate, Filling& f) {
  for (const Use& use : flow.uses) {
    f.left[at(use.resource)] = std::max(0.0, f.left[at(use.resource)] - use.weight * rate);
    f.growing[at(use.resource)] -= use.weight;
  }
}

double level_of(const Filling& f, std::size_t r, const std::vector<int>& members) {
  return members[r] > 0 ? f.left[r] / f.growing[r] : forever;
}

}  // namespace

std::vector<double> fair_rates(const std::vector<double>& capacity, const std::vector<Flow>& flows,
                               std::vector<int>* limits) {
  Filling filling{capacity, std::vector<double>(capacity.size(), 0)};
  std::vector<int> members(capacity.size(), 0);
  std::vector<double> rates(flows.size(), forever);
  if (limits) limits->assign(flows.size(), -1);
  std::size_t open = 0;
  for (const Flow& flow : flows) {
    open += flow.uses.empty() ? 0U : 1U;
    for (const Use& use : flow.uses) {
      filling.growing[at(use.resource)] += use.weight;
      ++members[at(use.resource)];
    }
  }
  while (open > 0) {
    std::size_t full = 0;
    double level = forever;
    for (std::size_t r = 0; r < capacity.size(); ++r) {
      const double here = level_of(filling, r, members);
      if (here < level) {
        level = here;
        full = r;
      }
    }
    const std::size_t before = open;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const auto on_full = [&](const Use& use) { return at(use.resource) == full; };
      if (rates[i] < forever || !std::any_of(flows[i].uses.begin(), flows[i].uses.end(), on_full)) continue;
      rates[i] = level;
      if (limits) (*limits)[i] = static_cast<int>(full);
      fix(flows[i], level, filling);
      for (const Use& use : flows[i].uses) --members[at(use.resource)];
      --open;
    }
    if (open == before) break;  // only reachable with a weight of zero
  }
  return rates;
}

Completion finish_all(const std::vector<double>& capacity, const std::vector<Flow>& flows, std::vector<double>* ends) {
  Completion done;
  std::vector<Flow> open;
  std::vector<std::size_t> index;  // of the open flows among all
  if (ends) ends->assign(flows.size(), 0);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (flows[i].bytes <= 0 || flows[i].uses.empty()) continue;
    open.push_back(flows[i]);
    index.push_back(i);
  }
  while (!open.empty()) {
    std::vector<int> limits;
    const std::vector<double> rates = fair_rates(capacity, open, &limits);
    double step = forever;
    for (std::size_t i = 0; i < open.size(); ++i) step = std::min(step, open[i].bytes / rates[i]);
    done.seconds += step;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const double over = open[i].bytes - step * rates[i];
      if (over <= together * open[i].bytes) {
        done.limit = limits[i];
        if (ends) (*ends)[index[i]] = done.seconds;
        continue;
      }
      open[i].bytes = over;
      if (kept != i) open[kept] = std::move(open[i]);
      index[kept++] = index[i];
    }
    open.resize(kept);
  }
  return done;
}

}  // namespace specstep::comm
