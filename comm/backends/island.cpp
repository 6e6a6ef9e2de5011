// island: sums inside islands first, so that little crosses between them. Of all divisions and pair maps that the
// fabric allows, the cheapest at each size. By reads between barriers, as the one published kernel of this kind works.
#include "comm/backend.h"
#include "comm/island_plan.h"
#include "comm/protocol/islands.h"
#include "comm/schedules/schedules.h"
#include "model/base/error.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology& t, const Call& call) {
  std::vector<Variant> found;
  if (call.own && !call.own->islands.empty()) return {{island(call.own->islands, Operation::read), {}}};
  for (const Islands& plan : island_plans(t, call.ranks)) found.push_back({island(plan, Operation::read), {}});
  return found;
}

std::optional<std::string> refuses(const Topology& t, const Call& call) {
  if (call.own && !call.own->islands.empty()) {
    try {
      protocol::island_plan_of(call.own->islands, call.ranks);
      return std::nullopt;
    } catch (const Unsupported& e) {
      return e.what();
    }
  }
  if (!island_plans(t, call.ranks).empty()) return std::nullopt;
  return "the ranks do not divide into islands of equal size above one: all of one switch, or uneven";
}

}  // namespace

BackendRow island_row() {
  return {"island",
          "reduce-scatter in islands, exchange between them, all-gather",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          variants,
          nullptr,
          refuses};
}

}  // namespace specstep::comm
