// Memory in a symmetric window of NCCL: every rank reaches every rank's at equal offsets.
#pragma once

#include <cstddef>

#include "comm/cuda/nccl_comm.h"

namespace specstep::comm {

/// The functions for windows, which the library has since 2.27.
struct NcclWindowLibrary {
  decltype(&ncclMemAlloc) allocate = nullptr;
  decltype(&ncclMemFree) free = nullptr;
  decltype(&ncclCommWindowRegister) enter = nullptr;
  decltype(&ncclCommWindowDeregister) leave = nullptr;
};
/// Found once. Throws Unsupported, naming the version, where the library is older.
const NcclWindowLibrary& nccl_window_library();

class NcclWindow {
 public:
  /// Memory of the current device. Every rank calls it with equal bytes, at least 1. Throws Error on all ranks when one
  /// has too little memory, Unsupported where NCCL knows no symmetric memory among these GPUs. The communicator
  /// outlives the window.
  NcclWindow(NcclComm& comm, Bootstrap& group, std::size_t bytes);
  ~NcclWindow();
  NcclWindow(const NcclWindow&) = delete;
  NcclWindow& operator=(const NcclWindow&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::size_t bytes() const { return bytes_; }
  bool holds(const void* values, std::size_t bytes) const;

 private:
  void enter();
  void leave() noexcept;

  NcclComm& comm_;
  std::size_t bytes_;
  void* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

}  // namespace specstep::comm
