#include "sim/cuda/weights.h"

#include <algorithm>
#include <cmath>

#include "sim/host/philox.h"

namespace specstep::cuda {

namespace {

bool alike(const Weight& a, const Weight& b) {
  return a.step == b.step && a.count == b.count && a.rows == b.rows && a.cols == b.cols && a.format == b.format;
}

StoredMatrix placed(StoredMatrix m, const StoredBytes& bytes, std::byte* memory) {
  m.values = memory;
  m.scales = bytes.scales > 0 ? memory + bytes.values : nullptr;
  return m;
}

std::int64_t sum(const StoredBytes& bytes) { return bytes.values + bytes.scales; }

}  // namespace

WeightFormat device_format(const Weight& weight, Real real) {
  if (real == Real::f32) return {DType::f32, 0, DType::f32};
  const bool unpacked = weight.step == StepKind::absorb_q || weight.step == StepKind::absorb_v || weight.cols == 1;
  const bool wide = weight.format.dtype == DType::bf16 || weight.format.dtype == DType::f16;
  if (unpacked || (weight.step == StepKind::embed && !wide)) return {DType::bf16, 0, DType::bf16};
  return weight.format;
}

std::int32_t WeightSharing::layer_of(const Plan& plan, const Weight& weight) const {
  if (!shared() || weight.layer < 0) return weight.layer;
  std::vector<std::int32_t> layers;
  for (const Weight& w : plan.weights)
    if (w.layer >= 0 && alike(w, weight)) layers.push_back(w.layer);
  const auto slots =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::floor(share_ * static_cast<double>(layers.size()))));
  const auto place = static_cast<std::size_t>(std::find(layers.begin(), layers.end(), weight.layer) - layers.begin());
  return layers[place % slots];
}

std::int64_t WeightSharing::bytes(const Plan& plan, Real real) const {
  std::int64_t out = 0;
  for (const Weight& w : plan.weights)
    if (layer_of(plan, w) == w.layer) out += sum(stored_bytes(device_format(w, real), w.count, w.rows, w.cols));
  return out;
}

RankWeights::RankWeights(const host::ModelView& model, int rank, std::uint64_t seed, Real real, WeightSharing sharing)
    : model_(model), rank_(rank), seed_(seed), real_(real), sharing_(sharing) {}

void RankWeights::add(const Plan& plan, cudaStream_t stream) {
  for (const Weight& w : plan.weights) {
    const std::pair key{w.layer, w.step};
    if (stands_for_.contains(key)) continue;
    const std::pair own{sharing_.layer_of(plan, w), w.step};
    stands_for_[key] = own;
    if (held_.contains(own)) continue;
    Held made = make(plan, w, stream);
    bytes_ += made.memory.bytes();
    held_[own] = std::move(made);
  }
}

const StoredMatrix& RankWeights::at(std::int32_t layer, StepKind kind) const {
  return held_.at(stands_for_.at({layer, kind})).matrix;
}

RankWeights::Held RankWeights::make(const Plan& plan, const Weight& w, cudaStream_t stream) const {
  const WeightFormat format = device_format(w, real_);
  if (format == w.format || real_ == Real::f32) return filled(plan, w, format, stream);
  const Held packed = filled(plan, w, w.format, stream);
  const StoredBytes bytes = stored_bytes(format, w.count, w.rows, w.cols);
  Held out{DeviceBuffer(sum(bytes), "weights"), {}};
  out.matrix = placed({.format = format, .count = w.count, .rows = w.rows, .cols = w.cols}, bytes, out.memory.data());
  unpack(packed.matrix, out.matrix.values, real_, stream);
  check(cudaStreamSynchronize(stream), "unpacking " + std::string(name_of(w.step)));
  return out;
}

RankWeights::Held RankWeights::filled(const Plan& plan, const Weight& w, const WeightFormat& format,
                                      cudaStream_t stream) const {
  const host::Cut cut = host::cut_of(plan, w, rank_, model_);
  const host::WeightSource source = host::source_of(w, cut, model_);
  const StoredBytes bytes = stored_bytes(format, w.count, w.rows, w.cols);
  Held out{DeviceBuffer(sum(bytes), "weights"), {}};
  out.matrix = placed({.format = format,
                       .whole_scale = whole_scale(format, source.bound),
                       .count = w.count,
                       .rows = w.rows,
                       .cols = w.cols,
                       .phase = format.group > 0 ? cut.first_col % format.group : 0},
                      bytes, out.memory.data());
  const DeviceBuffer matrices = on_device(cut.matrices, "places of a weight");
  const DeviceBuffer rows = on_device(cut.rows, "places of a weight");
  const host::PhiloxKey key = host::philox_key(seed_);
  fill(out.matrix,
       {.key = {key[0], key[1]},
        .stream = source.stream,
        .bound = source.bound,
        .gain = source.gain,
        .matrices = matrices.as<std::int64_t>(),
        .whole_rows = rows.as<std::int64_t>(),
        .first_col = cut.first_col,
        .whole_cols = cut.whole_cols},
       w.format, stream);
  check(cudaStreamSynchronize(stream), "filling " + std::string(name_of(w.step)));
  return out;
}

}  // namespace specstep::cuda
