// nccl_dev: our allreduce on NCCL's device API; the other collectives as nccl has them.
#include "comm/cuda/nccl_dev.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "comm/cuda/check.h"
#include "comm/cuda/check_sums.h"
#include "comm/cuda/nccl_comm.h"
#include "comm/cuda/own/wait_words.h"
#include "comm/cuda/own_part.h"
#include "comm/cuda/rows.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

constexpr unsigned most_blocks = 64;
constexpr unsigned fewest_threads = 64;
constexpr std::uint32_t most_bytes = 1U << 30;  // of one launch

struct NcclDeviceLibrary {
  decltype(&ncclDevCommCreate) create = nullptr;
  decltype(&ncclDevCommDestroy) destroy = nullptr;
  decltype(&ncclLLA2ACalcSlots) slots = nullptr;
  decltype(&ncclLLA2ACreateRequirement) lines = nullptr;
};

NcclDeviceLibrary found() {
  // Kernels read structs that the library fills, and their layout is the headers'.
  if (nccl_library().version != NCCL_VERSION_CODE)
    throw Unsupported(formatted(
        "backend nccl_dev: this node has NCCL {}, and the kernel was built with headers of {}: they must be one",
        nccl_version_text(nccl_library().version), nccl_version_text(NCCL_VERSION_CODE)));
  NcclDeviceLibrary out;
  find_in_nccl(out.create, "ncclDevCommCreate");
  find_in_nccl(out.destroy, "ncclDevCommDestroy");
  find_in_nccl(out.slots, "ncclLLA2ACalcSlots");
  find_in_nccl(out.lines, "ncclLLA2ACreateRequirement");
  return out;
}

const NcclDeviceLibrary& device_library() {
  static const NcclDeviceLibrary library = found();
  return library;
}

/// Requirements that ask for nothing. From 2.29 on they carry a version, as configs do.
template <class Requirements>
Requirements no_requirements() {
  Requirements out{};
  if constexpr (requires { out.magic; }) {
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    out.size = sizeof(out);
    out.magic = config.magic;
    out.version = NCCL_VERSION_CODE;
  }
  return out;
}

/// Blocks of a call at most, equal on all ranks: half of the multiprocessors of the smallest GPU.
unsigned blocks_of_all(const OwnSettings& own, Bootstrap& group) {
  int device = 0, multiprocessors = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
  unsigned least = own.blocks > 0 ? static_cast<unsigned>(own.blocks) : static_cast<unsigned>(multiprocessors) / 2;
  for (const std::string& text : group.all_gather(std::to_string(least), "blocks of every rank"))
    least = std::min(least, static_cast<unsigned>(std::stoul(text)));
  return std::clamp(least, 1U, most_blocks);
}

/// Throws Unsupported, alike on all ranks, where they would launch other grids.
void require_equal_settings(const OwnSettings& own, Bootstrap& group) {
  const std::vector<std::string> all = group.all_gather(text_of(own), "own settings of every rank");
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw Unsupported(formatted("backend nccl_dev: settings differ: {} on rank 0, {} on rank {}", all[0], all[r], r));
}

class NcclDevComm final : public NcclComm {
 public:
  NcclDevComm(const CommRequest& request, Bootstrap& group);
  ~NcclDevComm() override;

  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override;
  std::vector<std::string> notes() const override;
  std::int64_t device_bytes() const override;
  void check_health() override;
  void abort() noexcept override;

 private:
  void open_lines();
  Grid grid_for(std::uint32_t packs) const;

  unsigned blocks_;
  std::uint32_t largest_bytes_;
  std::size_t line_bytes_ = 0;
  /// Owns the lines. None of NCCL's own collectives run on it: abort() ends those at once, with all that belongs to
  /// their communicator, while our kernels take until their next look to leave.
  NcclComm owner_;
  WaitWords words_;
  NcclDevGroup group_;
  bool open_ = false;
  std::atomic<bool> aborted_ = false;
  std::int32_t site_ = 0;
};

NcclDevComm::NcclDevComm(const CommRequest& request, Bootstrap& group)
    : NcclComm(request, group),
      blocks_(blocks_of_all(request.own, group)),
      largest_bytes_(request.own.largest_kib > 0 ? static_cast<std::uint32_t>(request.own.largest_kib) * 1024
                                                 : most_bytes),
      owner_(request, group, NcclCalls::blocking) {
  group_.group.rank = group.rank();
  group_.group.capacity.ranks = group.ranks();
  group_.group.limit_ns = static_cast<std::uint64_t>(request.wait_limit_seconds * 1e9);
  words_.describe(group_.group);
  open_lines();
  check_sums(*this, group, "nccl_dev", request.wait_limit_seconds + 5);  // a wait that is given up says more
  site_ = 0;
}

void NcclDevComm::open_lines() {
  const int slots = device_library().slots(ranks() * static_cast<int>(nccl_dev_threads), sizeof(protocol::Pack));
  ncclDevResourceRequirements lines{};
  if (device_library().lines(static_cast<int>(blocks_), slots, &group_.lines, &lines) != ncclSuccess)
    throw Error("ncclLLA2ACreateRequirement failed");
  line_bytes_ = lines.bufferSize;
  auto needed = no_requirements<ncclDevCommRequirements>();
  needed.resourceRequirementsList = &lines;
  bool symmetric = true;
  owner_.call("ncclDevCommCreate", [&](ncclComm_t comm) {
    const ncclResult_t result = device_library().create(comm, &needed, &group_.nccl);
    symmetric = result != ncclInvalidUsage;  // its answer where it has no symmetric memory
    return symmetric ? result : ncclSuccess;
  });
  if (!symmetric)
    throw Unsupported(
        "backend nccl_dev: NCCL has no symmetric memory here: it needs peer access between all GPUs on one host, and "
        "neither NCCL_WIN_ENABLE=0 nor NCCL_CUMEM_ENABLE=0");
  open_ = true;
  const int reached = ncclTeamLsa(group_.nccl).nRanks;
  if (reached != ranks())
    throw Unsupported(formatted("backend nccl_dev: a rank reaches the memory of {} of the {} ranks by loads and stores",
                                reached, ranks()));
}

NcclDevComm::~NcclDevComm() {
  if (aborted_) {
    owner_.abort();
    return;
  }
  if (!open_) return;
  try {
    owner_.call("ncclDevCommDestroy", [&](ncclComm_t comm) { return device_library().destroy(comm, &group_.nccl); });
  } catch (const std::exception&) {  // it was aborted, and its memory is gone
  }
}

Grid NcclDevComm::grid_for(std::uint32_t packs) const {
  const unsigned each = (packs + blocks_ - 1) / blocks_;
  const unsigned threads = std::clamp((each + 31) / 32 * 32, fewest_threads, nccl_dev_threads);
  return {std::min(blocks_, (packs + threads - 1) / threads), threads};
}

void NcclDevComm::all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) {
  const std::size_t bytes = value_bytes(count, dtype);
  const std::int32_t site = site_++;
  for (std::size_t at = 0; at < bytes; at += largest_bytes_) {
    std::byte* piece = static_cast<std::byte*>(values) + at;
    const OwnCall call{piece, piece, static_cast<std::uint32_t>(std::min<std::size_t>(bytes - at, largest_bytes_)),
                       dtype, site};
    launch_nccl_dev(group_, call, grid_for((call.bytes + 15) / 16), stream);
  }
}

std::vector<std::string> NcclDevComm::notes() const {
  std::vector<std::string> out = NcclComm::notes();
  out.push_back(
      formatted("nccl_dev: allreduces by our kernel on ncclLLA2ASession, without multicast; at most {} blocks; "
                "lines of {} a rank; two communicators, one of them for the other collectives",
                blocks_, bytes_text(static_cast<double>(line_bytes_))));
  return out;
}

std::int64_t NcclDevComm::device_bytes() const {
  return NcclComm::device_bytes() + owner_.device_bytes() + static_cast<std::int64_t>(line_bytes_);
}

void NcclDevComm::check_health() {
  words_.check("nccl_dev", rank());
  NcclComm::check_health();
}

void NcclDevComm::abort() noexcept {
  aborted_ = true;
  words_.abort();
  NcclComm::abort();
}

}  // namespace

std::unique_ptr<DeviceComm> open_nccl_dev(const CommRequest& request, Bootstrap& group) {
  join_nccl(request, group, [&] {
    device_library();
    if (group.ranks() > most_own_ranks)
      throw Unsupported(
          formatted("backend nccl_dev: {} ranks; it is built for at most {}", group.ranks(), most_own_ranks));
  });
  require_equal_settings(request.own, group);
  if (group.ranks() == 1) return std::make_unique<OwnPart>(0, "nccl_dev: one rank: nothing to exchange");
  return std::make_unique<NcclDevComm>(request, group);
}

}  // namespace specstep::comm
