// island: sums inside islands, fp32 sums across, results inside islands.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"
#include "comm/island_plan.h"
#include "model/base/error.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_island(const CommRequest& request, Bootstrap& group) {
  Islands lists = request.own.islands;
  if (lists.empty() && group.ranks() == 1) lists = {{0}};
  if (lists.empty()) {
    if (request.target == nullptr)
      throw Unsupported("island: there is neither a list of islands (comm.own.islands) nor a fabric to find them in");
    try {
      lists = cheapest_islands(*request.target, group.ranks());
    } catch (const Unsupported& e) {
      throw Unsupported(std::string("island: ") + e.what());
    }
  }
  OwnKind kind{
      .id = "island", .launch = launch_own<protocol::Protocol::push_islands>, .inbox_bytes = std::size_t{16} << 20};
  try {
    kind.islands = protocol::island_plan_of(lists, group.ranks());
  } catch (const Unsupported& e) {
    throw Unsupported(std::string("island: ") + e.what());
  }
  kind.fused = fused_island();
  kind.regions = own_regions("island", request.own, kind.islands.islands);
  kind.note =
      "islands " + text_of_islands(lists) +
      "; fp32 sums in rank order inside an island, then of the islands in their order, rounded once; equal bits "
      "on all ranks and in every run";
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
