// What the backends of our own have in common: inboxes, epochs, splitting of large calls, reports of failed waits, and
// the collectives beside allreduce.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/cuda/device_comm.h"
#include "comm/cuda/own/exchange.h"
#include "comm/cuda/own/fused.h"
#include "comm/cuda/own/peer_memory.h"
#include "comm/cuda/own/wait_words.h"
#include "comm/protocol/room.h"

namespace specstep::comm {

using LaunchOwn = void (*)(const DeviceGroup&, const OwnCall&, const Grid&, cudaStream_t);

/// What tells one of our backends from another.
struct OwnKind {
  std::string_view id;
  protocol::Regions regions{};
  Place place = Place::device;
  LaunchOwn launch = nullptr;
  FusedKind fused{};
  /// Bytes of inboxes that a rank has at most: they bound the largest call that is not split.
  std::size_t inbox_bytes = std::size_t{8} << 20;
  std::string note{};  // for the result
  protocol::IslandPlan islands{};
  bool lossless = true;         // else sums are exact where they have at most four significant bits
  bool sums_otherwise = false;  // all_reduce is overridden; `launch` only loads its kernel
};

class OwnComm : public DeviceComm {
 public:
  /// Every rank calls it, its device current. Checks exact sums of all types before it returns; a class that overrides
  /// all_reduce does so at the end of its own constructor. Throws Unsupported where ranks cannot reach each other or
  /// are more than eight, Error where sums are wrong.
  OwnComm(const OwnKind& kind, const CommRequest& request, Bootstrap& group);
  ~OwnComm() override;

  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override;
  bool fuses_norm() const override { return kind_.fused.launch != nullptr; }
  void all_reduce_norm(const FusedNorm& call, cudaStream_t stream) override;
  void all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) override;
  std::vector<std::string> notes() const override;
  std::int64_t device_bytes() const override;
  void rehearse(bool on) override { rehearses_ = on; }
  void check_health() override;
  void abort() noexcept override;

 protected:
  const DeviceGroup& device_group() const { return rehearses_ ? retired_ : group_; }
  bool rehearses() const { return rehearses_; }
  /// What kernels get that only load.
  const DeviceGroup& retired_group() const { return retired_; }
  /// Bytes of a call in one piece.
  std::uint32_t largest_bytes() const {
    return static_cast<std::uint32_t>(group_.capacity.packs * sizeof(protocol::Pack));
  }
  /// A grid for `packs` places of work, at most those blocks that fit beside each other on shared devices.
  Grid grid_for(std::uint32_t packs) const;
  std::int32_t next_site() { return site_++; }
  void check_own_sums();

 private:
  void exchange(ExchangeCall call, cudaStream_t stream);
  void describe_group(std::uint32_t first_epoch);
  int shards_of_row() const;
  std::int64_t rows_at_once(const FusedNorm& call) const;
  void check_norms();
  void load_kernels();

  OwnKind kind_;
  Bootstrap& ranks_;
  int sharing_ = 1;  // ranks on this rank's device
  unsigned most_blocks_ = 1;
  int cluster_ = 1;  // blocks of a row at most
  protocol::Room room_;
  std::unique_ptr<PeerMemory> memory_;
  WaitWords words_;
  DeviceGroup group_, retired_;
  bool rehearses_ = false;
  double check_seconds_;
  std::int32_t site_ = 0;
};

}  // namespace specstep::comm
