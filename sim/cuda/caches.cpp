#include "sim/cuda/caches.h"

#include <algorithm>

#include "model/base/formatted.h"

namespace specstep::cuda {

namespace {

constexpr std::string_view what = "caches";

/// Type in which a cache keeps its values.
DType kept_type(DType asked, Real real, const char* key) {
  if (real == Real::f32) return DType::f32;
  if (asked == DType::bf16 || asked == DType::fp8) return asked;
  throw InputError({{},
                    key,
                    formatted("is {}, which the kernels of this executor do not keep", name_of(asked)),
                    "bf16 or fp8, or measure.cuda.precision: f32"});
}

const char* kv_key(const Plan& plan) { return plan.draft ? "draft.kv" : "stack.kv"; }
constexpr const char* index_key = "stack.pattern[].sparse.index_dtype";

std::int64_t row_bytes(const Cache& cache) {
  return static_cast<std::int64_t>(static_cast<double>(cache.values) * bytes_of(cache.dtype));
}

std::int64_t cache_bytes(const Cache& cache, const Room& room) {
  return room.sequences * room.slots() * row_bytes(cache);
}

std::int64_t state_values(const LinearAttention& op) { return op.value_heads * op.key_dim * op.value_dim; }

constexpr std::int64_t float_bytes = 4;

}  // namespace

std::int64_t RankCaches::bytes(const Plan& plan, const Room& room, Real real) {
  std::int64_t out = 0;
  std::int64_t after = 0;
  for (const Step& step : plan.steps) {
    if (const auto* a = std::get_if<Attention>(&step.op))
      out += cache_bytes({nullptr, kept_type(a->kv, real, kv_key(plan)), a->cached_values}, room);
    if (const auto* i = std::get_if<SparseIndex>(&step.op))
      out += cache_bytes({nullptr, kept_type(i->dtype, real, index_key), i->dim}, room);
    if (const auto* l = std::get_if<LinearAttention>(&step.op)) {
      out += room.sequences * state_values(*l) * float_bytes;
      const std::int64_t one = room.sequences * room.nodes * state_values(*l) * float_bytes;
      after = room.keeps ? after + 2 * one : std::max(after, one);
    }
  }
  return out + after;
}

void RankCaches::add(const Plan& plan) {
  if (pages_.bytes() == 0) {
    std::vector<std::int32_t> pages(static_cast<std::size_t>(room_.sequences * pages_each()));
    // Pages of the sequences alternate, as they do where sequences grow together.
    for (std::int64_t s = 0; s < room_.sequences; ++s)
      for (std::int64_t p = 0; p < pages_each(); ++p)
        pages[static_cast<std::size_t>(s * pages_each() + p)] = static_cast<std::int32_t>(p * room_.sequences + s);
    pages_ = on_device(pages, what);
  }
  std::int64_t shared = 0;
  for (const Step& step : plan.steps) {
    Layer& layer = layers_[step.layer];
    if (const auto* a = std::get_if<Attention>(&step.op); a && layer.kv.values == 0) {
      layer.kv = {nullptr, kept_type(a->kv, real_, kv_key(plan)), a->cached_values};
      layer.kv_memory = DeviceBuffer(cache_bytes(layer.kv, room_), what);
      layer.kv.rows = layer.kv_memory.data();
    }
    if (const auto* i = std::get_if<SparseIndex>(&step.op); i && layer.index.values == 0) {
      layer.index = {nullptr, kept_type(i->dtype, real_, index_key), i->dim};
      layer.index_memory = DeviceBuffer(cache_bytes(layer.index, room_), what);
      layer.index.rows = layer.index_memory.data();
    }
    const auto* l = std::get_if<LinearAttention>(&step.op);
    if (!l || layer.state_values > 0) continue;
    layer.state_values = state_values(*l);
    layer.state = DeviceBuffer(room_.sequences * layer.state_values * float_bytes, what);
    const std::int64_t one = room_.sequences * room_.nodes * layer.state_values * float_bytes;
    if (room_.keeps)
      layer.after = DeviceBuffer(2 * one, what);
    else
      shared = std::max(shared, one);
  }
  if (shared > shared_after_.bytes()) shared_after_ = DeviceBuffer(shared, what);
}

float* RankCaches::after(std::int32_t layer) const {
  return (room_.keeps ? layers_.at(layer).after : shared_after_).as<float>();
}

void RankCaches::remember(std::int64_t sequence, std::int64_t row, std::int64_t first, std::int64_t count,
                          cudaStream_t stream) {
  if (!room_.keeps) return;
  remembered_[static_cast<std::size_t>(sequence)] = true;
  for (const auto& [number, layer] : layers_) {
    if (layer.state_values == 0) continue;
    float* after = layer.after.as<float>();
    check(cudaMemcpyAsync(after + kept(sequence, first) * layer.state_values, after + row * layer.state_values,
                          static_cast<std::size_t>(count * layer.state_values * float_bytes), cudaMemcpyDeviceToDevice,
                          stream),
          what);
  }
}

void RankCaches::move_row(const Cache& cache, std::int64_t sequence, std::int64_t from, std::int64_t to,
                          cudaStream_t stream) {
  if (cache.values == 0) return;
  const auto at = [&](std::int64_t slot) {
    const std::int64_t page = slot / page_tokens * room_.sequences + sequence;
    return static_cast<std::byte*>(cache.rows) + (page * page_tokens + slot % page_tokens) * row_bytes(cache);
  };
  check(cudaMemcpyAsync(at(to), at(from), static_cast<std::size_t>(row_bytes(cache)), cudaMemcpyDeviceToDevice, stream),
        what);
}

void RankCaches::keep(std::int64_t sequence, std::int64_t base, const std::vector<int>& nodes, cudaStream_t stream) {
  if (nodes.empty()) return;
  for (const auto& [number, layer] : layers_) {
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const std::int64_t from = base + nodes[k];
      const std::int64_t to = base + static_cast<std::int64_t>(k);
      if (from == to) continue;
      move_row(layer.kv, sequence, from, to, stream);
      move_row(layer.index, sequence, from, to, stream);
    }
    // What no pass remembered is a prompt, committed as it was computed.
    if (layer.state_values == 0 || !remembered_[static_cast<std::size_t>(sequence)]) continue;
    check(cudaMemcpyAsync(layer.state.as<float>() + sequence * layer.state_values,
                          layer.after.as<float>() + kept(sequence, nodes.back()) * layer.state_values,
                          static_cast<std::size_t>(layer.state_values * float_bytes), cudaMemcpyDeviceToDevice, stream),
          what);
  }
  remembered_[static_cast<std::size_t>(sequence)] = false;
}

void RankCaches::clear_all(cudaStream_t stream) {
  for (std::int64_t s = 0; s < room_.sequences; ++s) clear(s, stream);
}

void RankCaches::clear(std::int64_t sequence, cudaStream_t stream) {
  remembered_[static_cast<std::size_t>(sequence)] = false;
  for (const auto& [number, layer] : layers_)
    if (layer.state_values > 0)
      check(cudaMemsetAsync(layer.state.as<float>() + sequence * layer.state_values, 0,
                            static_cast<std::size_t>(layer.state_values * float_bytes), stream),
            what);
}

}  // namespace specstep::cuda
