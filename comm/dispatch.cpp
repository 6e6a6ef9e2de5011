// The table of engine rules. "Ungated" engines are the kernels' own dispatch with the engine's gate before it bypassed.
#include "comm/dispatch.h"

#include <algorithm>

#include "comm/backend.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

constexpr std::int64_t kb = 1024;
constexpr std::int64_t mb = 1024 * kb;

const std::string vllm_gate =
    "vllm-project/vllm@00d618a vllm/distributed/device_communicators/custom_all_reduce.py, 2026";
const std::string vllm_kernel = "vllm-project/vllm@00d618a csrc/custom_all_reduce.cuh, 2026";
const std::string sglang_v2 =
    "sgl-project/sglang python/sglang/srt/distributed/device_communicators/custom_all_reduce_v2.py (pull 19880 and "
    "later), 2026";
const std::string sglang_forced =
    "sgl-project/sglang sgl-kernel/csrc/allreduce/custom_all_reduce.cuh, SGLANG_CUSTOM_ALLREDUCE_ALGO, 2026";
const std::string trtllm = "NVIDIA/TensorRT-LLM allReduce strategy AUTO, pull 4344 and its table for SM90 TP8, 2025";
const std::string flashinfer = "flashinfer-ai/flashinfer trtllm_allreduce_fusion one-shot heuristic, 2025";

std::vector<DispatchRule> sglang_rules() {
  struct Limit {
    int ranks;
    std::int64_t blackwell_push;
    std::int64_t hopper_push;
  };
  std::vector<DispatchRule> rules;
  for (const Limit& l :
       {Limit{2, 4 * mb, 2 * mb}, Limit{3, 4 * mb, 512 * kb}, Limit{4, 2 * mb, 384 * kb}, Limit{5, 2 * mb, 256 * kb},
        Limit{6, mb, 192 * kb}, Limit{7, 896 * kb, 192 * kb}, Limit{8, 720 * kb, 160 * kb}}) {
    const DispatchRule base{.engine = "sglang",
                            .least_ranks = l.ranks,
                            .most_ranks = l.ranks,
                            .links = LinkWish::full_nvlink,
                            .packs = true,
                            .note = "one-shot push up to a size tuned on H200 and B200",
                            .source = sglang_v2};
    DispatchRule rule = base;
    rule.backend = "push1";
    rule.from_capability = 100;
    rule.below_bytes = l.blackwell_push + 1;
    rules.push_back(rule);
    rule.from_capability = 0;
    rule.below_bytes = l.hopper_push + 1;
    rules.push_back(rule);
    rule = base;
    rule.backend = l.ranks == 2 ? "pull1" : "rsag";
    rule.below_bytes = 16 * mb + 1;
    rule.note = "by reads above that, up to the 16 MiB of its buffers";
    rules.push_back(rule);
  }
  rules.push_back({.engine = "sglang",
                   .most_ranks = 1024,
                   .backend = "nccl",
                   .note = "custom allreduce needs NVLink between all pairs, and whole packs up to 16 MiB",
                   .source = sglang_v2});
  return rules;
}

std::vector<DispatchRule> kernel_rules(const std::string& engine, std::int64_t limit) {
  const auto rule = [&](int least, int most, LinkWish links, std::int64_t below, const char* backend,
                        const char* note) {
    return DispatchRule{.engine = engine,
                        .least_ranks = least,
                        .most_ranks = most,
                        .links = links,
                        .below_bytes = below,
                        .even_ranks = true,
                        .packs = true,
                        .backend = backend,
                        .note = note,
                        .source = vllm_kernel};
  };
  using enum LinkWish;
  return {rule(2, 2, any, limit, "pull1", "two ranks: always one-stage"),
          rule(3, 4, full_nvlink, 512 * kb, "pull1", "up to four ranks: one-stage below 512 KiB"),
          rule(5, 8, full_nvlink, 256 * kb, "pull1", "up to eight ranks: one-stage below 256 KiB"),
          rule(3, 8, full_nvlink, limit, "rsag", "two-stage above")};
}

std::vector<DispatchRule> trtllm_rules() {
  std::vector<DispatchRule> rules;
  rules.push_back({.engine = "tensorrt-llm",
                   .least_ranks = 8,
                   .links = LinkWish::full_nvlink,
                   .below_bytes = 256 * kb + 1,
                   .backend = "push1",
                   .note = "one-shot Lamport up to about 16 tokens of 8192",
                   .source = trtllm});
  rules.push_back({.engine = "tensorrt-llm",
                   .most_ranks = 2,
                   .links = LinkWish::full_nvlink,
                   .below_bytes = 16 * mb + 1,
                   .backend = "push1",
                   .note = "one-shot within the workspace of 16 MiB",
                   .source = flashinfer});
  rules.push_back({.engine = "tensorrt-llm",
                   .most_ranks = 4,
                   .links = LinkWish::full_nvlink,
                   .below_bytes = 8 * mb + 1,
                   .backend = "push1",
                   .note = "one-shot while 2 tokens hidden ranks bytes stay below 64 MB",
                   .source = flashinfer});
  rules.push_back({.engine = "tensorrt-llm",
                   .links = LinkWish::full_nvlink,
                   .below_bytes = 8 * mb + 1,
                   .backend = "rsag",
                   .note = "two-shot within the workspace of 8 MiB",
                   .source = trtllm});
  rules.push_back({.engine = "tensorrt-llm",
                   .most_ranks = 1024,
                   .backend = "nccl",
                   .note = "no NVLink between all pairs, or a message above the workspace",
                   .source = trtllm});
  return rules;
}

std::vector<DispatchRule> all_rules() {
  std::vector<DispatchRule> rules = kernel_rules("vllm", 8 * mb);
  rules.push_back({.engine = "vllm",
                   .most_ranks = 1024,
                   .backend = "nccl",
                   .note =
                       "custom allreduce is disabled on more than two GPUs without NVLink between all pairs, from 8 "
                       "MiB, for odd ranks and for broken packs",
                   .source = vllm_gate});
  const auto ungated = kernel_rules("vllm-ungated", 0);
  rules.insert(rules.end(), ungated.begin(), ungated.end());
  rules.push_back({.engine = "vllm-ungated",
                   .most_ranks = 1024,
                   .backend = "",
                   .note = "the kernel's dispatch has a branch for two ranks and one for full NVLink, and none for "
                           "anything else",
                   .source = vllm_kernel});
  const auto sglang = sglang_rules();
  rules.insert(rules.end(), sglang.begin(), sglang.end());
  rules.push_back({.engine = "sglang-1stage",
                   .packs = true,
                   .backend = "pull1",
                   .note = "one-stage forced by an environment variable, whatever the links",
                   .source = sglang_forced});
  const auto trtllm_rows = trtllm_rules();
  rules.insert(rules.end(), trtllm_rows.begin(), trtllm_rows.end());
  return rules;
}

bool fits(const DispatchRule& rule, const DispatchQuery& q) {
  const bool links = rule.links == LinkWish::any || (rule.links == LinkWish::full_nvlink) == q.full_nvlink;
  const bool ranks = q.ranks >= rule.least_ranks && q.ranks <= rule.most_ranks;
  const bool even = !rule.even_ranks || (q.ranks % 2 == 0);
  const bool packs = !rule.packs || q.bytes % 16 == 0;
  const bool size = rule.below_bytes == 0 || q.bytes < rule.below_bytes;
  return rule.engine == q.engine && links && ranks && even && packs && size &&
         q.compute_capability >= rule.from_capability;
}

}  // namespace

const std::vector<DispatchRule>& dispatch_rules() {
  static const std::vector<DispatchRule> rules = all_rules();
  return rules;
}

std::vector<std::string> dispatch_engines() {
  std::vector<std::string> names;
  for (const DispatchRule& rule : dispatch_rules())
    if (std::find(names.begin(), names.end(), rule.engine) == names.end()) names.push_back(rule.engine);
  return names;
}

const DispatchRule& dispatch(const DispatchQuery& query) {
  for (const DispatchRule& rule : dispatch_rules())
    if (fits(rule, query)) return rule;
  const auto engines = dispatch_engines();
  if (std::find(engines.begin(), engines.end(), query.engine) == engines.end())
    throw InputError({{},
                      "engine",
                      "no dispatch rules for '" + query.engine + "'" + did_you_mean(query.engine, engines),
                      one_of(engines)});
  throw InputError({{},
                    "engine",
                    formatted("{} has no rule for {} ranks and {} bytes", query.engine, query.ranks, query.bytes),
                    "2 to 8 ranks and whole 16-byte packs"});
}

std::string engine_default(const std::string& engine, const Topology& topology, const Call& call) {
  if (call.kind != Collective::all_reduce || call.ranks < 2) return "nccl";
  const bool full = topology.full_nvlink(std::min(call.ranks, gpu_count(topology)));
  const DispatchRule& rule = dispatch({engine, call.ranks, full, topology.spec().nccl.compute_capability, call.bytes});
  if (!rule.backend.empty()) return rule.backend;
  throw InputError(
      {{},
       "comm.backend",
       formatted("{} launches nothing for {} ranks {} NVLink between all pairs: {} ({}). The buffers would keep stale "
                 "values and the time would be near zero",
                 engine, call.ranks, full ? "with" : "without", rule.note, rule.source),
       "nccl, or another backend by name"});
}

bool gives_sum(const std::string& id) { return id != "null" && id != "delay" && id != "q8"; }

Choice choose(const std::string& requested, const std::string& engine, Pricer& pricer, const Call& call) {
  if (requested == "engine-default") {
    const std::string used = engine_default(engine, pricer.topology(), call);
    pricer.price(used, call);  // refused here where the fabric cannot serve it
    return {requested, used, "what " + engine + " picks"};
  }
  if (requested != "auto") {
    pricer.price(requested, call);
    return {requested, requested, "as asked"};
  }
  Choice best{requested, "", ""};
  double least = 0;
  for (const BackendRow& row : backends()) {
    if (!gives_sum(row.id) || refusal(row.id, pricer.topology(), call)) continue;
    const double seconds = pricer.price(row.id, call).seconds;
    if (!best.used.empty() && seconds >= least) continue;
    best.used = row.id;
    least = seconds;
  }
  if (best.used.empty()) throw InputError({{}, "comm.backend", "no backend can serve this call here", ""});
  best.reason = formatted("cheapest at {} bytes on {} ranks: {}", call.bytes, call.ranks, seconds_text(least));
  return best;
}

}  // namespace specstep::comm
