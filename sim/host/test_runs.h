// For tests: runs small enough to compute many times, and their parts put together.
#pragma once

#include <numeric>

#include "sim/host/generator.h"
#include "sim/host/model.h"
#include "sim/test_configs.h"

namespace specstep::host {

/// Every number divides by eight ranks except the vocabulary, which has to be padded, and the key/value heads, which
/// have to be replicated.
inline const std::string dense_stack =
    "stack={name: dense, source: test, layers: 2, hidden: 64, vocab: 100, attention: {kind: gqa, heads: 8, kv_heads: "
    "2, "
    "head_dim: 8, qk_norm: true}, mlp: {kind: dense, intermediate: 64}, weights: {rest: bf16}}";
inline const std::string mla_stack =
    "stack={name: mla, source: test, layers: 2, hidden: 64, vocab: 100, attention: {kind: mla, heads: 8, q_rank: 24, "
    "kv_rank: 16, nope_dim: 8, rope_dim: 4, value_dim: 8}, mlp: {kind: moe, intermediate: 64, experts: 8, top_k: 2, "
    "expert_intermediate: 64, shared_experts: 1, leading_dense_layers: 1}, weights: {rest: bf16, experts: {dtype: "
    "int4, "
    "group: 32, scale: bf16}}}";
inline const std::string hybrid_stack =
    "stack={name: hybrid, source: test, layers: 4, hidden: 64, vocab: 100, attention: {kind: gqa, heads: 8, kv_heads: "
    "8, "
    "head_dim: 8}, pattern: [{attention: window, window: 5}, {attention: sparse, sparse: {top_k: 4, index_heads: 2, "
    "index_dim: 8}}, {attention: linear, linear: {key_heads: 8, key_dim: 4, value_heads: 16, value_dim: 4, "
    "state_bytes: "
    "4096}}, full], mlp: {kind: dense, intermediate: 64}, weights: {rest: {dtype: fp8, group: 16}}}";
inline const std::string eagle_draft =
    "draft={name: eagle, source: test, method: eagle3, layers: 1, hidden: 64, vocab: 50, embedding_rows: 100, "
    "own_embedding: false, attention: {kind: gqa, heads: 8, kv_heads: 8, head_dim: 8}, mlp: {kind: dense, "
    "intermediate: "
    "64}, weights: {rest: bf16}}";
inline const std::string nextn_draft =
    "draft={name: mtp, source: test, method: nextn, layers: 1, hidden: 64, vocab: 100, own_embedding: false, own_head: "
    "false, attention: {kind: gqa, heads: 8, kv_heads: 8, head_dim: 8}, mlp: {kind: moe, experts: 8, top_k: 2, "
    "expert_intermediate: 64}, weights: {rest: bf16}}";

inline RunConfig small_run(const std::string& stack, const std::string& draft, std::int64_t ranks,
                           std::vector<std::string> more = {}) {
  std::vector<std::string> sets{stack, draft, "machine=8x-h200", "parallel={tensor: " + std::to_string(ranks) + "}",
                                "measure.host={precision: f32}"};
  if (draft.find("nextn") != std::string::npos) sets.emplace_back("speculation.method=nextn");
  sets.insert(sets.end(), more.begin(), more.end());
  return load_run("tiny", sets);
}

/// A run's models on their ranks.
struct Rig {
  explicit Rig(RunConfig run)
      : config(std::move(run)),
        team(static_cast<int>(config.parallel.tensor)),
        exchange(config, team),
        target(view_of(config.stack, &*config.draft), config.parallel.tensor, room(), config.measure.host, team,
               exchange),
        draft(view_of(*config.draft), config.parallel.draft_tensor == 1 ? 1 : config.parallel.tensor, room(),
              config.measure.host, team, exchange),
        runner(config, target, &draft),
        generator(config, target, &draft) {}
  std::size_t room() const { return static_cast<std::size_t>(config.workload.batch + config.parallel.attention_data); }

  RunConfig config;
  Team team;
  Exchange exchange;
  Model target;
  Model draft;
  Runner runner;
  TokenGenerator generator;
};

/// Mean squared difference over mean square.
inline double nmse(const Matrix& a, const Matrix& b) {
  return static_cast<double>((a - b).squaredNorm()) / static_cast<double>(b.squaredNorm());
}

inline std::vector<std::int32_t> some_tokens(std::size_t count, std::int32_t vocab, std::int32_t from = 3) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back((from + static_cast<std::int32_t>(i) * 37) % vocab);
  return out;
}

inline std::vector<int> first_nodes(std::size_t count) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace specstep::host
