// How many tokens a verify pass emits: a distribution, whichever way it was told.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace specstep {

/// Accepted drafts of a chain of K, or of the path of a tree of K steps. Survival s_i: the chance that draft i and all
/// before it are accepted. A verify emits 1 + accepted drafts.
class Acceptance {
 public:
  Acceptance() = default;
  /// s_1 .. s_K, each at most the one before. `one_draw`: the sequences of a batch share one draw.
  explicit Acceptance(std::vector<double> survival, bool one_draw = false);
  /// From the chances of the conditional kind: p_i given that all before it were accepted.
  static Acceptance of_conditional(const std::vector<double>& chances);
  /// From weights of the lengths 1 .. K + 1, at least one of them above 0; they need not sum to 1.
  static Acceptance of_weights(const std::vector<double>& weights, bool one_draw = false);
  /// Of a constant conditional chance whose length is `length`, 1 to drafts + 1 (bisection to 1e-12).
  static Acceptance of_length(double length, std::int64_t drafts);

  std::int64_t drafts() const { return static_cast<std::int64_t>(survival_.size()); }
  const std::vector<double>& survival() const { return survival_; }
  /// Mean tokens of a verify: 1 + sum of survivals, between 1 and K + 1.
  double length() const;
  /// Accepted / proposed drafts: (length - 1) / K; 0 without drafts.
  double rate() const;
  /// Chance of each length 1 .. K + 1.
  std::vector<double> distribution() const;
  bool one_draw() const { return one_draw_; }
  /// The length that a coin in [0, 1) stands for: 1 + the number of survivals above it.
  std::int64_t draw(double coin) const;
  /// The same drafts at another draft length: a prefix of the survivals, or beyond them conditional chances that go on
  /// falling by the mean ratio seen. An extrapolation then.
  Acceptance at(std::int64_t drafts) const;

 private:
  std::vector<double> survival_;
  bool one_draw_ = false;
};

/// Lengths of verify passes, drawn in order from a seed; the same on every machine.
class AcceptanceSampler {
 public:
  AcceptanceSampler(Acceptance acceptance, std::uint64_t seed) : acceptance_(std::move(acceptance)), generator_(seed) {}
  /// Of one verify of one sequence.
  std::int64_t next();
  /// Of one verify of each sequence of a batch.
  std::vector<std::int64_t> next_batch(std::size_t sequences);

 private:
  Acceptance acceptance_;
  std::mt19937_64 generator_;
};

/// A recorded request walked from its first token on.
struct TraceWalk {
  std::vector<std::int64_t> steps;  // tokens of each verify
  std::int64_t tokens = 0;          // walked
};
/// `lengths`: what a verify at each position (`by_position`) or each verify in turn would emit without limit. A step
/// emits min(length, drafts + 1) and the next one starts behind it. Stops at `tokens` or at the end of the list,
/// whichever comes first; the last step is cut there.
TraceWalk walk_trace(const std::vector<std::int64_t>& lengths, std::int64_t tokens, std::int64_t drafts,
                     bool by_position);

}  // namespace specstep
