// Where a pass spends its time: its steps alone, and inside it.
#include <algorithm>

#include "model/base/units.h"
#include "sim/cuda/median.h"
#include "sim/cuda/prepared.h"

namespace specstep::cuda {

double PreparedPass::group_seconds(RankDevice& device, OnRank& mine, const std::vector<std::size_t>& steps) {
  constexpr std::size_t least = 8;
  // A prompt's steps are long, and a pass of it before each run would take most of a benchmark's time.
  const int runs = plan_.shape.kind == PassKind::prefill ? 1 : 3;
  std::size_t put_down = 0;
  const comm::Graph captured = comm::captured(device.stream(), [&] {
    while (put_down < std::max(least, steps.size()))
      for (const std::size_t step : steps) {
        mine.pass->issue(step);
        ++put_down;
      }
  });
  comm::begin_behind_ends(captured);
  const comm::GraphExec graph = comm::instantiate(captured);
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    // A whole pass first: repeated steps alone would drive what they work on beyond all numbers. Not before all have
    // made their graphs, as above.
    if (model_.in_step(device)) device.group().barrier("graphs of steps");
    put(mine);
    const auto launch = [&] { check(cudaGraphLaunch(graph.get(), device.stream()), "steps of a kind"); };
    seconds.push_back(timed(device, launch, launch));
  }
  return median(std::move(seconds)) / static_cast<double>(put_down);
}

std::vector<double> PreparedPass::step_seconds() {
  // Groups in order of their first step; allreduces of the layers are one group, wherever in the layer they stand.
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const std::vector<std::size_t>& g) {
      const Step& first = plan_.steps[g.front()];
      const bool collective = allreduce_of(step.op) != nullptr;
      return first.op == step.op && (first.kind == step.kind || collective);
    });
    if (found == groups.end())
      groups.push_back({i});
    else
      found->push_back(i);
  }
  std::vector<double> out(plan_.steps.size());
  model_.crew().run([&](RankDevice& device) {
    OnRank* mine = on(device);
    if (!mine) return;
    for (const std::vector<std::size_t>& group : groups) {
      const double each = group_seconds(device, *mine, group);
      if (&device != &model_.crew().at(0)) continue;
      for (const std::size_t step : group) out[step] = each;
    }
  });
  return out;
}

/// One pass with stamps around some of its steps, as a graph behind a pass without, or launched one by one. Neighbours
/// share a stamp.
Stamps PreparedPass::stamped(RankDevice& device, OnRank& mine, Launch launch, const Steps& which) {
  const DeviceBuffer times(static_cast<std::int64_t>(2 * plan_.steps.size() * sizeof(std::uint64_t)), "stamps");
  auto* const first = times.as<std::uint64_t>();
  std::vector<std::array<std::size_t, 2>> places;
  const auto pass = [&] {
    places.clear();
    std::size_t next = 0;
    bool open = false;  // a stamp is the last thing put down
    mine.pass->begin();
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const bool stamps = which(plan_.steps[i]);
      if (stamps && !open) stamp(first + next++, device.stream());
      mine.pass->issue(i);
      if (stamps) {
        stamp(first + next++, device.stream());
        places.push_back({next - 2, next - 1});
      }
      open = stamps;
    }
  };
  stamp(first, device.stream());  // loads its kernel, which a capture does not allow
  if (launch == Launch::captured) {
    const comm::GraphExec graph = comm::capture(device.stream(), pass);
    check(cudaGraphUpload(graph.get(), device.stream()), "uploading a graph");
    timed(
        device, [&] { put(mine); }, [&] { check(cudaGraphLaunch(graph.get(), device.stream()), "a stamped pass"); });
  } else {
    timed(device, {}, pass);
  }
  std::vector<std::uint64_t> read(2 * plan_.steps.size());
  check(cudaMemcpy(read.data(), times.data(), read.size() * sizeof(std::uint64_t), cudaMemcpyDeviceToHost), "stamps");
  Stamps out;
  for (const auto& [before, behind] : places)
    out.push_back({static_cast<double>(read[before]), static_cast<double>(read[behind])});
  return out;
}

/// From one stamp to the next in a graph, with nothing between.
double PreparedPass::seconds_of_stamp(RankDevice& device) {
  constexpr int count = 64;
  const DeviceBuffer times(count * static_cast<std::int64_t>(sizeof(std::uint64_t)), "stamps");
  stamp(times.as<std::uint64_t>(), device.stream());  // loads its kernel
  const comm::GraphExec graph = comm::capture(device.stream(), [&] {
    for (int i = 0; i < count; ++i) stamp(times.as<std::uint64_t>() + i, device.stream());
  });
  check(cudaGraphLaunch(graph.get(), device.stream()), "stamps");
  model_.crew().wait(device, "stamps");
  std::vector<std::uint64_t> read(count);
  check(cudaMemcpy(read.data(), times.data(), read.size() * sizeof(std::uint64_t), cudaMemcpyDeviceToHost), "stamps");
  return static_cast<double>(read.back() - read.front()) * clock_count / (count - 1);
}

std::vector<double> PreparedPass::seconds_inside() {
  const int runs = plan_.shape.kind == PassKind::prefill ? 1 : 3;
  std::vector<double> out(plan_.steps.size());
  model_.crew().run([&](RankDevice& device) {
    OnRank* mine = on(device);
    if (!mine) return;
    const double of_stamp = seconds_of_stamp(device);
    std::vector<Stamps> all;
    for (int run = 0; run < runs; ++run)
      all.push_back(stamped(device, *mine, Launch::captured, [](const Step&) { return true; }));
    if (&device != &model_.crew().at(0)) return;
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::vector<double> each;
      for (const Stamps& one : all) each.push_back(std::max(0.0, (one[i][1] - one[i][0]) * clock_count - of_stamp));
      out[i] = median(std::move(each));
    }
  });
  return out;
}

std::optional<InSitu> PreparedPass::in_situ() {
  const auto in_layer = [](const Step& step) {
    const auto* reduce = allreduce_of(step.op);
    return reduce && reduce->in_layer;
  };
  if (std::none_of(plan_.steps.begin(), plan_.steps.end(), in_layer)) return std::nullopt;
  const Clocks clocks(model_.crew());
  if (!clocks.refused().empty()) return InSitu{.refused = clocks.refused()};
  std::vector<Stamps> stamps(ranks_.size());
  model_.crew().run([&](RankDevice& device) {
    if (OnRank* mine = on(device))
      stamps[static_cast<std::size_t>(mine - ranks_.data())] = stamped(device, *mine, launch_, in_layer);
  });
  return split(stamps, clocks.offsets());
}

}  // namespace specstep::cuda
