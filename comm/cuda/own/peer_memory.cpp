#include "comm/cuda/own/peer_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "comm/cuda/check.h"
#include "comm/cuda/nccl_group.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

using Json = nlohmann::json;

/// What a rank tells the others of its part.
struct Offer {
  std::string refusal;        // why there is none
  std::int64_t process = 0;   // ranks of one process share addresses
  std::uint64_t address = 0;  // in that process
  int device = 0;             // in that process
  std::string handle;         // for other processes: of CUDA IPC, or a name of shared memory
};

std::string text_of(const Offer& o) {
  std::string hex;
  for (const char c : o.handle) hex += formatted("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return Json{
      {"refusal", o.refusal}, {"process", o.process}, {"address", o.address}, {"device", o.device}, {"handle", hex}}
      .dump();
}

Offer offer_of(const std::string& text) {
  const Json json = Json::parse(text);
  Offer o{json.at("refusal"), json.at("process"), json.at("address"), json.at("device"), ""};
  const std::string hex = json.at("handle");
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    int byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    o.handle += static_cast<char>(byte);
  }
  return o;
}

/// Lets the current device reach another one's memory.
void enable_peer(int device) {
  int mine = 0, can = 0;
  check(cudaGetDevice(&mine), "asking for the device");
  if (mine == device) return;
  check(cudaDeviceCanAccessPeer(&can, mine, device), "asking for peer access");
  if (can == 0) throw Unsupported(formatted("device {} cannot reach the memory of device {}", mine, device));
  const cudaError_t status = cudaDeviceEnablePeerAccess(device, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    check(status, formatted("enabling access from device {} to {}", mine, device));
}

/// Shared memory of the host under a name.
class SharedHost {
 public:
  SharedHost(std::string name, std::size_t bytes, bool create) : name_(create ? std::move(name) : ""), bytes_(bytes) {
    const std::string& path = create ? name_ : name;
    const int file = shm_open(path.c_str(), O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (file < 0) throw Error(formatted("shared memory {}: {}", path, std::strerror(errno)));
    const bool sized = !create || ftruncate(file, static_cast<off_t>(bytes)) == 0;
    void* at = sized ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    const int failed = errno;
    close(file);
    if (at == MAP_FAILED) {
      if (create) shm_unlink(path.c_str());
      throw Error(formatted("shared memory {} of {} bytes: {}", path, bytes, std::strerror(failed)));
    }
    at_ = at;
  }
  ~SharedHost() {
    munmap(at_, bytes_);
    if (!name_.empty()) shm_unlink(name_.c_str());
  }
  SharedHost(const SharedHost&) = delete;
  SharedHost& operator=(const SharedHost&) = delete;
  void* at() const { return at_; }

 private:
  std::string name_;  // of the owner, who removes it
  std::size_t bytes_;
  void* at_ = nullptr;
};

}  // namespace

class PeerMemory::Part {
 public:
  virtual ~Part() = default;
  Part() = default;
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  virtual std::byte* at() const = 0;
  virtual std::string handle() const { return ""; }

  class OwnDevice;
  class OwnHost;
  class Known;
  class ByIpc;
  class ByName;
};

class PeerMemory::Part::OwnDevice final : public Part {
 public:
  explicit OwnDevice(std::size_t bytes) {
    check(cudaMalloc(&memory_, bytes), "allocating inboxes");
    check(cudaMemset(memory_, 0, bytes), "clearing inboxes");
    check(cudaDeviceSynchronize(), "clearing inboxes");
  }
  ~OwnDevice() override { (void)cudaFree(memory_); }
  std::byte* at() const override { return static_cast<std::byte*>(memory_); }
  std::string handle() const override {
    cudaIpcMemHandle_t handle;
    check(cudaIpcGetMemHandle(&handle, memory_), "sharing inboxes with other processes");
    return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
  }

 private:
  void* memory_ = nullptr;
};

class PeerMemory::Part::OwnHost final : public Part {
 public:
  OwnHost(std::size_t bytes, int rank)
      : name_(formatted("/specstep.{}.{}.{:x}", getpid(), rank, reinterpret_cast<std::uintptr_t>(this))),
        shared_(name_, bytes, true) {
    check(cudaHostRegister(shared_.at(), bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
          "mapping host memory for devices");
    std::memset(shared_.at(), 0, bytes);
  }
  ~OwnHost() override { (void)cudaHostUnregister(shared_.at()); }
  std::byte* at() const override { return static_cast<std::byte*>(shared_.at()); }
  std::string handle() const override { return name_; }

 private:
  std::string name_;
  SharedHost shared_;
};

/// A part of another thread of this process.
class PeerMemory::Part::Known final : public Part {
 public:
  explicit Known(std::uint64_t address) : at_(reinterpret_cast<std::byte*>(address)) {}
  std::byte* at() const override { return at_; }

 private:
  std::byte* at_;
};

class PeerMemory::Part::ByIpc final : public Part {
 public:
  explicit ByIpc(const std::string& bytes) {
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, bytes.data(), sizeof(handle));
    check(cudaIpcOpenMemHandle(&memory_, handle, cudaIpcMemLazyEnablePeerAccess), "mapping inboxes of another process");
  }
  ~ByIpc() override { (void)cudaIpcCloseMemHandle(memory_); }
  std::byte* at() const override { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

class PeerMemory::Part::ByName final : public Part {
 public:
  ByName(const std::string& name, std::size_t bytes) : shared_(name, bytes, false) {
    check(cudaHostRegister(shared_.at(), bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
          "mapping host memory of another process");
  }
  ~ByName() override { (void)cudaHostUnregister(shared_.at()); }
  std::byte* at() const override { return static_cast<std::byte*>(shared_.at()); }

 private:
  SharedHost shared_;
};

PeerMemory::PeerMemory(Bootstrap& group, std::size_t bytes, Place place) : group_(group), bytes_(bytes) {
  Offer mine;
  mine.process = getpid();
  std::unique_ptr<Part> own;
  const bool processes = group.local_ranks() > 1 && under_mpi();
  try {
    check(cudaGetDevice(&mine.device), "asking for the device");
    if (place == Place::device)
      own = std::make_unique<Part::OwnDevice>(bytes);
    else
      own = std::make_unique<Part::OwnHost>(bytes, group.rank());
    mine.address = reinterpret_cast<std::uint64_t>(own->at());
    if (processes) mine.handle = own->handle();
  } catch (const Error& e) {
    mine.refusal = e.what();
  }
  std::vector<Offer> offers;
  for (const std::string& text : group.all_gather(text_of(mine), "inboxes of every rank"))
    offers.push_back(offer_of(text));
  for (std::size_t r = 0; r < offers.size() && mine.refusal.empty(); ++r) {
    const Offer& o = offers[r];
    if (!o.refusal.empty()) continue;
    try {
      if (static_cast<int>(r) == group.rank()) {
        parts_.push_back(std::move(own));
      } else if (o.process == mine.process) {
        if (place == Place::device) enable_peer(o.device);
        parts_.push_back(std::make_unique<Part::Known>(o.address));
      } else if (place == Place::device) {
        parts_.push_back(std::make_unique<Part::ByIpc>(o.handle));
      } else {
        parts_.push_back(std::make_unique<Part::ByName>(o.handle, bytes));
      }
      of_.push_back(parts_.back()->at());
    } catch (const Error& e) {
      mine.refusal = e.what();
    }
  }
  const std::vector<std::string> refusals = group.all_gather(mine.refusal, "inboxes mapped by every rank");
  for (std::size_t r = 0; r < refusals.size(); ++r)
    if (!refusals[r].empty()) throw Unsupported(formatted("rank {}: {}", r, refusals[r]));
}

PeerMemory::~PeerMemory() {
  const auto together = [&](const char* what) {
    try {
      group_.barrier(what);
    } catch (const std::exception&) {  // the group has failed: nobody uses the inboxes any more
    }
  };
  together("inboxes are used no more");
  // Maps of others' memory end before their owners free it.
  std::vector<std::unique_ptr<Part>> own;
  for (std::size_t r = 0; r < parts_.size(); ++r)
    if (static_cast<int>(r) == group_.rank()) own.push_back(std::move(parts_[r]));
  parts_.clear();
  together("inboxes are unmapped");
}

int ranks_on_my_device(Bootstrap& group) {
  const std::string mine = device_address();
  const std::vector<std::string> all = group.all_gather(mine, "devices of every rank");
  return static_cast<int>(std::count(all.begin(), all.end(), mine));
}

bool any_device_is_shared(Bootstrap& group) {
  const std::string mine = ranks_on_my_device(group) > 1 ? "shared" : "";
  const std::vector<std::string> all = group.all_gather(mine, "whether ranks share a GPU");
  return std::find(all.begin(), all.end(), "shared") != all.end();
}

}  // namespace specstep::comm
