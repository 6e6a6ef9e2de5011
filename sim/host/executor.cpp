#include "sim/host/executor.h"

#include <algorithm>

#include "sim/engine/launch.h"
#include "sim/host/generator.h"
#include "sim/host/memory.h"
#include "sim/host/model.h"

namespace specstep {

namespace {

using namespace host;

class HostPlan final : public PreparedPlan {
 public:
  HostPlan(Plan plan, Launch launch, Model& model, const Exchange& exchange)
      : plan_(std::move(plan)),
        launch_(launch),
        model_(model),
        exchange_(exchange),
        input_(lone_input(plan_, model.view())) {
    model_.prepare(plan_);
  }
  const Plan& plan() const override { return plan_; }
  Launch launch() const override { return launch_; }
  std::vector<std::string> notes() const override { return exchange_.notes(); }
  Timeline run(bool traced) override {
    for (std::size_t s = 0; s < input_.sequences.size(); ++s) model_.pretend(plan_, s);
    const PassTime time = model_.timed(plan_, input_, traced);
    for (std::size_t s = 0; s < input_.sequences.size(); ++s) model_.clear(s);
    Timeline out{time.seconds, {}, {}, 0, 0};
    out.experts_met = time.experts_met;
    for (std::size_t i = 0; i < time.steps.size(); ++i) {
      out.parts[static_cast<std::size_t>(part_of(plan_.steps[i]))] += time.steps[i];
      out.spans.push_back({time.steps[i], comm::Provenance::measured, false});
    }
    return out;
  }

 private:
  Plan plan_;
  Launch launch_;
  Model& model_;
  const Exchange& exchange_;
  PassInput input_;
};

void require_computable(const RunConfig& config) {
  if (!config.comm.embedding_allreduce && config.parallel.tensor > 1 && config.parallel.attention_data == 1)
    throw InputError({{},
                      "comm.embedding_allreduce",
                      "is false, which leaves each rank a part of the embedding",
                      "true: the host computes real tokens"});
  require_memory(config, memory_available());
}

class HostExecutor final : public Executor {
 public:
  explicit HostExecutor(const RunConfig& config)
      : config_((require_computable(config), config)),
        team_(static_cast<int>(config.parallel.tensor)),
        exchange_(config_, team_),
        target_(view_of(config_.stack, has_draft() ? &*config_.draft : nullptr), config_.parallel.tensor, sequences(),
                config_.measure.host, team_, exchange_) {
    if (has_draft()) {
      const std::int64_t ranks = config_.parallel.draft_tensor == 1 ? 1 : config_.parallel.tensor;
      draft_.emplace(view_of(*config_.draft), ranks, sequences(), config_.measure.host, team_, exchange_);
    }
    generator_.emplace(config_, target_, draft_ ? &*draft_ : nullptr);
  }

  std::string_view name() const override { return "host"; }
  std::unique_ptr<PreparedPlan> prepare(Plan plan, Launch launch) override {
    if (plan.draft && !draft_) throw Error("a pass of the draft, but this run has none");
    Model& model = plan.draft ? *draft_ : target_;
    return std::make_unique<HostPlan>(std::move(plan), launch, model, exchange_);
  }
  Generator* generator() override { return &*generator_; }

 private:
  bool has_draft() const { return config_.drafts_with_model(); }
  /// Texts that may be under way: the batch as engines pad it, and the dummies of attention groups.
  std::size_t sequences() const {
    std::int64_t most = config_.workload.batch;
    for (std::size_t kind = 0; kind < EnumNames<PassKind>::names().size(); ++kind)
      most = std::max(most, choose_launch(config_, static_cast<PassKind>(kind), config_.workload.batch).padded_batch);
    return static_cast<std::size_t>(most + config_.parallel.attention_data);
  }

  RunConfig config_;
  Team team_;
  Exchange exchange_;
  Model target_;
  std::optional<Model> draft_;
  std::optional<TokenGenerator> generator_;
};

}  // namespace

std::unique_ptr<Executor> make_host_executor(const RunConfig& config) { return std::make_unique<HostExecutor>(config); }

}  // namespace specstep
