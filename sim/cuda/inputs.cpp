#include "sim/cuda/inputs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace specstep::cuda {

namespace {

/// To bf16, to the nearest, ties to even.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

bool is_chain(const host::Nodes& nodes) {
  for (std::size_t i = 0; i < nodes.parent.size(); ++i)
    if (nodes.parent[i] != static_cast<int>(i) - 1) return false;
  return true;
}

}  // namespace

PassInputs::PassInputs(const Plan& plan, const host::ModelView& model, const RankCaches& caches, std::int64_t first,
                       std::int64_t tree_nodes, Real real)
    : caches_(caches), first_(first), all_(plan.shape.sequences), real_(real) {
  meta_.sequences = (plan.shape.sequences + plan.layout.attention_data - 1) / plan.layout.attention_data;
  meta_.tokens_each = plan.shape.tokens_each;
  meta_.pages_each = caches.pages_each();
  // A prompt is always one chain, and its masks would be as large as it is long, squared.
  if (plan.shape.kind != PassKind::prefill) meta_.mask_words = (tree_nodes + 31) / 32;
  if (plan.draft) {
    given_cols_ = model.hidden;
    for (const Buffer& b : plan.buffers)
      if (b.kind == BufferKind::features) given_cols_ = b.cols;
  }
  place(plan);
}

void PassInputs::place(const Plan& plan) {
  const std::int64_t tokens = meta_.count();
  const std::int64_t walked = plan.shape.kind == PassKind::verify ? all_ * meta_.tokens_each : 0;
  Layout layout;
  const auto ints = [&](std::int64_t count) { return layout.add(count * 4); };
  tokens_ = ints(tokens);
  positions_ = ints(tokens);
  slots_ = ints(tokens);
  base_ = ints(meta_.sequences);
  mask_ = ints(tokens * meta_.mask_words);
  parents_ = ints(tokens);
  last_rows_ = ints(meta_.sequences);
  walk_tokens_ = ints(walked);
  walk_parents_ = ints(walked);
  given_ = layout.add(tokens * given_cols_ * bytes_of(real_));
  staging_ = PinnedBuffer(layout.bytes(), "input of a pass");
  device_ = DeviceBuffer(layout.bytes(), "input of a pass");
  meta_.tokens = at<std::int32_t>(tokens_);
  meta_.positions = at<std::int32_t>(positions_);
  meta_.slots = at<std::int32_t>(slots_);
  meta_.base = at<std::int32_t>(base_);
  meta_.mask = meta_.mask_words > 0 ? at<std::uint32_t>(mask_) : nullptr;
  meta_.pages = caches_.pages();
}

void PassInputs::upload(const host::PassInput& input, cudaStream_t stream) {
  const auto tokens_each = static_cast<std::size_t>(meta_.tokens_each);
  for (std::int64_t s = 0; s < meta_.sequences; ++s) {
    const auto whole = static_cast<std::size_t>(first_ + s);
    // Groups of equal size: one that lacks a sequence works on a dummy.
    put(whole < input.sequences.size()
            ? input.sequences[whole]
            : host::SequenceInput{host::chain_nodes(0, tokens_each), std::vector<std::int32_t>(tokens_each, 0)},
        s);
  }
  if (given_cols_ > 0) put_given(input.given);
  if (walk_parents_ > walk_tokens_) put_walk(input);
  check(cudaMemcpyAsync(device_.data(), staging_.data(), static_cast<std::size_t>(staging_.bytes()),
                        cudaMemcpyHostToDevice, stream),
        "input of a pass");
}

void PassInputs::put(const host::SequenceInput& in, std::int64_t local) {
  const host::Nodes& nodes = in.nodes;
  if (static_cast<std::int64_t>(nodes.count()) != meta_.tokens_each || in.tokens.size() != nodes.count())
    throw std::logic_error("a sequence of another number of tokens than its plan");
  if (nodes.base + static_cast<std::int64_t>(nodes.parent.size()) > caches_.room().tokens)
    throw std::logic_error("a sequence longer than its cache");
  if (meta_.mask_words > 0 && static_cast<std::int64_t>(nodes.parent.size()) > 32 * meta_.mask_words)
    throw std::logic_error("a tree of more nodes than this run has");
  if (meta_.mask_words == 0 && !is_chain(nodes)) throw std::logic_error("a tree in a run that drafts chains");
  const std::int64_t begin = local * meta_.tokens_each;
  staged<std::int32_t>(base_)[local] = static_cast<std::int32_t>(nodes.base);
  staged<std::int32_t>(last_rows_)[local] = static_cast<std::int32_t>(begin + meta_.tokens_each - 1);
  for (std::size_t i = 0; i < nodes.count(); ++i) {
    const std::size_t node = nodes.first + i;
    const std::int64_t row = begin + static_cast<std::int64_t>(i);
    staged<std::int32_t>(tokens_)[row] = in.tokens[i];
    // In a chain a node's position is its slot; following every parent of a long prompt would take its length squared.
    const std::int64_t position =
        meta_.mask_words > 0 ? nodes.position(node) : nodes.base + static_cast<std::int64_t>(node);
    staged<std::int32_t>(positions_)[row] = static_cast<std::int32_t>(position);
    staged<std::int32_t>(slots_)[row] = static_cast<std::int32_t>(nodes.base + static_cast<std::int64_t>(node));
    const int parent = nodes.parent[node];
    const bool of_pass = parent >= static_cast<int>(nodes.first);
    staged<std::int32_t>(parents_)[row] =
        static_cast<std::int32_t>(parent < 0 ? -1
                                  : of_pass  ? begin + parent - static_cast<std::int64_t>(nodes.first)
                                             : caches_.kept(local, parent));
    if (meta_.mask_words == 0) continue;
    auto* mask = staged<std::uint32_t>(mask_) + row * meta_.mask_words;
    std::memset(mask, 0, static_cast<std::size_t>(meta_.mask_words) * sizeof *mask);
    for (int at = static_cast<int>(node); at >= 0; at = nodes.parent[static_cast<std::size_t>(at)])
      mask[at / 32] |= 1U << (at % 32);
  }
}

void PassInputs::put_given(const host::Matrix& given) {
  const std::int64_t begin = first_ * meta_.tokens_each;
  for (std::int64_t r = 0; r < meta_.count(); ++r)
    for (std::int64_t c = 0; c < given_cols_; ++c) {
      const float value = begin + r < given.rows() ? given(begin + r, c) : 0;
      if (real_ == Real::f32)
        staged<float>(given_)[r * given_cols_ + c] = value;
      else
        staged<std::uint16_t>(given_)[r * given_cols_ + c] = to_bf16(value);
    }
}

void PassInputs::put_walk(const host::PassInput& input) {
  for (std::int64_t s = 0; s < all_; ++s) {
    if (static_cast<std::size_t>(s) >= input.sequences.size()) continue;
    const host::SequenceInput& in = input.sequences[static_cast<std::size_t>(s)];
    for (std::int64_t i = 0; i < meta_.tokens_each; ++i) {
      const std::int64_t at = s * meta_.tokens_each + i;
      const auto node = in.nodes.first + static_cast<std::size_t>(i);
      staged<std::int32_t>(walk_tokens_)[at] = in.tokens[static_cast<std::size_t>(i)];
      // Nodes of earlier passes are no part of this tree: what hangs on them hangs on the root.
      const int parent = in.nodes.parent[node] - static_cast<int>(in.nodes.first);
      staged<std::int32_t>(walk_parents_)[at] = i == 0 ? -1 : std::max(parent, 0);
    }
  }
}

}  // namespace specstep::cuda
