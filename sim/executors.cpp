// The table of executors, and which part of the breakdown a step belongs to.
#include "model/base/error.h"
#include "sim/cost/executor.h"
#include "sim/executor.h"

namespace specstep {

namespace {

struct PartOf {
  StepKind kind;
  Part of(const Gemm&) const { return kind == StepKind::router ? Part::moe : Part::gemm; }
  Part of(const GroupedGemm&) const { return Part::moe; }
  Part of(const Attention&) const { return Part::attention; }
  Part of(const SparseIndex&) const { return Part::attention; }
  Part of(const LinearAttention&) const { return Part::attention; }
  Part of(const AllReduce&) const { return Part::allreduce; }
  Part of(const AllGather&) const { return Part::allgather; }
  Part of(const ReduceScatter&) const { return Part::allgather; }
  Part of(const AllToAll&) const { return Part::alltoall; }
  Part of(const RmsNorm&) const { return Part::norm; }
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

std::vector<ExecutorRow> executors() {
  return {{"cost", "prices each step from the machine file and the fabric; needs no GPU", ""},
          {"host", "computes every operation on the CPU, ranks as threads", "not part of this version"},
          {"cuda", "runs the plan on GPUs: cuBLAS GEMMs between real collectives", "not part of this version"}};
}

std::unique_ptr<Executor> make_executor(const RunConfig& config) {
  if (config.measure.executor == ExecutorKind::cost) return std::make_unique<CostExecutor>(config);
  const ExecutorRow row = executors()[static_cast<std::size_t>(config.measure.executor)];
  throw Unsupported("executor '" + row.name + "': " + row.refusal + "; usable here: cost");
}

}  // namespace specstep
