#include "comm/cuda/nccl_window.h"

#include <cstdint>
#include <utility>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

constexpr int least_version = 22700;
constexpr int device_structs_version = 22800;

NcclWindowLibrary found() {
  if (nccl_library().version < least_version)
    throw Unsupported(formatted("backend nccl_sym: this node has NCCL {}; {} or later is needed",
                                nccl_version_text(nccl_library().version), nccl_version_text(least_version)));
  NcclWindowLibrary out;
  find_in_nccl(out.allocate, "ncclMemAlloc");
  find_in_nccl(out.free, "ncclMemFree");
  find_in_nccl(out.enter, "ncclCommWindowRegister");
  find_in_nccl(out.leave, "ncclCommWindowDeregister");
  return out;
}

/// Whether NCCL made a window or only took note of the memory. From 2.28 on a window is a struct that kernels read;
/// without symmetric memory a handle of the host's heap stands in its place.
bool is_window(ncclWindow_t window) {
  if (window == nullptr) return false;
  if (nccl_library().version < device_structs_version) return true;
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, window), "asking where a window's description lies");
  return attributes.type != cudaMemoryTypeUnregistered;
}

}  // namespace

const NcclWindowLibrary& nccl_window_library() {
  static const NcclWindowLibrary library = found();
  return library;
}

NcclWindow::NcclWindow(NcclComm& comm, Bootstrap& group, std::size_t bytes) : comm_(comm), bytes_(bytes) {
  // Registering waits for all ranks, so each says first whether it has the memory.
  const std::string asked = formatted("a window of {} B", bytes);
  std::string mine = asked;
  if (nccl_window_library().allocate(&memory_, bytes) != ncclSuccess) {
    memory_ = nullptr;
    mine = formatted("no memory for {}: {}", asked, nccl_library().last_error(nullptr));
  }
  try {
    const std::vector<std::string> all = group.all_gather(mine, "memory for a window on every rank");
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r] != asked) throw Error(formatted("nccl_sym: rank {}: {}; rank {}: {}", r, all[r], group.rank(), mine));
    enter();
  } catch (...) {
    leave();
    throw;
  }
}

NcclWindow::~NcclWindow() { leave(); }

void NcclWindow::enter() {
  comm_.call("ncclCommWindowRegister", [&](ncclComm_t comm) {
    return nccl_window_library().enter(comm, memory_, bytes_, &window_, NCCL_WIN_COLL_SYMMETRIC);
  });
  if (!is_window(window_))
    throw Unsupported(
        "backend nccl_sym: NCCL has no symmetric memory here: it needs peer access between all GPUs on one host, and "
        "neither "
        "NCCL_WIN_ENABLE=0 nor NCCL_CUMEM_ENABLE=0");
}

void NcclWindow::leave() noexcept {
  if (window_ != nullptr) {
    try {
      comm_.call("ncclCommWindowDeregister",
                 [&](ncclComm_t comm) { return nccl_window_library().leave(comm, window_); });
    } catch (const std::exception&) {  // the communicator was aborted, and its windows with it
    }
    window_ = nullptr;
  }
  if (memory_ != nullptr) (void)nccl_window_library().free(std::exchange(memory_, nullptr));
}

bool NcclWindow::holds(const void* values, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_), at = reinterpret_cast<std::uintptr_t>(values);
  return at >= begin && at - begin <= bytes_ && bytes <= bytes_ - (at - begin);
}

}  // namespace specstep::comm
