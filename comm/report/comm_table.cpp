// Filling the comm table.
#include "comm/report/comm_table.h"

#include <algorithm>
#include <cmath>

#include "comm/backend.h"
#include "comm/dispatch.h"
#include "comm/nccl_node.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

constexpr double model_uncertainty = 0.15;  // of a curve, see docs/accuracy.md
constexpr int search_sizes = 200;           // between the smallest and the largest size, for crossovers

std::vector<std::string> served(const Topology& t, const CommQuery& q, std::vector<std::string>& notes) {
  Call call = q.call;
  call.bytes = q.sizes.front();
  std::vector<std::string> ids;
  if (!q.backends.empty()) {
    for (const std::string& id : q.backends) {
      if (const auto reason = refusal(id, t, call)) throw InputError({{}, "--backends", *reason, ""});
      ids.push_back(id);
    }
    return ids;
  }
  for (const BackendRow& row : backends()) {
    if (row.id == "null" || row.id == "delay") continue;  // no exchange: only when asked for
    if (const auto reason = refusal(row.id, t, call))
      notes.push_back("left out: " + *reason);
    else
      ids.push_back(row.id);
  }
  return ids;
}

/// Bytes over links of each kind of the variant that is cheapest at this size.
std::map<LinkKind, double> bytes_over_links(const BackendRow& row, const Topology& t, const Call& call) {
  std::map<LinkKind, double> least;
  if (!row.variants || call.ranks < 2) return least;
  double best = 0;
  for (const Variant& v : row.variants(t, call)) {
    const SchedulePrice price = price_schedule(v.schedule, t, v.carrier);
    const double seconds = price.fixed + price.per_byte * static_cast<double>(call.bytes);
    if (!least.empty() && seconds >= best) continue;
    best = seconds;
    least = price.link_bytes;
  }
  for (auto& [kind, bytes] : least) bytes *= static_cast<double>(call.bytes);
  return least;
}

CommRow row_at(Pricer& pricer, const std::string& id, const Call& call) {
  const CommPrice price = pricer.price(id, call);
  const BackendRow& row = backend(id);
  CommRow r{id, call.ranks, call.bytes, call.captured, price.seconds};
  r.low = price.seconds * (1 - row.uncertainty);
  r.high = price.seconds * (1 + row.uncertainty);
  if (price.seconds > 0) r.algorithm_gb_s = static_cast<double>(call.bytes) / price.seconds / 1e9;
  r.bus_gb_s = r.algorithm_gb_s * bus_factor(call.kind, call.ranks);
  r.algorithm = price.algorithm;
  r.bottleneck = price.bottleneck;
  r.provenance = price.provenance;
  r.extrapolated = price.extrapolated;
  r.link_bytes = bytes_over_links(row, pricer.topology(), call);
  return r;
}

std::vector<Curve> fine_curves(Pricer& pricer, const CommQuery& q, const std::vector<std::string>& ids) {
  std::vector<Curve> curves;
  const double first = static_cast<double>(q.sizes.front());
  const double factor = std::pow(static_cast<double>(q.sizes.back()) / first, 1.0 / search_sizes);
  for (const std::string& id : ids) {
    if (!gives_sum(id)) continue;
    Curve curve{id, {}};
    double at = first;
    for (int i = 0; i <= search_sizes; ++i, at *= factor) {
      Call call = q.call;
      call.bytes = std::max<std::int64_t>(16, static_cast<std::int64_t>(std::llround(at / 16)) * 16);
      if (curve.points.empty() || curve.points.back().first != call.bytes)
        curve.points.emplace_back(call.bytes, pricer.price(id, call).seconds);
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

/// The question that engines ask: one-shot or NCCL.
std::vector<Crossover> against_nccl(const std::vector<Curve>& curves) {
  std::vector<Crossover> found;
  const auto nccl = std::find_if(curves.begin(), curves.end(), [](const Curve& c) { return c.name == "nccl"; });
  if (nccl == curves.end() || curves.size() < 3) return found;  // with two, it is in the table's own changes
  for (const Curve& c : curves) {
    if (c.name != "pull1" && c.name != "push1") continue;
    const auto pair = crossovers({*nccl, c}, model_uncertainty);
    found.insert(found.end(), pair.begin(), pair.end());
  }
  return found;
}

/// Sizes at which NCCL's own choice is not the cheapest of its enabled algorithms on the real path.
void note_nccl_choices(const Topology& t, const CommQuery& q, std::vector<std::string>& notes) {
  if (q.call.kind == Collective::all_to_all || q.call.ranks < 2 || nccl_lacks_graph(t, q.call.ranks)) return;
  const NcclNode node = nccl_node(t, q.call.ranks);
  for (std::int64_t bytes : q.sizes) {
    const NcclTime chosen = nccl_choice(node, q.call.kind, bytes);
    const double cost = nccl_cost(node, q.call.kind, bytes, chosen);
    NcclTime best = chosen;
    double least = cost;
    for (const NcclTime& other : nccl_predictions(node, q.call.kind, bytes)) {
      const double here = nccl_cost(node, q.call.kind, bytes, other);
      if (!other.enabled || here >= least) continue;
      least = here;
      best = other;
    }
    if (least < 0.95 * cost)
      notes.push_back(formatted("nccl takes {} at {}, where {} would take {} instead of {}", nccl_name(chosen),
                                bytes_text(static_cast<double>(bytes)), nccl_name(best), seconds_text(least),
                                seconds_text(cost)));
  }
}

}  // namespace

double bus_factor(Collective kind, int ranks) {
  if (ranks < 1) return 0;
  const double n = ranks;
  if (kind == Collective::all_reduce) return 2 * (n - 1) / n;
  return kind == Collective::all_gather ? n - 1 : (n - 1) / n;
}

CommTable comm_table(Pricer& pricer, const CommQuery& q) {
  const Topology& t = pricer.topology();
  CommTable table{.title = t.spec().summary, .call = q.call};
  const std::vector<std::string> ids = served(t, q, table.notes);
  if (ids.empty()) throw InputError({{}, "--backends", "no backend can serve this call here", ""});
  for (const std::string& id : ids)
    for (std::int64_t bytes : q.sizes) {
      Call call = q.call;
      call.bytes = bytes;
      if (const auto reason = refusal(id, t, call)) {
        table.notes.push_back("left out: " + *reason);
        continue;
      }
      table.rows.push_back(row_at(pricer, id, call));
    }
  if (q.sizes.size() > 1) {
    const std::vector<Curve> curves = fine_curves(pricer, q, ids);
    table.changes = crossovers(curves, model_uncertainty);
    table.against = against_nccl(curves);
  }
  if (std::find(ids.begin(), ids.end(), "nccl") != ids.end()) note_nccl_choices(t, q, table.notes);
  return table;
}

CommTable measured_comm_table(const MeasuredTable& measured, const Call& call, double uncertainty) {
  CommTable table{.title = "measured: " + measured.file, .call = call, .notes = measured.notes};
  std::vector<Curve> curves;
  for (const MeasuredCurve& curve : measured.curves) {
    curves.push_back(without_outliers(curve));
    for (const MeasuredPoint& p : curve.points) {
      CommRow r{curve.name, call.ranks, p.bytes, call.captured, p.seconds, p.low, p.high};
      r.algorithm_gb_s = static_cast<double>(p.bytes) / p.seconds / 1e9;
      r.bus_gb_s = r.algorithm_gb_s * bus_factor(call.kind, call.ranks);
      r.algorithm = p.outlier ? "out of line, not used" : "";
      r.provenance = Provenance::measured;
      table.rows.push_back(std::move(r));
    }
  }
  table.changes = crossovers(curves, uncertainty);
  return table;
}

}  // namespace specstep::comm
