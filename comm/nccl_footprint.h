// Memory that NCCL's channels take on a GPU.
#pragma once

#include <cstdint>

namespace specstep::comm {

/// The connections of one communicator. A ring has one peer to receive from and one to send to in each channel; trees
/// add up to four.
struct NcclBuffers {
  std::int64_t channels = 2;
  std::int64_t peers = 1;
  bool ll = true, ll128 = true, simple = true;  // protocols that are set up
  double simple_bytes = 4.0 * 1024 * 1024;      // NCCL_BUFFSIZE
  bool p2p_read = false;                        // readers fetch: the buffer of Simple lies with the sender
};

/// Bytes. The receiving side holds LL's 512 KiB, LL128's 4,800 KiB and Simple's NCCL_BUFFSIZE behind a header, the
/// sending side a header; each is rounded up to 2 MiB: 10 + 2 MiB as NCCL is by default. From NVIDIA/nccl@5067397
/// p2p.cc and device.h; an out-of-memory report shows the 10,485,760 B of one receiver.
double nccl_buffer_bytes(const NcclBuffers& b);

}  // namespace specstep::comm
