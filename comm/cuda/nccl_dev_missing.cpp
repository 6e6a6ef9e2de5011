// The nccl_dev row of a build without NCCL's device API.
#include "comm/cuda/rows.h"
#include "model/base/error.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_nccl_dev(const CommRequest&, Bootstrap&) {
  throw Unsupported(
      "backend nccl_dev: built without nccl_device.h, which NCCL has since 2.28; configure with "
      "-DNCCL_INCLUDE_DIR=<folder of nccl.h>");
}

}  // namespace specstep::comm
