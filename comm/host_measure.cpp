#include "comm/host_measure.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "comm/backend.h"
#include "comm/caps.h"
#include "comm/protocol/host_team.h"
#include "comm/protocol/quantised.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

using protocol::HostTeam;
using protocol::Pack;
using protocol::Protocol;

const std::map<std::string, Protocol>& protocols() {
  static const std::map<std::string, Protocol> rows{
      {"push1", Protocol::push_sentinel}, {"pull1", Protocol::pull_one_stage},  {"rsag", Protocol::pull_two_stage},
      {"island", Protocol::push_islands}, {"hostbc", Protocol::boards},         {"ring", Protocol::ring_ll},
      {"ce", Protocol::copied_two_stage}, {"q8", Protocol::quantised_two_stage}};
  return rows;
}

/// Threads take turns on few cores: more calls tell no more.
constexpr int most_calls = 20;
constexpr int replays = 3;
/// Share of the sum of magnitudes that values may be off, as on devices: two roundings to fp8, and what the scales add
/// for values far below the largest of their group.
double rounding_of(const std::string& id) { return caps_of(id).lossless ? 0 : protocol::error_bound(1, 0) + 0.003; }

std::vector<std::vector<int>> halves(int ranks) {
  if (ranks % 2 != 0) return {};
  std::vector<std::vector<int>> out(2, std::vector<int>(static_cast<std::size_t>(ranks / 2)));
  std::iota(out[0].begin(), out[0].end(), 0);
  std::iota(out[1].begin(), out[1].end(), ranks / 2);
  return out;
}

/// One backend at one size: every rank's thread makes the same calls.
class HostCalls {
 public:
  HostCalls(const MeasureRequest& request, Protocol protocol, std::int64_t bytes)
      : request_(request),
        bytes_(bytes),
        packs_(static_cast<std::uint32_t>((bytes + std::int64_t{sizeof(Pack)} - 1) / std::int64_t{sizeof(Pack)})),
        shape_{protocol, 0, packs_, 1},
        team_({.capacity = {request.ranks, packs_, 1},
               .time_limit = std::chrono::milliseconds(std::llround(request.wait_limit_seconds * 1e3)),
               .islands = halves(request.ranks)}),
        out_(ranks(), std::vector<Pack>(packs_)),
        failures_(ranks()),
        times_(ranks(), std::vector<double>(replays)) {}

  MeasuredSize run(double rounding) {
    MeasuredSize size;
    size.bytes = bytes_;
    on_all_ranks([&](int rank) { call(rank, 0); });
    if (failed()) return size;
    for (const std::vector<Pack>& got : out_) {
      const SumFaults faults = faults_of_sums(bytes_of_packs(got), request_.ranks, DType::bf16, 0, rounding);
      size.checked += static_cast<std::int64_t>(packs_) * values_per_pack;
      size.wrong += faults.wrong;
      size.largest_error = std::max(size.largest_error, faults.largest_error);
    }
    if (!request_.check_only && size.wrong == 0) time(size);
    return size;
  }

  bool failed() const {
    return std::any_of(failures_.begin(), failures_.end(), [](const auto& f) { return !f.empty(); });
  }
  std::string diagnosis() const { return team_.diagnosis(); }

 private:
  static constexpr std::int64_t values_per_pack = sizeof(Pack) / 2;

  std::size_t ranks() const { return static_cast<std::size_t>(request_.ranks); }

  static std::vector<std::byte> bytes_of_packs(const std::vector<Pack>& packs) {
    std::vector<std::byte> out(packs.size() * sizeof(Pack));
    std::memcpy(out.data(), packs.data(), out.size());
    return out;
  }

  /// False from the call on that the fault keeps this rank from.
  bool takes_part(int rank, int number) const {
    return !request_.fault || request_.fault->rank != rank || number < request_.fault->call;
  }

  void call(int rank, int number) {
    if (!takes_part(rank, number)) return;
    const std::size_t at = static_cast<std::size_t>(rank);
    const std::vector<std::byte> values =
        check_values(rank, request_.ranks, static_cast<std::int64_t>(packs_) * values_per_pack, DType::bf16, 0);
    std::memcpy(team_.input(rank).data(), values.data(), values.size());
    team_.allreduce(rank, shape_, out_[at].data());
  }

  void time(MeasuredSize& size) {
    const int calls = std::min(request_.calls, most_calls);
    for (std::size_t i = 0; i < replays && !failed(); ++i)
      on_all_ranks([&](int rank) {
        const std::size_t at = static_cast<std::size_t>(rank);
        const auto start = std::chrono::steady_clock::now();
        for (int k = 0; k < calls; ++k)
          if (takes_part(rank, 1 + static_cast<int>(i) * calls + k)) team_.allreduce(rank, shape_, out_[at].data());
        times_[at][i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      });
    if (failed()) return;
    std::vector<double> slowest(replays, 0);
    for (const std::vector<double>& of_rank : times_)
      for (std::size_t i = 0; i < replays; ++i) slowest[i] = std::max(slowest[i], of_rank[i]);
    size.eager = timing_of(slowest, calls);
  }

  template <class F>
  void on_all_ranks(F&& work) {
    std::barrier together(static_cast<std::ptrdiff_t>(ranks()));
    std::vector<std::jthread> threads;
    threads.reserve(ranks());
    for (int rank = 0; rank < request_.ranks; ++rank)
      threads.emplace_back([&, rank] {
        together.arrive_and_wait();
        try {
          work(rank);
        } catch (const std::exception& e) {
          failures_[static_cast<std::size_t>(rank)] = e.what();
        }
      });
  }

  const MeasureRequest& request_;
  std::int64_t bytes_;
  std::uint32_t packs_;
  HostTeam::CallShape shape_;
  HostTeam team_;
  std::vector<std::vector<Pack>> out_;
  std::vector<std::string> failures_;
  std::vector<std::vector<double>> times_;
};

MeasuredBackend measured(const MeasureRequest& request, const std::string& id) {
  MeasuredBackend out;
  out.id = id;
  const auto found = protocols().find(id);
  if (found == protocols().end()) {
    out.refusal = formatted("has no protocol on threads; {} have", one_of(host_backends()));
    return out;
  }
  for (const std::int64_t bytes : request.sizes) {
    if (request.progress) request.progress(formatted("{} at {} B on {} ranks", id, bytes, request.ranks));
    MeasuredSize size;
    size.bytes = bytes;
    HostCalls calls(request, found->second, bytes);
    size = calls.run(rounding_of(id));
    if (calls.failed()) {
      out.failures.push_back(formatted("{} ranks, {} B: no end within {} s: {}", request.ranks, grouped(bytes),
                                       request.wait_limit_seconds, calls.diagnosis()));
      return out;  // the next size would only wait again
    }
    out.sizes.push_back(std::move(size));
  }
  return out;
}

}  // namespace

std::vector<std::string> host_backends() {
  std::vector<std::string> out;
  for (const BackendRow& row : backends())
    if (protocols().contains(row.id)) out.push_back(row.id);
  return out;
}

Measurement measure_on_host(const MeasureRequest& request) {
  if (request.ranks < 1 || request.ranks > protocol::HostMemory::most_ranks)
    throw InputError(Issue{{"--ranks"},
                           "",
                           formatted("is {}", request.ranks),
                           formatted("1 to {} threads", protocol::HostMemory::most_ranks)});
  if (request.dtype != DType::bf16)
    throw InputError(Issue{{"--dtype"}, "", name_of(request.dtype) + " values are not summed by threads", "bf16"});
  Measurement out;
  out.ranks = request.ranks;
  out.dtype = request.dtype;
  for (const std::string& id : request.backends.empty() ? host_backends() : request.backends)
    out.backends.push_back(measured(request, id));
  return out;
}

}  // namespace specstep::comm
