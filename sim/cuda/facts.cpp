#include "sim/cuda/facts.h"

#include <dlfcn.h>

#include <array>

#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/cuda/check.h"

namespace specstep::cuda {

namespace {

/// The management library, opened when asked: not every node has it, and nothing is compiled against it. Signatures and
/// constants are those of NVIDIA's NVML reference.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto start = function<int (*)()>("nvmlInit_v2");
    started_ = start && start() == 0;
  }
  ~Nvml() {
    if (const auto stop = function<int (*)()>("nvmlShutdown"); started_ && stop) stop();
    if (library_) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  void tell(const char* bus_id, DeviceFacts& out) const {
    if (!started_) return;
    std::array<char, 96> text{};
    const auto driver = function<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    if (driver && driver(text.data(), text.size()) == 0) out.driver = text.data();
    void* device = nullptr;
    const auto find = function<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (!find || find(bus_id, &device) != 0) return;
    constexpr int sm_clock = 1, memory_clock = 2, gpu_sensor = 0;
    out.sm_clock_mhz = number<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo", device, sm_clock);
    out.memory_clock_mhz = number<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo", device, memory_clock);
    out.temperature_c = number<int (*)(void*, int, unsigned*)>("nvmlDeviceGetTemperature", device, gpu_sensor);
    unsigned milliwatts = 0;
    const auto limit = function<int (*)(void*, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
    if (limit && limit(device, &milliwatts) == 0) out.power_limit_w = milliwatts * 1e-3;
  }

 private:
  template <class F>
  F function(const char* name) const {
    return library_ ? reinterpret_cast<F>(dlsym(library_, name)) : nullptr;
  }
  template <class F>
  double number(const char* name, void* device, int which) const {
    unsigned value = 0;
    const auto ask = function<F>(name);
    return ask && ask(device, which, &value) == 0 ? value : 0;
  }
  void* library_;
  bool started_ = false;
};

std::string dotted(int version) { return formatted("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

DeviceFacts facts_of(int device) {
  DeviceFacts out;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "properties of a device");
  out.name = properties.name;
  out.memory_gib = static_cast<double>(properties.totalGlobalMem) / gib;
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "version of the runtime");
  out.cuda = dotted(runtime);
  const auto blas = cublasLtGetVersion();
  out.cublas = formatted("{}.{}.{}", blas / 10000, blas / 100 % 100, blas % 100);
  std::array<char, 32> bus_id{};
  check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device), "place of a device");
  Nvml().tell(bus_id.data(), out);
  return out;
}

int usable_devices() {
  int count = 0, driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  // Without a driver CUDA says that its version is insufficient.
  const bool missing = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
  throw Unsupported(formatted("no GPU can be used here ({})", missing                 ? "no NVIDIA driver"
                                                              : status == cudaSuccess ? "no device"
                                                                                      : cudaGetErrorString(status)));
}

}  // namespace specstep::cuda
