// The nccl row of a build without NCCL's header.
#include "comm/cuda/rows.h"
#include "model/base/error.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_nccl(const CommRequest&, Bootstrap&) {
  throw Unsupported("backend nccl: built without NCCL headers; configure with -DNCCL_INCLUDE_DIR=<folder of nccl.h>");
}

}  // namespace specstep::comm
