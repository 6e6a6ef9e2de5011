// What every backend of our own must do: exact sums of integers in many sizes and types, by graphs and eagerly, with
// ranks that come at different times.
#pragma once

#include <gmock/gmock.h>

#include <random>

#include "comm/cuda/own/test_kernels.h"
#include "comm/cuda/test_device.h"

namespace specstep::comm {

/// What a rank puts in: small integers, zeros among them, and with every eleventh value zeros on all ranks.
inline int own_value(int rank, std::size_t i, int call) {
  if (i % 11 == 0) return 0;
  return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13 + static_cast<std::size_t>(call) * 5) % 17) - 8;
}
inline Integers own_values(int rank, std::size_t count, int call) {
  Integers out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = own_value(rank, i, call);
  return out;
}
inline Integers own_sums(int ranks, std::size_t count, int call) {
  Integers out(count, 0);
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < count; ++i) out[i] += own_value(r, i, call);
  return out;
}

/// One call with its data on one rank's device.
struct OwnSite {
  OwnSite(int rank, int ranks, std::size_t values, DType type, int call)
      : count(values),
        dtype(type),
        given(own_values(rank, values, call), type),
        expected(own_sums(ranks, values, call), type),
        values_(values * width(type)) {}
  /// Fills the values, sums them, compares.
  void issue(DeviceComm& comm, unsigned* wrong, cudaStream_t stream) const {
    check(cudaMemcpyAsync(values_.data(), given.data(), given.size(), cudaMemcpyDeviceToDevice, stream), "filling");
    comm.all_reduce(values_.data(), static_cast<std::int64_t>(count), dtype, stream);
    count_differences(values_.data(), expected.data(), expected.size(), wrong, stream);
  }
  std::size_t count;
  DType dtype;
  DeviceBytes given, expected;

 private:
  DeviceBytes values_;
};

/// Kernels, copies and fills are loaded, and all memory is allocated, before anyone waits for another rank, which may
/// share the device. Two words.
inline void load_what_tests_launch(Bootstrap& group, unsigned* words, cudaStream_t stream) {
  launch_pause(0, stream);
  check(cudaMemsetAsync(words, 0, 2 * sizeof(unsigned), stream), "clearing");
  check(cudaMemcpyAsync(words, words + 1, sizeof(unsigned), cudaMemcpyDeviceToDevice, stream), "copying");
  count_differences(words, words, 1, words, stream);
  check(cudaStreamSynchronize(stream), "loading kernels");
  group.barrier("what the test launches is loaded");
}

struct OwnTrial {
  CommRequest request;
  int ranks = 2;
  std::vector<std::size_t> counts{1, 7, 8, 9, 1000, 7168};
  std::vector<DType> dtypes{DType::bf16};
  int replays = 20;
  bool skew = false;
};

/// On all ranks, several of which may share a device: the calls once eagerly, then captured and replayed, with an eager
/// round now and then. What went wrong, or nothing.
inline std::string faults_of(const OwnTrial& trial) {
  std::vector<std::string> faults(static_cast<std::size_t>(trial.ranks));
  const bool share = visible_gpus() < trial.ranks;
  const auto thrown = on_ranks(trial.ranks, 60, share, [&](Bootstrap& group) {
    const auto comm = open_comm(trial.request, group);
    const Stream stream = make_stream();
    std::vector<OwnSite> sites;
    int call = 0;
    for (const DType dtype : trial.dtypes)
      for (const std::size_t count : trial.counts)
        sites.emplace_back(group.rank(), group.ranks(), count, dtype, call++);
    const DeviceBytes wrong(Integers{0, 0}, DType::f32);
    auto* counter = reinterpret_cast<unsigned*>(wrong.data());
    load_what_tests_launch(group, counter, stream.get());
    std::minstd_rand random(static_cast<unsigned>(group.rank()) + 1);
    const auto all = [&] {
      for (const OwnSite& site : sites) {
        if (trial.skew && random() % 4 == 0) launch_pause(random() % 20000, stream.get());
        site.issue(*comm, counter, stream.get());
      }
    };
    all();
    wait_for(stream.get(), *comm, 30, "eager calls");
    const GraphExec graph = capture(stream.get(), all);
    group.barrier("captured");
    for (int i = 0; i < trial.replays; ++i) {
      check(cudaGraphLaunch(graph.get(), stream.get()), "replaying");
      if (i % 64 == 63) {
        wait_for(stream.get(), *comm, 30, "replays");
        all();
      }
    }
    wait_for(stream.get(), *comm, 30, "replays");
    unsigned count = 0;
    check(cudaMemcpy(&count, counter, sizeof(count), cudaMemcpyDeviceToHost), "reading");
    if (count > 0)
      faults[static_cast<std::size_t>(group.rank())] = formatted("rank {}: {} wrong bytes\n", group.rank(), count);
    comm->check_health();
    group.barrier("done");
  });
  std::string text;
  for (std::size_t r = 0; r < faults.size(); ++r)
    text += faults[r] + (thrown[r].text.empty() ? "" : thrown[r].text + "\n");
  return text;
}

}  // namespace specstep::comm
