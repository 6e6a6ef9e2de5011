#include "sim/cuda/crew.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "comm/cuda/let_share.h"
#include "model/base/formatted.h"
#include "sim/cuda/facts.h"
#include "sim/module.h"

namespace specstep::cuda {

namespace {

std::vector<std::unique_ptr<comm::Bootstrap>> make_ends(const RunConfig& config) {
  const double limit = config.measure.cuda.wait_limit_s;
  const auto ranks = plays_one_rank(config) ? 1 : static_cast<int>(config.parallel.tensor);
  if (!comm::under_mpi()) return comm::thread_bootstrap(ranks, limit);
  std::vector<std::unique_ptr<comm::Bootstrap>> ends;
  ends.push_back(open_module("mpi").make_bootstrap(limit));
  if (ends.front()->ranks() != ranks)
    throw InputError({{},
                      "parallel.tensor",
                      formatted("asks for {} ranks, but mpirun started {}", ranks, ends.front()->ranks()),
                      "as many processes as ranks"});
  return ends;
}

std::vector<int> devices_of(const RunConfig& config, const std::vector<std::unique_ptr<comm::Bootstrap>>& ends) {
  const int count = device_count();
  const std::vector<std::int64_t>& given = config.measure.cuda.devices;
  std::vector<int> out;
  for (const auto& end : ends) {
    // Under MPI the list is that of the host's processes.
    const auto place = static_cast<std::size_t>(end->local_rank());
    if (given.empty() && end->local_ranks() > count)
      throw Unsupported(formatted(
          "{} ranks need as many GPUs, and this machine has {}; measure.cuda.devices lets ranks share one where the "
          "backend can, comm.backend=delay plays one rank alone",
          end->local_ranks(), count));
    if (!given.empty() && place >= given.size())
      throw InputError({{},
                        "measure.cuda.devices",
                        formatted("names {} devices for {} ranks", given.size(), end->local_ranks()),
                        "one for each rank"});
    out.push_back(given.empty() ? static_cast<int>(place) : static_cast<int>(given[place]));
    if (out.back() >= count)
      throw InputError({{},
                        "measure.cuda.devices",
                        formatted("names device {}", out.back()),
                        formatted("0 to {}: this machine has {}", count - 1, count)});
  }
  return out;
}

/// What is wrong wherever the run is started. Under MPI only the host's share of the ranks is known, later.
void check_devices(const RunConfig& config) {
  const std::size_t named = config.measure.cuda.devices.size();
  const bool alone = plays_one_rank(config);
  if (named == 0 || alone || comm::under_mpi() || named == static_cast<std::size_t>(config.parallel.tensor)) return;
  throw InputError({{},
                    "measure.cuda.devices",
                    formatted("names {} devices for {} ranks", named, config.parallel.tensor),
                    "one for each rank"});
}

void prepare_sharing(const RunConfig& config) {
  const std::set<std::int64_t> devices(config.measure.cuda.devices.begin(), config.measure.cuda.devices.end());
  if (devices.size() < config.measure.cuda.devices.size()) comm::let_ranks_share();
}

}  // namespace

int device_count() {
  try {
    return usable_devices();
  } catch (const Unsupported& e) {
    throw Unsupported(formatted("executor 'cuda': {}; usable here: cost, host", e.what()));
  }
}

Crew::Crew(const RunConfig& config)
    : ends_((check_devices(config), prepare_sharing(config), device_count(), make_ends(config))),
      device_of_(devices_of(config, ends_)),
      free_at_start_(free_now()),
      team_(static_cast<int>(ends_.size())) {
  ranks_.resize(ends_.size());
  team_.run([&](int local) {
    const auto i = static_cast<std::size_t>(local);
    ranks_[i] = std::make_unique<RankDevice>(config, *ends_[i], device_of_[i]);
  });
}

bool Crew::shares_devices() const {
  return std::set<int>(device_of_.begin(), device_of_.end()).size() < device_of_.size();
}

double Crew::free_now() const {
  double least = 0;
  for (const int device : device_of_) {
    std::size_t free = 0, total = 0;
    check(cudaSetDevice(device), "choosing a device");
    check(cudaMemGetInfo(&free, &total), "free memory");
    const auto sharing = static_cast<double>(std::count(device_of_.begin(), device_of_.end(), device));
    const double one = static_cast<double>(free) / sharing;
    least = least == 0 ? one : std::min(least, one);
  }
  return least;
}

Crew::~Crew() {
  // Ends of a backend close together, as they were opened.
  try {
    team_.run([&](int local) {
      const auto i = static_cast<std::size_t>(local);
      if (!ranks_[i]) return;
      (void)cudaSetDevice(device_of_[i]);
      ranks_[i].reset();
    });
  } catch (...) {  // whatever fails now has no one left to tell
  }
}

void Crew::run(const std::function<void(RankDevice&)>& work) {
  if (failed_) throw Error("a rank of this run has failed before");
  team_.run([&](int local) {
    RankDevice& rank = at(local);
    try {
      rank.enter();
      work(rank);
    } catch (const std::exception& e) {
      const bool first = !failed_.exchange(true);
      rank.group().fail(e.what());
      rank.comms().abort();
      // Others stop because of this one: theirs are no reasons.
      if (first) throw;
    }
  });
}

void Crew::wait(RankDevice& rank, std::string_view what) { rank.comms().wait(rank.stream(), failed_, what); }

double Crew::largest(RankDevice& rank, double mine, const std::string& what) {
  if (rank.group().ranks() == 1) return mine;
  const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  double most = mine;
  for (const std::string& one : rank.group().all_gather(bytes, what)) {
    double value = 0;
    std::memcpy(&value, one.data(), std::min(one.size(), sizeof value));
    most = std::max(most, value);
  }
  return most;
}

}  // namespace specstep::cuda
