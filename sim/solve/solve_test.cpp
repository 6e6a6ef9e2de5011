// Answers against runs: the same questions asked by brute force of run_benchmark, one run for each point.
#include "sim/solve/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/units.h"
#include "sim/engine/benchmark.h"
#include "sim/solve/numbers.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using Sets = std::vector<std::string>;

std::string set(const std::string& key, std::int64_t value) { return key + "=" + std::to_string(value); }

/// A run with `context` tokens in the cache, of which one more comes out.
RunResult brute(const std::string& name, Sets sets, std::int64_t context) {
  sets.push_back(set("workload.prompt_tokens", context));
  sets.emplace_back("workload.output_tokens=2");
  const RunConfig config = load_run(name, sets);
  return run_benchmark(config, *make_executor(config));
}
double value(const RunResult& r, const std::string& name) { return r.metrics.at(name).value; }

const SolveOptions small{{1, 6, 64}, {1024, 32768}, {1, 2, 3, 5}};

const SensitivityRow& input(const SolveResult& r, const std::string& name) {
  const auto found =
      std::find_if(r.sensitivity.begin(), r.sensitivity.end(), [&](const auto& s) { return s.input == name; });
  if (found == r.sensitivity.end()) throw Error("no input " + name);
  return *found;
}

TEST(Solve, BreakEvenIsThatOfRunsOverTheGrid) {
  const SolveResult r = solve(load_run("seed/eagle3"), small);
  ASSERT_EQ(r.break_even.size(), 9u);  // three batches; the run's context and two more
  for (const BreakEvenRow& row : r.break_even) {
    const RunResult run = brute("seed/eagle3", {set("workload.batch", row.batch)}, row.context);
    const double expected = value(run, "speculative.break_even_accept_length");
    EXPECT_NEAR(row.length, expected, 0.01 * expected) << row.batch << " " << row.context;
    EXPECT_NEAR(row.cycle_seconds / ms, value(run, "speculative.cycle_ms"), 0.01 * row.cycle_seconds / ms);
    // The rate gives the length: 1 + p + p^2 for two drafts.
    ASSERT_TRUE(row.rate);
    if (row.length > 1) {
      EXPECT_NEAR(1 + *row.rate + *row.rate * *row.rate, row.length, 1e-9);
    }
  }
}

// Chances 0.645 and 0.393 / 0.645 are given; further ones go on falling by their ratio.
TEST(Solve, BestDraftLengthIsThatOfRunsOverAllLengths) {
  const SolveResult r = solve(load_run("seed/eagle3"), small);
  ASSERT_EQ(r.draft_lengths.size(), 3u);
  for (const DraftLengthRow& row : r.draft_lengths) {
    double best = 0;
    std::int64_t best_length = 0;
    for (std::size_t i = 0; i < small.draft_lengths.size(); ++i) {
      const std::int64_t length = small.draft_lengths[i];
      std::string survival;
      double s = 1;
      double chance = 0.645;
      const double ratio = 0.393 / 0.645 / 0.645;
      for (std::int64_t k = 0; k < length; ++k, chance *= ratio)
        survival += (k > 0 ? "," : "") + std::to_string(s *= chance);
      const RunResult run = brute("seed/eagle3",
                                  {set("workload.batch", row.batch), set("speculation.draft_length", length),
                                   "speculation.acceptance={survival: [" + survival + "]}"},
                                  r.context);
      const double tok_s = value(run, "speculative.tok_s");
      EXPECT_NEAR(row.lengths.at(i).tok_s, tok_s, 0.01 * tok_s) << row.batch << " " << length;
      EXPECT_NEAR(row.plain_tok_s, value(run, "decode.tok_s"), 0.01 * row.plain_tok_s);
      best = std::max(best, value(run, "decode.tok_s"));
      if (tok_s > best) {
        best = tok_s;
        best_length = length;
      }
    }
    EXPECT_EQ(row.best, best_length) << row.batch;
    EXPECT_NEAR(row.tok_s, best, 0.01 * best);
  }
}

// In a graph a pass is linear in the allreduce's time: 123 in a verify, 3 in the draft step, 3 in the extend.
TEST(Solve, TheAllreduceTimeAtWhichSpeculationStopsPaying) {
  const SolveResult r = solve(load_run("seed/eagle3"), {{1}, {}, {2}});
  const RunResult run = brute("seed/eagle3", {}, r.context);
  double without = value(run, "speculative.cycle_ms") * ms;
  for (const PhaseResult& p : run.phases)
    without -= p.passes_per_cycle * p.parts[static_cast<std::size_t>(Part::allreduce)];
  const double allowed = value(run, "speculative.accept_length") * value(run, "decode.step_ms") * ms;
  ASSERT_TRUE(r.allreduce.cycle_pays_up_to_us);
  const double expected = (allowed - without) / 129 / us;
  EXPECT_NEAR(*r.allreduce.cycle_pays_up_to_us, expected, 0.005 * expected);
  // What a user would do with the answer.
  const auto speedup = [&](double factor) {
    const std::string key = "comm.what_if.cycle_allreduce_us=";
    return value(brute("seed/eagle3", {key + std::to_string(factor * *r.allreduce.cycle_pays_up_to_us)}, r.context),
                 "speculative.speedup");
  };
  EXPECT_GT(speedup(0.98), 1);
  EXPECT_LT(speedup(1.02), 1);
}

// A draft that is hardly ever right pays only where steps are dear: from some allreduce time on, of all alike.
TEST(Solve, SlowAllreducesCanMakeSpeculationPay) {
  const Sets sets{"speculation.acceptance={rate: 0.15}", "engine.cycle=sglang-v2"};
  const SolveResult r = solve(load_run("seed/eagle3", sets), {{1}, {}, {2}});
  EXPECT_LT(r.verdict.tok_s, r.verdict.plain_tok_s);
  ASSERT_TRUE(r.allreduce.cycle_pays_up_to_us);  // those of the cycle alone would have to be faster
  EXPECT_LT(*r.allreduce.cycle_pays_up_to_us, r.allreduce.verify_us);
  ASSERT_EQ(r.allreduce.all_pays.size(), 1u);
  const double from = r.allreduce.all_pays[0].first;
  ASSERT_GT(from, 0);
  const auto speedup = [&](double us_each) {
    return value(
        brute("seed/eagle3", {sets[0], sets[1], "comm.what_if.allreduce_us=" + std::to_string(us_each)}, r.context),
        "speculative.speedup");
  };
  EXPECT_LT(speedup(0.98 * from), 1);
  EXPECT_GT(speedup(1.02 * from), 1);
}

TEST(Solve, TermsAreTheWholeDifference) {
  for (const char* rate : {"0.05", "0.7"}) {
    const SolveResult r =
        solve(load_run("seed/eagle3", {std::string("speculation.acceptance={rate: ") + rate + "}"}), {{1}, {}, {2}});
    const SolveVerdict& v = r.verdict;
    const double lost = v.cycle_seconds - *v.accept_length * v.step_seconds;
    double sum = 0;
    for (const CycleTerm& term : v.terms) sum += term.seconds;
    EXPECT_NEAR(sum, lost, 1e-12);
    ASSERT_LT(v.decides, v.terms.size());
    EXPECT_EQ(v.terms[v.decides].seconds > 0, lost > 0);
    for (const CycleTerm& term : v.terms) {
      if ((term.seconds > 0) == (lost > 0)) {
        EXPECT_LE(std::abs(term.seconds), std::abs(v.terms[v.decides].seconds));
      }
    }
  }
}

// L = 1 + p1 + p1 p2, so d log L / d log p1 = p1 (1 + p2) / L and d log L / d log p2 = p1 p2 / L.
TEST(Solve, SensitivityToAcceptanceIsItsClosedForm) {
  const SolveResult r =
      solve(load_run("seed/eagle3", {"speculation.acceptance={conditional: [0.6, 0.5]}"}), {{1}, {}, {2}});
  const SensitivityRow& first = input(r, "speculation.acceptance.conditional[0]");
  EXPECT_NEAR(*first.speculative, 0.9 / 1.9, 1e-4);
  EXPECT_NEAR(*input(r, "speculation.acceptance.conditional[1]").speculative, 0.3 / 1.9, 1e-4);
  EXPECT_EQ(first.plain, 0);
}

void expect_elasticity(const Sets& sets, const SolveResult& r, const std::string& key) {
  const double now = input(r, key).value;
  const auto run = [&](double factor) {
    Sets all = sets;
    all.push_back(key + "=" + std::to_string(now * factor));
    return brute("seed/eagle3", all, r.context);
  };
  const RunResult less = run(0.98);
  const RunResult more = run(1.02);
  const auto elasticity = [&](const char* metric) {
    return std::log(value(more, metric) / value(less, metric)) / std::log(1.02 / 0.98);
  };
  EXPECT_NEAR(input(r, key).plain, elasticity("decode.tok_s"), 0.01) << key;
  EXPECT_NEAR(*input(r, key).speculative, elasticity("speculative.tok_s"), 0.01) << key;
}

TEST(Solve, SensitivitiesAreThoseOfRuns) {
  const SolveOptions one{{1}, {}, {2}};
  const Sets pull{"comm.backend=pull1"};
  expect_elasticity(pull, solve(load_run("seed/eagle3", pull), one), "machine.fabric.slowdowns[4].bandwidth_gb_s");
  const SolveResult r = solve(load_run("seed/eagle3"), one);
  for (const char* key :
       {"machine.gpu.memory_bandwidth_gb_s", "machine.gpu.graph_node_us", "machine.gpu.kernels.other.floor_us"})
    expect_elasticity({}, r, key);
  const auto magnitude = [](const SensitivityRow& s) { return std::max(std::abs(s.plain), std::abs(*s.speculative)); };
  EXPECT_TRUE(std::is_sorted(r.sensitivity.begin(), r.sensitivity.end(),
                             [&](const auto& a, const auto& b) { return magnitude(a) > magnitude(b); }));
  EXPECT_GT(r.inert, 0u);
}

// An eager step that the host bounds takes kernels x launch: nothing else moves it.
TEST(Solve, AHostBoundStepHangsOnTheLaunchAlone) {
  const SolveResult r =
      solve(load_run("seed/baseline-graph128", {"engine.phases.decode=eager", "machine.gpu.eager_launch_us=100"}),
            {{1}, {}, {3}});
  EXPECT_NEAR(input(r, "machine.gpu.eager_launch_us").plain, -1, 1e-9);
  for (const SensitivityRow& row : r.sensitivity) {
    if (row.input.starts_with("machine.gpu.kernels")) {
      EXPECT_EQ(row.plain, 0) << row.input;
    }
  }
}

TEST(Solve, BackendsAreRunsWithThatBackend) {
  const SolveResult r = solve(load_run("seed/eagle3"), {{1}, {}, {2}});
  int served = 0, refused = 0;
  for (const BackendAnswer& b : r.backends) {
    const Sets sets{"comm.backend=\"" + b.backend + "\""};  // null would be YAML's
    if (!b.refusal.empty()) {
      ++refused;
      EXPECT_THAT(refusal_of([&] { load_run("seed/eagle3", sets); }), HasSubstr(b.backend)) << b.refusal;
      continue;
    }
    ++served;
    const RunResult run = brute("seed/eagle3", sets, r.context);
    EXPECT_NEAR(b.plain_tok_s, value(run, "decode.tok_s"), 0.01 * b.plain_tok_s) << b.backend;
    EXPECT_NEAR(*b.tok_s, value(run, "speculative.tok_s"), 0.01 * *b.tok_s) << b.backend;
    EXPECT_NEAR(b.verify_seconds / ms, value(run, "verify.pass_ms"), 0.01 * b.verify_seconds / ms) << b.backend;
  }
  EXPECT_GE(served, 8);
  EXPECT_GE(refused, 1);  // nvls, over PCIe
}

TEST(Solve, WithoutADraftTheLeastThatAnyDraftMustReach) {
  const SolveResult r = solve(load_run("seed/baseline-graph128"), {{1, 16}, {}, {3}});
  EXPECT_TRUE(r.free_draft);
  EXPECT_FALSE(r.verdict.accept_length);
  EXPECT_TRUE(r.draft_lengths.empty());
  EXPECT_THAT(r.notes, Contains(HasSubstr("--set draft=NAME")));
  for (const BreakEvenRow& row : r.break_even) {
    const RunResult run = brute(
        "seed/baseline-graph128",
        {set("workload.batch", row.batch), "speculation={method: ngram, draft_length: 3, acceptance: {rate: 0.5}}"},
        row.context);
    EXPECT_NEAR(row.length, value(run, "verify.pass_ms") / value(run, "decode.step_ms"), 0.01 * row.length);
  }
}

TEST(Solve, ATreeHasNoDraftLengthToChoose) {
  const SolveResult r = solve(load_run("seed/eagle3", {"speculation.tree={steps: 3, topk: 4, verify_tokens: 8}",
                                                       "speculation.acceptance={survival: [0.6, 0.4, 0.1]}"}),
                              {{1}, {}, {2}});
  EXPECT_TRUE(r.draft_lengths.empty());
  EXPECT_NEAR(*r.verdict.accept_length, 2.1, 1e-12);
  EXPECT_THAT(r.notes, Contains(HasSubstr("a tree")));
}

TEST(Solve, WhatABatchCannotDoIsSaidInItsRow) {
  const SolveResult r =
      solve(load_run("seed/eagle3", {"parallel.attention_data=8", "workload.batch=8"}), {{1, 8}, {}, {2}});
  EXPECT_THAT(r.break_even[0].error, HasSubstr("a batch of 8 at least"));
  EXPECT_TRUE(r.break_even[1].error.empty());
}

TEST(Solve, CellsBeyondTheEnginesSequencesAreMarked) {
  const SolveResult r = solve(load_run("seed/eagle3", {"engine.max_sequences=4"}), {{4, 8}, {}, {2}});
  EXPECT_TRUE(r.break_even[0].admitted);
  EXPECT_FALSE(r.break_even[1].admitted);
  EXPECT_THAT(to_text(r), HasSubstr("+ more than the 4 sequences that engine.max_sequences runs at once"));
  EXPECT_EQ(to_json(r)["break_even"][1]["admitted"], false);
  EXPECT_THAT(to_text(solve(load_run("seed/eagle3"), {{4, 8}, {}, {2}})), Not(HasSubstr("engine.max_sequences")));
}

TEST(Solve, JsonHasItsSchemaAndTheTextTheAnswer) {
  const SolveResult r = solve(load_run("seed/eagle3"), small);
  const auto json = to_json(r);
  EXPECT_EQ(json["schema"], "specstep.solve/1");
  EXPECT_EQ(json["break_even"].size(), r.break_even.size());
  EXPECT_EQ(json["verdict"]["speculate"], true);
  const std::string text = to_text(r);
  EXPECT_THAT(text, HasSubstr("speculate: "));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
  EXPECT_THAT(to_csv(r), HasSubstr("break_even,64,32768,2,,accept_length,"));
}

// 123 allreduces in decode and in verify; those of other passes stay where only the cycle's are asked for.
TEST(WhatIf, ReplacesTheTimeOfAllreducesAlone) {
  const auto allreduces = [](const std::string& what_if, PassKind kind) {
    const RunResult r = brute("seed/eagle3", what_if.empty() ? Sets{} : Sets{"comm.what_if={" + what_if + "}"}, 1000);
    for (const PhaseResult& p : r.phases)
      if (p.kind == kind) return std::pair{p.parts[static_cast<std::size_t>(Part::allreduce)], p.seconds};
    throw Error("no such pass");
  };
  const auto decode = allreduces("", PassKind::decode);
  const auto fixed = allreduces("allreduce_us: 50", PassKind::decode);
  EXPECT_NEAR(fixed.first, 123 * 50e-6, 1e-12);
  EXPECT_NEAR(fixed.second - fixed.first, decode.second - decode.first, 1e-12);
  EXPECT_NEAR(allreduces("cycle_allreduce_us: 50", PassKind::verify).first, 123 * 50e-6, 1e-12);
  EXPECT_EQ(allreduces("cycle_allreduce_us: 50", PassKind::decode), decode);
  EXPECT_NEAR(allreduces("allreduce_factor: 2", PassKind::decode).first, 2 * decode.first, 1e-12);
}

TEST(Numbers, AreFoundByTheirKeysAndScaledAlone) {
  const RunConfig config = load_run("seed/eagle3");
  const auto numbers = solving::config_numbers(config, {"machine.", "speculation.acceptance."});
  const auto has = [&](const std::string& key, double expected) {
    return std::any_of(numbers.begin(), numbers.end(),
                       [&](const auto& n) { return n.key == key && n.value == expected; });
  };
  EXPECT_TRUE(has("machine.gpu.memory_bandwidth_gb_s", 1792));
  EXPECT_TRUE(has("speculation.acceptance.survival[1]", 0.393));
  const auto before = dump_config(config);
  auto after = dump_config(solving::scaled(config, "machine.gpu.memory_bandwidth_gb_s", 2));
  EXPECT_EQ(after["machine"]["gpu"]["memory_bandwidth_gb_s"]["value"], 3584);
  after["machine"]["gpu"]["memory_bandwidth_gb_s"] = before["machine"]["gpu"]["memory_bandwidth_gb_s"];
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace specstep
