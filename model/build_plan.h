// The one place that knows the order of a layer.
#pragma once

#include <functional>

#include "model/draft.h"
#include "model/plan.h"
#include "model/stack.h"

namespace specstep {

/// What engines can do without, or do otherwise.
struct PlanOptions {
  bool embedding_allreduce = true;  // vocabulary-parallel embedding: partial rows are summed
  bool logits_gather = true;        // vocabulary-parallel head: logits are gathered on each rank
  bool queries_share_cache = true;  // false: each query of a pass but a prompt's reads for itself
  std::int64_t shared_context = 0;  // tokens at the start of all prompts that are cached once
  /// Whether what carries an allreduce of the layers can go on with the norm that follows it; empty: none can.
  std::function<bool(const AllReduce&)> fuses_norm;
};

/// The plan of one rank for a pass of the target: prefill, decode or verify.
/// The layout must divide the stack (see check_layout); shapes are per rank.
Plan build_plan(const StackSpec& stack, const ParallelLayout& layout, const PassShape& shape,
                const PlanOptions& options = {});

/// The plan of one rank for a pass of the draft: draft (one step) or extend (catching up over the verified tokens),
/// or prefill of the draft's own cache. The draft must have a model.
Plan build_draft_plan(const DraftSpec& draft, const ParallelLayout& layout, const PassShape& shape,
                      const PlanOptions& options = {});

/// Reports each number of the stack that the layout cannot divide. Keys are those of a run config.
void check_layout(const StackSpec& stack, const ParallelLayout& layout, Checker& c);
void check_layout(const DraftSpec& draft, const ParallelLayout& layout, Checker& c);

/// Cached bytes on one rank: growing with tokens, and fixed per sequence (windows, linear states).
struct KvFootprint {
  double bytes_per_token = 0;
  double bytes_per_sequence = 0;
};
KvFootprint kv_footprint(const StackSpec& stack, const ParallelLayout& layout);
KvFootprint kv_footprint(const DraftSpec& draft, const ParallelLayout& layout);

/// Weights of one rank, those no text pass reads included.
double weight_memory(const StackSpec& stack, const ParallelLayout& layout);
double weight_memory(const DraftSpec& draft, const ParallelLayout& layout);

}  // namespace specstep
