// The one table of backends, and what all of them share.

#include <algorithm>
#include <limits>

#include "comm/backend.h"
#include "comm/own_price.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

// The model was held against measurements of 2 to 8 GPUs from 256 B to 32 MiB.
constexpr std::int64_t smallest_checked = 256;
constexpr std::int64_t largest_checked = std::int64_t{32} << 20;
constexpr int most_ranks_checked = 8;

std::optional<std::string> unreachable_pair(const Topology& t, int ranks) {
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < a; ++b)
      if (t.path(b, a) == PathClass::none)
        return formatted("{} and {} cannot reach each other's memory", t.node(t.gpus()[static_cast<std::size_t>(b)]).id,
                         t.node(t.gpus()[static_cast<std::size_t>(a)]).id);
  return std::nullopt;
}

std::optional<std::string> unmet_need(const BackendRow& row, const Topology& t, const Call& call) {
  if (row.needs.p2p)
    if (auto reason = unreachable_pair(t, call.ranks)) return reason;
  if (row.needs.host_memory)
    for (int rank = 0; rank < call.ranks; ++rank)
      if (t.memory_of(rank) < 0) return formatted("no host memory within reach of rank {} in this fabric", rank);
  if (row.needs.multicast && (!t.spec().multicast || t.nvswitch() < 0))
    return "needs a switch with multicast and `multicast: true` in the fabric file";
  if (row.needs.packs && call.bytes % 16 != 0 && !priced_as_own(row.id, t, call))
    return formatted("{} bytes are not a whole number of 16-byte packs", call.bytes);
  return std::nullopt;
}

std::optional<std::string> wrong_call(const BackendRow& row, const Topology& t, const Call& call) {
  if (call.ranks < 1) return formatted("{} ranks", call.ranks);
  if (call.bytes < 0) return formatted("{} bytes", call.bytes);
  if (call.ranks > gpu_count(t))
    return formatted("{} ranks on a fabric of {} GPUs; one rank for each GPU", call.ranks, gpu_count(t));
  if (std::find(row.kinds.begin(), row.kinds.end(), call.kind) == row.kinds.end())
    return formatted("has no {}; nccl has", name_of(call.kind));
  if (call.ranks > row.max_ranks) return formatted("{} ranks; it is built for at most {}", call.ranks, row.max_ranks);
  if ((call.kind == Collective::all_reduce || call.kind == Collective::reduce_scatter) && bytes_of(call.dtype) < 1)
    return formatted("cannot sum values of {}", name_of(call.dtype));
  return std::nullopt;
}

}  // namespace

const std::vector<BackendRow>& backends() {
  static const std::vector<BackendRow> rows{
      nccl_row(),   nccl_sym_row(), nccl_dev_row(), push1_row(), pull1_row(), rsag_row(), island_row(),
      hostbc_row(), ring_row(),     ce_row(),       q8_row(),    nvls_row(),  null_row(), delay_row(),
  };
  return rows;
}

const BackendRow& backend(const std::string& id) {
  std::vector<std::string> ids;
  for (const BackendRow& row : backends()) {
    if (row.id == id) return row;
    ids.push_back(row.id);
  }
  throw InputError({{}, "backend", "no backend '" + id + "'" + did_you_mean(id, ids), one_of(ids)});
}

std::optional<std::string> refusal(const std::string& id, const Topology& topology, const Call& call) {
  const BackendRow* row = nullptr;
  try {
    row = &backend(id);
  } catch (const InputError& unknown) {
    return unknown.what();
  }
  auto reason = wrong_call(*row, topology, call);
  if (!reason && call.ranks > 1) reason = unmet_need(*row, topology, call);
  if (!reason && call.ranks > 1 && row->refuses) reason = row->refuses(topology, call);
  if (reason) return id + ": " + *reason;
  return std::nullopt;
}

std::vector<Variant> variants_of(const BackendRow& row, const Topology& topology, const Call& call) {
  if (priced_as_own(row.id, topology, call)) return own_variants(row.id, topology, call);
  return row.variants ? row.variants(topology, call) : std::vector<Variant>{};
}

Prepared prepared(const BackendRow& row, const Topology& topology, const Call& call) {
  Prepared price = priced_as_own(row.id, topology, call) ? own_price(row.id, topology, call)
                   : row.prepare                         ? row.prepare(topology, call)
                                                         : priced_schedules(topology, row.variants(topology, call));
  const std::vector<const Quantity*> numbers = quantities_of(topology.spec());
  if (std::none_of(numbers.begin(), numbers.end(), [](const Quantity* q) { return q->bare(); })) return price;
  return [price](const Call& now) {
    CommPrice assumed = price(now);
    assumed.provenance = Provenance::assumed;
    return assumed;
  };
}

double with_launch(double captured_seconds, bool captured, double eager_interval_seconds) {
  return captured ? captured_seconds : std::max(captured_seconds, eager_interval_seconds);
}

Prepared priced_schedules(const Topology& topology, const std::vector<Variant>& variants,
                          const std::function<double(std::int64_t)>& beside) {
  struct Line {
    SchedulePrice price;
    std::string algorithm;
  };
  std::vector<Line> lines;
  for (const Variant& v : variants) {
    std::string name = v.schedule.name;
    if (v.carrier.wire != Wire::plain) name += ", " + name_of(v.carrier.wire);
    lines.push_back({price_schedule(v.schedule, topology, v.carrier), std::move(name)});
  }
  const double interval = topology.spec().gpu.eager_launch_us.value * us;
  return [lines, interval, beside](const Call& call) {
    const double more = beside ? beside(call.bytes) : 0;
    const Line* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Line& line : lines) {
      const double seconds = line.price.fixed + line.price.per_byte * static_cast<double>(call.bytes) + more;
      if (seconds >= least) continue;
      least = seconds;
      best = &line;
    }
    const bool latency_bound = best->price.fixed + more > least / 2;
    CommPrice price{with_launch(least, call.captured, interval), best->algorithm,
                    latency_bound ? "launch, arrival and flags" : best->price.bottleneck,
                    best->price.fitted ? Provenance::fit : Provenance::datasheet, false};
    if (!call.captured && price.seconds > least) price.bottleneck = "eager launch";
    return price;
  };
}

namespace {

CommPrice finished(CommPrice price, const Call& call) {
  price.extrapolated = price.extrapolated || call.ranks > most_ranks_checked || call.bytes > largest_checked ||
                       call.bytes < smallest_checked;
  return price;
}

void require_served(const std::string& id, const Topology& topology, const Call& call) {
  if (const auto reason = refusal(id, topology, call)) throw InputError({{}, "backend", *reason, ""});
}

}  // namespace

CommPrice price(const std::string& id, const Topology& topology, const Call& call) {
  require_served(id, topology, call);
  if (call.ranks == 1) return {0, "none", "one rank", Provenance::datasheet, false};
  return finished(prepared(backend(id), topology, call)(call), call);
}

double least_allreduce_seconds(const Topology& topology, const Call& call) {
  if (call.ranks < 2) return 0;
  double slowest = std::numeric_limits<double>::infinity();
  for (int rank = 0; rank < call.ranks; ++rank) {
    double fastest = 0;
    for (const Link& link : topology.links())
      if (link.to == topology.gpus()[static_cast<std::size_t>(rank)])
        fastest = std::max(fastest, link.bytes_per_second);
    slowest = std::min(slowest, fastest);
  }
  const double moved = 2.0 * (call.ranks - 1) / call.ranks * static_cast<double>(call.bytes);
  return moved / slowest + topology.spec().gpu.graph_node_us.value * us;
}

struct Pricer::State {
  struct Key {
    std::string id;
    Collective kind;
    int ranks;
    DType dtype;
    std::optional<OwnSettings> own;
    bool norm;
    auto operator<=>(const Key&) const = default;
  };
  Topology topology;
  std::map<Key, Prepared> prepared;
};

Pricer::Pricer(Topology topology) : state_(std::make_unique<State>(State{std::move(topology), {}})) {}
Pricer::~Pricer() = default;
Pricer::Pricer(Pricer&&) noexcept = default;
Pricer& Pricer::operator=(Pricer&&) noexcept = default;

const Topology& Pricer::topology() const { return state_->topology; }

CommPrice Pricer::price(const std::string& id, const Call& call) {
  State::Key key{id, call.kind, call.ranks, call.dtype, call.own, call.norm};
  auto found = state_->prepared.find(key);
  const bool new_or_odd = found == state_->prepared.end() || call.bytes < 0 || call.bytes % 16 != 0;
  if (new_or_odd) require_served(id, state_->topology, call);
  if (call.ranks == 1) return {0, "none", "one rank", Provenance::datasheet, false};
  if (found == state_->prepared.end())
    found = state_->prepared.emplace(std::move(key), prepared(backend(id), state_->topology, call)).first;
  return finished(found->second(call), call);
}

}  // namespace specstep::comm
