#include "comm/cuda/nccl_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

constexpr int least_version = 21800;  // communicators that do not block, with thread blocks by config

void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) throw Unsupported(formatted("backend nccl: this node's libnccl.so.2 has no {}", name));
  return found;
}

template <class F>
void find(void* library, F& function, const char* name) {
  function = reinterpret_cast<F>(symbol(library, name));
}

NcclLibrary opened() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Unsupported(formatted("backend nccl: the library cannot be opened: {}", dlerror()));
  NcclLibrary out;
  out.handle = library;
  find(library, out.get_version, "ncclGetVersion");
  if (out.get_version(&out.version) != ncclSuccess || out.version < least_version)
    throw Unsupported(formatted("backend nccl: this node has NCCL {}; {} or later is needed",
                                nccl_version_text(out.version), nccl_version_text(least_version)));
  find(library, out.get_unique_id, "ncclGetUniqueId");
  find(library, out.comm_init, "ncclCommInitRankConfig");
  find(library, out.comm_finalize, "ncclCommFinalize");
  find(library, out.comm_destroy, "ncclCommDestroy");
  find(library, out.comm_abort, "ncclCommAbort");
  find(library, out.comm_state, "ncclCommGetAsyncError");
  find(library, out.error_text, "ncclGetErrorString");
  find(library, out.last_error, "ncclGetLastError");
  find(library, out.all_reduce, "ncclAllReduce");
  find(library, out.all_gather, "ncclAllGather");
  find(library, out.reduce_scatter, "ncclReduceScatter");
  find(library, out.send, "ncclSend");
  find(library, out.receive, "ncclRecv");
  find(library, out.group_start, "ncclGroupStart");
  find(library, out.group_end, "ncclGroupEnd");
  return out;
}

/// What NCCL was given in this process. Belongs to the process as its environment does.
struct Given {
  std::mutex mutex;
  std::optional<NcclSettings> settings;
};

void set(const char* name, const std::string& value) {
  if (!value.empty() && setenv(name, value.c_str(), 1) != 0) throw Error(formatted("cannot set {}={}", name, value));
}

bool same_variables(const NcclSettings& a, const NcclSettings& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol && a.p2p_level == b.p2p_level && a.nvls == b.nvls;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = opened();
  return library;
}

void* nccl_symbol(const char* name) { return symbol(nccl_library().handle, name); }

std::string nccl_version_text(int version) {
  return formatted("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void give_to_nccl(const NcclSettings& settings) {
  static Given given;
  const std::lock_guard lock(given.mutex);
  if (given.settings) {
    if (same_variables(*given.settings, settings)) return;
    throw Unsupported("backend nccl: NCCL reads its settings once in a process, and this one asked for others before");
  }
  set("NCCL_ALGO", settings.algorithm);
  set("NCCL_PROTO", settings.protocol);
  set("NCCL_P2P_LEVEL", settings.p2p_level);
  set("NCCL_NVLS_ENABLE", settings.nvls ? "2" : "0");  // 2: where the hardware has it
  (void)unsetenv("NCCL_COMM_BLOCKING");                // it would overrule what each communicator asks for
  given.settings = settings;
}

std::vector<std::string> nccl_variables() {
  std::vector<std::string> out;
  for (char** entry = environ; entry && *entry; ++entry)
    if (std::string_view(*entry).starts_with("NCCL_")) out.emplace_back(*entry);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace specstep::comm
