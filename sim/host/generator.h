// Answers prompts: plain decoding token by token, or cycles of draft, verify, accept, extend.
#pragma once

#include "sim/host/speculator.h"

namespace specstep::host {

class TokenGenerator final : public Generator {
 public:
  /// `draft` may be null: plain decoding, or drafts from the text itself.
  TokenGenerator(const RunConfig& config, PassModel& target, PassModel* draft);
  Generation generate(bool speculative) override;

 private:
  std::vector<Text> prompts() const;
  std::int32_t pick(Text& text, std::span<const float> logits) const;
  Verdict accept(const DraftTree& tree, Text& text, const Matrix& logits, Index first_row) const;
  void prefill(std::vector<Text>& texts, Generation& out, bool speculative);
  void decode(std::vector<Text>& texts, Generation& out);
  void cycle(std::vector<Text>& texts, Generation& out);
  void count(const DraftTree& tree, const Verdict& verdict, AcceptanceCounts& counts) const;
  bool finished(const Text& text) const;

  const RunConfig& config_;
  PassModel& target_;
  PassModel* draft_;
  Runner runner_;
  Speculator speculator_;
};

}  // namespace specstep::host
