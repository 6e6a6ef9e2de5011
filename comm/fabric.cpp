// The keys of a fabric file, and what must hold between them.
#include "comm/fabric.h"

#include <array>
#include <charconv>
#include <set>

namespace specstep::comm {

void describe(Fields& f, NodeSpec& n) {
  f.required("id", n.id, "name of the node, unique in the file");
  f.required("kind", n.kind, "what it is");
  f.optional("acs_redirect", n.acs_redirect, "of a switch: peer traffic goes up to the root complex and back");
}

void describe(Fields& f, LinkType& l) {
  f.optional("kind", l.kind, "what the link is");
  f.required("bandwidth_gb_s", l.bandwidth_gb_s, "payload bandwidth from a to b, 10^9 bytes per second");
  f.optional("back_gb_s", l.back_gb_s, "the same from b to a; equal when left out");
  f.required("latency_us", l.latency_us, "time a small packet needs to pass, microseconds");
  f.optional("generation", l.generation, "PCIe or NVLink generation; 0 when unknown", {.min = 0, .max = 8});
  f.optional("width", l.width, "lanes or bonded links; 0 when unknown", {.min = 0, .max = 64});
}

void check(const LinkType& l, Checker& c) {
  check_range(c, "bandwidth_gb_s", l.bandwidth_gb_s, {.min = 0, .max = 1e5, .above_min = true});
  if (l.back_gb_s) check_range(c, "back_gb_s", *l.back_gb_s, {.min = 0, .max = 1e5, .above_min = true});
  check_range(c, "latency_us", l.latency_us, {.min = 0, .max = 1000});
}

void describe(Fields& f, LinkSpec& l) {
  f.required("a", l.a, "node at one end");
  f.required("b", l.b, "node at the other end");
  f.required("type", l.type, "one of link_types");
  f.optional("width", l.width, "lanes that trained, when fewer than the type has", {.min = 1, .max = 64});
}

void describe(Fields& f, PathSpec& p) {
  f.required("a", p.a, "a GPU");
  f.required("b", p.b, "another GPU");
  f.required("path", p.path, "how the two reach each other's memory");
}

void describe(Fields& f, EndpointSpec& e) {
  f.required("flag_us", e.flag_us, "fixed part of a one-way flag: store, visibility, poll of local memory");
  f.required("read_us", e.read_us, "fixed part of a dependent remote read");
  f.required("arrival_us", e.arrival_us, "lateness scale of a rank: waiting for the last of n costs this times H(n)");
  f.required("stage_us", e.stage_us, "between stages of a kernel that a barrier parts: block sync, fence, next start");
  f.required("graph_node_us", e.graph_node_us, "one kernel node of a replayed CUDA graph");
  f.required("eager_launch_us", e.eager_launch_us, "shortest interval between eager launches of a small kernel");
  f.optional("copy_operation_us", e.copy_operation_us, "one copy-engine operation");
  f.required("read_tags", e.read_tags, "PCIe reads in flight from one GPU; 0 for no limit");
  f.required("read_request_bytes", e.read_request_bytes, "bytes of one PCIe read request");
  f.required("blocks", e.blocks, "thread blocks of a communication kernel");
  f.required("threads", e.threads, "threads of a block");
  f.required("reduce_gb_s", e.reduce_gb_s, "local bytes per second while summing, 10^9 bytes per second");
  f.optional("own_kernels", e.own_kernels,
             "steps of specstep's own kernels; without it their prices are those of engines' kernels");
}

void check(const EndpointSpec& e, Checker& c) {
  const Range time{.min = 0, .max = 1000};
  check_range(c, "flag_us", e.flag_us, time);
  check_range(c, "read_us", e.read_us, time);
  check_range(c, "arrival_us", e.arrival_us, time);
  check_range(c, "stage_us", e.stage_us, time);
  check_range(c, "graph_node_us", e.graph_node_us, time);
  check_range(c, "eager_launch_us", e.eager_launch_us, time);
  check_range(c, "copy_operation_us", e.copy_operation_us, time);
  check_range(c, "read_tags", e.read_tags, {.min = 0, .max = 65536});
  check_range(c, "read_request_bytes", e.read_request_bytes, {.min = 16, .max = 4096});
  check_range(c, "blocks", e.blocks, {.min = 1, .max = 1024});
  check_range(c, "threads", e.threads, {.min = 32, .max = 1024});
  check_range(c, "reduce_gb_s", e.reduce_gb_s, {.min = 0, .max = 1e6, .above_min = true});
}

void describe(Fields& f, StagingSpec& s) {
  f.required("bandwidth_gb_s", s.bandwidth_gb_s, "what a GPU gets from staged peers, 10^9 bytes per second");
  f.optional("shared", s.shared, "true: all GPUs together get this, not each");
  f.optional("latency_us", s.latency_us, "added to each staged access, microseconds");
}

void check(const StagingSpec& s, Checker& c) {
  check_range(c, "bandwidth_gb_s", s.bandwidth_gb_s, {.min = 0, .max = 1e5, .above_min = true});
  check_range(c, "latency_us", s.latency_us, {.min = 0, .max = 1e4});
}

void describe(Fields& f, SlowdownSpec& s) {
  f.required("name", s.name, "what reports call it");
  f.required("operation", s.operation, "reads or posted writes");
  f.optional("across", s.across, "only flows that pass a link of this kind count and are slowed");
  f.optional("sources", s.sources, "trigger: sending GPUs under one switch, at least", {.min = 1, .max = 64});
  f.optional("destinations", s.destinations, "trigger: destinations of that switch", {.min = 1, .max = 64});
  f.optional("counted", s.counted, "destinations are counted by root complex or by GPU");
  f.optional("switches", s.switches, "trigger: switches of which that is true, in one direction",
             {.min = 1, .max = 64});
  f.optional("both_ways", s.both_ways, "trigger: the opposite direction meets it too");
  f.optional("pool", s.pool, "which slowed flows share the bandwidth");
  f.required("bandwidth_gb_s", s.bandwidth_gb_s, "what a pool shares, 10^9 bytes per second");
  f.optional("remedy", s.remedy, "what to do about it");
}

void check(const SlowdownSpec& s, Checker& c) {
  check_range(c, "bandwidth_gb_s", s.bandwidth_gb_s, {.min = 0, .max = 1e5, .above_min = true});
}

void describe(Fields& f, NcclGraph& g) {
  f.required("ranks", g.ranks, "holds up to this many ranks", {.min = 2, .max = 64});
  f.required("channels", g.channels, "rings that NCCL builds", {.min = 1, .max = 64});
  f.required("channel_gb_s", g.channel_gb_s, "speed of each in NCCL's search, 10^9 bytes per second");
  f.optional("note", g.note, "where the graph comes from, in words");
}

void describe(Fields& f, NcclBases& b) {
  f.optional("ring_ll_us", b.ring_ll_us, "instead of NCCL's own 6.6 of a ring in LL, in every collective");
  f.optional("agxll_r_us", b.agxll_r_us, "instead of NCCL's base of AGxLL_R on symmetric windows");
  f.optional("rsxld_agxst_us", b.rsxld_agxst_us, "instead of NCCL's base of RSxLD_AGxST on symmetric windows");
}

void check(const NcclBases& b, Checker& c) {
  const Range time{.min = 0.1, .max = 1000};
  if (b.ring_ll_us) check_range(c, "ring_ll_us", *b.ring_ll_us, time);
  if (b.agxll_r_us) check_range(c, "agxll_r_us", *b.agxll_r_us, time);
  if (b.rsxld_agxst_us) check_range(c, "rsxld_agxst_us", *b.rsxld_agxst_us, time);
}

void describe(Fields& f, NcclSpec& n) {
  f.optional("version", n.version,
             "of this host: nccl_sym needs 2.27 and nccl_dev 2.28; the constants are those of 2.28.9");
  f.required("compute_capability", n.compute_capability, "smallest of the GPUs: 90 for sm_90", {.min = 50, .max = 200});
  f.optional("p2p_level", n.p2p_level, "NCCL_P2P_LEVEL: pairs further apart use shared host memory");
  f.required("eager_us", n.eager_us, "shortest interval between eager calls");
  f.required("shm_hop_us", n.shm_hop_us, "latency of a step through shared host memory");
  f.required("shm_bus_gb_s", n.shm_bus_gb_s, "bus bandwidth of a ring through shared host memory");
  f.optional(
      "measured_base", n.measured_base,
      "where measured, what NCCL's algorithms take beside hops and bytes: what its choice costs, not what it chooses");
  f.optional("nvls", n.nvls, "NVLink multicast allowed to NCCL");
  f.required("graphs", n.graphs, "channel graphs by number of ranks");
}

std::optional<std::array<int, 3>> nccl_version(const std::string& text) {
  std::array<int, 3> version{};
  std::size_t parts = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (; parts < version.size(); ++parts) {
    const auto [next, failed] = std::from_chars(at, end, version[parts]);
    if (failed != std::errc() || next == at || version[parts] < 0) return std::nullopt;
    at = next;
    if (at == end) return parts == 0 ? std::nullopt : std::optional(version);
    if (*at++ != '.') return std::nullopt;
  }
  return std::nullopt;
}

void check(const NcclSpec& n, Checker& c) {
  if (!nccl_version(n.version)) c.fail("version", "is '" + n.version + "'", "as in 2.28.9");
  check_range(c, "eager_us", n.eager_us, {.min = 0, .max = 1000});
  check_range(c, "shm_hop_us", n.shm_hop_us, {.min = 0, .max = 1000});
  check_range(c, "shm_bus_gb_s", n.shm_bus_gb_s, {.min = 0, .max = 1000, .above_min = true});
  for (std::size_t i = 0; i < n.graphs.size(); ++i) {
    const std::string key = "graphs[" + std::to_string(i) + "]";
    check_range(c, key + ".channel_gb_s", n.graphs[i].channel_gb_s, {.min = 0, .max = 1000, .above_min = true});
    if (i > 0 && n.graphs[i].ranks <= n.graphs[i - 1].ranks)
      c.fail(key + ".ranks", "not above the entry before", "ascending ranks");
  }
}

void describe(Fields& f, FabricSpec& s) {
  f.optional("summary", s.summary, "one line: which machine this is");
  f.optional("source", s.source, "where the layout comes from");
  f.required("nodes", s.nodes, "GPUs, switches, root ports and complexes, sockets, memories, NICs");
  f.required("link_types", s.link_types, "classes of links by name");
  f.required("links", s.links, "which nodes are joined");
  f.required("gpu", s.gpu, "the GPU as an end of the fabric");
  f.optional("default_path", s.default_path, "how GPUs reach each other unless `paths` says otherwise");
  f.optional("paths", s.paths, "pairs that differ");
  f.optional("staging", s.staging, "needed where a path is staged through system memory");
  f.optional("slowdowns", s.slowdowns, "declared pathologies: what flows do to each other beyond sharing links");
  f.optional("multicast", s.multicast, "the switch reduces and broadcasts (NVLink SHARP), and its use is wanted");
  f.required("nccl", s.nccl, "what NCCL makes of this fabric");
}

FabricSpec first_gpus(FabricSpec spec, int count) {
  std::set<std::string> gone;
  int seen = 0;
  for (const NodeSpec& node : spec.nodes)
    if (node.kind == NodeKind::gpu && ++seen > count) gone.insert(node.id);
  if (gone.empty()) return spec;
  const auto ends_at_one = [&](const auto& pair) { return gone.contains(pair.a) || gone.contains(pair.b); };
  std::erase_if(spec.nodes, [&](const NodeSpec& node) { return gone.contains(node.id); });
  std::erase_if(spec.links, ends_at_one);
  std::erase_if(spec.paths, ends_at_one);
  spec.summary += " (the first " + std::to_string(count) + " of " + std::to_string(seen) + " GPUs)";
  return spec;
}

namespace {

void check_nodes(const FabricSpec& s, std::set<std::string>& ids, std::set<std::string>& gpus, Checker& c) {
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const NodeSpec& n = s.nodes[i];
    const std::string key = "nodes[" + std::to_string(i) + "]";
    if (n.id.empty()) c.fail(key + ".id", "empty", "a name");
    if (!ids.insert(n.id).second) c.fail(key + ".id", "'" + n.id + "' is there twice", "unique names");
    if (n.kind == NodeKind::gpu) gpus.insert(n.id);
    if (n.acs_redirect && n.kind != NodeKind::pcie_switch)
      c.fail(key + ".acs_redirect", "on a " + name_of(n.kind), "only a pcie_switch redirects");
  }
  if (gpus.empty()) c.fail("nodes", "no GPU", "at least one node of kind gpu");
}

void check_ends(const std::string& key, const std::string& a, const std::string& b, const std::set<std::string>& ids,
                const std::string& noun, Checker& c) {
  const std::vector<std::string> names(ids.begin(), ids.end());
  for (const auto& [end, name] : {std::pair{"a", a}, std::pair{"b", b}})
    if (!ids.contains(name))
      c.fail(key + "." + end, "no " + noun + " '" + name + "'" + did_you_mean(name, names), one_of(names));
  if (a == b) c.fail(key + ".b", "joins '" + a + "' with itself", "two different nodes");
}

}  // namespace

void check(const FabricSpec& s, Checker& c) {
  std::set<std::string> ids;
  std::set<std::string> gpus;
  check_nodes(s, ids, gpus, c);
  std::vector<std::string> types;
  for (const auto& [name, type] : s.link_types) types.push_back(name);
  for (std::size_t i = 0; i < s.links.size(); ++i) {
    const LinkSpec& l = s.links[i];
    const std::string key = "links[" + std::to_string(i) + "]";
    check_ends(key, l.a, l.b, ids, "node", c);
    const auto type = s.link_types.find(l.type);
    if (type == s.link_types.end())
      c.fail(key + ".type", "no link type '" + l.type + "'" + did_you_mean(l.type, types), one_of(types));
    else if (l.width && type->second.width > 0 && *l.width > type->second.width)
      c.fail(key + ".width", "wider than its type", "at most " + std::to_string(type->second.width));
    else if (l.width && type->second.width == 0)
      c.fail(key + ".width", "its type has no width to be a part of", "a width in link_types." + l.type);
  }
  bool staged = s.default_path == PathClass::staged;
  for (std::size_t i = 0; i < s.paths.size(); ++i) {
    check_ends("paths[" + std::to_string(i) + "]", s.paths[i].a, s.paths[i].b, gpus, "GPU", c);
    staged = staged || s.paths[i].path == PathClass::staged;
  }
  if (s.nccl.nvls && !s.multicast)
    c.fail("nccl.nvls", "true, but the fabric has no multicast", "multicast: true as well");
  if (staged && !s.staging) c.fail("staging", "missing", "what a staged path gives, since one is declared");
}

std::vector<const Quantity*> quantities_of(const FabricSpec& spec) {
  const EndpointSpec& g = spec.gpu;
  const NcclSpec& n = spec.nccl;
  std::vector<const Quantity*> all{
      &g.flag_us,         &g.read_us,           &g.arrival_us, &g.stage_us,           &g.graph_node_us,
      &g.eager_launch_us, &g.copy_operation_us, &g.read_tags,  &g.read_request_bytes, &g.blocks,
      &g.threads,         &g.reduce_gb_s,       &n.eager_us,   &n.shm_hop_us,         &n.shm_bus_gb_s};
  for (const auto& [name, link] : spec.link_types) {
    all.insert(all.end(), {&link.bandwidth_gb_s, &link.latency_us});
    if (link.back_gb_s) all.push_back(&*link.back_gb_s);
  }
  for (const NcclGraph& graph : n.graphs) all.push_back(&graph.channel_gb_s);
  for (const SlowdownSpec& slow : spec.slowdowns) all.push_back(&slow.bandwidth_gb_s);
  if (spec.staging) all.insert(all.end(), {&spec.staging->bandwidth_gb_s, &spec.staging->latency_us});
  if (const auto& own = g.own_kernels)
    all.insert(all.end(), {&own->step_us, &own->more_ranks_us, &own->fence_us, &own->host_fence_us, &own->line_gb_s,
                           &own->codec_us, &own->codec_warp_us, &own->copy_us, &own->norm_us});
  const NcclBases& bases = n.measured_base;
  for (const std::optional<Quantity>* base : {&bases.ring_ll_us, &bases.agxll_r_us, &bases.rsxld_agxst_us})
    if (*base) all.push_back(&**base);
  return all;
}

}  // namespace specstep::comm
