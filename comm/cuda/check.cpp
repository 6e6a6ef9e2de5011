#include "comm/cuda/check.h"

#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  std::string text = formatted("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  std::size_t available = 0, total = 0;
  if (status == cudaErrorMemoryAllocation && cudaMemGetInfo(&available, &total) == cudaSuccess)
    text += formatted("; {} of {} are free", bytes_text(static_cast<double>(available)),
                      bytes_text(static_cast<double>(total)));
  throw Error(text);
}

}  // namespace specstep::comm
