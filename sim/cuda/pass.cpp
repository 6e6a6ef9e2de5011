#include "sim/cuda/pass.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>

#include "model/layer_builder.h"

namespace specstep::cuda {

namespace {

std::int64_t value_bytes(const Buffer& b, Real real) {
  switch (b.kind) {
    case BufferKind::tokens:
    case BufferKind::scores:
    case BufferKind::routes:
    case BufferKind::selected:
    case BufferKind::ids:
      return 4;
    default:
      return bytes_of(real);
  }
}

const AllToAll* exchange_of(const Plan& plan) {
  for (const Step& step : plan.steps)
    if (step.kind == StepKind::dispatch) return std::get_if<AllToAll>(&step.op);
  return nullptr;
}

/// What the largest rows of pairs are: after an exchange a rank may hold a row of every rank's every pair.
std::int64_t most_pairs(const Plan& plan) {
  std::int64_t pairs = 0;
  const AllToAll* exchange = exchange_of(plan);
  for (const Step& step : plan.steps)
    if (const auto* r = std::get_if<Router>(&step.op))
      pairs = std::max(pairs, r->tokens * r->top_k * (exchange ? exchange->ranks : 1));
  return pairs;
}

bool holds_pairs(BufferKind kind) {
  return kind == BufferKind::exchanged || kind == BufferKind::expert_gate_up || kind == BufferKind::expert_activated ||
         kind == BufferKind::expert_out;
}

template <class T, class F>
std::int64_t largest(const Plan& plan, F&& value) {
  std::int64_t out = 0;
  for (const Step& step : plan.steps)
    if (const auto* op = std::get_if<T>(&step.op)) out = std::max<std::int64_t>(out, value(*op));
  return out;
}

}  // namespace

RankPass::Places::Places(const Plan& plan, const host::ModelView& model, const Holding& holding) {
  const Real real = holding.real;
  const std::int64_t pairs = most_pairs(plan);
  const bool exchanges = exchange_of(plan) != nullptr;
  std::int64_t widest = 0;
  for (const Buffer& b : plan.buffers) {
    const std::int64_t rows = exchanges && holds_pairs(b.kind) ? std::max(b.rows, pairs) : b.rows;
    const std::int64_t bytes = rows * b.cols * value_bytes(b, real);
    buffer[static_cast<std::size_t>(b.kind)] = layout.add(bytes);
    if (b.kind == BufferKind::exchanged || b.kind == BufferKind::logits || b.kind == BufferKind::projected)
      widest = std::max(widest, bytes);
    if (b.kind == BufferKind::residual && !model.taps.empty())
      features = layout.add(b.rows * model.hidden * static_cast<std::int64_t>(model.taps.size()) * bytes_of(real));
  }
  parts = layout.add(plan.layout.tensor > 1 ? widest : 0);
  received = layout.add(exchanges ? pairs * model.hidden * bytes_of(real) : 0);
  const auto ints = [&](std::int64_t count) { return layout.add(count * 4); };
  const std::int64_t experts = pairs > 0 ? model.mlp.experts / plan.layout.expert : 0;
  const std::int64_t routed_layers = pairs > 0 ? plan.layers : 0;
  pair_of = ints(routed_layers * pairs);
  begin = ints(routed_layers * (experts + 1));
  spans = ints(routed_layers * 2 * (experts + 1));
  sent_ids = ints(exchanges ? pairs : 0);
  received_ids = ints(exchanges ? pairs : 0);
  met = ints(routed_layers);
  attention = layout.add(largest<Attention>(plan, [](const Attention& op) { return attention_workspace(op); }));
  index = layout.add(
      largest<SparseIndex>(plan, [&](const SparseIndex& op) { return index_workspace(op, holding.room.slots()); }));
  argmax = layout.add(largest<Sample>(plan, [](const Sample& op) { return argmax_workspace(op.rows); }));
  const std::int64_t walked = plan.shape.kind == PassKind::verify ? plan.shape.tokens() : 0;
  kept = ints(walked);
  accepted = ints(walked > 0 ? plan.shape.sequences : 0);
  last = ints(walked > 0 ? plan.shape.sequences : 0);
}

std::int64_t RankPass::bytes(const Plan& plan, const host::ModelView& model, const Holding& holding) {
  return Places(plan, model, holding).layout.bytes();
}

RankPass::RankPass(Rank& rank, const Plan& plan)
    : rank_(rank),
      plan_(plan),
      places_(plan, rank.model(), rank.holding()),
      lent_(rank.among_others() ? rank.device().comms().allocate(plan, places_.layout.bytes()) : nullptr),
      memory_(lent_ ? DeviceBuffer() : DeviceBuffer(places_.layout.bytes(), "buffers of a pass")),
      base_(lent_ ? static_cast<std::byte*>(lent_.get()) : memory_.data()),
      inputs_(plan, rank.model(), rank.caches(), rank.first_sequence(plan.shape.sequences), rank.holding().tree_nodes,
              rank.real()),
      pair_rows_(most_pairs(plan)),
      exchanges_(exchange_of(plan) != nullptr) {
  follow_widths();
  prepare_products();
  for (const Step& step : plan_.steps) comms_.push_back(rank.device().comms().of(plan, step));
}

/// Columns of each step's first input: buffers serve matrices of several widths, one after the other.
void RankPass::follow_widths() {
  std::array<std::int64_t, static_cast<std::size_t>(BufferKind::ids) + 1> cols{};
  for (const Buffer& b : plan_.buffers) cols[static_cast<std::size_t>(b.kind)] = b.cols;
  for (const Step& step : plan_.steps) {
    step_ = &step;
    in_cols_.push_back(step.in[0] == no_index ? 0 : cols[static_cast<std::size_t>(kind_in())]);
    if (step.out == no_index) continue;
    std::int64_t& written = cols[static_cast<std::size_t>(kind_out())];
    if (const auto* op = std::get_if<Gemm>(&step.op)) written = op->n * op->batches;
    if (const auto* op = std::get_if<GroupedGemm>(&step.op)) written = op->n;
    if (const auto* op = std::get_if<Activation>(&step.op)) written = op->width;
    if (const auto* op = std::get_if<Attention>(&step.op)) written = op->heads * op->value_dim;
    if (const auto* op = std::get_if<LinearAttention>(&step.op)) written = op->value_heads * op->value_dim;
    if (const auto* op = std::get_if<Combine>(&step.op)) written = op->hidden;
    if (const auto* op = std::get_if<Embed>(&step.op)) written = op->hidden;
    if (const auto* op = std::get_if<AllGather>(&step.op))
      written = in_cols_.back() * (step.kind == StepKind::logits_gather ? op->ranks : 1);
    if (std::holds_alternative<AllToAll>(step.op)) written = model().hidden;
    if (const auto* op = std::get_if<AllReduceNorm>(&step.op)) written = op->norm.width;
    const auto* norm = std::get_if<RmsNorm>(&step.op);
    if (norm && (norm->residual || step.kind == StepKind::attention_norm)) written = norm->width;
    if (step.kind == StepKind::embed_norm || step.kind == StepKind::hidden_norm) written = 2 * norm->width;
  }
}

void RankPass::prepare_products() {
  for (const Step& step : plan_.steps) {
    step_ = &step;
    const auto* op = std::get_if<Gemm>(&step.op);
    if (op && by_cublas(*op)) rank_.device().products().prepare(shape_of(*op), stream());
  }
}

void RankPass::issue(std::size_t step) {
  step_ = &plan_.steps[step];
  std::visit([this](const auto& op) { compute(op); }, step_->op);
}

void RankPass::begin() {
  if (!plan_.draft) return;
  // The pass may write there, so each run copies it anew.
  const bool fused = std::any_of(plan_.steps.begin(), plan_.steps.end(),
                                 [](const Step& s) { return s.kind == StepKind::fuse_features; });
  const std::int64_t values = inputs_.meta().count() * inputs_.given_cols();
  check(cudaMemcpyAsync(buffer(fused ? BufferKind::features : BufferKind::residual), inputs_.given(),
                        static_cast<std::size_t>(values * bytes_of(real())), cudaMemcpyDeviceToDevice, stream()),
        "a draft's input");
}

void RankPass::issue_all(bool named) {
  begin();
  if (named && labels_.empty())
    for (const Step& step : plan_.steps) labels_.push_back(step.label());
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    if (named) nvtxRangePushA(labels_[i].c_str());
    issue(i);
    if (named) nvtxRangePop();
  }
}

bool RankPass::by_cublas(const Gemm&) const { return weight().format.dtype == value_type(); }

GemmShape RankPass::shape_of(const Gemm& op) const {
  GemmShape s{op.m,
              op.n,
              op.k,
              op.batches,
              in_cols(),
              0,
              op.n * op.batches,
              0,
              real(),
              step_->kind == StepKind::router,
              rank_.among_others()};
  if (op.batches > 1) {
    // Of a query head the part without rotation comes first; a latent sum is a head's whole row.
    s.in_batch = step_->kind == StepKind::absorb_q ? in_cols() / op.batches : op.k;
    s.out_batch = op.n;
  }
  return s;
}

void RankPass::compute(const Gemm& op) {
  if (by_cublas(op)) return rank_.device().products().run(shape_of(op), in(), weight().values, out(), stream());
  if (op.batches > 1) throw std::logic_error("an absorbed product that was not unpacked");
  dense_product({.in = in(),
                 .in_stride = in_cols(),
                 .out = out(),
                 .out_stride = op.n,
                 .m = op.m,
                 .weight = weight(),
                 .f32_out = step_->kind == StepKind::router},
                real(), stream());
}

void RankPass::compute(const Embed& op) {
  const bool split = plan_.layout.tensor > 1 && plan_.layout.attention_data == 1;
  embed(weight(), split ? rank_.rank() * weight().rows : 0, inputs_.meta().tokens, op.tokens, out(), op.hidden, real(),
        stream());
}

/// The residual stream as it enters a layer that a draft reads, kept beside the pass.
void RankPass::tap_features(NormCall& call) {
  if (stored().step != StepKind::attention_norm) return;
  const auto found = std::find(model().taps.begin(), model().taps.end(), stored().layer);
  if (found == model().taps.end()) return;
  call.copy_residual = moved(at(places_.features), (found - model().taps.begin()) * model().hidden);
  call.copy_stride = model().hidden * static_cast<std::int64_t>(model().taps.size());
}

/// In a small stack two taps may enter the same layer: the second is a copy of the first.
void RankPass::copy_second_taps() {
  const std::vector<std::int64_t>& taps = model().taps;
  if (stored().step != StepKind::attention_norm) return;
  const auto first = std::find(taps.begin(), taps.end(), stored().layer);
  const auto pitch =
      static_cast<std::size_t>(model().hidden * static_cast<std::int64_t>(taps.size()) * bytes_of(real()));
  for (auto next = first; next != taps.end(); ++next) {
    if (next == first || *next != stored().layer) continue;
    check(cudaMemcpy2DAsync(moved(at(places_.features), (next - taps.begin()) * model().hidden), pitch,
                            moved(at(places_.features), (first - taps.begin()) * model().hidden), pitch,
                            static_cast<std::size_t>(model().hidden * bytes_of(real())),
                            static_cast<std::size_t>(inputs_.meta().count()), cudaMemcpyDeviceToDevice, stream()),
          "features");
  }
}

void RankPass::compute(const RmsNorm& op) {
  if (stored().step != StepKind::attention_norm && !op.residual) return norm_parts(op);
  NormCall call{.residual = buffer(BufferKind::residual),
                .gain = weight().values,
                .out = out(),
                .out_stride = op.width,
                .rows = op.rows,
                .width = op.width};
  if (op.residual) {
    call.in = in();
    call.in_stride = op.width;
  }
  if (stored().step == StepKind::final_norm && plan_.shape.kind == PassKind::prefill) {
    // Only a prompt's last token needs logits, but every row's sum is what a draft reads.
    add_rows(buffer(BufferKind::residual), in(), inputs_.meta().count() * op.width, real(), stream());
    call.in = nullptr;
    call.from_row = inputs_.last_rows();
  }
  tap_features(call);
  rms_norm(call, real(), stream());
  copy_second_taps();
}

/// Norms of a part of a row: halves of a draft's pair, heads of q and k, latents.
void RankPass::norm_parts(const RmsNorm& op) {
  NormCall call{.in = in(),
                .in_stride = in_cols(),
                .gain = weight().values,
                .out = out(),
                .out_stride = in_cols(),
                .rows = op.rows,
                .width = op.width};
  switch (step_->kind) {
    case StepKind::embed_norm:
    case StepKind::hidden_norm:
      call.in_stride = op.width;
      call.out = moved(out(), step_->kind == StepKind::embed_norm ? 0 : op.width);
      call.out_stride = 2 * op.width;
      break;
    case StepKind::qk_norm:
      call.rows = inputs_.meta().count();
      call.parts = op.rows / call.rows;
      break;
    case StepKind::kv_a_norm:
      call.in = call.out = moved(in(), attention().q_rank);
      break;
    default:
      break;
  }
  rms_norm(call, real(), stream());
}

void RankPass::compute(const Activation& op) {
  const bool routed = step_->kind == StepKind::expert_activation;  // how many pairs this rank has only the device knows
  gated(in(), out(), routed ? pair_rows() : op.rows, op.width, real(), stream());
}

void RankPass::compute(const Sample& op) {
  auto* ids = reinterpret_cast<std::int32_t*>(out());
  const std::int64_t cols = std::min(in_cols(), model().vocab);  // behind them: padding of the last rank
  argmax_rows(in(), op.rows, in_cols(), cols, ids, real(), stream(), at(places_.argmax));
  if (op.kind != SampleKind::verify) return;
  walk({.choice = ids,
        .tokens = inputs_.walk_tokens(),
        .parents = inputs_.walk_parents(),
        .sequences = plan_.shape.sequences,
        .nodes = plan_.shape.tokens_each,
        .kept = at<std::int32_t>(places_.kept),
        .accepted = at<std::int32_t>(places_.accepted),
        .last = at<std::int32_t>(places_.last)},
       stream());
}

}  // namespace specstep::cuda
