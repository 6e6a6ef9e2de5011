// Timing by events between replays of one graph. Ranks are aligned by the collectives themselves: a replay is launched
// ahead, so that those behind it are in the stream before it ends, on every rank.
#include "comm/cuda/bench/rank_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "comm/cuda/nccl_group.h"
#include "comm/cuda/own_part.h"
#include "comm/cuda/wait.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

constexpr int most_rounds = 4;   // calls of a check, each with its own values
constexpr int graph_checks = 3;  // replays of it
constexpr int chunk_replays = 4;
constexpr int cold_calls = 32;
constexpr int least_replays = 3;
constexpr double host_grace_seconds = 5;  // a wait on the device should say first what it waited for

/// Fewer for large messages, whose sums a host takes long to add up.
int rounds_of(std::int64_t bytes) { return bytes > 256 * 1024 ? 2 : most_rounds; }

std::int64_t largest_of(const std::vector<std::int64_t>& sizes) {
  return *std::max_element(sizes.begin(), sizes.end());
}

/// Whether this rank is the first of those on its device.
bool first_on_device(Bootstrap& group) {
  const std::vector<std::string> all = group.all_gather(device_address(), "devices of all ranks");
  const auto mine = all.begin() + group.rank();
  return std::find(all.begin(), mine, *mine) == mine;
}

std::size_t cache_bytes() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "size of the cache");
  return static_cast<std::size_t>(bytes);
}

}  // namespace

DeviceArray::DeviceArray(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "allocating an array");
  memory_.reset(memory);
}

RankBench::RankBench(const MeasureRequest& request, Bootstrap& group, DeviceComm& comm)
    : request_(request), group_(group), comm_(comm), stream_(make_stream()) {
  const auto largest = static_cast<std::size_t>(largest_of(request.sizes));
  lent_ = comm.allocate(largest);
  if (!lent_) values_ = DeviceArray(largest);
  given_ = DeviceArray(most_rounds * largest);
  sums_ = DeviceArray(most_rounds * largest);
  if (request.norm && !request.check_only) {
    residual_ = DeviceArray(largest);
    normed_ = DeviceArray(largest);
    gain_ = DeviceArray(value_bytes(request.width, request.dtype));
    check(cudaMemsetAsync(residual_.data(), 0, largest, stream_.get()), "clearing a residual");
    check(cudaMemsetAsync(gain_.data(), 0, gain_.bytes(), stream_.get()), "clearing a gain");
  }
  const bool sweeps = first_on_device(group) && request.cold && !request.check_only;
  if (sweeps) swept_ = DeviceArray(2 * cache_bytes());
  for (int i = 0; i <= chunk_replays; ++i) events_.push_back(make_event());
  // Sums of zeros are zeros, however often.
  check(cudaMemsetAsync(values(), 0, largest, stream_.get()), "clearing values");
  wait("clearing values");
}

RankBench::Site RankBench::site_of(std::int64_t bytes) const {
  return {values(), bytes / static_cast<std::int64_t>(value_bytes(1, request_.dtype))};
}

void RankBench::wait(const std::string& what) {
  wait_for(stream_.get(), comm_, request_.wait_limit_seconds + host_grace_seconds, what);
  comm_.check_health();  // a stream also ends when its waits gave up
}

void RankBench::drain() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto limit = std::chrono::duration<double>(request_.wait_limit_seconds + host_grace_seconds);
  const Clock::time_point start = Clock::now();
  while (cudaStreamQuery(stream_.get()) == cudaErrorNotReady && Clock::now() - start < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

GraphExec RankBench::graph_of(const Launch& calls) {
  GraphExec graph = capture(stream_.get(), calls);
  check(cudaGraphUpload(graph.get(), stream_.get()), "uploading a graph");
  return graph;
}

void RankBench::replay(const GraphExec& graph) const {
  check(cudaGraphLaunch(graph.get(), stream_.get()), "launching a graph");
}

void RankBench::sweep() const {
  if (swept_.bytes() > 0) check(cudaMemsetAsync(swept_.data(), 0, swept_.bytes(), stream_.get()), "sweeping the cache");
}

SumFaults RankBench::faults(std::int64_t bytes, double rounding) {
  SumFaults out;
  std::vector<std::byte> got(static_cast<std::size_t>(bytes));
  for (int round = 0; round < rounds_of(bytes); ++round) {
    const std::byte* from = sums_.data() + static_cast<std::size_t>(round) * got.size();
    check(cudaMemcpyAsync(got.data(), from, got.size(), cudaMemcpyDeviceToHost, stream_.get()), "reading sums");
    wait("reading sums");
    const SumFaults now = faults_of_sums(got, group_.ranks(), request_.dtype, round, rounding);
    out.wrong += now.wrong;
    out.largest_error = std::max(out.largest_error, now.largest_error);
  }
  return out;
}

void RankBench::verify(MeasuredSize& size, double rounding) {
  const std::string what = formatted("checking sums of {} B", size.bytes);
  const auto bytes = static_cast<std::size_t>(size.bytes);
  const std::int64_t count = site_of(size.bytes).count;
  const int rounds = rounds_of(size.bytes);
  for (int round = 0; round < rounds; ++round) {
    const auto values = check_values(group_.rank(), group_.ranks(), count, request_.dtype, round);
    check(cudaMemcpyAsync(given_.data() + static_cast<std::size_t>(round) * bytes, values.data(), bytes,
                          cudaMemcpyHostToDevice, stream_.get()),
          "copying values");
    wait(what);
  }
  const auto sum_all = [&] {
    for (int round = 0; round < rounds; ++round) {
      const std::size_t at = static_cast<std::size_t>(round) * bytes;
      // Where they are timed as well: a backend may take another way for values elsewhere.
      const auto copy = [&](void* to, const void* from) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()), "copying values");
      };
      copy(values(), given_.data() + at);
      all_reduce({values(), count});
      copy(sums_.data() + at, values());
    }
  };
  group_.barrier(what);
  sum_all();
  wait(what);
  SumFaults found = faults(size.bytes, rounding);
  const GraphExec graph = graph_of(sum_all);
  check(cudaMemsetAsync(sums_.data(), 0xFF, static_cast<std::size_t>(rounds) * bytes, stream_.get()), "clearing sums");
  wait(what);
  group_.barrier(what + " in a graph");
  for (int i = 0; i < graph_checks; ++i) replay(graph);
  wait(what + " in a graph");
  const SumFaults again = faults(size.bytes, rounding);
  check(cudaMemsetAsync(values(), 0, bytes, stream_.get()), "clearing values");  // zeros are what is timed
  found.wrong += again.wrong;
  found.largest_error = std::max(found.largest_error, again.largest_error);
  size.checked += 2 * rounds * count * group_.ranks();
  for (const std::string& text :
       group_.all_gather(formatted("{} {:.17g}", found.wrong, found.largest_error), "wrong sums of all ranks")) {
    const std::size_t gap = text.find(' ');
    size.wrong += std::stoll(text.substr(0, gap));
    size.largest_error = std::max(size.largest_error, std::stod(text.substr(gap)));
  }
}

std::vector<double> RankBench::slowest(const std::vector<double>& mine, const std::string& what) {
  std::string bytes(mine.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), mine.data(), bytes.size());
  std::vector<double> most(mine.size(), 0);
  for (const std::string& one : group_.all_gather(bytes, what)) {
    if (one.size() != bytes.size()) throw Error(formatted("{}: ranks have different numbers of times", what));
    for (std::size_t i = 0; i < most.size(); ++i) {
      double value = 0;
      std::memcpy(&value, one.data() + i * sizeof(double), sizeof(double));
      most[i] = std::max(most[i], value);
    }
  }
  return most;
}

std::vector<double> RankBench::chunk(const Launch& launch, const std::string& what) {
  group_.barrier(what);
  launch();
  for (std::size_t i = 0; i < events_.size(); ++i) {
    check(cudaEventRecord(events_[i].get(), stream_.get()), "timing");
    if (i + 1 < events_.size()) launch();
  }
  wait(what);
  std::vector<double> mine;
  for (std::size_t i = 0; i + 1 < events_.size(); ++i) {
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, events_[i].get(), events_[i + 1].get()), "timing");
    mine.push_back(static_cast<double>(elapsed_ms) * ms);
  }
  return slowest(mine, what + ", times of all ranks");
}

std::vector<double> RankBench::replays(const Launch& launch, const std::string& what) {
  // The first chunk warms up, and tells how many there is time for; it is all there is when one takes too long.
  std::vector<double> out = chunk(launch, what);
  const double each = *std::min_element(out.begin(), out.end());
  const double room = each > 0 ? request_.seconds_each / each : request_.replays;
  const auto wanted = static_cast<std::size_t>(
      std::clamp(room, static_cast<double>(least_replays), static_cast<double>(std::max(request_.replays, 1))));
  if (wanted <= least_replays) return out;
  out.clear();
  while (out.size() < wanted) {
    const std::vector<double> more = chunk(launch, what);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

Timing RankBench::cold(const Site& site, const std::string& what) {
  const int calls = std::min(request_.calls, cold_calls);
  const auto graph = [&](bool with_calls) {
    return graph_of([&] {
      for (int i = 0; i < calls; ++i) {
        sweep();
        if (with_calls) all_reduce(site);
      }
    });
  };
  const GraphExec sweeps = graph(false), both = graph(true);
  wait(what);
  const Timing alone = timing_of(replays([&] { replay(sweeps); }, what + ", sweeps alone"), 1);
  std::vector<double> seconds = replays([&] { replay(both); }, what);
  for (double& one : seconds) one = std::max(0.0, one - alone.median);
  return timing_of(std::move(seconds), calls);
}

void RankBench::time_norm(const Site& site, MeasuredSize& size) {
  if (!comm_.fuses_norm() || site.count % request_.width != 0) return;
  FusedNorm rows;
  rows.values = site.values;
  rows.residual = residual_.data();
  rows.gain = gain_.data();
  rows.out = normed_.data();
  rows.rows = site.count / request_.width;
  rows.width = request_.width;
  rows.dtype = request_.dtype;
  const auto timed = [&](const std::string& what, const Launch& one) {
    const GraphExec graph = graph_of([&] {
      for (int i = 0; i < request_.calls; ++i) one();
    });
    wait(what);
    return timing_of(replays([&] { replay(graph); }, what), request_.calls);
  };
  size.fused = timed(formatted("allreduces of {} B with a norm, fused", size.bytes),
                     [&] { comm_.all_reduce_norm(rows, stream_.get()); });
  size.pair = timed(formatted("allreduces of {} B and norms", size.bytes), [&] {
    all_reduce(site);
    add_norm(rows, stream_.get());
  });
}

void RankBench::time(MeasuredSize& size) {
  const Site site = site_of(size.bytes);
  const std::string what = formatted("allreduces of {} B", size.bytes);
  const bool faulty = request_.fault && request_.fault->rank == group_.rank();
  const int calls = faulty ? std::min(request_.calls, request_.fault->call) : request_.calls;
  const Launch all = [&] {
    for (int i = 0; i < calls; ++i) all_reduce(site);
  };
  if (request_.graph || request_.fault) {
    const GraphExec graph = graph_of(all);
    wait(what);
    bool gone = false;  // a faulty rank's next replay would make the calls that the others miss
    const Launch launch = [&] {
      if (!gone) replay(graph);
      gone = faulty;
    };
    size.graph = timing_of(replays(launch, what + " in a graph"), request_.calls);
  }
  if (request_.fault) return;
  if (request_.norm) time_norm(site, size);
  if (request_.cold) size.cold = cold(site, what + " with cold caches");
  if (request_.eager) size.eager = timing_of(replays(all, what + ", launched one by one"), request_.calls);
}

}  // namespace specstep::comm
