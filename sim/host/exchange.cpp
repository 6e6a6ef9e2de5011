#include "sim/host/exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/backend.h"
#include "comm/dispatch.h"
#include "comm/island_plan.h"
#include "comm/run_host.h"
#include "comm/schedules/schedules.h"
#include "sim/comm_served.h"
#include "sim/host/formats.h"

namespace specstep::host {

namespace {

std::vector<int> in_order(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

constexpr std::size_t fp8_block = 256;  // values with one scale on q8's wire

/// What fp8 on the wire does to values: a scale for each block of 256.
void through_fp8(std::vector<float>& values) { store(values, {DType::fp8, fp8_block, DType::f32}, 0); }

}  // namespace

comm::Schedule allreduce_schedule(const CommSpec& comm, const std::string& backend, const comm::Topology& topology,
                                  int ranks) {
  using comm::Operation;
  constexpr std::int64_t any_size = 4096;  // a whole number of packs
  const comm::Call call{.ranks = ranks, .bytes = any_size, .own = comm.own};
  if (const auto reason = comm::refusal(backend, topology, call))
    throw InputError({{}, "comm.backend", *reason, "a backend that can, see 'specstep list --backends'"});
  if (backend == "push1" || backend == "nccl_dev") return comm::one_shot(ranks, Operation::write);
  if (backend == "pull1") return comm::one_shot(ranks, Operation::read);
  if (backend == "rsag" || backend == "q8" || backend == "nccl_sym") return comm::two_stage(ranks, Operation::read);
  if (backend == "island" && comm.own && !comm.own->islands.empty())
    return comm::island(comm.own->islands, Operation::read);
  if (backend == "island") return comm::island(comm::island_plans(topology, ranks).front(), Operation::read);
  if (backend == "hostbc") return comm::host_broadcast(ranks);
  if (backend == "nvls") return comm::multicast(ranks);
  if (backend == "nccl" || backend == "ring" || backend == "ce")
    return comm::ring(comm::Collective::all_reduce, in_order(ranks));
  throw InputError(
      {{}, "comm.backend", "'" + backend + "' moves no values", "a backend that sums: the host computes real tokens"});
}

Exchange::Exchange(const RunConfig& config, Team& team)
    : comm_(config.comm),
      topology_(comm::build_topology(config.machine.fabric)),
      team_(team),
      brought_(static_cast<std::size_t>(team.ranks())) {
  team.at_meetings([this] { carry_out(); });
}

Exchange::Key Exchange::key_of(comm::Collective kind, std::int64_t bytes, int ranks) const {
  if (kind != comm::Collective::all_reduce) return {name_of(kind), ranks};
  const auto settled = settled_.find({bytes, ranks});
  return {settled != settled_.end() ? settled->second : comm_.pick(bytes), ranks};
}

void Exchange::settle(std::int64_t bytes, int ranks) {
  const std::string& asked = comm_.pick(bytes);
  if (!is_comm_choice(asked) || settled_.contains({bytes, ranks})) return;
  comm::Pricer pricer(topology_);
  const comm::Call call{comm::Collective::all_reduce, ranks, bytes, DType::bf16, true};
  const comm::Choice chosen = comm::choose(asked, comm_.engine, pricer, call);
  settled_[{bytes, ranks}] = chosen.used;
  notes_.push_back(choice_note(call, chosen));
}

void Exchange::need(comm::Collective kind, std::int64_t bytes, std::int64_t ranks) {
  if (ranks <= 1) return;
  const bool sums = kind == comm::Collective::all_reduce;
  if (sums) {
    require_served(comm_, topology_, {.ranks = static_cast<int>(ranks), .bytes = bytes, .own = comm_.own});
    settle(bytes, static_cast<int>(ranks));
  }
  const Key key = key_of(kind, bytes, static_cast<int>(ranks));
  if (schedules_.contains(key)) return;
  schedules_[key] = {sums ? allreduce_schedule(comm_, key.first, topology_, key.second)
                          : comm::direct(kind, key.second, comm::Operation::write),
                     sums && key.first == "q8"};
}

void Exchange::prepare(const Plan& plan) {
  using comm::Collective;
  for (const Step& step : plan.steps) {
    if (const auto* o = allreduce_of(step.op)) need(Collective::all_reduce, o->bytes(), o->ranks);
    if (const auto* o = std::get_if<AllGather>(&step.op)) need(Collective::all_gather, o->bytes(), o->ranks);
    if (const auto* o = std::get_if<AllToAll>(&step.op)) need(Collective::all_to_all, o->bytes(), o->ranks);
    if (const auto* o = std::get_if<ReduceScatter>(&step.op)) {
      need(Collective::reduce_scatter, o->bytes(), o->ranks);
      need(Collective::all_reduce, o->bytes(), o->ranks);
    }
  }
}

void Exchange::run(int rank, const Group& group, comm::Collective kind, std::int64_t bytes,
                   std::vector<float>& vector) {
  if (group.size() <= 1) return;
  brought_[static_cast<std::size_t>(rank)] = {
      &group, &schedules_.at(key_of(kind, bytes, static_cast<int>(group.size()))), &vector};
  team_.meet();
}

/// By the last rank to arrive, so that a collective costs one meeting.
void Exchange::carry_out() {
  for (std::size_t rank = 0; rank < brought_.size(); ++rank) {
    const Brought first = brought_[rank];
    if (!first.group || first.group->front() != static_cast<int>(rank)) continue;
    std::vector<std::vector<float>> all;
    for (const int member : *first.group) all.push_back(std::move(*brought_[static_cast<std::size_t>(member)].vector));
    const auto through = [&] {
      if (first.carried->as_fp8)
        for (auto& v : all) through_fp8(v);
    };
    through();
    comm::run_on_host(first.carried->schedule, all);
    through();
    for (std::size_t i = 0; i < all.size(); ++i)
      *brought_[static_cast<std::size_t>((*first.group)[i])].vector = std::move(all[i]);
  }
  std::fill(brought_.begin(), brought_.end(), Brought{});
}

}  // namespace specstep::host
