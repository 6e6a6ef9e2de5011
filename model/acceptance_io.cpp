// Reading of acceptance, and what its figures must agree on.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/acceptance_spec.h"
#include "model/base/formatted.h"

namespace specstep {

namespace {
constexpr Range chance{.min = 0, .max = 1};
constexpr Range any_length{.min = 1, .max = 1024};
constexpr Range any_count{.min = 0, .max = 1e15};
}  // namespace

void describe(Fields& f, DecaySpec& d) {
  f.required("first", d.first, "chance that the first draft is accepted", chance);
  f.required("ratio", d.ratio, "each next chance, given that those before were accepted, is this much of it", chance);
  f.optional("fitted", d.fitted, "true when it was fitted to the lengths beside it");
}

void describe(Fields& f, HistogramSpec& h) {
  f.required("counts", h.counts, "how often a length of 1, 2, ... was seen", any_count);
  f.optional("total", h.total, "all that were counted, longer ones too; 0 = the sum of the counts", any_count);
  f.optional("of", h.of, "what was counted: every position of the texts, or every verify pass");
  f.optional("source", h.source, "where it comes from");
}

void check(const HistogramSpec& h, Checker& c) {
  const std::int64_t sum = std::accumulate(h.counts.begin(), h.counts.end(), std::int64_t{0});
  if (sum <= 0) c.fail("counts", "counts nothing", "one count above 0");
  if (h.total != 0 && h.total < sum)
    c.fail("total", formatted("is {}", h.total), formatted("at least the sum of the counts, {}", sum));
}

void describe(Fields& f, TraceSpec& t) {
  f.required("lengths", t.lengths, "tokens that a verify emits, in order", any_length);
  f.optional("tokens", t.tokens, "tokens of the recorded text; 0 = as many as the lengths tell", any_count);
  f.optional("of", t.of, "one length for every position of the text, or for every verify pass");
  f.optional("source", t.source, "where it comes from");
}

void check(const TraceSpec& t, Checker& c) {
  if (t.lengths.empty()) c.fail("lengths", "is empty", "one length or more");
}

void describe(Fields& f, LengthAt& l) {
  f.required("drafts", l.drafts, "draft length of the chain", {.min = 1, .max = 128});
  f.required("length", l.length, "acceptance length measured with it", any_length);
}

void describe(Fields& f, AcceptanceDataset& d) {
  f.required("name", d.name, "model, draft and data set");
  f.required("source", d.source, "where it was published");
  f.required("licence", d.licence, "of the source; figures only where it has none");
  f.optional("lengths", d.lengths, "acceptance lengths by draft length");
  f.optional("decay", d.decay, "chances fitted to the lengths");
  f.optional("survival", d.survival, "per-position rates, where they were published", chance);
}

void check(const AcceptanceDataset& d, Checker& c) {
  if (d.lengths.empty() && d.survival.empty()) c.fail("lengths", "missing", "lengths, or survival");
  if (!std::is_sorted(d.survival.rbegin(), d.survival.rend()))
    c.fail("survival", "grows", "each at most the one before");
  for (std::size_t i = 0; i < d.lengths.size(); ++i)
    if (d.lengths[i].length > static_cast<double>(d.lengths[i].drafts + 1))
      c.fail(formatted("lengths[{}].length", i), formatted("is {}", d.lengths[i].length),
             formatted("at most {}: the drafts and the bonus token", d.lengths[i].drafts + 1));
}

void describe(Fields& f, SimulatedSpec& s) {
  f.required("method", s.method,
             "multinomial: round(Normal(length, 1)), match-expected: floor or ceiling (SGLang, one draw a batch); "
             "synthetic (vLLM): one rate");
  f.optional("length", s.length, "acceptance length asked for (SGLANG_SIMULATE_ACC_LEN, synthetic_acceptance_length)",
             any_length);
  f.optional("rate", s.rate, "of synthetic, instead: accepted / proposed drafts", chance);
}

void check(const SimulatedSpec& s, Checker& c) {
  if (s.length.has_value() == s.rate.has_value())
    c.fail("length", s.length ? "is given beside a rate" : "missing", "one of length and rate");
  if (s.rate && s.method != SimulatedMethod::synthetic) c.fail("rate", "is of synthetic only", "length");
}

void describe(Fields& f, AcceptanceSpec& a) {
  f.optional("conditional", a.conditional, "chance that each draft is accepted, given that those before it were",
             chance);
  f.optional("survival", a.survival,
             "chance that each draft and all before it are accepted (vLLM's per-position rates)", chance);
  f.optional("rate", a.rate, "one conditional chance for every draft", chance);
  f.optional("length", a.length, "acceptance length: tokens emitted per verify, 1 + accepted drafts", any_length);
  f.optional("draft_acceptance_rate", a.draft_acceptance_rate,
             "accepted / proposed drafts, as vLLM logs it: (length - 1) / K", chance);
  f.optional("ranks", a.ranks,
             "chance that the draft's best guess is right, its second, ...: for trees, whose shape then decides",
             chance);
  f.optional("decay", a.decay, "conditional chances that fall by a constant ratio");
  f.optional("histogram", a.histogram, "recorded lengths, counted");
  f.optional("trace", a.trace, "recorded lengths, in order");
  f.part("dataset", a.dataset, "acceptance", "published acceptance of a model on a data set", false);
  f.optional("simulated", a.simulated, "what engines simulate for tests");
}

void check(const AcceptanceSpec& a, Checker& c) {
  const bool reported = !a.survival.empty() || a.length || a.draft_acceptance_rate;
  const int ways = (a.conditional.empty() ? 0 : 1) + (a.rate ? 1 : 0) + (a.ranks.empty() ? 0 : 1) + (a.decay ? 1 : 0) +
                   (a.histogram ? 1 : 0) + (a.trace ? 1 : 0) + (a.dataset ? 1 : 0) + (a.simulated ? 1 : 0) +
                   (reported ? 1 : 0);
  const std::string replace =
      ways > 1 ? "; --set 'speculation.acceptance={rate: 0.5}' takes the place of what a file tells" : "";
  if (ways != 1)
    c.fail("", ways == 0 ? "is empty" : formatted("is told in {} ways", ways),
           a.rate && reported
               ? std::string("one of them: 'rate' is one conditional chance; accepted / proposed drafts is "
                             "'draft_acceptance_rate', "
                             "which may stand beside length and survival") +
                     replace
               : std::string(
                     "exactly one of conditional, survival, rate, length, ranks, decay, histogram, trace, dataset and "
                     "simulated; "
                     "of length, survival and draft_acceptance_rate several, which then must agree") +
                     replace);
  if (!std::is_sorted(a.ranks.rbegin(), a.ranks.rend()) ||
      std::accumulate(a.ranks.begin(), a.ranks.end(), 0.0) > 1 + 1e-9)
    c.fail("ranks", "are no chances of guesses in order", "each at most the one before, 1 at most in all");
  if (!std::is_sorted(a.survival.rbegin(), a.survival.rend()))
    c.fail("survival", "grows", "each at most the one before; chances given the one before are 'conditional'");
}

namespace {

/// length = 1 + K x rate = 1 + sum of survivals: the same figure three times.
void check_agreement(const AcceptanceSpec& a, std::int64_t drafts, Checker& c, const std::string& key) {
  constexpr double tolerance = 0.02;  // logs round to two or three digits
  struct Told {
    std::string key, text;
    double length;
  };
  std::vector<Told> told;
  if (a.length) told.push_back({"length", formatted("length {}", *a.length), *a.length});
  if (!a.survival.empty()) {
    const double length = Acceptance(a.survival).length();
    told.push_back({"survival", formatted("survival, 1 + {:.4g}", length - 1), length});
  }
  if (a.draft_acceptance_rate) {
    const double rate = *a.draft_acceptance_rate;
    told.push_back({"draft_acceptance_rate", formatted("draft_acceptance_rate, 1 + {} x {}", drafts, rate),
                    1 + static_cast<double>(drafts) * rate});
  }
  for (std::size_t i = 1; i < told.size(); ++i)
    if (std::abs(told[i].length - told[0].length) > tolerance + 1e-9)
      c.fail(key + "." + told[i].key,
             formatted("{} = {:.4g}, but {} = {:.4g}", told[i].text, told[i].length, told[0].text, told[0].length),
             "acceptance lengths that agree within 0.02: length = 1 + K x draft_acceptance_rate = 1 + sum of survival");
}

}  // namespace

void check_acceptance(const AcceptanceSpec& a, std::int64_t drafts, Checker& c, const std::string& key) {
  const auto matches = [&](const char* name, const std::vector<double>& list) {
    if (list.empty() || list.size() == static_cast<std::size_t>(drafts)) return true;
    c.fail(key + "." + name, formatted("has {} entries", list.size()),
           formatted("one for each of the {} drafts (draft_length, or the steps of the tree)", drafts));
    return false;
  };
  matches("conditional", a.conditional);
  const bool positions = matches("survival", a.survival);
  const auto within = [&](const char* name, const std::optional<double>& length) {
    if (length && *length > static_cast<double>(drafts + 1))
      c.fail(key + name, formatted("is {}", *length),
             formatted("at most {}: {} drafts and the bonus token", drafts + 1, drafts));
  };
  within(".length", a.length);
  if (a.simulated) within(".simulated.length", a.simulated->length);
  if (positions) check_agreement(a, drafts, c, key);
  if (!a.histogram) return;
  const HistogramSpec& h = *a.histogram;
  const std::int64_t sum = std::accumulate(h.counts.begin(), h.counts.end(), std::int64_t{0});
  const auto told = static_cast<std::int64_t>(h.counts.size());
  if (h.total > sum && drafts + 1 > told + 1)
    c.fail(key + ".histogram.counts", formatted("tells lengths above {} not apart", told),
           formatted("at most {} drafts, or counts of longer lengths", told));
}

}  // namespace specstep
