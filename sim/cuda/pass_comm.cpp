// Collectives of a rank, and what leaves the device behind a pass.
#include <algorithm>
#include <bit>

#include "sim/cuda/pass.h"

namespace specstep::cuda {

void RankPass::compute(const AllReduce& op) { comm().all_reduce(out(), op.elements, value_type(), stream()); }

/// A choice that is made on the device may differ from the one that the plan was built with: then in two steps.
void RankPass::compute(const AllReduceNorm& op) {
  if (!comm().fuses_norm()) {
    comm().all_reduce(in(), op.sum.elements, value_type(), stream());
    return compute(op.norm);
  }
  NormCall features;
  tap_features(features);
  comm().all_reduce_norm({.values = in(),
                          .residual = buffer(BufferKind::residual),
                          .gain = weight().values,
                          .out = out(),
                          .rows = op.norm.rows,
                          .width = op.norm.width,
                          .dtype = value_type(),
                          .copy_residual = features.copy_residual,
                          .copy_stride = features.copy_stride},
                         stream());
  copy_second_taps();
}

void RankPass::compute(const AllGather& op) {
  // Parts of the logits are columns of a row; of one row they lie as they should already.
  const std::int64_t rows = op.elements / in_cols();
  const bool columns = step_->kind == StepKind::logits_gather && rows > 1;
  std::byte* all = columns ? at(places_.parts) : out();
  comm().all_gather(in(), all, op.elements, value_type(), stream());
  if (columns) side_by_side(all, out(), op.ranks, rows, in_cols(), real(), stream());
}

/// Sums over all ranks and keeps the rows of this rank's sequences.
void RankPass::compute(const ReduceScatter& op) {
  const std::int64_t part = op.elements / plan_.layout.attention_data;
  std::byte* kept = at(places_.parts);
  if (plan_.layout.attention_tensor() == 1) {
    comm().reduce_scatter(out(), kept, part, value_type(), stream());
  } else {
    comm().all_reduce(out(), op.elements, value_type(), stream());
    kept = moved(out(), rank_.rank() / plan_.layout.attention_tensor() * part);
  }
  if (kept != out())
    check(cudaMemcpyAsync(out(), kept, static_cast<std::size_t>(part * bytes_of(real())), cudaMemcpyDeviceToDevice,
                          stream()),
          "rows of this rank");
}

namespace {

/// Rows of Real in host memory as floats.
void unpacked(const std::byte* from, Real real, host::Matrix& to, host::Index first_row, host::Index first_col,
              std::array<host::Index, 3> rows_cols_stride) {
  const auto [rows, cols, stride] = rows_cols_stride;
  for (host::Index r = 0; r < rows; ++r)
    for (host::Index c = 0; c < cols; ++c) {
      const host::Index i = r * stride + c;
      to(first_row + r, first_col + c) =
          real == Real::f32
              ? reinterpret_cast<const float*>(from)[i]
              : std::bit_cast<float>(static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(from)[i]) << 16);
    }
}

const Buffer* find(const Plan& plan, BufferKind kind) {
  for (const Buffer& b : plan.buffers)
    if (b.kind == kind) return &b;
  return nullptr;
}

}  // namespace

void RankPass::fetch() {
  const Buffer* gathered = find(plan_, BufferKind::logits);
  const Buffer* logits = gathered ? gathered : find(plan_, BufferKind::logits_part);
  const std::int64_t tokens = inputs_.meta().count();
  const std::int64_t features = model().hidden * static_cast<std::int64_t>(model().taps.size());
  if (fetched_.bytes() == 0) {
    Layout layout;
    fetched_logits_ = layout.add(logits->rows * logits->cols * bytes_of(real()));
    fetched_hidden_ = layout.add(tokens * model().hidden * bytes_of(real()));
    fetched_features_ = layout.add(tokens * features * bytes_of(real()));
    fetched_ = PinnedBuffer(layout.bytes(), "output of a pass");
  }
  const auto copy = [&](std::int64_t to, const void* from, std::int64_t values) {
    if (values > 0)
      check(cudaMemcpyAsync(fetched_.data() + to, from, static_cast<std::size_t>(values * bytes_of(real())),
                            cudaMemcpyDeviceToHost, stream()),
            "output of a pass");
  };
  copy(fetched_logits_, buffer(logits->kind), logits->rows * logits->cols);
  copy(fetched_hidden_, buffer(BufferKind::residual), tokens * model().hidden);
  copy(fetched_features_, at(places_.features), tokens * features);
}

void RankPass::collect(host::PassOutput& out, bool gathered_logits) const {
  const std::int64_t hidden = model().hidden;
  // Ranks of a group hold the same rows: whoever of them is here writes them.
  const host::Index first_row = inputs_.first() * plan_.shape.tokens_each;
  const host::Index rows = std::clamp<host::Index>(out.hidden.rows() - first_row, 0, inputs_.meta().count());
  const host::Index features = model().taps.empty() ? 0 : out.features.cols();
  unpacked(fetched_.data() + fetched_hidden_, real(), out.hidden, first_row, 0, {rows, hidden, hidden});
  if (model().last_hidden_features)
    unpacked(fetched_.data() + fetched_hidden_, real(), out.features, first_row, 0, {rows, hidden, hidden});
  unpacked(fetched_.data() + fetched_features_, real(), out.features, first_row, 0, {rows, features, features});
  const Buffer* gathered = find(plan_, BufferKind::logits);
  if (gathered && !gathered_logits) return;
  const Buffer* logits = gathered ? gathered : find(plan_, BufferKind::logits_part);
  const host::Index begin = gathered ? 0 : rank_.rank() * logits->cols;
  const host::Index cols = std::clamp<host::Index>(model().vocab - begin, 0, logits->cols);
  unpacked(fetched_.data() + fetched_logits_, real(), out.logits, 0, begin,
           {out.logits.rows(), cols, static_cast<host::Index>(logits->cols)});
}

}  // namespace specstep::cuda
