#include "sim/cuda/comm_bench.h"

#include <algorithm>
#include <set>

#include "comm/backend.h"
#include "comm/caps.h"
#include "comm/cuda/bench/rank_bench.h"
#include "comm/cuda/let_share.h"
#include "comm/protocol/quantised.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/cuda/check.h"
#include "sim/cuda/facts.h"
#include "sim/host/team.h"
#include "sim/module.h"

namespace specstep::cuda {

namespace {

using Ends = std::vector<std::unique_ptr<comm::Bootstrap>>;

/// Share of the sum of magnitudes that values may be off: the bound of q8's two roundings, and what its scales add for
/// values far below the largest of their group.
double rounding_of(const std::string& id) {
  return comm::caps_of(id).lossless ? 0 : comm::protocol::error_bound(1, 0) + 0.003;
}

int devices_for(const comm::MeasureRequest& request) {
  const std::set<int> different(request.devices.begin(), request.devices.end());
  if (different.size() < request.devices.size()) comm::let_ranks_share();
  return usable_devices();
}

std::vector<std::string> backends_of(const comm::MeasureRequest& request) {
  if (!request.backends.empty()) return request.backends;
  std::vector<std::string> ids;
  for (const comm::BackendRow& row : comm::backends())
    if (comm::caps_of(row.id).exchanges) ids.push_back(row.id);
  return ids;
}

Ends ends_of(const comm::MeasureRequest& request, int devices) {
  if (!comm::under_mpi()) {
    const auto given = static_cast<int>(request.devices.size());
    const int ranks = request.ranks > 0 ? request.ranks : given > 0 ? given : devices;
    return comm::thread_bootstrap(ranks, request.wait_limit_seconds + 30);
  }
  Ends ends;
  ends.push_back(open_module("mpi").make_bootstrap(request.wait_limit_seconds + 30));
  if (request.ranks > 0 && ends.front()->ranks() != request.ranks)
    throw InputError({{"--ranks"},
                      "",
                      formatted("asks for {} ranks, but mpirun started {}", request.ranks, ends.front()->ranks()),
                      "as many processes as ranks"});
  return ends;
}

int device_of(const comm::MeasureRequest& request, const comm::Bootstrap& end, int devices) {
  const auto place = static_cast<std::size_t>(end.local_rank());
  const std::vector<int>& given = request.devices;
  if (given.empty() && end.local_ranks() > devices)
    throw Unsupported(
        formatted("{} ranks need as many GPUs, and this machine has {}; --devices 0,0,... lets ranks "
                  "share one where the backend can",
                  end.local_ranks(), devices));
  if (!given.empty() && static_cast<int>(given.size()) != end.local_ranks())
    throw InputError({{"--devices"},
                      "",
                      formatted("names {} devices for {} ranks", given.size(), end.local_ranks()),
                      "one for each rank"});
  const int device = given.empty() ? static_cast<int>(place) : given[place];
  if (device >= devices)
    throw InputError({{"--devices"},
                      "",
                      formatted("names device {}", device),
                      formatted("0 to {}: this machine has {}", devices - 1, devices)});
  return device;
}

/// One rank's end of one backend, and what became of it.
struct OnRank {
  std::unique_ptr<comm::DeviceComm> comm;
  std::unique_ptr<comm::RankBench> bench;
  comm::MeasuredBackend found;
  std::string failure;
};

class CommBench {
 public:
  explicit CommBench(const comm::MeasureRequest& request)
      : request_(request),
        devices_(devices_for(request)),
        ends_(ends_of(request, devices_)),
        team_(static_cast<int>(ends_.size())) {
    for (const auto& end : ends_) device_of_.push_back(device_of(request, *end, devices_));
  }

  const std::vector<int>& devices() const { return device_of_; }
  int ranks() const { return ends_.front()->ranks(); }
  bool reports() const { return ends_.front()->rank() == 0; }

  comm::MeasuredBackend measure(const std::string& id) {
    // Threads that failed together are of no more use to each other; processes have ended then.
    if (!comm::under_mpi()) ends_ = ends_of(request_, devices_);
    std::vector<OnRank> ranks(ends_.size());
    team_.run([&](int local) { work(id, local, ranks[static_cast<std::size_t>(local)]); });
    team_.run([&](int local) { close(local, ranks[static_cast<std::size_t>(local)]); });
    return merged(id, ranks);
  }

 private:
  void work(const std::string& id, int local, OnRank& mine) {
    comm::Bootstrap& end = *ends_[static_cast<std::size_t>(local)];
    try {
      check(cudaSetDevice(device_of_[static_cast<std::size_t>(local)]), "choosing a device");
      open(id, end, mine);
      for (const std::int64_t bytes : request_.sizes) mine.found.sizes.push_back(measure_size(id, bytes, mine));
      mine.found.notes = mine.comm->notes();
      mine.found.device_bytes = mine.comm->device_bytes();
    } catch (const Unsupported& e) {
      mine.found.refusal = e.what();
      if (!comm::under_mpi()) end.fail(e.what());  // refusals are alike on all ranks, where they can be
    } catch (const std::exception& e) {
      mine.failure = e.what();
      if (mine.comm) mine.comm->abort();
      end.fail(e.what());
    }
  }

  void open(const std::string& id, comm::Bootstrap& end, OnRank& mine) {
    comm::CommRequest request;
    request.backend = id;
    request.nccl = request_.nccl;
    request.own = request_.own;
    request.target = request_.target;
    request.target_ranks = end.ranks();
    request.wait_limit_seconds = request_.wait_limit_seconds;
    mine.comm = comm::open_comm(request, end);
    mine.bench = std::make_unique<comm::RankBench>(request_, end, *mine.comm);
  }

  comm::MeasuredSize measure_size(const std::string& id, std::int64_t bytes, OnRank& mine) {
    comm::MeasuredSize size;
    size.bytes = bytes;
    if (request_.fault && bytes != request_.sizes.front()) return size;
    try {
      if (comm::caps_of(id).exchanges && !request_.fault) mine.bench->verify(size, rounding_of(id));
      if (!request_.check_only && size.wrong == 0) mine.bench->time(size);
    } catch (const Unsupported& e) {
      size.refusal = e.what();
    } catch (const Error& e) {
      throw Error(formatted("{} ranks, {} B: {}", ends_.front()->ranks(), grouped(bytes), e.what()));
    }
    return size;
  }

  void close(int local, OnRank& mine) {
    (void)cudaSetDevice(device_of_[static_cast<std::size_t>(local)]);
    if (mine.bench) mine.bench->drain();
    team_.meet();
    mine.bench.reset();
    mine.comm.reset();
    (void)cudaGetLastError();  // of a backend that failed
  }

  /// What ranks said, without those who only repeat that another one failed.
  static std::vector<std::string> reasons(const std::vector<OnRank>& ranks) {
    const auto repeats = [&](const std::string& text) {
      return std::any_of(ranks.begin(), ranks.end(), [&](const OnRank& other) {
        return !other.failure.empty() && other.failure != text && text.find(other.failure) != std::string::npos;
      });
    };
    std::set<std::string> told;
    for (const OnRank& one : ranks)
      if (!one.failure.empty() && !repeats(one.failure)) told.insert(one.failure);
    return {told.begin(), told.end()};
  }

  static comm::MeasuredBackend merged(const std::string& id, std::vector<OnRank>& ranks) {
    comm::MeasuredBackend out;
    for (OnRank& one : ranks)
      if (!one.found.refusal.empty() && out.refusal.empty()) out.refusal = one.found.refusal;
    if (out.refusal.empty()) out.failures = reasons(ranks);
    if (out.refusal.empty() && out.failures.empty()) out = std::move(ranks.front().found);
    out.id = id;
    return out;
  }

  const comm::MeasureRequest& request_;
  int devices_;
  Ends ends_;
  std::vector<int> device_of_;
  host::Team team_;
};

int most_sharing(const std::vector<int>& devices) {
  std::ptrdiff_t most = 1;
  for (const int device : devices) most = std::max(most, std::count(devices.begin(), devices.end(), device));
  return static_cast<int>(most);
}

}  // namespace

CommBenchmark measure_comm(const comm::MeasureRequest& request) {
  CommBench bench(request);
  CommBenchmark out;
  out.reports = bench.reports();
  out.device_of = bench.devices();
  for (const int device : std::set<int>(out.device_of.begin(), out.device_of.end()))
    out.devices.push_back(facts_of(device));
  out.measured.ranks = bench.ranks();
  out.measured.dtype = request.dtype;
  out.measured.own = request.own;
  out.measured.ranks_per_device = most_sharing(out.device_of);
  for (const std::string& id : backends_of(request)) {
    if (request.progress && out.reports) request.progress("measuring " + id);
    out.measured.backends.push_back(bench.measure(id));
  }
  return out;
}

}  // namespace specstep::cuda
