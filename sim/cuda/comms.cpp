#include "sim/cuda/comms.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/cuda/bench/probe.h"
#include "comm/cuda/check.h"
#include "comm/dispatch.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::cuda {

namespace {

/// Some of all ranks, exchanging through the bootstrap of all: groups are disjoint, cover all ranks, and make their
/// calls together.
class Subgroup final : public comm::Bootstrap {
 public:
  Subgroup(comm::Bootstrap& all, std::vector<int> members) : all_(all), members_(std::move(members)) {}
  int rank() const override {
    return static_cast<int>(std::find(members_.begin(), members_.end(), all_.rank()) - members_.begin());
  }
  int ranks() const override { return static_cast<int>(members_.size()); }
  int local_rank() const override { return all_.local_rank(); }
  int local_ranks() const override { return all_.local_ranks(); }
  std::vector<std::string> all_gather(const std::string& mine, const std::string& what) override {
    const std::vector<std::string> whole = all_.all_gather(mine, what);
    std::vector<std::string> out;
    for (const int m : members_) out.push_back(whole.at(static_cast<std::size_t>(m)));
    return out;
  }
  void fail(const std::string& reason) noexcept override { all_.fail(reason); }

 private:
  comm::Bootstrap& all_;
  std::vector<int> members_;
};

std::optional<comm::Call> call_of(const Op& op) {
  const auto call = [](comm::Collective kind, const auto& o) {
    return comm::Call{kind, static_cast<int>(o.ranks), o.bytes(), o.dtype, true};
  };
  if (const auto* o = allreduce_of(op)) return call(comm::Collective::all_reduce, *o);
  if (const auto* o = std::get_if<AllGather>(&op)) return call(comm::Collective::all_gather, *o);
  if (const auto* o = std::get_if<ReduceScatter>(&op)) return call(comm::Collective::reduce_scatter, *o);
  if (const auto* o = std::get_if<AllToAll>(&op)) return call(comm::Collective::all_to_all, *o);
  return std::nullopt;
}

comm::Call as_own(comm::Call call, const std::optional<comm::OwnSettings>& own) {
  call.own = own;
  return call;
}

Members members_of(const Step& step) {
  switch (step.kind) {
    case StepKind::attention_allreduce:
      return Members::attention_group;
    case StepKind::mlp_gather:
    case StepKind::head_gather:
      return Members::across_groups;
    default:
      return Members::everyone;
  }
}

Members members_in(const Plan& plan, const Step& step) {
  return plan.layout.attention_data == 1 ? Members::everyone : members_of(step);
}

constexpr double probe_seconds = 2;

bool exchanges_nothing(const std::string& backend) { return backend == "delay" || backend == "null"; }

}  // namespace

bool plays_one_rank(const RunConfig& config) {
  if (config.parallel.tensor == 1) return false;
  std::vector<std::string> used;
  for (const CommRule& rule : config.comm.rows()) used.push_back(rule.backend);
  if (used.empty()) used.push_back(config.comm.pick(1));
  const auto idle = std::count_if(used.begin(), used.end(), exchanges_nothing);
  if (idle != 0 && idle != static_cast<std::ptrdiff_t>(used.size()))
    throw InputError({{},
                      "comm.table",
                      "mixes backends that exchange values with such that play one rank alone",
                      "delay and null in every row, or in none"});
  return idle > 0;
}

Comms::Comms(const RunConfig& config, comm::Bootstrap& group)
    : config_(config),
      all_(group),
      topology_(comm::build_topology(config.machine.fabric)),
      pricer_(comm::build_topology(config.machine.fabric)) {}

Comms::Key Comms::key_of(const Plan& plan, const Step& step) {
  const comm::Call call = *call_of(step.op);
  const Members members = members_in(plan, step);
  const std::string& id = config_.comm.pick(call.bytes);
  return {members, is_comm_choice(id) ? chosen(id, members, call) : id};
}

std::string Comms::chosen(const std::string& rule, Members members, const comm::Call& call) {
  const auto probed = rule == "auto" ? probed_.find(members) : probed_.end();
  const bool knows = probed != probed_.end();
  if (call.kind != comm::Collective::all_reduce)
    return !knows || probed->second.serves("nccl") ? "nccl" : probed->second.selection.pick(call.bytes);
  comm::Choice choice;
  if (knows)
    choice = {rule, probed->second.selection.pick(call.bytes), "fastest of those measured here"};
  else
    choice = comm::choose(rule, config_.comm.engine, pricer_, as_own(call, config_.own_kernels()));
  note(formatted("{} of {} B: {} chose {}: {}", name_of(call.kind), call.bytes, rule, choice.used, choice.reason));
  return choice.used;
}

void Comms::note(const std::string& text) {
  if (std::find(choices_.begin(), choices_.end(), text) == choices_.end()) choices_.push_back(text);
}

/// Measures the backends among these ranks, once, where that is what `auto` does.
void Comms::probe(Members members, const comm::Call& call, const ParallelLayout& layout) {
  const bool wanted =
      call.ranks > 1 && config_.comm.probe == CommProbe::measured && config_.comm.pick(call.bytes) == "auto";
  if (!wanted || probed_.contains(members)) return;
  comm::Probe found =
      comm::probe(request_of("auto", call.ranks), DType::bf16, probe_seconds, group_of(members, layout));
  for (const std::string& text : found.notes) note(text);
  for (const comm::Crossover& x : found.selection.crossovers)
    note(formatted("auto measured: best up to about {} is {}, above it {}; not to be told apart from {} to {}",
                   bytes_text(x.at), x.below, x.above, bytes_text(x.low), bytes_text(x.high)));
  probed_[members] = std::move(found);
}

comm::Bootstrap& Comms::group_of(Members members, const ParallelLayout& layout) {
  if (members == Members::everyone || plays_one_rank(config_)) return all_;
  std::unique_ptr<comm::Bootstrap>& group = groups_[members];
  if (group) return *group;
  const auto size = static_cast<int>(layout.attention_tensor());
  std::vector<int> ranks;
  if (members == Members::attention_group)
    for (int i = 0; i < size; ++i) ranks.push_back(all_.rank() / size * size + i);
  else
    for (int r = all_.rank() % size; r < layout.tensor; r += size) ranks.push_back(r);
  group = std::make_unique<Subgroup>(all_, std::move(ranks));
  return *group;
}

void Comms::prepare(const Plan& plan) {
  for (const Step& step : plan.steps) {
    const auto call = call_of(step.op);
    if (!call) continue;
    probe(members_in(plan, step), *call, plan.layout);
    const Key key = key_of(plan, step);
    if (open_.contains(key)) continue;
    open_[key] = comm::open_comm(request_of(key.second, call->ranks), group_of(key.first, plan.layout));
  }
}

comm::CommRequest Comms::request_of(const std::string& backend, int ranks) const {
  comm::CommRequest request;
  request.backend = backend;
  request.nccl = config_.comm.nccl.value_or(comm::NcclSettings{});
  request.own = config_.comm.own.value_or(comm::OwnSettings{});
  request.target = &topology_;
  request.target_ranks = ranks;
  request.wait_limit_seconds = config_.measure.cuda.wait_limit_s;
  return request;
}

comm::DeviceComm* Comms::of(const Plan& plan, const Step& step) {
  return call_of(step.op) ? open_.at(key_of(plan, step)).get() : nullptr;
}

void Comms::rehearse(bool on) {
  for (const auto& [key, end] : open_) end->rehearse(on);
}

std::shared_ptr<void> Comms::allocate(const Plan& plan, std::int64_t bytes) {
  for (const std::string& other : all_.all_gather(std::to_string(bytes), "sizes of a pass's buffers"))
    bytes = std::max<std::int64_t>(bytes, std::stoll(other));
  for (const Step& step : plan.steps) {
    if (!allreduce_of(step.op)) continue;
    comm::DeviceComm& end = *of(plan, step);
    if (std::shared_ptr<void> lent = end.allocate(static_cast<std::size_t>(bytes))) return lent;
  }
  return nullptr;
}

void Comms::wait(cudaStream_t stream, const std::atomic<bool>& failed, std::string_view what) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const double limit = config_.measure.cuda.wait_limit_s;
  try {
    for (std::int64_t looks = 1;; ++looks) {
      const cudaError_t status = cudaStreamQuery(stream);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) comm::check(status, what);
      if (failed) throw Error(formatted("{}: stopped, another rank failed", what));
      if (looks % 64 == 0)
        for (const auto& [key, end] : open_) end->check_health();
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (waited.count() > limit)
        throw Error(formatted("{}: not done within measure.cuda.wait_limit_s ({} s)", what, limit));
      // Passes take milliseconds, and each look costs the driver's lock: a short nap once it is clearly not at once.
      if (waited < std::chrono::milliseconds(50))
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const Error&) {
    abort();
    throw;
  }
}

void Comms::abort() noexcept {
  for (const auto& [key, end] : open_) end->abort();
}

std::vector<std::string> Comms::notes() const {
  std::vector<std::string> out = choices_;
  for (const auto& [key, end] : open_)
    for (const std::string& note : end->notes())
      if (std::find(out.begin(), out.end(), note) == out.end()) out.push_back(note);
  return out;
}

std::int64_t Comms::device_bytes() const {
  std::int64_t out = 0;
  for (const auto& [key, end] : open_) out += end->device_bytes();
  return out;
}

}  // namespace specstep::cuda
