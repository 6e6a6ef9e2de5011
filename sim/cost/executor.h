// Prices a plan: roofline for kernels, the fabric for collectives, launch gaps by capture.
#pragma once

#include "comm/pricing.h"
#include "sim/cost/roofline.h"
#include "sim/executor.h"

namespace specstep {

class PricedPlan;

class CostExecutor final : public Executor {
 public:
  explicit CostExecutor(const RunConfig& config);
  std::string_view name() const override { return "cost"; }
  std::unique_ptr<PreparedPlan> prepare(Plan plan, Launch launch) override;
  /// Each goes on with what the other has prepared of collectives: for executors of one fabric, so that nothing is
  /// prepared twice.
  void swap_collectives(CostExecutor& other) { std::swap(pricer_, other.pricer_); }

 private:
  std::string carrier(const comm::Call& call, PricedPlan& plan);
  comm::CommPrice price_of(const std::string& backend, const comm::Call& call, PricedPlan& plan);

  KernelPrice kernel_price(const Op& op, PassKind kind) const;

  GpuSpec gpu_;
  std::optional<CollectiveTable> collectives_;
  EngineKernels kernels_;
  GraphSpec graph_;
  std::optional<AttentionSpec> projected_;  // verify passes attend as prompts do
  CommSpec comm_;
  comm::Pricer pricer_;
};

}  // namespace specstep
