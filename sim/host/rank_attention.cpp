// Attention of a rank: rotation and cache, softmax over what a token sees, the sparse index, the linear recurrence.
#include <cmath>

#include "model/base/error.h"
#include "sim/host/formats.h"
#include "sim/host/rank.h"

namespace specstep::host {

namespace {

std::span<float> row_part(Matrix& m, Index row, Index col, Index count) {
  return {&m(row, col), static_cast<std::size_t>(count)};
}

}  // namespace

/// Cached rows hold what their type can: fp8 and wider types value by value, narrower ones with a scale for a block
/// (nvfp4 16, mxfp4 32, integers the whole row).
void Rank::store_cached(std::span<float> values) const {
  if (spec_.precision == HostPrecision::f32) return;
  WeightFormat format{model_.kv, 0, DType::f32};
  constexpr float unscaled = 448.0F * 6.0F;  // NVFP4's second-level scale becomes one
  switch (model_.kv) {
    case DType::nvfp4:
      format.group = 16;
      break;
    case DType::mxfp4:
      format.group = 32;
      break;
    case DType::int8:
    case DType::int4:
      format.group = static_cast<std::int64_t>(values.size());
      break;
    default:
      for (float& v : values) v = rounded(v, model_.kv);
      return;
  }
  store(values, format, unscaled);
}

void Rank::compute(const Rope&) {
  each_token([&](const SequenceInput& s, Index row, std::size_t node, std::size_t sequence) {
    LayerCache& cache = cache_.at(step_->layer, sequence);
    if (model_.attention.kind == AttentionKind::mla)
      rope_mla(s, row, node, cache);
    else
      rope_gqa(s, row, node, cache);
  });
}

void Rank::rope_gqa(const SequenceInput& s, Index row, std::size_t node, LayerCache& cache) {
  Matrix& qkv = buffer(BufferKind::qkv);
  const Index dim = model_.attention.head_dim;
  const Index heads = model_.attention.heads / plan_->layout.attention_tensor();
  const Index kv = (qkv.cols() / dim - heads) / 2;
  const std::int64_t position = s.nodes.position(node);
  for (Index h = 0; h < heads + kv; ++h) rotate(row_part(qkv, row, h * dim, dim), position);
  settle(qkv.middleRows(row, 1));
  const std::int64_t slot = s.nodes.base + static_cast<std::int64_t>(node);
  grow(cache.kv, slot + 1, 2 * kv * dim);
  cache.kv.row(slot) = qkv.row(row).rightCols(2 * kv * dim);
  store_cached(row_part(cache.kv, slot, 0, 2 * kv * dim));
}

void Rank::rope_mla(const SequenceInput& s, Index row, std::size_t node, LayerCache& cache) {
  const AttentionSpec& a = model_.attention;
  Matrix& query = buffer(BufferKind::query);
  Matrix& latent = buffer(BufferKind::latent);
  const Index each = a.nope_dim + a.rope_dim;
  const std::int64_t position = s.nodes.position(node);
  for (Index h = 0; h < query.cols() / each; ++h)
    rotate(row_part(query, row, h * each + a.nope_dim, a.rope_dim), position);
  rotate(row_part(latent, row, a.q_rank + a.kv_rank, a.rope_dim), position);
  settle(query.middleRows(row, 1));
  settle(latent.middleRows(row, 1));
  const std::int64_t slot = s.nodes.base + static_cast<std::int64_t>(node);
  const Index cached = a.kv_rank + a.rope_dim;
  grow(cache.kv, slot + 1, cached);
  cache.kv.row(slot) = latent.row(row).middleCols(a.q_rank, cached);
  store_cached(row_part(cache.kv, slot, 0, cached));
}

void Rank::compute(const Attention& op) {
  const LayerKind& kind = model_.layer(step_->layer);
  const Matrix& query = buffer(op.kind == AttentionKind::mla ? BufferKind::query_latent : BufferKind::qkv);
  out() = Matrix::Zero(query.rows(), op.heads * op.value_dim);
  each_token([&](const SequenceInput& s, Index row, std::size_t node, std::size_t sequence) {
    std::vector<std::int64_t> slots = s.nodes.visible(node);  // index i holds position i
    if (kind.attention == Span::window && static_cast<std::int64_t>(slots.size()) > op.limit)
      slots.erase(slots.begin(), slots.end() - op.limit);
    if (kind.attention == Span::sparse) {
      const Matrix& selected = buffer(BufferKind::selected);
      std::vector<std::int64_t> chosen;
      for (Index i = 0; i < selected.cols() && selected(row, i) >= 0; ++i)
        chosen.push_back(slots[static_cast<std::size_t>(selected(row, i))]);
      slots = std::move(chosen);
    }
    const Matrix& cache = cache_.at(step_->layer, sequence).kv;
    if (op.kind == AttentionKind::mla)
      attend_mla(op, row, cache, slots);
    else
      attend_gqa(op, row, cache, slots);
  });
  settle(out());
}

void Rank::attend_gqa(const Attention& op, Index row, const Matrix& cache, std::span<const std::int64_t> slots) {
  Matrix& qkv = buffer(BufferKind::qkv);
  const Index dim = op.score_dim;
  const Index kv = cache.cols() / (2 * dim);
  const Index share = op.heads / kv;  // query heads of one key/value head
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  for (Index h = 0; h < op.heads; ++h) {
    const HeadQuery head{row_part(qkv, row, h * dim, dim), scale, h / share * dim, (kv + h / share) * dim};
    attend(head, cache, slots, row_part(out(), row, h * dim, dim));
  }
}

void Rank::attend_mla(const Attention& op, Index row, const Matrix& cache, std::span<const std::int64_t> slots) {
  const AttentionSpec& a = model_.attention;
  const Matrix& latent = buffer(BufferKind::query_latent);
  const Matrix& query = buffer(BufferKind::query);
  const Index each = a.nope_dim + a.rope_dim;
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(each)));
  std::vector<float> joined(static_cast<std::size_t>(op.score_dim));
  for (Index h = 0; h < op.heads; ++h) {
    std::copy_n(&latent(row, h * a.kv_rank), a.kv_rank, joined.begin());
    std::copy_n(&query(row, h * each + a.nope_dim), a.rope_dim, joined.begin() + a.kv_rank);
    attend({joined, scale, 0, 0}, cache, slots, row_part(out(), row, h * op.value_dim, op.value_dim));
  }
}

/// Score of a cached token: sum over index heads of weight relu(q . k), as DeepSeek's sparse attention scores it.
void Rank::compute(const AttentionJoin&) {
  throw Unsupported("the host keeps whole caches: parallel.context is 1 here");
}

void Rank::compute(const SparseIndex& op) {
  Matrix& query = in(0);
  Matrix& key = in(1);
  out() = Matrix::Constant(query.rows(), op.top_k, -1);
  each_token([&](const SequenceInput& s, Index row, std::size_t node, std::size_t sequence) {
    Matrix& cache = cache_.at(step_->layer, sequence).index;
    const std::int64_t slot = s.nodes.base + static_cast<std::int64_t>(node);
    grow(cache, slot + 1, op.dim);
    cache.row(slot) = key.row(row).leftCols(op.dim);
    if (spec_.precision == HostPrecision::bf16)
      for (float& v : row_part(cache, slot, 0, op.dim)) v = rounded(v, op.dtype);
  });
  each_token([&](const SequenceInput& s, Index row, std::size_t node, std::size_t sequence) {
    const Matrix& cache = cache_.at(step_->layer, sequence).index;
    const std::vector<std::int64_t> slots = s.nodes.visible(node);
    std::vector<float> scores(slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i)
      for (Index h = 0; h < op.heads; ++h) {
        const float match = dot(&query(row, h * op.dim), &cache(slots[i], 0), op.dim);
        scores[i] += key(row, op.dim + h) * std::max(match, 0.0F);
      }
    const std::vector<std::int64_t> best = largest(scores, static_cast<std::size_t>(op.top_k));
    for (std::size_t i = 0; i < best.size(); ++i) out()(row, static_cast<Index>(i)) = static_cast<float>(best[i]);
  });
}

/// The gated delta rule (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024): the state of each value head is a
/// matrix that decays, forgets what it held for the key, and takes the new value.
void Rank::compute(const LinearAttention& op) {
  const Matrix& rows = in(0);
  out() = Matrix::Zero(rows.rows(), op.value_heads * op.value_dim);
  for (std::size_t s = 0; s < local_.size(); ++s) {
    LayerCache& cache = cache_.at(step_->layer, first_ + s);
    if (cache.state.size() == 0) cache.state = Matrix::Zero(op.value_heads * op.key_dim, op.value_dim);
    cache.after.resize(local_[s].nodes.first);
  }
  each_token([&](const SequenceInput& s, Index row, std::size_t node, std::size_t sequence) {
    LayerCache& cache = cache_.at(step_->layer, sequence);
    const int parent = s.nodes.parent[node];
    Matrix state = parent < 0 ? cache.state : cache.after.at(static_cast<std::size_t>(parent));
    recur(op, row, state);
    cache.after.push_back(std::move(state));
  });
  settle(out());
}

void Rank::recur(const LinearAttention& op, Index row, Matrix& state) {
  const Matrix& qkvz = in(0);
  const Matrix& gates = in(1);
  const Index values = op.value_heads * op.value_dim;
  const Index keys = (qkvz.cols() - 2 * values) / 2;
  const Index share = op.value_heads / (keys / op.key_dim);  // value heads of one key head
  const auto unit_row = [&](Index col) {
    const Eigen::RowVectorXf v = qkvz.row(row).middleCols(col, op.key_dim);
    return Eigen::RowVectorXf(v / std::sqrt(v.squaredNorm() + 1e-6F));
  };
  for (Index h = 0; h < op.value_heads; ++h) {
    const Eigen::RowVectorXf q = unit_row(h / share * op.key_dim);
    const Eigen::RowVectorXf k = unit_row(keys + h / share * op.key_dim);
    const float write = 1 / (1 + std::exp(-gates(row, h)));
    const float decay = 1 / (1 + std::exp(gates(row, op.value_heads + h)));  // exp(-softplus(a))
    auto memory = state.middleRows(h * op.key_dim, op.key_dim);
    memory *= decay;
    const Eigen::RowVectorXf held = k * memory;
    const Eigen::RowVectorXf value = qkvz.row(row).middleCols(2 * keys + h * op.value_dim, op.value_dim);
    memory += write * k.transpose() * (value - held);
    Eigen::RowVectorXf read = q * memory;
    read /= std::sqrt(read.squaredNorm() / static_cast<float>(op.value_dim) + 1e-6F);
    for (Index c = 0; c < op.value_dim; ++c) {
      const float z = qkvz(row, 2 * keys + values + h * op.value_dim + c);
      out()(row, h * op.value_dim + c) = read(c) * z / (1 + std::exp(-z));
    }
  }
}

}  // namespace specstep::host
