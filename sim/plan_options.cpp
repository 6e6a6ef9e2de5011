#include "sim/plan_options.h"

#include <memory>

#include "comm/caps.h"

namespace specstep {

namespace {

/// Whether the backend of a message fuses. Prices are asked for only where a rule chooses by them.
class Fusion {
 public:
  explicit Fusion(const RunConfig& config)
      : comm_(config.comm), own_(config.own_kernels()), fabric_(config.machine.fabric) {}
  bool operator()(const AllReduce& op) {
    std::string id = comm_.pick(op.bytes());
    if (is_comm_choice(id)) {
      if (!pricer_) pricer_ = std::make_shared<comm::Pricer>(comm::build_topology(fabric_));
      const comm::Call call{.ranks = static_cast<int>(op.ranks), .bytes = op.bytes(), .dtype = op.dtype, .own = own_};
      id = comm::choose(id, comm_.engine, *pricer_, call).used;
    }
    return comm::caps_of(id).fused_rmsnorm;
  }

 private:
  CommSpec comm_;
  std::optional<comm::OwnSettings> own_;
  comm::FabricSpec fabric_;
  std::shared_ptr<comm::Pricer> pricer_;
};

}  // namespace

PlanOptions plan_options(const RunConfig& config) {
  PlanOptions options{config.comm.embedding_allreduce,
                      config.comm.logits_gather,
                      config.engine.kernels.queries_share_cache,
                      config.workload.shared_prefix_tokens,
                      {}};
  if (config.comm.fusion == CommFusion::rmsnorm) options.fuses_norm = Fusion(config);
  return options;
}

}  // namespace specstep
