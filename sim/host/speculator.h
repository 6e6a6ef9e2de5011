// Proposes trees of drafts for the texts of a batch, and follows what the target verified.
#pragma once

#include "sim/host/grower.h"
#include "sim/host/runner.h"

namespace specstep::host {

/// One sequence while it is generated. The last token is certain but in no cache yet.
struct Text {
  std::vector<std::int32_t> tokens;  // prompt and output
  std::int64_t cached = 0;           // tokens in the caches of target and draft
  Coins coins;
};

class Speculator {
 public:
  Speculator(const RunConfig& config, Runner& runner, PassModel* draft);

  /// The draft's prefill: the prompts moved on by one token, beside the target's features.
  void prefill(const std::vector<Text>& texts, const PassOutput& target, Generation& time);
  /// A tree for each text.
  std::vector<DraftTree> propose(std::vector<Text>& texts, Generation& time);
  /// The draft catches up with what was accepted. `texts` already hold the new tokens, but not in `cached`.
  void extend(const std::vector<Text>& texts, const std::vector<DraftTree>& trees, const std::vector<Verdict>& verdicts,
              const PassOutput& verified, Generation& time);

 private:
  /// Nodes that draft steps have run for one sequence, the root first (which is the teacher's alone).
  struct Walk {
    std::vector<int> parents{-1};  // by run number
    std::vector<int> run_of;       // run number of each candidate, 0 when it has not run
    std::vector<int> frontier;     // candidates of the last step run
  };
  void from_model(std::vector<Grower>& growers, std::vector<Text>& texts, Generation& time);
  void from_text(Grower& grower, const Text& text) const;
  PassInput step_input(const std::vector<Grower>& growers, const std::vector<Text>& texts, std::vector<Walk>& walks,
                       const Matrix& hidden) const;
  void mix_in_teacher(Matrix& logits, const PassInput* step, const std::vector<Text>& texts,
                      const std::vector<Walk>& walks);

  const RunConfig& config_;
  Runner& runner_;
  PassModel* draft_;
  std::vector<std::int32_t> token_of_;  // token of each row of the draft's output matrix
  Matrix head_logits_, head_hidden_;    // the draft's output behind each text's last token
};

}  // namespace specstep::host
