// The CUDA module: what it was built with, and what it finds on this node.
#include "sim/module.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "sim/cuda/comm_bench.h"
#include "sim/cuda/executor.h"

namespace {

std::string dotted(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// NCCL is optional on a node: asked at run time, never linked.
std::string nccl_version() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return "none (libnccl.so.2 not found)";
  using GetVersion = int (*)(int*);
  const auto get = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (!get || get(&version) != 0) return "found, but tells no version";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string devices() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess) return fmt::format("none ({})", cudaGetErrorString(found));
  std::string out;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    out += fmt::format("{}{} (sm_{}{})", out.empty() ? "" : ", ", properties.name, properties.major, properties.minor);
  }
  return out.empty() ? "none" : out;
}

void versions(std::vector<std::pair<std::string, std::string>>& out) {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  const bool known = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  out.push_back({"cuda", fmt::format("{} (built with {})", dotted(runtime), dotted(CUDART_VERSION))});
  out.push_back({"cuda driver", known ? dotted(driver) : "none"});
  out.push_back({"cublasLt", fmt::format("{}.{}.{}", cublasLtGetVersion() / 10000, cublasLtGetVersion() / 100 % 100,
                                         cublasLtGetVersion() % 100)});
  out.push_back({"nccl", nccl_version()});
  out.push_back({"gpus", devices()});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const specstep::ModuleTable specstep_module{
    specstep::module_abi, versions, specstep::make_cuda_executor, nullptr, specstep::cuda::measure_comm};
