// The table of executors, which part of the breakdown a step belongs to, and the sums of acceptance.
#include <numeric>

#include "model/base/error.h"
#include "sim/cost/executor.h"
#include "sim/executor.h"
#include "sim/host/executor.h"
#include "sim/module.h"

namespace specstep {

namespace {

struct PartOf {
  StepKind kind;
  Part of(const Gemm&) const { return kind == StepKind::router ? Part::moe : Part::gemm; }
  Part of(const GroupedGemm&) const { return Part::moe; }
  Part of(const Attention&) const { return Part::attention; }
  Part of(const AttentionJoin&) const { return Part::attention; }
  Part of(const SparseIndex&) const { return Part::attention; }
  Part of(const LinearAttention&) const { return Part::attention; }
  Part of(const AllReduce&) const { return Part::allreduce; }
  Part of(const AllGather&) const { return Part::allgather; }
  Part of(const ReduceScatter&) const { return Part::allgather; }
  Part of(const AllToAll&) const { return Part::alltoall; }
  Part of(const RmsNorm&) const { return Part::norm; }
  Part of(const AllReduceNorm&) const { return Part::allreduce; }
  Part of(const Activation&) const { return kind == StepKind::expert_activation ? Part::moe : Part::other; }
  Part of(const Rope&) const { return Part::other; }
  Part of(const Router&) const { return Part::moe; }
  Part of(const Combine&) const { return Part::moe; }
  Part of(const Embed&) const { return Part::other; }
  Part of(const Sample&) const { return Part::other; }
};

}  // namespace

Part part_of(const Step& step) {
  return std::visit([&](const auto& op) { return PartOf{step.kind}.of(op); }, step.op);
}

namespace {
double share(double part, std::int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0; }
}  // namespace

double AcceptanceCounts::accept_length() const { return share(static_cast<double>(emitted), verifies); }

std::vector<double> AcceptanceCounts::survival() const {
  std::vector<double> out;
  for (const std::int64_t n : accepted_at) out.push_back(share(static_cast<double>(n), verifies));
  return out;
}

double AcceptanceCounts::acceptance_length() const {
  const auto accepted = std::accumulate(accepted_at.begin(), accepted_at.end(), std::int64_t{0});
  return 1 + share(static_cast<double>(accepted), verifies);
}

double AcceptanceCounts::acceptance_rate() const {
  return share(static_cast<double>(std::accumulate(accepted_at.begin(), accepted_at.end(), std::int64_t{0})), drafted);
}

namespace {

/// Why the cuda module cannot be used here; whether there is a device is asked when a run needs one.
std::string cuda_refusal() {
  try {
    return open_module("cuda").make_executor ? "" : "its module has no executor";
  } catch (const Unsupported& e) {
    return e.what();
  }
}

}  // namespace

std::vector<ExecutorRow> executors() {
  return {{"cost", "prices each step from the machine file and the fabric; needs no GPU", ""},
          {"host", "computes every operation on the CPU, ranks as threads; small stacks", ""},
          {"cuda", "runs the plan on GPUs: cuBLAS and own kernels between real collectives", cuda_refusal()}};
}

std::unique_ptr<Executor> make_executor(const RunConfig& config) {
  switch (config.measure.executor) {
    case ExecutorKind::cost:
      return std::make_unique<CostExecutor>(config);
    case ExecutorKind::host:
      return make_host_executor(config);
    case ExecutorKind::cuda:
      break;
  }
  const std::string refused = cuda_refusal();
  if (!refused.empty()) throw Unsupported("executor 'cuda': " + refused + "; usable here: cost, host");
  return open_module("cuda").make_executor(config);
}

}  // namespace specstep
