// Acceptance of a tree of drafts from how often each of the draft's guesses is right.
#pragma once

#include <cstdint>
#include <vector>

namespace specstep {

/// A tree as EAGLE-2 grows it; verify_tokens includes the root.
struct DraftTree {
  std::int64_t steps = 1;
  std::int64_t topk = 1;
  std::int64_t verify_tokens = 2;
};

/// Survival by depth. `ranks`: the chance that the target's token is the draft's best guess, its second, ..., given
/// that the path before it was accepted; the draft is taken to know them, so that its scores are their products. Step 1
/// takes the topk best guesses, each later one the topk best of their guesses; the best verify_tokens - 1 nodes of all
/// steps are verified (SGLang, eagle_utils). Paths exclude each other: the survival at a depth is the sum of its nodes.
std::vector<double> tree_survival(const std::vector<double>& ranks, const DraftTree& tree);

}  // namespace specstep
