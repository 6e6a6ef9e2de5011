// One round of speculation as an engine carries it out: which passes, and what the host does between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/base/quantity.h"
#include "model/pass.h"
#include "sim/engine/preset.h"

namespace specstep {

/// Whose rounds.
///   sglang_v1            K - 1 draft steps in one graph, verify, extend over the accepted tokens; the host works
///   between
///                        them. Trees.
///   sglang_v2            the same with the extend over all verified tokens; the overlap scheduler hides host work.
///   Chains. vllm                 verify, a drafter pass over the verified tokens, K - 1 single steps, each launched by
///   itself tensorrt_llm         verify and the drafts of one module used K times, all in one graph (Eagle, MTP Eagle)
///   tensorrt_llm_vanilla the same with K modules, each with a cache of its own, each over K tokens (MTP vanilla)
/// Sources: SGLang eagle_worker and eagle_worker_v2 (early 2026), vLLM v1 eagle drafter (2026), TensorRT-LLM tech blog
/// 2 and its MTP worker (2025).
enum class CycleRules { sglang_v1, sglang_v2, vllm, tensorrt_llm, tensorrt_llm_vanilla };
template <>
struct EnumNames<CycleRules> {
  static std::vector<std::string> names() {
    return {"sglang_v1", "sglang_v2", "vllm", "tensorrt_llm", "tensorrt_llm_vanilla"};
  }
};

/// Host work in front of a pass that the device waits for: metadata, tree build, sampling, copies. Microseconds a
/// launch.
struct HostWork {
  std::optional<Quantity> captured_us;  // piecewise launches too
  std::optional<Quantity> eager_us;     // left out: as captured_us, for the host does the same work

  /// In front of one launch.
  double seconds(Launch launch) const;
};

/// Seconds of a figure in microseconds; 0 when it is not given.
double seconds_of(const std::optional<Quantity>& q);

/// Host work in all. What a scheduler hides does not count for a pass, but a round lasts at least as long as the host
/// is busy: overlapped_*_us, and graph_node_us for each node of a captured graph.
struct EngineHostSpec {
  HostWork decode, draft, verify, extend;
  std::optional<Quantity> overlapped_step_us;
  std::optional<Quantity> overlapped_cycle_us;
  std::optional<Quantity> graph_node_us;

  const HostWork& of(PassKind kind) const;
  bool given() const;
};

struct CycleSpec {
  std::string name;
  std::string source;
  CycleRules rules = CycleRules::sglang_v2;
  EngineHostSpec host;
};

/// The drafts of a round: `depth` most drafts accepted (K), `width` tokens of a draft step, `verify_tokens` tokens of a
/// verify pass for each sequence.
struct DraftShape {
  std::int64_t depth = 1;
  std::int64_t width = 1;
  std::int64_t verify_tokens = 2;
};

/// Passes of the draft model in one round.
struct DraftPasses {
  std::int64_t steps = 0;              // of `width` tokens a sequence
  std::int64_t step_launches = 0;      // host launches of all steps together
  std::int64_t extends = 1;            // passes that catch up over verified tokens
  std::int64_t extend_tokens = 0;      // of each sequence in each
  bool eager_extend_accepted = false;  // launched eagerly, an extend carries the accepted tokens only
  bool one_graph = false;              // launched with the verify pass: no host work of their own
};
DraftPasses draft_passes(CycleRules rules, const DraftShape& shape);

void describe(Fields& f, HostWork& h);
void check(const HostWork& h, Checker& c);
void describe(Fields& f, EngineHostSpec& h);
void check(const EngineHostSpec& h, Checker& c);
void describe(Fields& f, CycleSpec& s);

}  // namespace specstep
