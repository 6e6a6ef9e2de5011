#include "comm/cuda/bench/probe.h"

#include <algorithm>
#include <chrono>

#include "comm/backend.h"
#include "comm/cuda/bench/rank_bench.h"
#include "comm/dispatch.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int probe_calls = 32;
constexpr std::int64_t smallest = 2048, largest = std::int64_t{2} << 20, factor = 4;
// A backend this much slower than the best one so far is not timed at larger sizes.
constexpr double hopeless = 4;

/// Of one backend: for how long it may be timed, and what the others took.
struct Turn {
  Clock::time_point end;
  const std::vector<MeasuredBackend>& others;
};

double seconds_of(const MeasuredSize& size) {
  return size.graph && size.cold ? (size.graph->median + size.cold->median) / 2 : 0;
}

double best_of(const std::vector<MeasuredBackend>& backends, std::int64_t bytes) {
  double best = 0;
  for (const MeasuredBackend& backend : backends)
    for (const MeasuredSize& size : backend.sizes)
      if (size.bytes == bytes && seconds_of(size) > 0)
        best = best > 0 ? std::min(best, seconds_of(size)) : seconds_of(size);
  return best;
}

MeasuredSize measured(RankBench& bench, std::int64_t bytes) {
  MeasuredSize size;
  size.bytes = bytes;
  bench.verify(size, 0);
  if (size.wrong == 0) bench.time(size);
  return size;
}

/// Times grow with the size, and are alike on all ranks: so is the end.
MeasuredBackend measure(DeviceComm& comm, const MeasureRequest& request, const Turn& turn, Bootstrap& group) {
  MeasuredBackend out;
  RankBench bench(request, group, comm);
  for (const std::int64_t bytes : request.sizes) {
    const bool late = Clock::now() > turn.end;
    const auto words = group.all_gather(late && bytes != request.sizes.front() ? "late" : "", "whether there is time");
    if (words.front() == "late") break;
    out.sizes.push_back(measured(bench, bytes));
    const MeasuredSize& now = out.sizes.back();
    const double best = best_of(turn.others, bytes);
    if (now.wrong > 0 || (best > 0 && seconds_of(now) > hopeless * best)) break;
  }
  group.barrier("a backend was timed");  // nothing is freed while others use it
  return out;
}

std::vector<std::string> candidates() {
  std::vector<std::string> ids;
  for (const BackendRow& row : backends())
    if (gives_sum(row.id)) ids.push_back(row.id);
  return ids;
}

/// Rank 0's, on all.
Selection agreed(const std::vector<MeasuredBackend>& backends, Bootstrap& group) {
  Measurement all;
  all.ranks = group.ranks();
  all.backends = backends;
  const std::string mine = group.rank() == 0 ? packed(select(curves_to_select(all))) : "";
  return unpacked(group.all_gather(mine, "the table of backends").front());
}

}  // namespace

Probe probe(const CommRequest& given, DType dtype, double seconds, Bootstrap& group) {
  MeasureRequest request;
  request.ranks = group.ranks();
  request.dtype = dtype;
  request.calls = probe_calls;
  request.replays = 20;
  request.eager = false;
  request.wait_limit_seconds = given.wait_limit_seconds;
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= factor) request.sizes.push_back(bytes);
  const std::vector<std::string> ids = candidates();
  const double each = seconds / static_cast<double>(ids.size());
  request.seconds_each = each / static_cast<double>(2 * request.sizes.size());
  Probe out;
  std::vector<MeasuredBackend> found;
  for (const std::string& id : ids) {
    CommRequest one = given;
    one.backend = id;
    try {
      const auto comm = open_comm(one, group);
      const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(each));
      MeasuredBackend backend = measure(*comm, request, {end, found}, group);
      backend.id = id;
      const bool wrong =
          std::any_of(backend.sizes.begin(), backend.sizes.end(), [](const auto& s) { return s.wrong > 0; });
      if (wrong)
        out.notes.push_back(formatted("auto left {} out: its sums were wrong", id));
      else
        found.push_back(std::move(backend));
    } catch (const Unsupported& refused) {
      out.notes.push_back(formatted("auto left {} out: {}", id, refused.what()));
    }
  }
  for (const MeasuredBackend& backend : found) out.measured.push_back(backend.id);
  out.selection = agreed(found, group);
  if (out.selection.rows.empty()) throw Unsupported("auto: no backend can run here");
  return out;
}

}  // namespace specstep::comm
