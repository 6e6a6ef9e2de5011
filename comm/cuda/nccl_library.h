// The NCCL library of this node, opened at run time: a program that does without it runs where it is missing.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "comm/nccl_settings.h"

namespace specstep::comm {

/// The functions that are used; all are there once the library is open.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommGetAsyncError) comm_state = nullptr;
  decltype(&ncclGetErrorString) error_text = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  int version = 0;  // 22809 is 2.28.9
  void* handle = nullptr;
};

/// Opened once and never closed. Throws Unsupported: no libnccl.so.2, a version without what is needed.
const NcclLibrary& nccl_library();

/// A function that only some versions have. Throws Unsupported where it is missing.
void* nccl_symbol(const char* name);
template <class F>
void find_in_nccl(F& function, const char* name) {
  function = reinterpret_cast<F>(nccl_symbol(name));
}

/// "2.28.9".
std::string nccl_version_text(int version);

/// Hands the settings to NCCL through its environment variables, the only way there is: it reads them once in a
/// process, with the first communicator. So the first call sets them, and a later one with others throws Unsupported.
/// Multicast stays off unless asked for, whatever the environment says.
void give_to_nccl(const NcclSettings& settings);

/// Every NCCL_ variable of the environment, as NAME=value: those given, and those that the user had set.
std::vector<std::string> nccl_variables();

}  // namespace specstep::comm
