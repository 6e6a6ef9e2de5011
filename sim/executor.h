// What carries out a plan. Preparing is expensive, running is cheap; the two are separate calls.
#pragma once

#include <array>
#include <map>
#include <memory>
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
  double seconds = 0;  // exposed, the gap in front of it included
  comm::Provenance provenance = comm::Provenance::datasheet;
  bool extrapolated = false;
};

/// One pass of the whole batch on the slowest rank.
struct Timeline {
  double seconds = 0;
  Breakdown parts{};
  std::vector<StepTime> spans;  // one for each step of the plan, when traced
};

class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
  virtual const Plan& plan() const = 0;
  virtual Launch launch() const = 0;
  /// Carries out the plan once. `traced` asks for one span per step; tok/s never comes from a traced run.
  virtual Timeline run(bool traced) = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;
  /// Throws Unsupported or InputError with the reason when it cannot carry out this plan.
  virtual std::unique_ptr<PreparedPlan> prepare(Plan plan, Launch launch) = 0;
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
