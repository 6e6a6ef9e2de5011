// The table of backends on devices.
#include "comm/cuda/device_comm.h"

#include <array>
#include <string_view>

#include "comm/cuda/rows.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

struct Row {
  std::string_view id;
  std::unique_ptr<DeviceComm> (*open)(const CommRequest& request, Bootstrap& group);
};

constexpr std::array rows{
    Row{"nccl", open_nccl},
    Row{"nccl_sym", open_nccl_sym},
    Row{"nccl_dev", open_nccl_dev},
    Row{"push1", open_push1},
    Row{"pull1", open_pull1},
    Row{"rsag", open_rsag},
    Row{"island", open_island},
    Row{"hostbc", open_hostbc},
    Row{"ring", open_ring},
    Row{"ce", open_ce},
    Row{"q8", open_q8},
    Row{"nvls", open_nvls},
    Row{"null", open_null},
    Row{"delay", open_delay},
};

}  // namespace

void DeviceComm::all_reduce_norm(const FusedNorm&, cudaStream_t) {
  throw Unsupported("this backend cannot go on with a norm inside its allreduce");
}

std::unique_ptr<DeviceComm> open_comm(const CommRequest& request, Bootstrap& group) {
  std::string ids;
  for (const Row& row : rows) {
    if (row.id == request.backend) return row.open(request, group);
    ids += formatted("{}{}", ids.empty() ? "" : ", ", row.id);
  }
  throw Unsupported(formatted("backend {} has no device version yet; on devices there are: {}", request.backend, ids));
}

}  // namespace specstep::comm
