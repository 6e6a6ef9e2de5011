// What carries out a plan. Preparing is expensive, running is cheap; the two are separate calls.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/pricing.h"
#include "model/plan.h"
#include "sim/config.h"

namespace specstep {

/// Where the exposed time of a pass goes. Sums to the pass.
enum class Part { gemm, moe, attention, norm, allreduce, allgather, alltoall, launch, skew, host, other };
inline constexpr std::size_t part_count = 11;
template <>
struct EnumNames<Part> {
  static std::vector<std::string> names() {
    return {"gemm",     "moe",    "attention", "norm", "allreduce", "allgather",
            "alltoall", "launch", "skew",      "host", "other"};
  }
};
/// The part a step's work belongs to.
Part part_of(const Step& step);

using Breakdown = std::array<double, part_count>;  // seconds, by Part

/// One step of a traced run.
struct StepTime {
  double seconds = 0;  // exposed, of the step's part
  comm::Provenance provenance = comm::Provenance::datasheet;
  bool extrapolated = false;
  double gap = 0;  // in front of it, of Part::launch
};

/// One in-layer allreduce inside a pass by the clocks of the ranks' devices, seconds: `transfer` from the last rank's
/// arrival to the last one's departure, `wait` from the first arrival to the last, 0 where the clocks do not tell it
/// apart; both as medians over the allreduces.
struct InSitu {
  double transfer = 0;
  double wait = 0;
  double clock_error = 0;
  std::string refused;  // why no clocks were compared
  /// Whether the clocks are known better than the transfer is long.
  bool told() const { return refused.empty() && clock_error < transfer; }
};

/// What devices showed of a traced pass beside its times: for notes (PassNotes).
struct DeviceTrace {
  std::int64_t graph_nodes = 0;       // 0: not captured
  std::int64_t graph_allreduces = 0;  // steps that put at least one node there
  std::int64_t allreduce_nodes = 0;   // nodes they put there
  double isolated_share = 0;          // its steps alone, as a share of the pass
  double inside_share = 0;            // its steps inside a traced pass, before they are scaled to this one
  std::optional<InSitu> in_situ;      // nothing for a pass without allreduces in layers
};

/// One pass of the whole batch on the slowest rank.
struct Timeline {
  double seconds = 0;
  Breakdown parts{};
  std::vector<StepTime> spans;   // one for each step of the plan, when traced
  double in_situ_seconds = 0;    // one in-layer allreduce inside the pass, its wait included, where it was measured
  double wait_seconds = 0;       // of that, from the first rank's arrival to the last's
  double allreduce_seconds = 0;  // one in-layer allreduce, isolated, where it is not that of its span
  double host_seconds = 0;       // that the host needs to launch it, where that is priced
  std::vector<std::int32_t> experts_met;  // [routed layer] local experts that its tokens chose, where it was computed
  std::optional<DeviceTrace> device;      // of a traced run on devices
};

/// How drafts fared over all verify passes of all sequences.
struct AcceptanceCounts {
  std::int64_t verifies = 0;              // one for each sequence and verify pass
  std::int64_t drafted = 0;               // drafts proposed
  std::int64_t emitted = 0;               // tokens that the verifies added to the texts
  std::vector<std::int64_t> accepted_at;  // [i]: verifies that accepted more than i drafts

  /// Tokens emitted per verify: SGLang's accept length (engine counter: completion tokens / verifies).
  double accept_length() const;
  /// vLLM's per-position acceptance: share of verifies that accepted draft i and all before it.
  std::vector<double> survival() const;
  /// vLLM's mean acceptance length: 1 + accepted drafts / verifies; equals 1 + the sum of survivals.
  double acceptance_length() const;
  /// Accepted drafts / drafts: vLLM's acceptance rate, newer SGLang's accept rate.
  double acceptance_rate() const;
};

/// One generation of the whole batch by an executor that computes tokens. Seconds.
struct Generation {
  struct Passes {
    double seconds = 0;
    std::int64_t count = 0;
  };
  double first_token = 0;                         // prefill, the draft's own included
  double rest = 0;                                // from the first token to the last
  std::array<Passes, 5> passes{};                 // by PassKind; prefill: the target's
  AcceptanceCounts acceptance;                    // of a speculative generation
  std::vector<std::vector<std::int32_t>> tokens;  // output of each sequence

  Passes& of(PassKind kind) { return passes[static_cast<std::size_t>(kind)]; }
  const Passes& of(PassKind kind) const { return passes[static_cast<std::size_t>(kind)]; }
};

/// What an executor that computes real tokens offers beside single passes.
class Generator {
 public:
  virtual ~Generator() = default;
  /// Answers the prompts of the run, with its drafts or without.
  virtual Generation generate(bool speculative) = 0;
};

class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
  virtual const Plan& plan() const = 0;
  virtual Launch launch() const = 0;
  /// What a reader must know of how it is carried out: choices made, substitutions.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Carries out the plan once. `traced` asks for one span per step; tok/s never comes from a traced run.
  virtual Timeline run(bool traced) = 0;
};

/// A GPU as it is while a run is measured. Numbers that the driver does not tell are 0.
struct DeviceFacts {
  std::string name;
  std::string driver, cuda, cublas;  // versions
  double memory_gib = 0;
  double sm_clock_mhz = 0, memory_clock_mhz = 0;
  double temperature_c = 0;
  double power_limit_w = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;
  /// Throws Unsupported or InputError with the reason when it cannot carry out this plan.
  virtual std::unique_ptr<PreparedPlan> prepare(Plan plan, Launch launch) = 0;
  /// Whether run() takes a time that differs from call to call, so that it is repeated.
  virtual bool measures() const { return false; }
  /// Whether this process tells the result; of ranks that are processes only the first does.
  virtual bool reports() const { return true; }
  /// The GPUs it runs on, as they are now.
  virtual std::vector<DeviceFacts> devices() const { return {}; }
  /// Metrics of its own, after all passes: memory predicted and used.
  virtual std::map<std::string, double> metrics() const { return {}; }
  /// What a reader must know of the whole run: versions of what carried it out, choices.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Nothing for an executor that has no tokens.
  virtual Generator* generator() { return nullptr; }
};

/// The executor a config asks for. Throws Unsupported, naming those there are, when this build has none of that kind.
std::unique_ptr<Executor> make_executor(const RunConfig& config);

/// One row for each executor this build knows.
struct ExecutorRow {
  std::string name;
  std::string summary;
  std::string refusal;  // empty when it can be used
};
std::vector<ExecutorRow> executors();

}  // namespace specstep
