#include "sim/cuda/prepared.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/cuda/median.h"

namespace specstep::cuda {

namespace {

std::size_t node_count(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "counting the nodes of a graph");
  return count;
}

/// A lone input for a run that keeps tokens must not touch what it keeps: it writes behind all of it.
host::PassInput harmless(const Plan& plan, const host::ModelView& view, const Room& room) {
  if (!room.keeps) return host::lone_input(plan, view);
  Plan moved = plan;
  moved.shape.context = room.tokens - plan.shape.tokens_each;
  return host::lone_input(moved, view);
}

}  // namespace

PreparedPass::PreparedPass(Model& model, Plan plan, Launch launch)
    : model_(model),
      plan_(std::move(plan)),
      launch_(launch == Launch::captured ? launch : Launch::eager),
      lone_(harmless(plan_, model.view(), model.holding().room)),
      ranks_(static_cast<std::size_t>(model.crew().local())) {
  model_.crew().run([&](RankDevice& device) { make(device); });
}

PreparedPass::~PreparedPass() {
  try {
    model_.crew().run([&](RankDevice& device) {
      if (OnRank* mine = on(device)) *mine = {};
    });
  } catch (...) {  // a crew that failed: the memory goes with its devices
  }
}

PreparedPass::OnRank* PreparedPass::on(RankDevice& device) {
  for (int i = 0; i < model_.crew().local(); ++i)
    if (&model_.crew().at(i) == &device) return model_.rank_on(device) ? &ranks_[static_cast<std::size_t>(i)] : nullptr;
  return nullptr;
}

void PreparedPass::require_room(const Rank& rank) const {
  const std::int64_t need = RankPass::bytes(plan_, model_.view(), rank.holding());
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "free memory");
  if (need <= static_cast<std::int64_t>(free)) return;
  throw InputError(
      {{},
       "workload",
       formatted("the buffers of a {} pass of {} x {} tokens need {} on each GPU", name_of(plan_.shape.kind),
                 plan_.shape.sequences, plan_.shape.tokens_each, bytes_text(static_cast<double>(need))),
       formatted("at most the {} that weights and caches leave: a smaller batch or shorter prompts",
                 bytes_text(static_cast<double>(free)))});
}

void PreparedPass::make(RankDevice& device) {
  OnRank* mine = on(device);
  if (!mine) return;
  Rank& rank = *model_.rank_on(device);
  rank.prepare(plan_);
  require_room(rank);
  mine->pass = std::make_unique<RankPass>(rank, plan_);
  mine->pass->upload(lone_);
  if (model_.crew().shares_devices()) {
    device.comms().rehearse(true);
    mine->pass->issue_all(false);
    model_.crew().wait(device, "rehearsing a " + name_of(plan_.shape.kind) + " pass");
    device.comms().rehearse(false);
  }
  // Ranks may share a device: none may allocate there while others already wait for it in their collectives.
  if (model_.in_step(device)) device.group().barrier("buffers of a pass");
  // Libraries load their kernels and open their channels at the first call, which a capture does not allow.
  mine->pass->issue_all(true);
  model_.crew().wait(device, "warming up a " + name_of(plan_.shape.kind) + " pass");
  // A prompt is committed as it is computed; this one was none.
  if (plan_.shape.kind == PassKind::prefill) rank.caches().clear_all(device.stream());
  if (launch_ == Launch::captured) capture(*mine->pass, mine->graph);
}

void PreparedPass::capture(RankPass& pass, CapturedGraph& out) {
  const cudaStream_t stream = pass.rank().device().stream();
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), "making a graph");
  const comm::Graph graph(made);
  check(cudaStreamBeginCaptureToGraph(stream, made, nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal),
        "beginning a capture");
  try {
    pass.begin();
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const std::size_t before = node_count(made);
      pass.issue(i);
      if (!allreduce_of(plan_.steps[i].op)) continue;
      const std::size_t added = node_count(made) - before;
      out.allreduces += added > 0 ? 1 : 0;
      out.allreduce_nodes += added;
    }
  } catch (...) {
    cudaGraph_t broken = nullptr;
    (void)cudaStreamEndCapture(stream, &broken);
    (void)cudaGetLastError();
    throw;
  }
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream, &captured), "ending a capture");
  out.nodes = node_count(made);
  out.exec = comm::instantiate(graph);
  check(cudaGraphUpload(out.exec.get(), stream), "uploading a graph");
}

void PreparedPass::put(OnRank& mine) {
  if (mine.graph.exec)
    check(cudaGraphLaunch(mine.graph.exec.get(), mine.pass->rank().device().stream()), "launching a pass");
  else
    mine.pass->issue_all(true);
}

host::PassOutput PreparedPass::run(const host::PassInput& input) {
  model_.crew().run([&](RankDevice& device) {
    OnRank* mine = on(device);
    if (!mine) return;
    mine->pass->upload(input);
    put(*mine);
    mine->pass->remember(input);
    mine->pass->fetch();
    model_.crew().wait(device, name_of(plan_.shape.kind) + " pass");
  });
  host::Index rows = 0;
  for (const host::SequenceInput& s : input.sequences) rows += static_cast<host::Index>(s.tokens.size());
  const host::ModelView& view = model_.view();
  const host::Index logit_rows =
      plan_.shape.kind == PassKind::prefill ? static_cast<host::Index>(input.sequences.size()) : rows;
  const host::Index features =
      view.last_hidden_features ? view.hidden : view.hidden * static_cast<host::Index>(view.taps.size());
  host::PassOutput out{host::Matrix::Zero(logit_rows, view.vocab), host::Matrix::Zero(rows, view.hidden),
                       host::Matrix::Zero(rows, features)};
  bool first = true;
  for (const OnRank& mine : ranks_) {
    if (!mine.pass) continue;
    mine.pass->collect(out, first);
    first = false;
  }
  return out;
}

/// Seconds of `work` on the slowest rank, by events, all ranks aligned before. `ahead`, if any, keeps the device busy
/// while the work is launched.
double PreparedPass::timed(RankDevice& device, const std::function<void()>& ahead, const std::function<void()>& work) {
  const comm::Event begin = comm::make_event();
  const comm::Event end = comm::make_event();
  model_.crew().wait(device, "work before a timed pass");
  if (model_.in_step(device)) device.group().barrier("before a timed pass");
  if (ahead) ahead();
  check(cudaEventRecord(begin.get(), device.stream()), "timing");
  work();
  check(cudaEventRecord(end.get(), device.stream()), "timing");
  model_.crew().wait(device, "a timed pass");
  float elapsed_ms = 0;
  check(cudaEventElapsedTime(&elapsed_ms, begin.get(), end.get()), "timing");
  const double mine = static_cast<double>(elapsed_ms) * ms;
  return model_.in_step(device) ? Crew::largest(device, mine, "seconds of a pass") : mine;
}

double PreparedPass::seconds() {
  // A prompt's pass runs against the power limit, so that one now and then is a tenth slower: the median of three.
  const std::size_t times = plan_.shape.kind == PassKind::prefill ? 3 : 1;
  std::vector<double> all;
  model_.crew().run([&](RankDevice& device) {
    OnRank* mine = on(device);
    if (!mine) return;
    const auto launch = [&] { put(*mine); };
    for (std::size_t i = 0; i < times; ++i) {
      const double slowest = mine->graph.exec ? timed(device, launch, launch) : timed(device, {}, launch);
      if (&device == &model_.crew().at(0)) all.push_back(slowest);
    }
  });
  return median(std::move(all));
}

std::int64_t PreparedPass::bytes() const {
  std::int64_t most = 0;
  for (const OnRank& mine : ranks_)
    if (mine.pass) most = std::max(most, mine.pass->bytes());
  return most;
}

std::vector<std::int32_t> PreparedPass::experts_met() const {
  const OnRank& mine = ranks_.front();
  return mine.pass ? mine.pass->experts_met() : std::vector<std::int32_t>{};
}

}  // namespace specstep::cuda
