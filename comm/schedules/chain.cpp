// Chain and binomial tree: the sum travels to one end, the result travels back. Bytes cross each link once a way, but
// the steps are serial; NCCL's tree inside one node is such a chain.
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

Phase single(const std::string& name, std::vector<Transfer> transfers) {
  return {name, Sync::data, std::move(transfers)};
}

Transfer whole(int src, int dst, Effect effect) { return {src, dst, {}, {}, effect, Operation::write}; }

}  // namespace

Schedule chain(const std::vector<int>& order) {
  const int p = static_cast<int>(order.size());
  const auto rank = [&](int i) { return order[static_cast<std::size_t>(i)]; };
  Schedule schedule{"chain", Collective::all_reduce, p, {}, {}, false};
  for (int i = 0; i + 1 < p; ++i)
    schedule.phases.push_back(single("reduce", {whole(rank(i), rank(i + 1), Effect::combine)}));
  for (int i = p - 1; i > 0; --i)
    schedule.phases.push_back(single("broadcast", {whole(rank(i), rank(i - 1), Effect::copy)}));
  return schedule;
}

Schedule tree(int ranks) {
  Schedule schedule{"binomial tree", Collective::all_reduce, ranks, {}, {}, false};
  std::vector<Phase> down;
  for (int distance = 1; distance < ranks; distance *= 2) {
    Phase reduce = single("reduce", {});
    Phase broadcast = single("broadcast", {});
    for (int r = 0; r + distance < ranks; r += 2 * distance) {
      reduce.transfers.push_back(whole(r + distance, r, Effect::combine));
      broadcast.transfers.push_back(whole(r, r + distance, Effect::copy));
    }
    schedule.phases.push_back(std::move(reduce));
    down.insert(down.begin(), std::move(broadcast));
  }
  schedule.phases.insert(schedule.phases.end(), down.begin(), down.end());
  return schedule;
}

}  // namespace specstep::comm
