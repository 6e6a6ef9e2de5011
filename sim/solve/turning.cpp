// Why the answer is what it is, and the allreduce times at which it turns.
#include <algorithm>
#include <cmath>

#include "model/base/units.h"
#include "sim/solve/questions.h"

namespace specstep::solving {

namespace {

constexpr double largest_us = 10'000;

/// Seconds that speculation saves over the plain steps for as many tokens.
double saved(const Point& point) { return point.accept_length * point.step - point.cycle; }

double saved_at(Study& study, bool whole, double us_each) {
  RunConfig variant = study.config;
  CommWhatIf what_if = variant.comm.what_if.value_or(CommWhatIf{});
  what_if.allreduce_factor = 1;
  (whole ? what_if.allreduce_us : what_if.cycle_allreduce_us) = us_each;
  if (whole) what_if.cycle_allreduce_us.reset();
  variant.comm.what_if = what_if;
  return saved(study.of(variant));
}

/// The time between `low` and `high`, of which one pays and the other does not, at which that turns. Savings are
/// piecewise linear in it, so false position (Illinois) ends after a few prices.
double turning_point(Study& study, bool whole, std::pair<double, double> low, std::pair<double, double> high) {
  int kept = 0;
  for (int i = 0; i < 60 && high.first - low.first > 1e-6 * high.first; ++i) {
    const double t = low.first - low.second * (high.first - low.first) / (high.second - low.second);
    const double s = saved_at(study, whole, t);
    if (std::abs(s) < 1e-12) return t;
    if ((s > 0) == (low.second > 0)) {
      low = {t, s};
      if (kept == 1) high.second /= 2;
      kept = 1;
    } else {
      high = {t, s};
      if (kept == -1) low.second /= 2;
      kept = -1;
    }
  }
  return (low.first + high.first) / 2;
}

/// Ranges of times from 0 on in which speculation pays.
std::vector<std::pair<double, double>> paying(Study& study, bool whole) {
  std::vector<std::pair<double, double>> ranges;
  std::pair<double, double> last{0, saved_at(study, whole, 0)};
  if (last.second > 0) ranges.emplace_back(0, largest_us);
  for (double t = 1; t <= largest_us; t *= 10) {
    const std::pair<double, double> next{t, saved_at(study, whole, t)};
    if ((next.second > 0) != (last.second > 0)) {
      const double turn = turning_point(study, whole, last, next);
      if (next.second > 0)
        ranges.emplace_back(turn, largest_us);
      else
        ranges.back().second = turn;
    }
    last = next;
  }
  return ranges;
}

/// What is prepared of collectives, while one run of the same fabric is priced.
class Lent {
 public:
  Lent(Prices& from, Prices& to) : from_(from), to_(to) { from_.swap_collectives(to_); }
  ~Lent() { from_.swap_collectives(to_); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  Prices& from_;
  Prices& to_;
};

}  // namespace

Point Study::of(const RunConfig& variant, bool same_fabric) {
  Prices other(variant, shelf);
  if (!same_fabric) return other.at(variant, context);
  const Lent lent(prices, other);
  return other.at(variant, context);
}

SolveVerdict verdict(const Study& study) {
  const Point& p = study.base;
  SolveVerdict out{.plain_tok_s = p.plain_tok_s(study.batch()),
                   .step_seconds = p.step,
                   .cycle_seconds = p.cycle,
                   .verify_seconds = p.phase(PassKind::verify)->seconds,
                   .break_even_length = p.break_even(),
                   .break_even_rate = rate_for(p.break_even(), study.depth())};
  if (!study.has_acceptance) return out;
  const double length = p.accept_length;
  out.accept_length = length;
  out.tok_s = p.tok_s(study.batch());
  double rest = p.cycle - length * p.step;
  const auto term = [&](const std::string& name, double seconds) {
    rest -= seconds;
    if (seconds != 0) out.terms.push_back({name, seconds});
  };
  const Breakdown& plain = p.phase(PassKind::decode)->parts;
  const Breakdown& wide = p.phase(PassKind::verify)->parts;
  for (std::size_t i = 0; i < part_count; ++i)
    term("verify " + EnumNames<Part>::names()[i], wide[i] - length * plain[i]);
  for (const PassKind kind : {PassKind::draft, PassKind::extend})
    if (const PhaseResult* pass = p.phase(kind)) term(name_of(kind), pass->passes_per_cycle * pass->seconds);
  if (std::abs(rest) > 1e-9 * p.cycle) term("between passes", rest);
  std::stable_sort(out.terms.begin(), out.terms.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.seconds) > std::abs(b.seconds); });
  const double lost = p.cycle - length * p.step;
  const auto decides = std::find_if(out.terms.begin(), out.terms.end(),
                                    [&](const CycleTerm& t) { return (t.seconds > 0) == (lost > 0); });
  out.decides = static_cast<std::size_t>(decides - out.terms.begin());
  out.alone = decides != out.terms.end() && (lost - decides->seconds > 0) != (lost > 0);
  return out;
}

SolveAllreduce allreduce_times(Study& study) {
  const PhaseResult& plain = *study.base.phase(PassKind::decode);
  const PhaseResult& wide = *study.base.phase(PassKind::verify);
  SolveAllreduce out{.decode_us = plain.allreduce_seconds / us,
                     .verify_us = wide.allreduce_seconds / us,
                     .in_verify = wide.allreduces,
                     .in_decode = plain.allreduces,
                     .largest_us = largest_us};
  if (!study.has_acceptance || wide.allreduces == 0) return out;
  const auto cycle = paying(study, false);
  if (!cycle.empty()) out.cycle_pays_up_to_us = cycle.front().second;
  out.all_pays = paying(study, true);
  return out;
}

}  // namespace specstep::solving
