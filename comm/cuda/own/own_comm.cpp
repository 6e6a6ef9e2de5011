#include "comm/cuda/own/own_comm.h"

#include <algorithm>

#include "comm/cuda/check.h"
#include "comm/cuda/check_sums.h"
#include "comm/cuda/handles.h"
#include "comm/cuda/own/exchange.h"
#include "comm/cuda/own_part.h"
#include "comm/footprint.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

constexpr unsigned most_threads = 512;
constexpr unsigned fewest_threads = 64;

/// Blocks of a call, so that all blocks of all ranks on a device lie beside each other, one on a multiprocessor, and
/// waiting ranks leave most of the device to the slowest one: its kernels may want whole multiprocessors, or several at
/// once of one cluster.
unsigned blocks_beside(int multiprocessors, int sharing) {
  const int room = sharing == 1 ? multiprocessors / 2 : multiprocessors * 2 / 5 / (sharing - 1);
  return std::clamp(static_cast<unsigned>(room), 1U, static_cast<unsigned>(most_own_blocks));
}

int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
  return count;
}

/// Blocks of a cluster at most; 1 where the device has none.
unsigned clusters_of() {
  int device = 0, launches = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&launches, cudaDevAttrClusterLaunch, device), "asking for clusters");
  return launches != 0 ? most_cluster : 1;
}

/// Throws Unsupported, alike on all ranks, where ranks would not run the same kernels.
void require_alike(Bootstrap& group, const std::string& mine) {
  const std::vector<std::string> all = group.all_gather(mine, "settings of every rank");
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      throw Unsupported(formatted("ranks differ: rank 0 has '{}', rank {} has '{}'", all[0], r, all[r]));
}

unsigned least_of_all(Bootstrap& group, unsigned mine) {
  unsigned least = mine;
  for (const std::string& text : group.all_gather(std::to_string(mine), "blocks of every rank"))
    least = std::min(least, static_cast<unsigned>(std::stoul(text)));
  return least;
}

protocol::Capacity capacity_of(const OwnKind& kind, const OwnSettings& settings, int ranks, unsigned blocks) {
  protocol::Capacity capacity{ranks, 1, blocks};
  if (settings.largest_kib > 0) {
    capacity.packs = static_cast<std::uint32_t>(settings.largest_kib * 1024 / 16);
    return capacity;
  }
  for (;;) {
    protocol::Capacity twice = capacity;
    twice.packs *= 2;
    // Some protocols need no inbox among few ranks.
    if (std::max(room_of(kind.regions, twice).bytes, twice.packs * sizeof(protocol::Pack)) > kind.inbox_bytes)
      return capacity;
    capacity = twice;
  }
}

}  // namespace

OwnComm::OwnComm(const OwnKind& kind, const CommRequest& request, Bootstrap& group)
    : kind_(kind), ranks_(group), check_seconds_(request.wait_limit_seconds + 5) {
  if (group.ranks() > most_own_ranks)
    throw Unsupported(formatted("{}: {} ranks; it is built for at most {}", kind.id, group.ranks(), most_own_ranks));
  require_alike(group, formatted("{}: {}", kind.id, text_of(request.own)));
  sharing_ = ranks_on_my_device(group);
  most_blocks_ = least_of_all(group, request.own.blocks > 0 ? static_cast<unsigned>(request.own.blocks)
                                                            : blocks_beside(multiprocessors(), sharing_));
  cluster_ = static_cast<int>(least_of_all(group, clusters_of()));
  kind_.regions.exchange = own_exchange_bytes;
  group_.capacity = capacity_of(kind_, request.own, group.ranks(), most_blocks_);
  room_ = room_of(kind_.regions, group_.capacity);
  memory_ = std::make_unique<PeerMemory>(group, room_.bytes, kind_.place);
  group_.rank = group.rank();
  group_.exchange_bytes = own_exchange_bytes;
  group_.limit_ns = static_cast<std::uint64_t>(request.wait_limit_seconds * 1e9);
  group_.islands = kind_.islands;
  describe_group(request.first_epoch);
  load_kernels();
  if (!kind_.sums_otherwise) check_own_sums();
  check_norms();
}

OwnComm::~OwnComm() = default;

void OwnComm::check_own_sums() {
  check_sums(*this, ranks_, kind_.id, check_seconds_, kind_.lossless ? 11 : 2);
  site_ = 0;
}

void OwnComm::describe_group(std::uint32_t first_epoch) {
  const auto place = [&]<class T>(int rank, std::size_t offset) {
    return reinterpret_cast<T*>(memory_->of(rank) + offset);
  };
  for (int r = 0; r < group_.capacity.ranks; ++r) {
    auto& inbox = group_.inbox[r];
    const auto words = [&](std::size_t offset) { return place.operator()<std::uint32_t>(r, offset); };
    inbox.packs = words(room_.packs);
    inbox.partials = words(room_.partials);
    inbox.results = words(room_.results);
    inbox.lines = place.operator()<std::uint64_t>(r, room_.lines);
    inbox.flags = words(room_.flags);
    inbox.input = place.operator()<protocol::Pack>(r, room_.input);
    inbox.reduced = place.operator()<protocol::Pack>(r, room_.reduced);
    inbox.crossings = words(room_.crossings);
    inbox.hops = place.operator()<std::uint64_t>(r, room_.hops);
    inbox.board = place.operator()<std::uint64_t>(r, room_.board);
    inbox.shown = place.operator()<protocol::Pack>(r, room_.shown);
    inbox.cells = words(room_.cells);
    inbox.parts = place.operator()<protocol::Pack>(r, room_.parts);
    inbox.gathered = place.operator()<protocol::Pack>(r, room_.gathered);
    group_.exchange[r] = memory_->of(r) + room_.exchange;
  }
  words_.describe(group_);
  if (first_epoch == 0) return;
  const auto& own = group_.inbox[group_.rank];
  // Flags hold the largest count that no call to come waits for.
  const std::size_t flags = std::size_t{2} * group_.capacity.blocks * static_cast<std::size_t>(group_.capacity.ranks);
  const std::vector<std::uint32_t> filled(flags, first_epoch);
  check(cudaMemcpy(own.flags, filled.data(), flags * sizeof(std::uint32_t), cudaMemcpyDefault), "filling flags");
  check(cudaMemcpy(own.epoch, &first_epoch, sizeof(first_epoch), cudaMemcpyDefault), "filling the epoch");
  check(cudaStreamSynchronize(nullptr), "filling the epoch");
}

void OwnComm::load_kernels() {
  retired_ = group_;
  words_.retire(retired_);
  const DeviceGroup& none = retired_;
  const Stream stream = make_stream();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    kind_.launch(none, {nullptr, nullptr, 16, dtype, 0}, {1, fewest_threads}, stream.get());
    launch_exchange(none, {Collective::all_gather, nullptr, nullptr, 16, 0, 16, dtype, 0}, {1, fewest_threads},
                    stream.get());
    const RowNorm no_rows{.rows = 0};
    if (fuses_norm())
      kind_.fused.launch(none, {nullptr, nullptr, 16, dtype, 0}, no_rows, {1, fewest_threads}, stream.get());
  }
  if (fuses_norm()) load_add_norm(stream.get());
  check(cudaStreamSynchronize(stream.get()), "loading kernels");
  ranks_.barrier("kernels are loaded");
}

Grid OwnComm::grid_for(std::uint32_t packs) const {
  const unsigned each = (packs + most_blocks_ - 1) / most_blocks_;
  const unsigned threads = std::clamp((each + 31) / 32 * 32, fewest_threads, most_threads);
  return {std::min(most_blocks_, (packs + threads - 1) / threads), threads};
}

void OwnComm::all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) {
  const std::size_t bytes = value_bytes(count, dtype);
  const std::int32_t site = next_site();
  for (std::size_t at = 0; at < bytes; at += largest_bytes()) {
    OwnCall call{static_cast<std::byte*>(values) + at, static_cast<std::byte*>(values) + at,
                 static_cast<std::uint32_t>(std::min<std::size_t>(bytes - at, largest_bytes())), dtype, site};
    kind_.launch(device_group(), call, grid_for((call.bytes + 15) / 16), stream);
  }
}

void OwnComm::exchange(ExchangeCall call, cudaStream_t stream) {
  call.site = next_site();
  const std::uint32_t most = largest_piece(group_, call.kind);
  for (; call.at < call.part_bytes; call.at += most) {
    call.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(call.part_bytes - call.at, most));
    launch_exchange(device_group(), call, grid_for((call.bytes + 15) / 16), stream);
  }
}

void OwnComm::all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) {
  exchange({Collective::all_gather, part, all, value_bytes(count, dtype), 0, 0, dtype, 0}, stream);
}
void OwnComm::reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) {
  exchange({Collective::reduce_scatter, values, part, value_bytes(count, dtype), 0, 0, dtype, 0}, stream);
}
void OwnComm::all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) {
  exchange({Collective::all_to_all, from, to, value_bytes(count, dtype), 0, 0, dtype, 0}, stream);
}

std::vector<std::string> OwnComm::notes() const {
  return {
      formatted("{}: {} ranks, {} on this rank's device; at most {} blocks; {} in one piece, inboxes of {} a rank{}{}",
                kind_.id, group_.capacity.ranks, sharing_, most_blocks_, bytes_text(largest_bytes()),
                bytes_text(static_cast<double>(room_.bytes)), kind_.note.empty() ? "" : "; ", kind_.note)};
}

std::int64_t OwnComm::device_bytes() const {
  return kind_.place == Place::device ? static_cast<std::int64_t>(room_.bytes) : 0;
}

void OwnComm::check_health() { words_.check(kind_.id, group_.rank); }

void OwnComm::abort() noexcept { words_.abort(); }

}  // namespace specstep::comm
