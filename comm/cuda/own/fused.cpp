#include "comm/cuda/own/fused.h"

#include <algorithm>
#include <array>

#include "comm/cuda/check.h"
#include "comm/cuda/handles.h"
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own_part.h"
#include "comm/cuda/wait.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

// Beyond these tokens a prompt is read, where bytes count and two kernels that each fill the device are as fast.
constexpr std::int64_t most_fused_rows = 64;

std::byte* moved(void* to, std::size_t bytes) { return to ? static_cast<std::byte*>(to) + bytes : nullptr; }

/// Whether all rows of all arrays are whole packs.
bool in_packs(const FusedNorm& call) {
  const auto whole = [](std::size_t bytes) { return bytes % sizeof(protocol::Pack) == 0; };
  const auto at = [&](const void* array) { return whole(reinterpret_cast<std::uintptr_t>(array)); };
  return whole(row_bytes(call)) && whole(rows_of(call, 0, 1).copy_bytes) && at(call.values) && at(call.residual) &&
         at(call.gain) && at(call.out) && at(call.copy_residual);
}

}  // namespace

std::size_t row_bytes(const FusedNorm& call) { return value_bytes(call.width, call.dtype); }

RowNorm rows_of(const FusedNorm& call, std::int64_t first, std::int64_t rows) {
  RowNorm norm;
  const std::size_t bytes = row_bytes(call), before = bytes * static_cast<std::size_t>(first);
  norm.copy_bytes = value_bytes(call.copy_stride, call.dtype);
  norm.residual = moved(call.residual, before);
  norm.gain = call.gain;
  norm.out = moved(call.out, before);
  norm.copy = moved(call.copy_residual, norm.copy_bytes * static_cast<std::size_t>(first));
  norm.rows = static_cast<std::uint32_t>(rows);
  norm.row_bytes = static_cast<std::uint32_t>(bytes);
  norm.width = static_cast<float>(call.width);
  norm.epsilon = call.epsilon;
  return norm;
}

RowGrid row_grid(std::uint32_t rows, std::uint32_t work, const RowLimits& most) {
  constexpr unsigned warp = 32;
  unsigned cluster = 1;
  while (2 * cluster <= static_cast<unsigned>(most.cluster) && 2 * cluster * rows <= most.blocks &&
         work > warp * cluster)
    cluster *= 2;
  const unsigned each = (work + cluster - 1) / cluster;
  const unsigned most_threads = cluster == 1 ? most_row_threads : most_row_threads / 2;
  const unsigned threads = std::clamp((each + warp - 1) / warp * warp, warp, most_threads);
  return {{std::min(rows, most.blocks / cluster) * cluster, threads}, static_cast<int>(cluster)};
}

/// Into how many shards a row is divided.
int OwnComm::shards_of_row() const {
  switch (kind_.fused.shares) {
    case protocol::Shares::none:
      return 1;
    case protocol::Shares::ranks:
      return group_.capacity.ranks;
    case protocol::Shares::island:
      return kind_.islands.members;
  }
  return 1;
}

/// Rows of a call in one kernel: those whose packs and shards the inboxes hold; none where rows are no whole packs.
std::int64_t OwnComm::rows_at_once(const FusedNorm& call) const {
  if (call.rows > most_fused_rows || !in_packs(call)) return 0;
  const auto packs = static_cast<std::uint32_t>(row_bytes(call) / sizeof(protocol::Pack));
  const protocol::Capacity& room = group_.capacity;
  const int shards = shards_of_row();
  if (packs == 0) return 0;
  return std::min(room.packs / packs, protocol::shard_packs(room.packs, shards) / protocol::shard_packs(packs, shards));
}

void OwnComm::all_reduce_norm(const FusedNorm& call, cudaStream_t stream) {
  if (!fuses_norm()) return DeviceComm::all_reduce_norm(call, stream);
  const std::int64_t at_once = rows_at_once(call);
  if (at_once == 0) {
    all_reduce(call.values, call.rows * call.width, call.dtype, stream);
    return add_norm(call, stream);
  }
  const std::int32_t site = next_site();
  for (std::int64_t first = 0; first < call.rows; first += at_once) {
    RowNorm norm = rows_of(call, first, std::min(at_once, call.rows - first));
    void* values = moved(call.values, row_bytes(call) * static_cast<std::size_t>(first));
    const OwnCall sum{values, values, norm.rows * norm.row_bytes, call.dtype, site};
    const std::uint32_t packs = norm.row_bytes / static_cast<std::uint32_t>(sizeof(protocol::Pack));
    const std::uint32_t work = kind_.fused.by_places ? protocol::shard_packs(packs, shards_of_row()) : packs;
    const RowGrid how = row_grid(norm.rows, work, {most_blocks_, cluster_});
    norm.cluster = how.cluster;
    kind_.fused.launch(device_group(), sum, norm, how.grid, stream);
  }
}

/// As check_sums: in one kernel and in two, whose sums have been checked. Squares of small integers add up exactly, so
/// all bits have to be equal.
void OwnComm::check_norms() {
  if (!fuses_norm()) return;
  constexpr std::int64_t rows = 3, width = 1024;
  constexpr std::array<std::uint32_t, 4> small{0, 0x3F800000U, 0x40000000U, 0x40400000U};  // 0, 1, 2, 3
  constexpr std::array<std::uint32_t, 4> small_f16{0, 0x3C00U, 0x4000U, 0x4200U};
  enum Array { values, residual, out, gain, count };
  const Stream stream = make_stream();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    const std::size_t size = dtype == DType::f32 ? 4 : 2, bytes = rows * width * size;
    std::vector<std::byte> set(count * bytes);
    for (std::size_t i = 0; i < count * rows * width; ++i) {
      const std::size_t which = (i * 7 + i / 5 + static_cast<std::size_t>(group_.rank)) % small.size();
      const bool ours = i / static_cast<std::size_t>(rows * width) == values;
      const std::size_t k = ours ? which : (i * 3 + i / 11) % small.size();
      const std::uint32_t bits = dtype == DType::f16 ? small_f16[k] : small[k] >> (dtype == DType::f32 ? 0 : 16);
      std::memcpy(set.data() + i * size, &bits, size);
    }
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, 2 * set.size(), stream.get()), "allocating rows to check");
    const auto array = [&](std::size_t copy, Array a) {
      return moved(memory, copy * set.size() + static_cast<std::size_t>(a) * bytes);
    };
    const auto call = [&](std::size_t copy) {
      return FusedNorm{
          array(copy, values), array(copy, residual), array(copy, gain), array(copy, out), rows, width, dtype};
    };
    for (std::size_t copy = 0; copy < 2; ++copy)
      check(cudaMemcpyAsync(array(copy, values), set.data(), set.size(), cudaMemcpyHostToDevice, stream.get()),
            "copying rows");
    check(cudaStreamSynchronize(stream.get()), "copying rows");
    ranks_.barrier(formatted("rows to check of {}", name_of(dtype)));
    all_reduce_norm(call(0), stream.get());
    all_reduce(array(1, values), rows * width, dtype, stream.get());
    add_norm(call(1), stream.get());
    std::vector<std::byte> fused(2 * bytes), apart(2 * bytes);
    check(cudaMemcpyAsync(fused.data(), array(0, residual), 2 * bytes, cudaMemcpyDeviceToHost, stream.get()), "norms");
    check(cudaMemcpyAsync(apart.data(), array(1, residual), 2 * bytes, cudaMemcpyDeviceToHost, stream.get()), "norms");
    check(cudaFreeAsync(memory, stream.get()), "freeing rows");
    wait_for(stream.get(), *this, check_seconds_, "checking norms");
    check_health();
    if (fused != apart)
      throw Error(formatted("{}: norms of {} behind a sum differ from those apart on rank {}", kind_.id, name_of(dtype),
                            group_.rank));
  }
  ranks_.barrier("norms were checked");
  site_ = 0;
}

}  // namespace specstep::comm
