// What goes into a pass and what comes out, for the whole batch.
#pragma once

#include "model/plan.h"
#include "sim/host/cache.h"

namespace specstep::host {

struct SequenceInput {
  Nodes nodes;
  std::vector<std::int32_t> tokens;  // of the nodes that the pass computes
};

struct PassInput {
  std::vector<SequenceInput> sequences;
  /// A draft's second input, one row a token: features of the target [tokens, taps x hidden] in a prefill or extend of
  /// eagle3; else hidden states [tokens, hidden].
  Matrix given;
};

struct PassOutput {
  Matrix logits;    // [tokens, vocab]; of a prefill [sequences, vocab], each prompt's last token
  Matrix hidden;    // [tokens, hidden]: the residual stream behind the last layer
  Matrix features;  // [tokens, ...] for a draft, when the target hands any out
};

/// Inputs of a pass that stands alone: tokens and hidden states from a counter, caches as if `context` tokens were
/// there. What the numbers are does not change how long it takes.
PassInput lone_input(const Plan& plan, const ModelView& view);

}  // namespace specstep::host
