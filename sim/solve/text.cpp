// The answers on one screen.
#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/solve/solve.h"

namespace specstep {

namespace {

constexpr std::size_t shown_inputs = 10;
constexpr std::size_t shown_terms = 6;

std::string rate_text(const std::optional<double>& rate) {
  return rate ? formatted("{:.0f} %", 100 * *rate) : std::string("never");
}

std::string drafts_text(const SpeculationSpec& s) {
  if (s.tree) return formatted("tree of {} steps, {} tokens verified", s.tree->steps, s.tree->verify_tokens);
  return formatted("draft length {}", s.draft_length);
}

std::string header(const SolveResult& r) {
  const RunConfig& c = r.config;
  return formatted("{}\n  {} on {}, tensor parallel {}, batch {}, context {}; {}, {}; priced\n",
                   c.name.empty() ? c.stack.name : c.name, c.stack.name, c.machine.name, c.parallel.tensor,
                   c.workload.batch, grouped(r.context),
                   r.free_draft ? "drafts that cost nothing" : name_of(c.speculation.method),
                   drafts_text(c.speculation));
}

std::string terms_text(const SolveVerdict& v) {
  std::string out;
  double rest = 0;
  for (std::size_t i = 0; i < v.terms.size(); ++i)
    if (i < shown_terms)
      out += formatted("{}{} {:+.2f}", i == 0 ? "" : ", ", v.terms[i].name, v.terms[i].seconds / ms);
    else
      rest += v.terms[i].seconds;
  if (v.terms.size() > shown_terms) out += formatted(", rest {:+.2f}", rest / ms);
  return out;
}

std::string verdict_text(const SolveResult& r) {
  const SolveVerdict& v = r.verdict;
  std::string even = formatted("break-even acceptance length {:.2f} (each draft accepted: {})", v.break_even_length,
                               rate_text(v.break_even_rate));
  if (!v.accept_length)
    return formatted("\n{}; plain {:.1f} tok/s, step {:.2f} ms, verify {:.2f} ms, cycle {:.2f} ms\n", even,
                     v.plain_tok_s, v.step_seconds / ms, v.verify_seconds / ms, v.cycle_seconds / ms);
  const bool pays = v.tok_s > v.plain_tok_s;
  const double plain = *v.accept_length * v.step_seconds;
  std::string out = formatted("\n{}: {:.1f} tok/s against {:.1f} plain, x{:.2f}; acceptance length {:.2f}\n  {}\n",
                              pays ? "speculate" : "do not speculate", v.tok_s, v.plain_tok_s, v.tok_s / v.plain_tok_s,
                              *v.accept_length, even);
  out += formatted("  a cycle takes {:.2f} ms, plain steps for as many tokens {:.2f} ms; of the {:+.2f} ms:\n    {}\n",
                   v.cycle_seconds / ms, plain / ms, (v.cycle_seconds - plain) / ms, terms_text(v));
  if (v.decides < v.terms.size())
    out +=
        formatted("  decides: {} ({:+.2f} ms){}\n", v.terms[v.decides].name, v.terms[v.decides].seconds / ms,
                  v.alone ? "; without it the answer would be the other one" : "; alone it would not turn the answer");
  return out;
}

std::string all_text(const SolveAllreduce& a) {
  if (a.all_pays.empty()) return "at no time";
  std::string out;
  for (const auto& [from, to] : a.all_pays) {
    if (!out.empty()) out += " and ";
    if (from <= 0 && to >= a.largest_us)
      out += "at any time";
    else if (from <= 0)
      out += formatted("up to {:.1f} us", to);
    else
      out += formatted("from {:.1f} us on", from) + (to < a.largest_us ? formatted(" up to {:.1f} us", to) : "");
  }
  return out;
}

std::string allreduce_text(const SolveResult& r) {
  const SolveAllreduce& a = r.allreduce;
  if (a.in_verify == 0) return "\nno allreduce in this layout\n";
  std::string out = formatted("\nallreduce: {:.1f} us in decode (x{}), {:.1f} us in verify (x{})\n", a.decode_us,
                              a.in_decode, a.verify_us, a.in_verify);
  if (!r.verdict.accept_length) return out;
  const std::string cycle = !a.cycle_pays_up_to_us ? std::string("does not pay even with none")
                            : *a.cycle_pays_up_to_us >= a.largest_us
                                ? std::string("pays at any time")
                                : formatted("pays up to {:.1f} us each", *a.cycle_pays_up_to_us);
  out += formatted("  those of the cycle alone: speculation {}    all of them alike: it pays {}\n", cycle, all_text(a));
  return out;
}

std::string cell_text(const BreakEvenRow& row) {
  return formatted("{:.2f} ({}){}", row.length, rate_text(row.rate), !row.fits ? "*" : !row.admitted ? "+" : " ");
}

/// Break-even lengths by context, and the best draft length, a line for each batch.
std::string batches_text(const SolveResult& r) {
  std::vector<std::int64_t> contexts;
  for (const BreakEvenRow& row : r.break_even)
    if (std::find(contexts.begin(), contexts.end(), row.context) == contexts.end()) contexts.push_back(row.context);
  const bool best = !r.draft_lengths.empty();
  std::string out = formatted("\nbreak-even acceptance length (rate of each draft) by context{}\n  {:>6}",
                              best ? formatted("; best draft length at {}", grouped(r.context)) : "", "batch");
  for (const std::int64_t context : contexts) out += formatted("{:>14} ", grouped(context));
  if (best) out += formatted("{:>12}{:>7}{:>10}{:>8}", "plain tok/s", "best", "tok/s", "gain");
  out += "\n";
  std::size_t cell = 0;
  bool beyond = false, waits = false;
  for (std::size_t b = 0; cell < r.break_even.size(); ++b) {
    out += formatted("  {:>6}", r.break_even[cell].batch);
    for (std::size_t i = 0; i < contexts.size(); ++i, ++cell) {
      const BreakEvenRow& row = r.break_even[cell];
      out += formatted("{:>15}", row.error.empty() ? cell_text(row) : "- ");
      beyond = beyond || !row.fits;
      waits = waits || (row.fits && !row.admitted);
    }
    if (best && r.draft_lengths[b].error.empty()) {
      const DraftLengthRow& row = r.draft_lengths[b];
      out += formatted("{:>12.1f}{:>7}{:>10.1f}{:>7.0f}%", row.plain_tok_s,
                       row.best > 0 ? std::to_string(row.best) : std::string("none"), row.tok_s,
                       100 * (row.tok_s / row.plain_tok_s - 1));
    }
    out += "\n";
  }
  if (beyond) out += formatted("  * more than the {} tokens that the engine caches on a rank\n", grouped(r.kv_tokens));
  if (waits)
    out += formatted("  + more than the {} sequences that engine.max_sequences runs at once\n",
                     r.config.engine.max_sequences);
  return out;
}

std::string value_text(const SensitivityRow& row) {
  return row.step.empty() ? formatted("{:.4g}", row.value) : row.step;
}

std::string sensitivity_text(const SolveResult& r) {
  std::string out =
      formatted("\nwhat tok/s hangs on: d log tok/s / d log input{:>21}{:>13}{:>13}\n", "now", "plain", "speculative");
  for (std::size_t i = 0; i < std::min(shown_inputs, r.sensitivity.size()); ++i) {
    const SensitivityRow& row = r.sensitivity[i];
    out += formatted("  {:<56}{:>10}{:>+13.3f}{:>13}\n", row.input, value_text(row), row.plain,
                     row.speculative ? formatted("{:+.3f}", *row.speculative) : std::string("-"));
  }
  const std::size_t more = r.sensitivity.size() - std::min(shown_inputs, r.sensitivity.size());
  return out + formatted("  {} more in --json; {} inputs move nothing here\n", more, r.inert);
}

std::string backends_text(const SolveResult& r) {
  if (r.backends.empty()) return "";
  std::string out = formatted("\n{:<12}{:>14}{:>14}{:>11}{:>12}{:>14}{:>14}{:>12}\n", "backend", "decode us",
                              "verify us", "step ms", "verify ms", "plain tok/s", "spec. tok/s", "break-even");
  std::string refused;
  for (const BackendAnswer& b : r.backends) {
    if (!b.refusal.empty()) {
      refused += formatted("  {}\n", b.refusal);
      continue;
    }
    out += formatted("  {:<10}{:>14.1f}{:>14.1f}{:>11.2f}{:>12.2f}{:>14.1f}{:>14}{:>12.2f}\n", b.backend, b.decode_us,
                     b.verify_us, b.step_seconds / ms, b.verify_seconds / ms, b.plain_tok_s,
                     b.tok_s ? formatted("{:.1f}", *b.tok_s) : std::string("-"), *b.break_even_length);
  }
  return out + refused;
}

}  // namespace

std::string to_text(const SolveResult& r) {
  std::string out =
      header(r) + verdict_text(r) + allreduce_text(r) + batches_text(r) + sensitivity_text(r) + backends_text(r);
  for (const std::string& note : r.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace specstep
