// Price of a schedule on a topology.
//
//   T(S) = launch + arrival * H(p) + chain + end barrier + S * sum over phases (bytes + sums)
//
// launch   one kernel node of a replayed graph.
// arrival  ranks enter a collective at slightly different times. When the lateness of each is exponential with mean a,
//          the last of p comes a * H(p) after the first could, H(p) = 1 + 1/2 + ... + 1/p.
// chain    the longest chain of flags and reads. ready(r) is when rank r may start its part of a phase:
//            written data   ready(dst) = max over its sources of ready(src) + flag(src, dst)
//            read data      ready(dst) = max(ready(src), ready(dst)) + read(dst, src)
//            barrier        everyone = max of ready + the slowest flag; after the first phase also what lies between
//                           two stages of a kernel: its blocks meet and what they wrote must be visible
//          flag and read are a fixed part of the GPU plus the latencies of the links of the route. A read passes the
//          route twice, yet is measured to take no longer than a flag with its store and poll; both use the same links.
// bytes    flows of a phase share directed links max-min fairly (fair_share.cpp). A read is limited besides by what its
//          reader keeps in flight: sum over its peers of round trip * rate <= window, where the window is
//          tags * request size on PCIe, and blocks * threads * 16 bytes * peers of the kernel anywhere. The round trip
//          is the idle one; under load it is window / rate, which is why a fabric that queues shows long round trips.
//          Declared slowdowns and staging add capacities (slowdown.cpp). Streamed phases share with those before them.
// sums     local bytes while combining, at the reduce bandwidth: what lies in an inbox, the own vector, the result.
// What a kernel adds to this is KernelCost: nothing for those of serving engines, own_price.cpp for ours.
#include "comm/schedule_price.h"

#include <algorithm>
#include <set>

#include "comm/slowdown.h"

namespace specstep::comm {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int node_of(const Schedule& schedule, const Topology& t, int place) {
  if (place < schedule.ranks) return t.gpus()[at(place)];
  const Extra& extra = schedule.extras[at(place - schedule.ranks)];
  return extra.kind == Extra::Kind::nvswitch ? t.nvswitch() : t.memory_of(extra.rank);
}

bool staged(const Schedule& schedule, const Topology& t, const Transfer& x) {
  return x.src < schedule.ranks && x.dst < schedule.ranks && t.path(x.src, x.dst) == PathClass::staged;
}

double path_latency(const Schedule& schedule, const Topology& t, const Transfer& x) {
  const double extra = staged(schedule, t, x) ? t.spec().staging->latency_us.value * 1e-6 : 0;
  return t.route(node_of(schedule, t, x.src), node_of(schedule, t, x.dst)).latency + extra;
}

double transfer_latency(const Schedule& schedule, const Topology& t, const Transfer& x) {
  const EndpointSpec& gpu = t.spec().gpu;
  return (x.operation == Operation::read ? gpu.read_us.value : gpu.flag_us.value) * 1e-6 + path_latency(schedule, t, x);
}

/// Capacities that are not links are added here, one by one.
int add_capacity(PhaseFlows& p, double value, std::string name) {
  p.capacity.push_back(value);
  p.names.push_back(std::move(name));
  return static_cast<int>(p.capacity.size()) - 1;
}

struct Reader {
  std::set<int> sources;
  std::vector<std::size_t> all;
  std::vector<std::size_t> over_pcie;
};

void add_read_windows(const Schedule& schedule, const Phase& phase, const Topology& t, const KernelCost& kernel,
                      PhaseFlows& p) {
  std::map<int, Reader> readers;
  for (std::size_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& x = phase.transfers[i];
    if (x.operation != Operation::read || x.dst >= schedule.ranks) continue;
    Reader& reader = readers[x.dst];
    reader.sources.insert(x.src);
    reader.all.push_back(i);
    const Route& route = t.route(node_of(schedule, t, x.src), node_of(schedule, t, x.dst));
    const bool pcie = std::any_of(route.links.begin(), route.links.end(),
                                  [&](int id) { return t.links()[at(id)].kind == LinkKind::pcie; });
    if (pcie) reader.over_pcie.push_back(i);
  }
  const EndpointSpec& gpu = t.spec().gpu;
  const auto add = [&](double window, const std::vector<std::size_t>& flows, const std::string& name) {
    if (window <= 0 || flows.empty()) return;
    const int id = add_capacity(p, window, name);
    for (std::size_t i : flows) p.flows[i].uses.push_back({id, transfer_latency(schedule, t, phase.transfers[i])});
  };
  for (const auto& [rank, reader] : readers) {
    const std::string& name = t.node(t.gpus()[at(rank)]).id;
    const double each = kernel.loads > 0 ? kernel.loads : gpu.blocks.value * gpu.threads.value;
    const double loads = each * 16 * static_cast<double>(reader.sources.size());
    add(gpu.read_tags.value * gpu.read_request_bytes.value, reader.over_pcie, "PCIe reads in flight of " + name);
    add(loads, reader.all, "loads in flight of " + name);
  }
}

void add_staging(const Schedule& schedule, const Phase& phase, const Topology& t, PhaseFlows& p) {
  std::map<int, int> capacity;  // by the GPU that acts; of all, where they share it
  for (std::size_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& x = phase.transfers[i];
    if (!staged(schedule, t, x)) continue;
    const bool shared = t.spec().staging->shared;
    const int actor = shared ? -1 : x.operation == Operation::read ? x.dst : x.src;
    if (!capacity.contains(actor)) {
      const std::string whose = shared ? "" : " of " + t.node(t.gpus()[at(actor)]).id;
      capacity[actor] =
          add_capacity(p, t.spec().staging->bandwidth_gb_s.value * 1e9, "staging through system memory" + whose);
      p.fitted = p.fitted || t.spec().staging->bandwidth_gb_s.fitted;
    }
    p.flows[i].uses.push_back({capacity[actor], 1});
  }
}

void add_slowdowns(const Schedule& schedule, const Phase& phase, const Topology& t, PhaseFlows& p) {
  std::vector<PeerFlow> flows;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& x = phase.transfers[i];
    if (x.src >= schedule.ranks || x.dst >= schedule.ranks) continue;
    flows.push_back({x.src, x.dst, x.operation});
    index.push_back(i);
  }
  for (const SharedLimit& limit : slowdowns_of(t, flows)) {
    const int id = add_capacity(p, limit.bytes_per_second, limit.name);
    p.fitted = p.fitted || limit.cause->bandwidth_gb_s.fitted;
    for (std::size_t i : limit.flows) p.flows[index[i]].uses.push_back({id, 1});
  }
}

/// Bytes on the wire for each byte of a phase's ranges.
double wire_of(const Phase& phase, const Carrier& carrier) {
  return wire_factor(carrier.wire, carrier.value_bytes) * (phase.fp32 ? 4 / carrier.value_bytes : 1);
}

/// Seconds for each byte of the message that the busiest rank spends on summing in this phase.
double sum_seconds(const Schedule& schedule, const Phase& phase, const Topology& t, const Carrier& carrier) {
  const double inbox = wire_of(phase, carrier) * carrier.kernel.inbox_passes;
  std::map<int, double> local;
  std::map<int, double> result;
  for (const Transfer& x : phase.transfers) {
    if (x.effect != Effect::combine || x.dst >= schedule.ranks) continue;
    if (x.operation == Operation::write) local[x.dst] += x.from.share() * inbox;
    result[x.dst] = std::max(result[x.dst], x.from.share());
  }
  double most = 0;
  for (const auto& [rank, share] : result) most = std::max(most, local[rank] + 2 * share);
  return most / (t.spec().gpu.reduce_gb_s.value * 1e9);
}

void advance(const Schedule& schedule, const Phase& phase, const Topology& t, const KernelCost& kernel,
             std::vector<double>& ready) {
  if (phase.sync == Sync::barrier) {
    const double between = kernel.stage.value_or(t.spec().gpu.stage_us.value * 1e-6);
    const double stage = &phase == &schedule.phases.front() ? 0 : between;
    const double all = *std::max_element(ready.begin(), ready.end()) + stage + slowest_flag_seconds(t, schedule.ranks);
    std::fill(ready.begin(), ready.end(), all);
  }
  std::vector<double> next = ready;
  for (const Transfer& x : phase.transfers) {
    const double start = x.operation == Operation::read || phase.sync == Sync::none
                             ? std::max(ready[at(x.src)], ready[at(x.dst)])
                             : ready[at(x.src)];
    next[at(x.dst)] = std::max(next[at(x.dst)], start + transfer_latency(schedule, t, x));
  }
  ready = std::move(next);
}

void count_bytes(const PhaseFlows& p, const Topology& t, std::vector<double>& by_link) {
  for (const Flow& flow : p.flows)
    for (const Use& use : flow.uses)
      if (at(use.resource) < t.links().size()) by_link[at(use.resource)] += flow.bytes;
}

/// What a GPU stores to its peers shares the rate of its stores.
void add_stores(const Schedule& schedule, const Phase& phase, const Topology& t, double rate, PhaseFlows& p) {
  std::map<int, int> capacity;
  for (std::size_t i = 0; i < phase.transfers.size(); ++i) {
    const Transfer& x = phase.transfers[i];
    if (x.operation != Operation::write || x.src >= schedule.ranks) continue;
    if (!capacity.contains(x.src))
      capacity[x.src] = add_capacity(p, rate, "stores in pairs of " + t.node(t.gpus()[at(x.src)]).id);
    p.flows[i].uses.push_back({capacity[x.src], 1});
  }
}

/// The phases whose bytes are under way at the same time, as one: a phase and the streamed ones after it.
std::vector<Phase> running_together(const Schedule& schedule) {
  std::vector<Phase> groups;
  for (const Phase& phase : schedule.phases) {
    if (groups.empty() || !phase.streamed)
      groups.push_back(phase);
    else
      groups.back().transfers.insert(groups.back().transfers.end(), phase.transfers.begin(), phase.transfers.end());
  }
  return groups;
}

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

void summarise_links(const Topology& t, const std::vector<double>& by_link, SchedulePrice& price) {
  for (std::size_t i = 0; i < by_link.size(); ++i) {
    const Link& link = t.links()[i];
    if (by_link[i] > 0) price.link_bytes[link.kind] += by_link[i];
    const bool at_gpu = t.node(link.from).kind == NodeKind::gpu || t.node(link.to).kind == NodeKind::gpu;
    if (!at_gpu) price.busiest_uplink = std::max(price.busiest_uplink, by_link[i]);
  }
}

}  // namespace

double flag_seconds(const Topology& t, int from, int to) {
  const double extra = t.path(from, to) == PathClass::staged ? t.spec().staging->latency_us.value * 1e-6 : 0;
  return t.spec().gpu.flag_us.value * 1e-6 + t.route(t.gpus()[at(from)], t.gpus()[at(to)]).latency + extra;
}

double slowest_flag_seconds(const Topology& t, int ranks) {
  double slowest = 0;
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b)
      if (a != b) slowest = std::max(slowest, flag_seconds(t, a, b));
  return slowest;
}

double read_seconds(const Topology& t, int reader, int from) {
  const double extra = t.path(from, reader) == PathClass::staged ? t.spec().staging->latency_us.value * 1e-6 : 0;
  return t.spec().gpu.read_us.value * 1e-6 + t.route(t.gpus()[at(from)], t.gpus()[at(reader)]).latency + extra;
}

PhaseFlows phase_flows(const Schedule& schedule, const Phase& phase, const Topology& t, const Carrier& carrier) {
  PhaseFlows p;
  for (const Link& link : t.links()) p.capacity.push_back(link.bytes_per_second);
  const double wire = wire_of(phase, carrier);
  for (const Transfer& x : phase.transfers) {
    Flow flow{{}, x.from.share() * wire};
    for (int id : t.route(node_of(schedule, t, x.src), node_of(schedule, t, x.dst)).links) flow.uses.push_back({id, 1});
    p.flows.push_back(std::move(flow));
  }
  if (!carrier.copy_engine) add_read_windows(schedule, phase, t, carrier.kernel, p);
  if (carrier.peers) add_staging(schedule, phase, t, p);
  add_slowdowns(schedule, phase, t, p);
  if (carrier.kernel.stores_per_second > 0) add_stores(schedule, phase, t, carrier.kernel.stores_per_second, p);
  return p;
}

SchedulePrice price_schedule(const Schedule& schedule, const Topology& t, const Carrier& carrier) {
  if (schedule.ranks > gpu_count(t))
    throw InputError({{},
                      "ranks",
                      std::to_string(schedule.ranks) + " ranks on " + std::to_string(gpu_count(t)) + " GPUs",
                      "at most one rank for each GPU"});
  SchedulePrice price;
  const EndpointSpec& gpu = t.spec().gpu;
  std::vector<double> ready(at(schedule.places()), 0);
  std::vector<double> by_link(t.links().size(), 0);
  double worst = 0;
  for (const Phase& phase : schedule.phases) {
    advance(schedule, phase, t, carrier.kernel, ready);
    if (carrier.copy_engine) price.fixed += gpu.copy_operation_us.value * 1e-6;
    price.per_byte += sum_seconds(schedule, phase, t, carrier);
  }
  for (const Phase& phase : running_together(schedule)) {
    const PhaseFlows flows = phase_flows(schedule, phase, t, carrier);
    const Completion done = finish_all(flows.capacity, flows.flows);
    price.per_byte += done.seconds;
    price.slowed_by_fit = price.slowed_by_fit || flows.fitted;
    count_bytes(flows, t, by_link);
    if (done.seconds <= worst || done.limit < 0) continue;
    worst = done.seconds;
    const std::size_t limit = at(done.limit);
    price.bottleneck =
        limit < t.links().size() ? "link " + t.link_name(done.limit) : flows.names[limit - t.links().size()];
  }
  price.fixed += gpu.graph_node_us.value * 1e-6 + gpu.arrival_us.value * 1e-6 * harmonic(schedule.ranks) +
                 *std::max_element(ready.begin(), ready.end()) +
                 (schedule.end_barrier ? slowest_flag_seconds(t, schedule.ranks) : 0) + carrier.kernel.fixed;
  price.per_byte += carrier.kernel.per_byte;
  price.fitted = gpu.arrival_us.fitted || gpu.flag_us.fitted || price.slowed_by_fit || carrier.kernel.fitted;
  summarise_links(t, by_link, price);
  return price;
}

}  // namespace specstep::comm
