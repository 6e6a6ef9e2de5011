#include "sim/cuda/rank.h"

namespace specstep::cuda {

namespace {
int entered(int device) {
  check(cudaSetDevice(device), "choosing a device");
  return device;
}
}  // namespace

RankDevice::RankDevice(const RunConfig& config, comm::Bootstrap& group, int device)
    : group_(group), device_(entered(device)), stream_(comm::make_stream()), products_(group), comms_(config, group) {}

std::int64_t rotated_width(const host::ModelView& model) {
  return model.attention.kind == AttentionKind::mla ? model.attention.rope_dim : model.attention.head_dim;
}

Rank::Rank(const host::ModelView& model, int rank, int ranks, const Holding& holding, RankDevice& device)
    : model_(model),
      rank_(rank),
      ranks_(ranks),
      holding_(holding),
      device_(device),
      weights_(model_, rank, holding.seed, holding.real, holding.sharing),
      caches_(holding.room, holding.real) {}

void Rank::prepare(const Plan& plan) {
  device_.comms().prepare(plan);  // first: measuring backends takes memory for a while
  caches_.add(plan);
  weights_.add(plan, device_.stream());
  const std::int64_t width = rotated_width(model_);
  if (rotations_.bytes() == 0 && width > 0) {
    const std::int64_t positions = holding_.room.tokens;
    rotations_ = DeviceBuffer(positions * (width / 2) * static_cast<std::int64_t>(sizeof(float2)), "rotations");
    fill_rotations(rotations_.as<float2>(), positions, width, device_.stream());
    check(cudaStreamSynchronize(device_.stream()), "filling rotations");
  }
}

void Rank::keep(std::int64_t sequence, std::int64_t base, const std::vector<int>& nodes) {
  const std::int64_t local = sequence - first_sequence(holding_.batch);
  if (local >= 0 && local < each(holding_.batch)) caches_.keep(local, base, nodes, device_.stream());
}

void Rank::clear(std::int64_t sequence) {
  const std::int64_t local = sequence - first_sequence(holding_.batch);
  if (local >= 0 && local < each(holding_.batch)) caches_.clear(local, device_.stream());
}

}  // namespace specstep::cuda
