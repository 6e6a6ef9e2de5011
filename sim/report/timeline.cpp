// Passes as Chrome trace events.

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/study_result.h"

namespace specstep {

using Json = nlohmann::ordered_json;

namespace {

class Trace {
 public:
  void add(const std::string& run, const RunResult& result) {
    for (const PhaseResult& phase : result.phases) add(run, phase);
  }
  std::string text() const { return "{\"traceEvents\": [" + events_ + "\n]}\n"; }

 private:
  void add(const std::string& run, const PhaseResult& phase) {
    ++process_;
    seconds_ = 0;
    put({{"ph", "M"}, {"name", "process_name"}, {"args", {{"name", run + ": " + name_of(phase.kind)}}}});
    put({{"ph", "M"}, {"name", "thread_name"}, {"args", {{"name", "steps"}}}});
    Breakdown left = phase.parts;
    for (const StepRow& row : phase.steps.rows) left[static_cast<std::size_t>(row.part)] -= row.seconds;
    for (const StepPlace& place : phase.steps.order) put(phase.steps.rows[place.row], place);
    for (std::size_t i = 0; i < part_count; ++i) {
      const std::string part = EnumNames<Part>::names()[i];
      const bool layers = static_cast<Part>(i) == Part::other;
      if (nanoseconds(left[i]) > 0)  // else a rounding of the sum
        put_time(layers ? "engine's layers" : part, part, left[i], Json::object());
    }
  }

  void put(const StepRow& row, const StepPlace& place) {
    Json args;
    if (place.layer != no_index) args["layer"] = place.layer;
    const auto count = static_cast<double>(row.count);
    args.update({{"shape", op_text(row.op)},
                 {"bytes", row.cost.bytes() / count},
                 {"weight_bytes", row.cost.weight_bytes / count},
                 {"gb_s", gb_per_second(row.cost, place.seconds * count)}});
    if (row.cost.comm_bytes > 0) args["comm_bytes"] = row.cost.comm_bytes / count;
    args["provenance"] = name_of(row.provenance);
    put_time(std::string(name_of(row.kind)), name_of(row.part), place.seconds, std::move(args));
  }

  /// Begins where the one before ends. Viewers count whole nanoseconds, and drop what overlaps by one.
  void put_time(const std::string& name, const std::string& part, double seconds, Json args) {
    const std::int64_t begin = nanoseconds(seconds_);
    seconds_ += seconds;
    const std::int64_t taken = nanoseconds(seconds_) - begin;
    put({{"ph", "X"},
         {"name", name},
         {"cat", part},
         {"ts", static_cast<double>(begin) / 1e3},
         {"dur", static_cast<double>(taken) / 1e3},
         {"args", std::move(args)}});
  }

  void put(Json event) {
    event["pid"] = event["tid"] = process_;
    events_ += (events_.empty() ? "\n" : ",\n") + event.dump();
  }

  static std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

  std::string events_;
  std::int64_t process_ = 0;
  double seconds_ = 0;  // of the process, so far
};

}  // namespace

std::string to_timeline(const RunResult& result) {
  Trace trace;
  const RunConfig& c = result.config;
  trace.add(c.name.empty() ? c.stack.name : c.name, result);
  return trace.text();
}

std::string to_timeline(const StudyResult& study) {
  Trace trace;
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (const auto& result = study.rows[i].outcome.result) trace.add(study.config.runs[i].name, *result);
  return trace.text();
}

}  // namespace specstep
