#include "comm/cuda/own/multicast_memory.h"

#include <cuda.h>
#include <unistd.h>

#include <charconv>
#include <functional>
#include <vector>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

void require(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) throw Error(formatted("{}: error {} of the driver", what, static_cast<int>(status)));
}

/// A function of the driver, which the program is not linked with.
template <class Function>
Function driver_function(const char* name) {
  constexpr unsigned multicast_since = 12010;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, multicast_since, cudaEnableDefault, &result),
        "looking for a function of the driver");
  if (found == nullptr || result != cudaDriverEntryPointSuccess)
    throw Unsupported(formatted("this driver has no {}", name));
  return reinterpret_cast<Function>(found);
}

struct Driver {
  decltype(&cuMemCreate) create = driver_function<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver_function<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemAddressReserve) reserve = driver_function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = driver_function<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemMap) map = driver_function<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver_function<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = driver_function<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  decltype(&cuMulticastCreate) team = driver_function<decltype(&cuMulticastCreate)>("cuMulticastCreate");
  decltype(&cuMulticastAddDevice) add = driver_function<decltype(&cuMulticastAddDevice)>("cuMulticastAddDevice");
  decltype(&cuMulticastBindMem) bind = driver_function<decltype(&cuMulticastBindMem)>("cuMulticastBindMem");
  decltype(&cuMulticastUnbind) unbind = driver_function<decltype(&cuMulticastUnbind)>("cuMulticastUnbind");
  decltype(&cuMulticastGetGranularity) granularity =
      driver_function<decltype(&cuMulticastGetGranularity)>("cuMulticastGetGranularity");
};

using Handle = CUmemGenericAllocationHandle;

/// What a scope owns: an action at its end.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> action) : action_(std::move(action)) {}
  ~AtEnd() { action_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  std::function<void()> action_;
};

/// Every rank does its part of a step; all hear of it where one cannot.
template <class Part>
void together(Bootstrap& group, const char* what, Part part) {
  std::string failed;
  try {
    part();
  } catch (const Error& e) {
    failed = e.what();
  }
  const std::vector<std::string> all = group.all_gather(failed, what);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) throw Unsupported(formatted("nvls: rank {}: {}", r, all[r]));
}

}  // namespace

std::string multicast_refusal() {
  int device = 0, can = 0;
  check(cudaGetDevice(&device), "asking for the device");
  const auto attribute = static_cast<cudaDeviceAttr>(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
  if (cudaDeviceGetAttribute(&can, attribute, device) != cudaSuccess) can = 0;
  (void)cudaGetLastError();
  return can != 0 ? "" : formatted("device {} has no multicast: it needs NVLink switches, and their manager", device);
}

struct MulticastMemory::Parts {
  Driver driver;
  std::size_t bytes = 0;
  Handle team = 0;
  CUdeviceptr own = 0, all = 0;
  std::vector<std::unique_ptr<AtEnd>> ends;  // undone from the last to the first
  ~Parts() {
    while (!ends.empty()) ends.pop_back();
  }
  void at_end(std::function<void()> action) { ends.push_back(std::make_unique<AtEnd>(std::move(action))); }

  CUdeviceptr mapped(Handle handle, int device, std::size_t align) {
    CUdeviceptr at = 0;
    require(driver.reserve(&at, bytes, align, 0, 0), "reserving addresses");
    at_end([this, at] { (void)driver.free(at, bytes); });
    require(driver.map(at, bytes, 0, handle, 0), "mapping memory");
    at_end([this, at] { (void)driver.unmap(at, bytes); });
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    require(driver.set_access(at, bytes, &access, 1), "allowing access");
    return at;
  }
};

MulticastMemory::MulticastMemory(Bootstrap& group, std::size_t bytes) : group_(group) {
  int device = 0;
  std::size_t align = 0;
  std::string team;
  together(group, "multicast: sizes", [&] {
    check(cudaGetDevice(&device), "asking for the device");
    const std::string refusal = multicast_refusal();
    if (!refusal.empty()) throw Unsupported(refusal);
    parts_ = std::make_unique<Parts>();
    CUmulticastObjectProp properties{};
    properties.numDevices = static_cast<unsigned>(group.ranks());
    properties.size = bytes;
    require(parts_->driver.granularity(&align, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED), "asking for sizes");
    parts_->bytes = (bytes + align - 1) / align * align;
    if (group.rank() != 0) return;
    properties.size = parts_->bytes;
    require(parts_->driver.team(&parts_->team, &properties), "making a multicast team");
    parts_->at_end([p = parts_.get()] { (void)p->driver.release(p->team); });
    team = formatted("{} {}", parts_->team, getpid());
  });
  const std::string first = group.all_gather(team, "multicast: the team").front();
  together(group, "multicast: devices", [&] {
    if (first.substr(first.find(' ') + 1) != std::to_string(getpid()))
      throw Unsupported("ranks are processes; it is built for threads of one");
    std::from_chars(first.data(), first.data() + first.size(), parts_->team);
    require(parts_->driver.add(parts_->team, device), "joining a multicast team");
  });
  together(group, "multicast: memory", [&] {
    Parts& p = *parts_;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    Handle memory = 0;
    require(p.driver.create(&memory, p.bytes, &properties, 0), "allocating memory");
    p.at_end([&p, memory] { (void)p.driver.release(memory); });
    p.own = p.mapped(memory, device, align);
    check(cudaMemset(own(), 0, p.bytes), "clearing memory");
    check(cudaDeviceSynchronize(), "clearing memory");
    require(p.driver.bind(p.team, 0, memory, 0, p.bytes, 0), "binding memory to a multicast team");
    p.at_end([&p, device] { (void)p.driver.unbind(p.team, device, 0, p.bytes); });
  });
  together(group, "multicast: addresses", [&] { parts_->all = parts_->mapped(parts_->team, device, align); });
}

MulticastMemory::~MulticastMemory() {
  const auto meet = [&](const char* what) {
    try {
      group_.barrier(what);
    } catch (const std::exception&) {  // the group has failed: nobody uses the memory any more
    }
  };
  meet("multicast memory is used no more");
  if (group_.rank() != 0) parts_.reset();
  meet("multicast memory is unmapped");
}

std::byte* MulticastMemory::own() const { return reinterpret_cast<std::byte*>(parts_->own); }
std::byte* MulticastMemory::all() const { return reinterpret_cast<std::byte*>(parts_->all); }
std::size_t MulticastMemory::bytes() const { return parts_->bytes; }

}  // namespace specstep::comm
