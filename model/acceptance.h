// How many drafted tokens a verify pass accepts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/base/describe.h"

namespace specstep {

/// One of the ways to say it, exactly one of which is given.
///   conditional: p_i, chance that draft i is accepted given that those before it were
///   survival:    s_i = p_1 ... p_i, the per-position rate that vLLM reports
///   rate:        constant p_i
///   length:      acceptance length itself: tokens emitted per verify, 1 + accepted drafts
struct AcceptanceSpec {
  std::vector<double> conditional;
  std::vector<double> survival;
  std::optional<double> rate;
  std::optional<double> length;
};

void describe(Fields& f, AcceptanceSpec& a);
void check(const AcceptanceSpec& a, Checker& c);

/// Survival s_1..s_K of a chain of K drafts. For `length` the constant rate p with
/// 1 + p + ... + p^K = length is used (bisection to 1e-12).
std::vector<double> survival_of(const AcceptanceSpec& a, std::int64_t drafts);

/// Acceptance length: 1 + sum of survivals. Between 1 and K + 1.
double accept_length(const AcceptanceSpec& a, std::int64_t drafts);

/// Faults that need the draft length: list lengths, a length beyond K + 1.
void check_acceptance(const AcceptanceSpec& a, std::int64_t drafts, Checker& c, const std::string& key);

}  // namespace specstep
