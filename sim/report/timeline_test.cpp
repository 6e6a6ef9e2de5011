// Timelines, parsed back: whole passes, nothing between their events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/engine/benchmark.h"
#include "sim/plan_of.h"
#include "sim/test_studies.h"

namespace specstep {
namespace {

/// Events of one process, metadata aside.
struct Process {
  std::string name;
  std::vector<nlohmann::json> events;
};

std::vector<Process> processes_of(const std::string& text) {
  std::map<int, Process> by_id;
  const auto all = nlohmann::json::parse(text);
  for (const auto& event : all.at("traceEvents")) {
    Process& process = by_id[event["pid"]];
    if (event["ph"] == "X") process.events.push_back(event);
    if (event["name"] == "process_name") process.name = event["args"]["name"];
  }
  std::vector<Process> out;
  out.reserve(by_id.size());
  for (auto& [id, process] : by_id) out.push_back(std::move(process));
  return out;
}

/// Nanoseconds, which viewers count in whole numbers.
std::int64_t whole(const nlohmann::json& microseconds) {
  const double ns = microseconds.get<double>() * 1e3;
  EXPECT_NEAR(ns, std::round(ns), 1e-3);
  return std::llround(ns);
}

void expect_gapless(const Process& process, double seconds) {
  std::int64_t end = 0;
  for (const auto& event : process.events) {
    EXPECT_EQ(whole(event["ts"]), end) << process.name << event;
    end += whole(event["dur"]);
  }
  EXPECT_NEAR(static_cast<double>(end), seconds * 1e9, 1) << process.name;
}

RunResult run_of(const std::string& name, const std::vector<std::string>& sets = {}) {
  const RunConfig config = load_run(name, sets);
  return run_benchmark(config, *make_executor(config));
}

TEST(Timeline, APassIsItsStepsAndWhatBelongsToNone) {
  for (const RunResult& r :
       {run_of("seed/eagle3",
               {"engine.skew={source: test, of: wait, captured: {median_us: 3}}", "engine.kernels.layer_overhead_us=7",
                "engine.cycle={rules: sglang_v2, host: {verify: {captured_us: 200}}}"}),
        run_of("tiny", {"measure.executor=host", "measure.runs=1", "measure.warmup=0", "workload.output_tokens=8"})}) {
    const std::vector<Process> found = processes_of(to_timeline(r));
    ASSERT_EQ(found.size(), r.phases.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].name, r.config.name + ": " + name_of(r.phases[i].kind));
      expect_gapless(found[i], r.phases[i].seconds);
    }
  }
}

TEST(Timeline, StepsAreThoseOfThePlanInOrder) {
  const RunResult r = run_of("seed/eagle3", {"engine.skew={source: test, of: wait, captured: {median_us: 3}}",
                                             "engine.cycle={rules: sglang_v2, host: {verify: {captured_us: 200}}}"});
  const Plan plan = plan_of(r.config, PassKind::verify);
  const std::vector<Process> found = processes_of(to_timeline(r));
  const Process& verify = found.back();
  ASSERT_GT(verify.events.size(), plan.steps.size());
  std::int64_t allreduces = 0;
  double moved = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto& event = verify.events[i];
    const auto& args = event["args"];
    EXPECT_EQ(event["name"], name_of(plan.steps[i].kind));
    EXPECT_EQ(args.value("layer", no_index), plan.steps[i].layer);
    if (plan.steps[i].kind != StepKind::attention) {
      EXPECT_EQ(args["shape"], op_text(plan.steps[i].op));  // attention's context grows along the phase
    }
    EXPECT_TRUE(args.contains("weight_bytes") && args.contains("provenance"));
    EXPECT_NEAR(args["gb_s"].get<double>() * event["dur"].get<double>() * 1e3,
                args[args.contains("comm_bytes") ? "comm_bytes" : "bytes"].get<double>(),
                1.001 * args["gb_s"].get<double>())  // what moves in a nanosecond
        << event;
    moved += args["bytes"].get<double>();
    allreduces += event["cat"] == "allreduce" ? 1 : 0;
  }
  EXPECT_EQ(allreduces, 123);
  EXPECT_NEAR(moved, r.phases.back().cost.bytes(), 1);
  std::vector<std::string> rest;
  for (std::size_t i = plan.steps.size(); i < verify.events.size(); ++i) rest.push_back(verify.events[i]["cat"]);
  EXPECT_EQ(rest, (std::vector<std::string>{"launch", "skew", "host"}));
}

TEST(Timeline, AStudyGivesAllItsRuns) {
  const StudyResult study =
      run_study(read_study_text("name: mine\nruns:\n  - {name: plain, run: tiny, set: {speculation.method: none}}\n"
                                "  - {name: full, run: tiny, set: {machine.gpu.memory_gib.value: 1}}\n"
                                "  - {name: drafted, run: tiny}\n"));
  ASSERT_FALSE(study.rows[1].outcome.result) << "its engine does not start";
  std::vector<std::string> names;
  for (const Process& process : processes_of(to_timeline(study))) {
    names.push_back(process.name);
    EXPECT_FALSE(process.events.empty());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"plain: prefill", "plain: decode", "drafted: prefill", "drafted: decode",
                                             "drafted: draft", "drafted: extend", "drafted: verify"}));
}

// Names come from files: none may break the JSON.
TEST(Timeline, NamesAreEscaped) {
  RunResult r = run_of("tiny", {"speculation.method=none"});
  r.config.name = "\"a\"\n\\";
  EXPECT_EQ(processes_of(to_timeline(r)).front().name, "\"a\"\n\\: prefill");
}

}  // namespace
}  // namespace specstep
