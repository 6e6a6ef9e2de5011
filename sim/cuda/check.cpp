#include "sim/cuda/check.h"

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::cuda {

void check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(formatted("{}: cublasLt: {}", what, cublasLtGetStatusString(status)));
}

}  // namespace specstep::cuda
