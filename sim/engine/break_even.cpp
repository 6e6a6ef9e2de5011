#include "sim/engine/break_even.h"

#include <algorithm>

namespace specstep {

namespace {

double part(const PhaseResult& phase, Part p) { return phase.parts[static_cast<std::size_t>(p)]; }
double own(const PhaseResult& phase) { return phase.seconds - part(phase, Part::skew) - part(phase, Part::host); }

}  // namespace

std::vector<CycleTerm> cycle_terms(const std::vector<PhaseResult>& phases) {
  const PhaseResult* decode = nullptr;
  const PhaseResult* verify = nullptr;
  for (const PhaseResult& p : phases) {
    if (p.kind == PassKind::decode) decode = &p;
    if (p.kind == PassKind::verify) verify = &p;
  }
  if (!decode || !verify) return {};
  std::vector<CycleTerm> out;
  double skew = -part(*decode, Part::skew);
  double host = -part(*decode, Part::host);
  for (const PhaseResult& p : phases) {
    if (p.kind == PassKind::decode || p.kind == PassKind::prefill) continue;
    skew += p.passes_per_cycle * part(p, Part::skew);
    host += p.passes_per_cycle * part(p, Part::host);
    if (p.kind == PassKind::draft) out.push_back({"draft steps", p.passes_per_cycle * own(p)});
    if (p.kind == PassKind::extend) out.push_back({"extend", p.passes_per_cycle * own(p)});
  }
  for (std::size_t i = 0; i < part_count; ++i)
    if (static_cast<Part>(i) != Part::skew && static_cast<Part>(i) != Part::host)
      out.push_back({"verify " + EnumNames<Part>::names()[i], verify->parts[i] - decode->parts[i]});
  out.push_back({"skew", skew});
  out.push_back({"host", host});
  std::erase_if(out, [](const CycleTerm& t) { return t.seconds == 0; });
  std::stable_sort(out.begin(), out.end(),
                   [](const CycleTerm& a, const CycleTerm& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace specstep
