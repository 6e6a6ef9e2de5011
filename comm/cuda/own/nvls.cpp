// nvls: the NVLink switch sums and hands out. Only where devices can, and only where the settings allow it.
#include <algorithm>

#include "comm/cuda/check.h"
#include "comm/cuda/own/multicast_memory.h"
#include "comm/cuda/own/nvls_kernel.h"
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own_part.h"
#include "comm/cuda/rows.h"
#include "model/base/error.h"

namespace specstep::comm {

namespace {

class SwitchComm final : public OwnComm {
 public:
  SwitchComm(const OwnKind& kind, const CommRequest& request, Bootstrap& group)
      : OwnComm(kind, request, group), memory_(group, largest_bytes()) {
    check_own_sums();
  }

  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override {
    const std::size_t bytes = value_bytes(count, dtype);
    const std::int32_t site = next_site();
    for (std::size_t at = 0; at < bytes; at += largest_bytes()) {
      std::byte* piece = static_cast<std::byte*>(values) + at;
      const OwnCall call{piece, piece, static_cast<std::uint32_t>(std::min<std::size_t>(bytes - at, largest_bytes())),
                         dtype, site};
      check(launch_nvls(device_group(), call, {memory_.own(), memory_.all()}, grid_for((call.bytes + 15) / 16), stream),
            "launching an allreduce");
    }
  }
  std::int64_t device_bytes() const override {
    return OwnComm::device_bytes() + static_cast<std::int64_t>(memory_.bytes());
  }

 private:
  MulticastMemory memory_;
};

}  // namespace

std::unique_ptr<DeviceComm> open_nvls(const CommRequest& request, Bootstrap& group) {
  if (!request.own.nvls)
    throw Unsupported(
        "nvls: not used unless comm.own.nvls is true: the multicast of NVLink switches must be asked for");
  if (group.ranks() < 2) throw Unsupported("nvls: one rank has nothing to sum in a switch");
  if (const std::string refusal = multicast_refusal(); !refusal.empty()) throw Unsupported("nvls: " + refusal);
  // Device ordinals tell threads of one process apart; MulticastMemory refuses processes.
  if (ranks_on_my_device(group) > 1) throw Unsupported("nvls: ranks share a GPU; a multicast team has each GPU once");
  OwnKind kind{.id = "nvls", .sums_otherwise = true};
  kind.launch = [](const DeviceGroup& described, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
    check(launch_nvls(described, call, {}, grid, stream), "loading a kernel");
  };
  kind.note = "sums by the NVLink switch in fp32 and in its own order, rounded once; equal bits on all ranks";
  return std::make_unique<SwitchComm>(kind, request, group);
}

}  // namespace specstep::comm
