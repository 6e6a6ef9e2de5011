// Rounds by engine.
#include "sim/engine/cycle.h"

#include "model/base/units.h"

namespace specstep {

namespace {

void check_time(Checker& c, const std::string& key, const std::optional<Quantity>& q) {
  if (q) check_range(c, key, *q, {.min = 0, .max = 1e6});
}

}  // namespace

double seconds_of(const std::optional<Quantity>& q) { return q ? q->value * us : 0; }

double HostWork::seconds(Launch launch) const {
  return seconds_of(launch == Launch::eager && eager_us ? eager_us : captured_us);
}

const HostWork& EngineHostSpec::of(PassKind kind) const {
  switch (kind) {
    case PassKind::draft:
      return draft;
    case PassKind::verify:
      return verify;
    case PassKind::extend:
      return extend;
    case PassKind::decode:
      return decode;
    case PassKind::prefill:
      break;
  }
  static const HostWork none;  // work of admitting a request is not part of a cycle
  return none;
}

bool EngineHostSpec::given() const {
  for (const HostWork* h : {&decode, &draft, &verify, &extend})
    if (h->captured_us || h->eager_us) return true;
  return overlapped_step_us || overlapped_cycle_us || graph_node_us;
}

DraftPasses draft_passes(CycleRules rules, const DraftShape& shape) {
  DraftPasses out;
  out.steps = shape.depth - 1;
  out.step_launches = out.steps > 0 ? 1 : 0;
  out.extend_tokens = shape.verify_tokens;
  switch (rules) {
    case CycleRules::sglang_v1:
      out.eager_extend_accepted = true;
      break;
    case CycleRules::sglang_v2:
      break;
    case CycleRules::vllm:
      out.step_launches = out.steps;
      break;
    case CycleRules::tensorrt_llm:
      out.one_graph = true;
      break;
    case CycleRules::tensorrt_llm_vanilla:
      out.one_graph = true;
      out.steps = out.step_launches = 0;
      out.extends = shape.depth;
      out.extend_tokens = shape.depth;
      break;
  }
  return out;
}

void describe(Fields& f, HostWork& h) {
  f.optional("captured_us", h.captured_us, "in front of each launch of a CUDA graph");
  f.optional("eager_us", h.eager_us, "in front of each pass launched kernel by kernel; left out: captured_us");
}

void check(const HostWork& h, Checker& c) {
  check_time(c, "captured_us", h.captured_us);
  check_time(c, "eager_us", h.eager_us);
}

void describe(Fields& f, EngineHostSpec& h) {
  f.optional("decode", h.decode, "the device waits for it before a plain decode step");
  f.optional("draft", h.draft, "before a launch of draft steps");
  f.optional("verify", h.verify, "before a verify pass: tree build, metadata");
  f.optional("extend", h.extend, "before the draft's catch-up: sampling, acceptance, indices");
  f.optional("overlapped_step_us", h.overlapped_step_us,
             "host work of a decode step that goes on beside the device: a step lasts at least this long");
  f.optional("overlapped_cycle_us", h.overlapped_cycle_us, "the same of a whole cycle");
  f.optional("graph_node_us", h.graph_node_us, "host time of a graph launch for each of its nodes, beside the device");
}

void check(const EngineHostSpec& h, Checker& c) {
  check_time(c, "overlapped_step_us", h.overlapped_step_us);
  check_time(c, "overlapped_cycle_us", h.overlapped_cycle_us);
  check_time(c, "graph_node_us", h.graph_node_us);
}

void describe(Fields& f, CycleSpec& s) {
  f.optional("name", s.name, "name of the cycle");
  f.optional("source", s.source, "where the rules were read: version, date");
  f.required("rules", s.rules, "whose passes a cycle has");
  f.optional("host", s.host, "what the host does between passes; left out: nothing");
}

}  // namespace specstep
