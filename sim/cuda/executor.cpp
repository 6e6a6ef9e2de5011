#include "sim/cuda/executor.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/cuda/facts.h"
#include "sim/cuda/median.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/prepared.h"
#include "sim/host/generator.h"

namespace specstep {

namespace {

using namespace cuda;

class CudaPlan final : public PreparedPlan {
 public:
  explicit CudaPlan(std::unique_ptr<PreparedPass> pass) : pass_(std::move(pass)) {}
  const Plan& plan() const override { return pass_->plan(); }
  Launch launch() const override { return pass_->launch(); }
  /// Traced: the seconds are those of untraced runs; a step's are those inside a pass of its own
  /// (PreparedPass::seconds_inside). What the pass takes beyond their sum is launch; where it takes less, the steps are
  /// scaled to it.
  Timeline run(bool traced) override {
    if (!traced) return {pass_->seconds(), {}, {}, 0, 0};
    constexpr int runs = 5;
    std::vector<double> whole;
    for (int i = 0; i < runs; ++i) whole.push_back(pass_->seconds());
    Timeline out{median(whole), {}, {}, 0, 0};
    if (out.seconds <= 0) return out;  // a process without a rank of this model
    const std::vector<double> inside = pass_->seconds_inside();
    const std::vector<double> isolated = pass_->step_seconds();
    const double sum = std::accumulate(inside.begin(), inside.end(), 0.0);
    const double scale = sum > out.seconds ? out.seconds / sum : 1.0;
    for (std::size_t i = 0; i < inside.size(); ++i) {
      out.spans.push_back({inside[i] * scale, comm::Provenance::measured, false});
      out.parts[static_cast<std::size_t>(part_of(plan().steps[i]))] += inside[i] * scale;
      const auto* reduce = allreduce_of(plan().steps[i].op);
      if (reduce && reduce->in_layer) out.allreduce_seconds = isolated[i];
    }
    out.parts[static_cast<std::size_t>(Part::launch)] += out.seconds - sum * scale;
    const CapturedGraph& graph = pass_->graph();
    out.device = DeviceTrace{static_cast<std::int64_t>(graph.nodes),
                             static_cast<std::int64_t>(graph.allreduces),
                             static_cast<std::int64_t>(graph.allreduce_nodes),
                             std::accumulate(isolated.begin(), isolated.end(), 0.0) / out.seconds,
                             sum / out.seconds,
                             pass_->in_situ()};
    if (const std::optional<InSitu>& found = out.device->in_situ; found && found->told()) {
      out.in_situ_seconds = found->wait + found->transfer;
      out.wait_seconds = found->wait;
    }
    out.experts_met = pass_->experts_met();
    return out;
  }

 private:
  std::unique_ptr<PreparedPass> pass_;
};

void require_computable(const RunConfig& config) {
  if (!config.measure.cuda.generate) return;
  const auto refuse = [](const char* key, const std::string& what, const char* allowed) {
    throw InputError({{}, key, what, allowed});
  };
  if (!config.comm.embedding_allreduce && config.parallel.tensor > 1 && config.parallel.attention_data == 1)
    refuse("comm.embedding_allreduce", "is false, which leaves each rank a part of the embedding",
           "true with measure.cuda.generate");
  if (plays_one_rank(config))
    refuse("measure.cuda.generate", "with a backend that exchanges nothing gives no text of the model",
           "false, or a backend that exchanges values");
  if (comm::under_mpi() &&
      (!config.comm.logits_gather || config.parallel.attention_data > 1 || config.parallel.draft_tensor == 1))
    throw Unsupported(
        "real tokens under mpirun need every rank's logits in every process: comm.logits_gather on, no attention "
        "groups, the draft on all ranks; or run the ranks as threads of one process");
}

double cache_of(int device) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "size of the cache");
  return bytes;
}

class CudaExecutor final : public Executor {
 public:
  explicit CudaExecutor(const RunConfig& config)
      : config_((require_computable(config), config)), crew_(config_), holding_(holding_of(config_)) {
    crew_.run([&](RankDevice& rank) {
      // All ranks share weights alike, so the GPU with the least memory decides.
      const double least = -Crew::largest(rank, -crew_.free_at_start(), "free memory");
      if (&rank == &crew_.at(0)) available_ = least;
    });
    holding_.sharing = fit(config_, available_, cache_of(crew_.devices().front()));
    need_ = memory_need(config_, holding_.sharing);
    const auto ranks = static_cast<int>(config_.parallel.tensor);
    target_.emplace(host::view_of(config_.stack, config_.drafts_with_model() ? &*config_.draft : nullptr), ranks,
                    config_, holding_, crew_);
    if (config_.drafts_with_model())
      draft_.emplace(host::view_of(*config_.draft), config_.parallel.draft_tensor == 1 ? 1 : ranks, config_,
                     draft_holding(), crew_);
    if (config_.measure.cuda.generate) generator_.emplace(config_, *target_, draft_ ? &*draft_ : nullptr);
  }

  std::string_view name() const override { return "cuda"; }
  bool measures() const override { return true; }
  bool reports() const override { return crew_.first() == 0; }
  std::unique_ptr<PreparedPlan> prepare(Plan plan, Launch launch) override {
    if (plan.draft && !draft_) throw Error("a pass of the draft, but this run has none");
    std::unique_ptr<PreparedPass> pass = (plan.draft ? *draft_ : *target_).open(plan, launch);
    most_used_ = std::max(most_used_, crew_.free_at_start() - crew_.free_now());
    return std::make_unique<CudaPlan>(std::move(pass));
  }
  Generator* generator() override { return generator_ ? &*generator_ : nullptr; }
  std::vector<DeviceFacts> devices() const override {
    std::vector<DeviceFacts> out;
    for (const int device : crew_.devices()) out.push_back(facts_of(device));
    return out;
  }
  std::map<std::string, double> metrics() const override {
    return {{"memory.predicted_gib", need_.total() / gib}, {"memory.used_gib", most_used_ / gib}};
  }
  std::vector<std::string> notes() const override;

 private:
  /// A draft on one rank of several is not split, in whatever groups its target runs.
  Holding draft_holding() const {
    Holding out = holding_;
    if (config_.parallel.draft_tensor == 1) {
      out.layout = {};
      out.room.sequences *= config_.parallel.attention_data;
    }
    return out;
  }

  RunConfig config_;
  mutable Crew crew_;
  double available_ = 0;
  Holding holding_;
  MemoryNeed need_;
  double most_used_ = 0;
  std::optional<Model> target_, draft_;
  std::optional<host::TokenGenerator> generator_;
};

std::vector<std::string> CudaExecutor::notes() const {
  std::vector<std::string> out = crew_.at(0).comms().notes();
  const std::vector<int>& devices = crew_.devices();
  for (int i = 0; i < crew_.local(); ++i) {
    const auto mine = devices.begin() + i;
    if (std::find(devices.begin(), mine, *mine) != mine) continue;
    const std::string rank = crew_.local() > 1 ? formatted("rank {}: ", crew_.first() + i) : "";
    for (const std::string& note : crew_.at(i).products().notes()) out.push_back(rank + note);
  }
  out.push_back(
      formatted("memory of a GPU, predicted: weights {}, caches {}, passes {}, libraries {}; in use at most {}",
                bytes_text(need_.weights), bytes_text(need_.caches), bytes_text(need_.passes), bytes_text(need_.fixed),
                bytes_text(most_used_)));
  if (plays_one_rank(config_))
    out.push_back(formatted("one GPU plays rank 0 of {}; nothing is exchanged", config_.parallel.tensor));
  if (holding_.sharing.shared())
    out.push_back(
        formatted("weights are shared: {:.0f} % of the layers have their own, the others take turns with "
                  "them; the pool of {} is larger than the GPU's cache",
                  100 * holding_.sharing.share(), bytes_text(need_.weights)));
  if (config_.measure.cuda.precision == HostPrecision::bf16)
    out.push_back(
        "absorbed projections, and embeddings of less than 16 bits, run on bf16 copies, as engines unpack them at "
        "load");
  return out;
}

}  // namespace

std::unique_ptr<Executor> make_cuda_executor(const RunConfig& config) { return std::make_unique<CudaExecutor>(config); }

}  // namespace specstep
