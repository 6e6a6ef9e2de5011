// Acceptance in its several notations, all turned into survivals.
#include "model/acceptance.h"

#include <algorithm>
#include <numeric>

#include "model/base/formatted.h"

namespace specstep {

namespace {
double chain_length(double rate, std::int64_t drafts) {
  double sum = 1, survival = 1;
  for (std::int64_t i = 0; i < drafts; ++i) sum += survival *= rate;
  return sum;
}

double rate_for_length(double length, std::int64_t drafts) {
  double low = 0, high = 1;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (chain_length(middle, drafts) < length ? low : high) = middle;
  }
  return (low + high) / 2;
}

int given(const AcceptanceSpec& a) {
  return (a.conditional.empty() ? 0 : 1) + (a.survival.empty() ? 0 : 1) + (a.rate ? 1 : 0) + (a.length ? 1 : 0);
}
}  // namespace

void describe(Fields& f, AcceptanceSpec& a) {
  constexpr Range chance{.min = 0, .max = 1};
  f.optional("conditional", a.conditional, "chance that each draft is accepted, given that those before it were",
             chance);
  f.optional("survival", a.survival,
             "chance that each draft and all before it are accepted (vLLM's per-position rates)", chance);
  f.optional("rate", a.rate, "one conditional chance for every draft", chance);
  f.optional("length", a.length, "acceptance length: tokens emitted per verify, 1 + accepted drafts",
             {.min = 1, .max = 1024});
}

void check(const AcceptanceSpec& a, Checker& c) {
  if (given(a) != 1)
    c.fail("", formatted("{} of conditional, survival, rate and length are given", given(a)), "exactly one");
  if (!std::is_sorted(a.survival.rbegin(), a.survival.rend()))
    c.fail("survival", "grows", "each at most the one before; chances given the one before are 'conditional'");
}

std::vector<double> survival_of(const AcceptanceSpec& a, std::int64_t drafts) {
  const auto n = static_cast<std::size_t>(drafts);
  if (!a.survival.empty())
    return {a.survival.begin(), a.survival.begin() + static_cast<std::ptrdiff_t>(std::min(n, a.survival.size()))};
  std::vector<double> conditional = a.conditional;
  if (conditional.empty()) conditional.assign(n, a.rate ? *a.rate : rate_for_length(a.length.value_or(1), drafts));
  conditional.resize(std::min(n, conditional.size()));
  std::vector<double> out(conditional.size());
  std::partial_sum(conditional.begin(), conditional.end(), out.begin(), std::multiplies<>());
  return out;
}

double accept_length(const AcceptanceSpec& a, std::int64_t drafts) {
  if (a.length) return *a.length;
  const std::vector<double> survival = survival_of(a, drafts);
  return std::accumulate(survival.begin(), survival.end(), 1.0);
}

void check_acceptance(const AcceptanceSpec& a, std::int64_t drafts, Checker& c, const std::string& key) {
  const auto matches = [&](const char* name, const std::vector<double>& list) {
    if (!list.empty() && list.size() != static_cast<std::size_t>(drafts))
      c.fail(key + "." + name, formatted("has {} entries", list.size()),
             formatted("one for each of the {} drafts (draft_length, or the steps of the tree)", drafts));
  };
  matches("conditional", a.conditional);
  matches("survival", a.survival);
  if (a.length && *a.length > static_cast<double>(drafts + 1))
    c.fail(key + ".length", formatted("is {}", *a.length),
           formatted("at most {}: {} drafts and the bonus token", drafts + 1, drafts));
}

}  // namespace specstep
