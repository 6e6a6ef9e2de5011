// The ways in which acceptance is told in files, all turned into one Acceptance.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/acceptance.h"
#include "model/acceptance_tree.h"
#include "model/base/describe.h"

namespace specstep {

/// Conditional chances p_i = first x ratio^(i - 1).
struct DecaySpec {
  double first = 0;
  double ratio = 1;
  bool fitted = false;
};

/// What a count or a length of a record stands for: every position of a text, or one verify after the other.
enum class RecordOf { position, verify };
template <>
struct EnumNames<RecordOf> {
  static std::vector<std::string> names() { return {"position", "verify"}; }
};

/// How often each length 1, 2, ... was seen. `total` counts the longer ones too, which then are not told apart.
struct HistogramSpec {
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;  // 0: the sum of the counts
  RecordOf of = RecordOf::verify;
  std::string source;
};

/// Lengths in order. `tokens`: how many the request generated, when the list may be shorter or longer.
struct TraceSpec {
  std::vector<std::int64_t> lengths;
  std::int64_t tokens = 0;  // 0: as many as the list tells
  RecordOf of = RecordOf::verify;
  std::string source;
};

struct LengthAt {
  std::int64_t drafts = 0;
  double length = 0;
};

/// Published acceptance of a model and its draft on a data set (configs/acceptance/).
struct AcceptanceDataset {
  std::string name;
  std::string source;
  std::string licence;
  std::vector<LengthAt> lengths;  // of chains
  std::optional<DecaySpec> decay;
  std::vector<double> survival;
};

/// What engines simulate: multinomial and match-expected are SGLang's SGLANG_SIMULATE_ACC_METHOD, synthetic is vLLM's
/// rejection_sample_method.
enum class SimulatedMethod { multinomial, match_expected, synthetic };
template <>
struct EnumNames<SimulatedMethod> {
  static std::vector<std::string> names() { return {"multinomial", "match-expected", "synthetic"}; }
};
struct SimulatedSpec {
  SimulatedMethod method = SimulatedMethod::match_expected;
  std::optional<double> length;
  std::optional<double> rate;  // synthetic: accepted / proposed drafts
};

/// One of the ways, or several of length, survival and draft_acceptance_rate, which then must agree.
struct AcceptanceSpec {
  std::vector<double> conditional;              // p_i, given that those before were accepted
  std::vector<double> survival;                 // s_i = p_1 ... p_i, vLLM's per-position rates
  std::optional<double> rate;                   // constant p_i
  std::optional<double> length;                 // 1 + accepted drafts
  std::optional<double> draft_acceptance_rate;  // accepted / proposed drafts
  std::vector<double> ranks;                    // chance that the draft's best, second, ... guess is right
  std::optional<DecaySpec> decay;
  std::optional<HistogramSpec> histogram;
  std::optional<TraceSpec> trace;
  std::optional<AcceptanceDataset> dataset;
  std::optional<SimulatedSpec> simulated;
};

/// The distribution at `drafts` drafts, or of a tree of as many steps. A length alone becomes the constant chance that
/// gives it; only ranks tell trees of one depth apart, everything else is told by depth.
Acceptance acceptance_of(const AcceptanceSpec& a, std::int64_t drafts, const std::optional<DraftTree>& tree = {});

/// Shorthands of acceptance_of.
std::vector<double> survival_of(const AcceptanceSpec& a, std::int64_t drafts);
double accept_length(const AcceptanceSpec& a, std::int64_t drafts);

/// Faults that need the draft length: list lengths, a length beyond K + 1, figures that do not agree:
/// length = 1 + K x draft_acceptance_rate = 1 + sum of survivals, within 0.02.
void check_acceptance(const AcceptanceSpec& a, std::int64_t drafts, Checker& c, const std::string& key);

/// What a reader must know of it: a shape that was assumed, an extrapolation, a record cut short. `ngram`: drafts come
/// from the text itself, which one rate describes badly.
std::vector<std::string> acceptance_notes(const AcceptanceSpec& a, std::int64_t drafts, bool ngram);

void describe(Fields& f, DecaySpec& d);
void describe(Fields& f, HistogramSpec& h);
void check(const HistogramSpec& h, Checker& c);
void describe(Fields& f, TraceSpec& t);
void check(const TraceSpec& t, Checker& c);
void describe(Fields& f, LengthAt& l);
void describe(Fields& f, AcceptanceDataset& d);
void check(const AcceptanceDataset& d, Checker& c);
void describe(Fields& f, SimulatedSpec& s);
void check(const SimulatedSpec& s, Checker& c);
void describe(Fields& f, AcceptanceSpec& a);
void check(const AcceptanceSpec& a, Checker& c);

}  // namespace specstep
