#include "sim/host/rank.h"

#include <algorithm>
#include <chrono>

#include "sim/host/formats.h"

namespace specstep::host {

Rank::Rank(const ModelView& model, int rank, std::size_t sequences, const HostSpec& spec)
    : model_(model),
      rank_(rank),
      spec_(spec),
      weights_(model, rank, static_cast<std::uint64_t>(spec.seed)),
      cache_(static_cast<std::size_t>(model.layers), sequences) {}

void Rank::start(const Plan& plan, const PassInput& input) {
  plan_ = &plan;
  input_ = &input;
  const auto groups = static_cast<std::size_t>(plan.layout.attention_data);
  const std::size_t each = (input.sequences.size() + groups - 1) / groups;
  first_ = static_cast<std::size_t>(rank_ / plan.layout.attention_tensor()) * each;
  local_.clear();
  for (std::size_t s = first_; s < first_ + each; ++s) {
    if (s < input.sequences.size()) {
      local_.push_back(input.sequences[s]);
    } else {  // groups of equal size: one that lacks a sequence works on a dummy
      const auto tokens = static_cast<std::size_t>(plan.shape.tokens_each);
      local_.push_back({chain_nodes(0, tokens), std::vector<std::int32_t>(tokens, 0)});
    }
  }
  Index rows = 0;
  each_token([&](const SequenceInput&, Index, std::size_t, std::size_t) { ++rows; });
  const Index all_features = model_.hidden * static_cast<Index>(model_.taps.size());
  features_ = Matrix::Zero(rows, all_features);
  if (!plan.draft) return;
  const bool fused = std::any_of(plan.steps.begin(), plan.steps.end(),
                                 [](const Step& s) { return s.kind == StepKind::fuse_features; });
  Matrix& target = buffer(fused ? BufferKind::features : BufferKind::residual);
  target = Matrix::Zero(rows, input.given.cols());
  const Index begin = static_cast<Index>(first_) * plan.shape.tokens_each;
  const Index real = std::clamp<Index>(input.given.rows() - begin, 0, rows);
  target.topRows(real) = input.given.middleRows(begin, real);
}

void Rank::run(const Plan& plan, const PassInput& input, Exchange& exchange, std::vector<double>* seconds) {
  using Clock = std::chrono::steady_clock;
  exchange_ = &exchange;
  experts_met_.clear();
  start(plan, input);
  auto before = Clock::now();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    step_ = &plan.steps[i];
    std::visit([this](const auto& op) { compute(op); }, step_->op);
    if (!seconds) continue;
    const auto after = Clock::now();
    (*seconds)[i] = std::chrono::duration<double>(after - before).count();
    before = after;
  }
}

void Rank::settle(View values) const {
  if (spec_.precision == HostPrecision::f32) return;
  for (Index r = 0; r < values.rows(); ++r)
    for (Index c = 0; c < values.cols(); ++c) values(r, c) = rounded(values(r, c), DType::bf16);
}

void Rank::compute(const Embed&) {
  const Matrix& table = weight();
  const bool split = plan_->layout.tensor > 1 && !by_sequence();
  const Index begin = split ? rank_ * table.rows() : 0;
  Index rows = 0;
  for (const SequenceInput& s : local_) rows += static_cast<Index>(s.tokens.size());
  out() = Matrix::Zero(rows, table.cols());
  each_token([&](const SequenceInput& s, Index row, std::size_t node, std::size_t) {
    const Index at = s.tokens[node - s.nodes.first] - begin;
    if (at >= 0 && at < table.rows()) out().row(row) = table.row(at);
  });
}

void Rank::compute(const Gemm& op) {
  if (op.batches > 1 || step_->kind == StepKind::absorb_q || step_->kind == StepKind::absorb_v) return absorbed(op);
  const Matrix& source = in();
  Matrix result(source.rows(), op.n);
  product(source.leftCols(op.k), weight(), result);
  out() = std::move(result);
  if (step_->kind != StepKind::router) settle(out());  // routers keep their scores in fp32
}

/// One product for each head: q's part without rotation into the latent space, or the latent sum back to values.
void Rank::absorbed(const Gemm& op) {
  const Matrix& source = in();
  const Index stride = step_->kind == StepKind::absorb_q ? source.cols() / op.batches : op.k;
  Matrix result(source.rows(), op.batches * op.n);
  for (Index b = 0; b < op.batches; ++b)
    product(source.middleCols(b * stride, op.k), weight(static_cast<std::size_t>(b)),
            result.middleCols(b * op.n, op.n));
  out() = std::move(result);
  settle(out());
}

void Rank::compute(const RmsNorm& op) {
  const StepKind kind = stored().step;
  Matrix& residual = buffer(BufferKind::residual);
  if (op.residual) {
    residual += in();
    settle(residual);
  }
  if (kind == StepKind::attention_norm) {
    for (std::size_t t = 0; t < model_.taps.size(); ++t)
      if (model_.taps[t] == stored().layer)
        features_.middleCols(static_cast<Index>(t) * model_.hidden, model_.hidden) = residual;
  }
  if (kind != StepKind::attention_norm && !op.residual) return norm_parts(op);
  if (kind == StepKind::final_norm && plan_->shape.kind == PassKind::prefill) {
    Matrix last(static_cast<Index>(local_.size()), residual.cols());  // only a prompt's last token needs logits
    Index row = -1;
    for (std::size_t s = 0; s < local_.size(); ++s) {
      row += static_cast<Index>(local_[s].tokens.size());
      last.row(static_cast<Index>(s)) = residual.row(row);
    }
    out().resize(last.rows(), last.cols());
    rms_norm(last, weight(), out());
  } else {
    out().resize(residual.rows(), residual.cols());
    rms_norm(residual, weight(), out());
  }
  settle(out());
}

/// Norms of a part of a row: halves of a draft's pair, heads of q and k, latents.
void Rank::norm_parts(const RmsNorm& op) {
  Matrix& source = in();
  const Index width = op.width;
  switch (step_->kind) {
    case StepKind::embed_norm:
    case StepKind::hidden_norm: {
      Matrix& pair = out();
      if (step_->kind == StepKind::embed_norm) pair.resize(source.rows(), 2 * width);
      View half = pair.middleCols(step_->kind == StepKind::embed_norm ? 0 : width, width);
      rms_norm(source, weight(), half);
      settle(half);
      return;
    }
    case StepKind::qk_norm: {
      const Index heads = op.rows / source.rows();
      for (Index h = 0; h < heads; ++h) {
        View part = source.middleCols(h * width, width);
        rms_norm(part, weight(), part);
        settle(part);
      }
      return;
    }
    default: {
      View part = source.middleCols(step_->kind == StepKind::kv_a_norm ? model_.attention.q_rank : 0, width);
      rms_norm(part, weight(), part);
      settle(part);
    }
  }
}

void Rank::compute(const Activation&) {
  out() = gated(in());
  settle(out());
}

void Rank::compute(const Sample&) {
  const Matrix& logits = in();
  const Index cols = std::min<Index>(logits.cols(), model_.vocab);  // behind them: padding of the last rank
  out().resize(logits.rows(), 1);
  for (Index r = 0; r < logits.rows(); ++r)
    out()(r, 0) = static_cast<float>(argmax({&logits(r, 0), static_cast<std::size_t>(cols)}));
}

void Rank::collect(PassOutput& out) const {
  if (rank_ % plan_->layout.attention_tensor() == 0) {
    const Matrix& residual = buffer(BufferKind::residual);
    const Index begin = static_cast<Index>(first_) * plan_->shape.tokens_each;
    const Index real = std::clamp<Index>(out.hidden.rows() - begin, 0, residual.rows());
    out.hidden.middleRows(begin, real) = residual.topRows(real);
    if (model_.last_hidden_features) out.features.middleRows(begin, real) = residual.topRows(real);
    if (!model_.taps.empty()) out.features.middleRows(begin, real) = features_.topRows(real);
  }
  const bool gathered = std::any_of(plan_->buffers.begin(), plan_->buffers.end(),
                                    [](const Buffer& b) { return b.kind == BufferKind::logits; });
  if (gathered && rank_ > 0) return;
  const Matrix& part = buffer(gathered ? BufferKind::logits : BufferKind::logits_part);
  const Index begin = gathered ? 0 : rank_ * part.cols();
  const Index cols = std::clamp<Index>(model_.vocab - begin, 0, part.cols());
  if (cols > 0) out.logits.middleCols(begin, cols) = part.topLeftCorner(out.logits.rows(), cols);
}

}  // namespace specstep::host
