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

constexpr double model_uncertainty = 0.15;  // of a curve without its own, see docs/accuracy.md
constexpr int search_sizes = 200;           // between the smallest and the largest size, for crossovers

/// What became of one backend over the sizes that were asked for.
struct Service {
  std::size_t refused = 0;  // sizes
  std::string reason;       // of the first of them
};

Service service(const std::string& id, const Topology& t, const CommQuery& q) {
  Service found;
  Call call = q.call;
  for (std::int64_t bytes : q.sizes) {
    call.bytes = bytes;
    const auto reason = refusal(id, t, call);
    if (reason && found.refused++ == 0) found.reason = *reason;
  }
  return found;
}

std::vector<std::string> served(const Topology& t, const CommQuery& q, std::vector<std::string>& notes) {
  std::vector<std::string> wanted = q.backends;
  for (const BackendRow& row : backends())  // null and delay exchange nothing: only when asked for
    if (q.backends.empty() && row.id != "null" && row.id != "delay") wanted.push_back(row.id);
  std::vector<std::string> ids;
  Issues refused;
  for (const std::string& id : wanted) {
    const Service s = service(id, t, q);
    if (s.refused == q.sizes.size()) {
      refused.push_back({{}, "--backends", s.reason, ""});
      notes.push_back("left out: " + s.reason);
      continue;
    }
    ids.push_back(id);
    if (s.refused > 0)
      notes.push_back(formatted("left out at {} of {} sizes: {}", s.refused, q.sizes.size(), s.reason));
  }
  if (!q.backends.empty() || ids.empty()) throw_if_any(refused);
  return ids;
}

/// Bytes over links of each kind of the variant that is cheapest at this size.
std::map<LinkKind, double> bytes_over_links(const BackendRow& row, const Topology& t, const Call& call) {
  std::map<LinkKind, double> least;
  if (call.ranks < 2) return least;
  double best = 0;
  for (const Variant& v : variants_of(row, t, call)) {
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
    Curve curve{id, {}, backend(id).uncertainty};
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

/// Where NCCL as it comes would use the switch that reduces, but the fabric file does not let it.
void note_missing_nvls(const Topology& t, const CommQuery& q, std::vector<std::string>& notes) {
  const bool capable = t.nvswitch() >= 0 && nvls_efficiency(t.spec().nccl.compute_capability) > 0;
  if (!capable || q.call.kind != Collective::all_reduce || nccl_lacks_graph(t, q.call.ranks)) return;
  NcclNode node = nccl_node(t, q.call.ranks);
  if (node.nvls) return;
  node.nvls = true;
  for (std::int64_t bytes : q.sizes)
    if (nccl_choice(node, q.call.kind, bytes).algorithm == NcclAlgorithm::nvls) {
      notes.push_back(
          formatted("nccl is priced without NVLS, which it would take at {}; `multicast` and `nccl.nvls` of "
                    "the fabric allow it",
                    bytes_text(static_cast<double>(bytes))));
      return;
    }
}

/// Whose kernels are priced.
void note_own(const Topology& t, const OwnSettings& own, std::vector<std::string>& notes) {
  if (t.spec().gpu.own_kernels)
    notes.push_back("specstep's own kernels where the algorithm says so: " + text_of(own));
  else
    notes.push_back("the fabric has no gpu.own_kernels: priced are the kernels of serving engines");
}

/// What a reader would stumble over in the rows.
void add_notes(const Topology& t, const CommQuery& q, const std::vector<std::string>& ids,
               std::vector<std::string>& notes) {
  const auto has = [&](const char* id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  if (q.call.ranks < 2) {
    notes.push_back("one rank: nothing to exchange");
    return;
  }
  if (has("nccl")) {
    note_nccl_choices(t, q, notes);
    note_missing_nvls(t, q, notes);
  }
  if (q.call.own) note_own(t, *q.call.own, notes);
  if (has("q8"))
    notes.push_back(
        "q8 moves a byte for each value: its bus bandwidth counts the values, and may exceed that of the links");
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
  for (const std::string& id : ids)
    for (std::int64_t bytes : q.sizes) {
      Call call = q.call;
      call.bytes = bytes;
      if (!refusal(id, t, call)) table.rows.push_back(row_at(pricer, id, call));
    }
  if (q.sizes.size() > 1 && q.call.ranks > 1) {
    const std::vector<Curve> curves = fine_curves(pricer, q, ids);
    table.changes = crossovers(curves, model_uncertainty);
    table.against = against_nccl(curves);
  }
  add_notes(t, q, ids, table.notes);
  return table;
}

CommTable measured_comm_table(const MeasuredTable& measured, const Call& asked, double uncertainty) {
  if (measured.ranks && asked.ranks > 0 && *measured.ranks != asked.ranks)
    throw InputError({{measured.file},
                      "ranks",
                      formatted("is {} in the table, {} by --ranks", *measured.ranks, asked.ranks),
                      "the same, or no --ranks"});
  Call call = asked;
  call.ranks = measured.ranks.value_or(asked.ranks);
  call.captured = measured.captured.value_or(asked.captured);
  call.dtype = measured.dtype.value_or(asked.dtype);
  CommTable table{.title = "measured: " + measured.file, .call = call, .notes = measured.notes};
  table.mode_known = measured.captured || !asked.captured;  // --eager is said, a graph is only the default
  table.dtype_known = measured.dtype.has_value();
  if (call.ranks < 1) table.notes.push_back("bus bandwidths need --ranks: the table does not say how many");
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
