// nccl_sym: NCCL's allreduces on symmetric windows. NCCL takes its symmetric kernels when a call's memory lies in a
// window; what lies elsewhere, or begins between packs, is copied into a window of our own, summed there, and copied
// back.
#include <algorithm>
#include <vector>

#include "comm/cuda/check.h"
#include "comm/cuda/check_sums.h"
#include "comm/cuda/nccl_window.h"
#include "comm/cuda/own_part.h"
#include "comm/cuda/rows.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

// Larger calls go in pieces: at this size a piece takes much longer than its launch.
constexpr std::size_t stage_bytes = std::size_t{8} << 20;
// NCCL 2.28.9 sums bf16 wrongly where values begin at an odd multiple of 2 bytes of a window.
constexpr std::uintptr_t alignment = 16;

class NcclSymComm final : public NcclComm {
 public:
  NcclSymComm(const CommRequest& request, Bootstrap& group)
      : NcclComm(request, group, NcclCalls::blocking), group_(group), stage_(*this, group, stage_bytes) {}

  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  std::vector<std::string> notes() const override;
  void count_from_here() { in_place_ = copied_ = 0; }
  std::int64_t device_bytes() const override {
    return NcclComm::device_bytes() + static_cast<std::int64_t>(stage_.bytes());
  }

 private:
  bool in_window(const void* values, std::size_t bytes) const;

  Bootstrap& group_;
  NcclWindow stage_;
  std::vector<std::weak_ptr<NcclWindow>> windows_;  // of callers
  std::int64_t in_place_ = 0, copied_ = 0;          // calls
};

bool NcclSymComm::in_window(const void* values, std::size_t bytes) const {
  if (reinterpret_cast<std::uintptr_t>(values) % alignment != 0) return false;
  return std::any_of(windows_.begin(), windows_.end(), [&](const std::weak_ptr<NcclWindow>& given) {
    const auto window = given.lock();
    return window && window->holds(values, bytes);
  });
}

void NcclSymComm::all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) {
  const std::size_t bytes = value_bytes(count, dtype);
  if (in_window(values, bytes)) {
    ++in_place_;
    NcclComm::all_reduce(values, count, dtype, stream);
    return;
  }
  ++copied_;
  const std::size_t width = dtype == DType::f32 ? 4 : 2;
  for (std::size_t at = 0; at < bytes; at += stage_bytes) {
    std::byte* piece = static_cast<std::byte*>(values) + at;
    const std::size_t part = std::min(stage_bytes, bytes - at);
    check(cudaMemcpyAsync(stage_.data(), piece, part, cudaMemcpyDeviceToDevice, stream), "copying into a window");
    NcclComm::all_reduce(stage_.data(), static_cast<std::int64_t>(part / width), dtype, stream);
    check(cudaMemcpyAsync(piece, stage_.data(), part, cudaMemcpyDeviceToDevice, stream), "copying from a window");
  }
}

std::shared_ptr<void> NcclSymComm::allocate(std::size_t bytes) {
  auto window = std::make_shared<NcclWindow>(*this, group_, std::max<std::size_t>(bytes, 1));
  std::erase_if(windows_, [](const std::weak_ptr<NcclWindow>& given) { return given.expired(); });
  windows_.push_back(window);
  return {window, window->data()};
}

std::vector<std::string> NcclSymComm::notes() const {
  std::vector<std::string> out = NcclComm::notes();
  const std::string size = bytes_text(static_cast<double>(stage_.bytes()));
  std::string used = "none";
  if (in_place_ > 0 && copied_ > 0)
    used = formatted("{} calls in place in windows, {} through a window of {}", in_place_, copied_, size);
  else if (in_place_ > 0)
    used = "all in place in windows";
  else if (copied_ > 0)
    used = formatted("all through a window of {}", size);
  out.push_back(
      formatted("nccl_sym: allreduces: {}{}", used,
                copied_ > 0 ? ", which costs two copies on the device for each (one pair a window's size)" : ""));
  if (nccl_library().version < 22800)
    out.emplace_back("nccl_sym: this version does not tell whether it took a symmetric kernel");
  // Its kernels wait in the loops of nccl_device/impl, which have no way out.
  if (nccl_library().version < 22900)
    out.emplace_back(
        "nccl_sym: kernels of this version wait for ever for a rank that never comes, also after an abort");
  return out;
}

}  // namespace

std::unique_ptr<DeviceComm> open_nccl_sym(const CommRequest& request, Bootstrap& group) {
  join_nccl(request, group, [] { nccl_window_library(); });
  if (group.ranks() == 1) return std::make_unique<OwnPart>(0, "nccl_sym: one rank: nothing to exchange");
  auto comm = std::make_unique<NcclSymComm>(request, group);
  check_sums(*comm, group, "nccl_sym", request.wait_limit_seconds);
  comm->count_from_here();
  return comm;
}

}  // namespace specstep::comm
