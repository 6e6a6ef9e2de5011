// One price per distinct operation; equal layers are priced once.
#include "sim/cost/executor.h"

#include <algorithm>
#include <optional>

#include "comm/dispatch.h"
#include "comm/island_plan.h"
#include "comm/own_price.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/comm_served.h"
#include "sim/cost/projected.h"
#include "sim/engine/launch.h"

namespace specstep {

/// A plan with its prices.
class PricedPlan final : public PreparedPlan {
 public:
  PricedPlan(Plan plan, Launch launch) : plan_(std::move(plan)), launch_(launch) {}
  const Plan& plan() const override { return plan_; }
  Launch launch() const override { return launch_; }
  Timeline run(bool traced) override {
    Timeline out = total_;
    if (!traced) out.spans.clear();
    return out;
  }
  std::vector<std::string> notes() const override { return notes_; }
  void note(const std::string& text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
  }
  void add(const Step& step, const StepTime& span) {
    total_.parts[static_cast<std::size_t>(part_of(step))] += span.seconds;
    total_.parts[static_cast<std::size_t>(Part::launch)] += span.gap;
    total_.seconds += span.seconds + span.gap;
    total_.spans.push_back(span);
  }
  /// Time of the layers that belongs to no step.
  void overhead(double seconds) {
    total_.parts[static_cast<std::size_t>(Part::other)] += seconds;
    total_.seconds += seconds;
  }
  /// A pass lasts at least as long as the host needs to launch its kernels or its pieces: the rest is launch time.
  void host_bound(double launch_seconds) {
    total_.host_seconds = launch_seconds;
    if (launch_seconds <= total_.seconds) return;
    total_.parts[static_cast<std::size_t>(Part::launch)] += launch_seconds - total_.seconds;
    total_.seconds = launch_seconds;
  }

 private:
  Plan plan_;
  Launch launch_;
  Timeline total_;
  std::vector<std::string> notes_;
};

namespace {

std::optional<comm::Call> call_of(const Op& op, bool captured) {
  const auto call = [&](comm::Collective kind, const auto& o) {
    return comm::Call{kind, static_cast<int>(o.ranks), o.bytes(), o.dtype, captured};
  };
  if (const auto* o = allreduce_of(op)) return call(comm::Collective::all_reduce, *o);
  if (const auto* o = std::get_if<AllGather>(&op)) return call(comm::Collective::all_gather, *o);
  if (const auto* o = std::get_if<ReduceScatter>(&op)) return call(comm::Collective::reduce_scatter, *o);
  if (const auto* o = std::get_if<AllToAll>(&op)) return call(comm::Collective::all_to_all, *o);
  return std::nullopt;
}

/// The fabric with what the run asks of NCCL itself.
comm::FabricSpec fabric_of(const RunConfig& config) {
  comm::FabricSpec fabric = config.machine.fabric;
  if (config.comm.nccl) fabric.nccl.protocol = config.comm.nccl->protocol;
  return fabric;
}

}  // namespace

CostExecutor::CostExecutor(const RunConfig& config)
    : gpu_(config.machine.gpu),
      collectives_(config.machine.collectives),
      engine_(config.engine),
      comm_(config.comm),
      pricer_(comm::build_topology(fabric_of(config))) {
  if (config.speculative() && verify_projects_context(config)) projected_ = config.stack.attention;
}

/// Engines attend a prompt with another kernel than decode and verify passes.
KernelPrice CostExecutor::kernel_price(const Op& op, PassKind kind) const {
  const auto* attention = std::get_if<Attention>(&op);
  if (!attention || !engine_.kernels.split_attention || kind == PassKind::prefill) return price_kernel(gpu_, op);
  return price_split_attention(gpu_, *engine_.kernels.split_attention, *attention);
}

/// Who carries a call. Choices that the config leaves to a rule, and what a backend does not have, are noted.
std::string CostExecutor::carrier(const comm::Call& call, PricedPlan& plan) {
  const std::string& asked = comm_.pick(call.bytes);
  const bool reduces = call.kind == comm::Collective::all_reduce;
  const bool choice = is_comm_choice(asked);
  if (choice && reduces) {
    const comm::Choice chosen = comm::choose(asked, comm_.engine, pricer_, call);
    plan.note(choice_note(call, chosen));
    return chosen.used;
  }
  if (choice || (!reduces && comm::refusal(asked, pricer_.topology(), call))) {
    if (!choice) plan.note(formatted("{}: {} has none, nccl carries it, as engines do", name_of(call.kind), asked));
    return "nccl";
  }
  require_served(comm_, pricer_.topology(), call);
  return asked;
}

/// What was measured on the machine, of engines' kernels, else what its fabric gives.
comm::CommPrice CostExecutor::price_of(const std::string& backend, const comm::Call& call, PricedPlan& plan) {
  const bool own = comm::priced_as_own(backend, pricer_.topology(), call);
  const std::optional<double> measured = collectives_ && !own ? collectives_->seconds(backend, call) : std::nullopt;
  if (!measured) return pricer_.price(backend, call);
  plan.note(formatted("{} of {} B by {}: {} from measured times{}{}", name_of(call.kind), grouped(call.bytes), backend,
                      seconds_text(*measured), collectives_->name.empty() ? "" : ", ", collectives_->name));
  return {*measured, "measured", "", comm::Provenance::measured, false};
}

std::unique_ptr<PreparedPlan> CostExecutor::prepare(Plan plan, Launch launch) {
  auto priced = std::make_unique<PricedPlan>(std::move(plan), launch);
  const bool captured = launch != Launch::eager;
  struct Memo {
    const Op* op = nullptr;
    StepTime span;
  };
  std::array<Memo, static_cast<std::size_t>(StepKind::sample) + 1> memo;
  for (const Step& step : priced->plan().steps) {
    Memo& last = memo[static_cast<std::size_t>(step.kind)];
    const double step_nodes = cost_of(step.op).nodes;
    if (!last.op || !(*last.op == step.op)) {
      last.op = &step.op;
      if (auto call = call_of(step.op, captured)) {
        call->own = comm_.own;
        const std::string used = carrier(*call, *priced);
        call->norm = std::holds_alternative<AllReduceNorm>(step.op) && !comm_.what_if &&
                     comm::priced_as_own(used, pricer_.topology(), *call);
        comm::CommPrice price = price_of(used, *call, *priced);
        if (comm_.what_if && call->kind == comm::Collective::all_reduce) {
          price.seconds = comm_.what_if->seconds(priced->plan().shape.kind, price.seconds);
          price.provenance = comm::Provenance::assumed;
        }
        // A norm behind it works inside the kernel: its traffic and its floor stay, its node is gone. The price of a
        // kernel of our own holds what a norm of few rows takes.
        const double own_norm = call->norm ? pricer_.topology().spec().gpu.own_kernels->norm_us.value * us : 0;
        const double norm = std::max(0.0, price_kernel(gpu_, step.op).seconds - own_norm);
        // A collective's isolated time was taken back to back: its own launch is inside.
        last.span = {price.seconds + norm, price.provenance, price.extrapolated, 0};
      } else {
        const auto* attention = std::get_if<Attention>(&step.op);
        const bool projects = projected_ && attention && priced->plan().shape.kind == PassKind::verify;
        const KernelPrice price = projects ? price_projected(gpu_, *projected_, *attention)
                                           : kernel_price(step.op, priced->plan().shape.kind);
        if (projects)
          priced->note("verify attends as prompts do: every pass projects the cached latents of its whole context");
        last.span = {price.seconds, price.provenance, false, step_nodes * gpu_.graph_node_us.value * us};
      }
    }
    priced->add(step, last.span);
  }
  if (engine_.kernels.layer_overhead_us)
    priced->overhead(static_cast<double>(priced->plan().layers) * engine_.kernels.layer_overhead_us->value * us);
  priced->host_bound(host_launch_seconds(priced->plan(), launch, gpu_, engine_));
  return priced;
}

}  // namespace specstep
