#include "sim/plan_options.h"

#include <memory>

#include "comm/caps.h"

namespace specstep {

namespace {

/// Whether the backend of a message fuses. Prices are asked for only where a rule chooses by them.
class Fusion {
 public:
  explicit Fusion(const RunConfig& config) : comm_(config.comm), fabric_(config.machine.fabric) {}
  bool operator()(const AllReduce& op) {
    std::string id = comm_.pick(op.bytes());
    if (is_comm_choice(id)) {
      if (!pricer_) pricer_ = std::make_shared<comm::Pricer>(comm::build_topology(fabric_));
      id = comm::choose(id, comm_.engine, *pricer_,
                        {comm::Collective::all_reduce, static_cast<int>(op.ranks), op.bytes(), op.dtype, true})
               .used;
    }
    return comm::caps_of(id).fused_rmsnorm;
  }

 private:
  CommSpec comm_;
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
