#include "comm/nccl_footprint.h"

#include <cmath>

namespace specstep::comm {

double nccl_buffer_bytes(const NcclBuffers& b) {
  constexpr double kib = 1024.0;
  constexpr double grain = 2048 * kib;
  constexpr double header = 4 * kib;
  const auto allocated = [](double bytes) { return std::ceil(bytes / grain) * grain; };
  const double simple = b.simple ? b.simple_bytes : 0;
  double receiver = header + (b.ll ? 512 * kib : 0) + (b.ll128 ? 4800 * kib : 0);
  double sender = header;
  (b.p2p_read ? sender : receiver) += simple;
  return static_cast<double>(b.channels * b.peers) * (allocated(receiver) + allocated(sender));
}

}  // namespace specstep::comm
