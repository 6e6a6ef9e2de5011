// The nccl_sym row of a build without a header of NCCL that knows windows.
#include "comm/cuda/rows.h"
#include "model/base/error.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_nccl_sym(const CommRequest&, Bootstrap&) {
  throw Unsupported(
      "backend nccl_sym: built without headers of NCCL 2.27 or later; configure with "
      "-DNCCL_INCLUDE_DIR=<folder of nccl.h>");
}

}  // namespace specstep::comm
