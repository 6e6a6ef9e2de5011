// Link types of an imported fabric: those of the fabric it is like, else assumed ones.
#include "comm/import/builder.h"

#include <algorithm>
#include <array>

namespace specstep::comm {
namespace {

constexpr double gb_s_per_nvlink = 20.6;  // NVLink 4: NVIDIA/nccl@v2.28.9-1 src/graph/topo.h
constexpr int slot_width = 16;

/// Gigabits per second of a lane after its line code: PCIe Base Specification 6.0 (8b/10b, 128b/130b, flits).
double lane_rate(int generation) {
  constexpr std::array<double, 7> rates{0, 2.5 * 0.8, 5 * 0.8, 8 * 128 / 130.0, 16 * 128 / 130.0, 32 * 128 / 130.0, 64};
  return rates[static_cast<std::size_t>(std::clamp(generation, 0, 6))];
}

Quantity scaled(const Quantity& of, double factor, const std::string& how) {
  return {of.value * factor, how + " of: " + of.source, of.fitted};
}

}  // namespace

FabricBuilder::FabricBuilder(const FabricSpec& like, std::string summary) : known_(like.link_types) {
  spec_.summary = std::move(summary);
  spec_.source = "imported; link types, GPU ends and NCCL part taken over from: " + like.summary;
  spec_.gpu = like.gpu;
  spec_.nccl = like.nccl;
}

void FabricBuilder::node(const std::string& id, NodeKind kind) { spec_.nodes.push_back({id, kind, false}); }

bool FabricBuilder::has(const std::string& id) const {
  return std::any_of(spec_.nodes.begin(), spec_.nodes.end(), [&](const NodeSpec& n) { return n.id == id; });
}

const LinkType* FabricBuilder::like_type(LinkKind kind) const {
  const LinkType* best =
      nullptr;  // of several PCIe types the one with a width is the slot, the others are inside a CPU
  for (const auto& [name, type] : known_)
    if (type.kind == kind && (!best || type.width > best->width)) best = &type;
  return best;
}

const LinkType& FabricBuilder::ensure(const std::string& name, LinkKind kind, double gb_s, double latency_us,
                                      const std::string& source) {
  const auto found = spec_.link_types.find(name);
  if (found != spec_.link_types.end()) return found->second;
  LinkType type;
  if (const LinkType* like = like_type(kind)) {
    type = *like;
  } else {
    type.kind = kind;
    type.bandwidth_gb_s = {gb_s, source, false};
    type.latency_us = {latency_us, source, false};
  }
  return spec_.link_types.emplace(name, type).first->second;
}

std::string FabricBuilder::pcie_type(int generation) {
  LinkType base = ensure("pcie", LinkKind::pcie, 56.3, 0.1925, "assumed: Gen5 x16 as on measured hosts");
  if (base.generation == 0) base.generation = 5;
  if (base.width == 0) base.width = slot_width;
  const int wanted = generation > 0 ? generation : base.generation;
  if (wanted == base.generation && base.width == slot_width) {
    spec_.link_types["pcie"] = base;
    return "pcie";
  }
  const std::string name = "pcie_gen" + std::to_string(wanted);
  const double factor = lane_rate(wanted) / lane_rate(base.generation) * slot_width / base.width;
  LinkType type = base;
  const std::string how = "by the rate of a lane, Gen" + std::to_string(wanted) + " x16 out";
  type.bandwidth_gb_s = scaled(base.bandwidth_gb_s, factor, how);
  if (base.back_gb_s) type.back_gb_s = scaled(*base.back_gb_s, factor, how);
  type.generation = wanted;
  type.width = slot_width;
  spec_.link_types.emplace(name, type);
  return name;
}

void FabricBuilder::pcie(const std::string& a, const std::string& b, Trained trained) {
  LinkSpec link{a, b, "pcie", {}};
  if (trained.generation > 0 || trained.width > 0)
    link.type = pcie_type(trained.generation);
  else
    ensure("pcie", LinkKind::pcie, 56.3, 0.1925, "assumed: Gen5 x16 as on measured hosts");
  if (trained.width > 0 && trained.width < slot_width) link.width = trained.width;
  spec_.links.push_back(link);
}

void FabricBuilder::path(const std::string& a, const std::string& b, PathClass path) {
  spec_.paths.push_back({a, b, path});
}

void FabricBuilder::nvlink(const std::string& a, const std::string& b, int count) {
  const std::string name = "nvlink_x" + std::to_string(count);
  if (!spec_.link_types.contains(name)) {
    const LinkType* like = like_type(LinkKind::nvlink);
    LinkType type;
    type.kind = LinkKind::nvlink;
    const bool scaled = like && like->width > 0;
    const double each = scaled ? like->bandwidth_gb_s.value / like->width : gb_s_per_nvlink;
    type.bandwidth_gb_s = {each * count,
                           std::to_string(count) + " links at the rate of " +
                               (scaled ? "those of the fabric it is like" : "NVLink 4, assumed"),
                           false};
    type.latency_us = like ? like->latency_us : Quantity{0.285, "assumed: as fitted on H100", false};
    type.width = count;
    spec_.link_types.emplace(name, type);
  }
  spec_.links.push_back({a, b, name, {}});
}

void FabricBuilder::socket_link(const std::string& a, const std::string& b) {
  ensure("socket", LinkKind::socket, 100, 0.235, "assumed: no source names the CPUs");
  spec_.links.push_back({a, b, "socket", {}});
}

void FabricBuilder::memory(const std::string& id, const std::string& socket) {
  ensure("memory", LinkKind::memory, 100, 0.2, "assumed: no source names the memory");
  node(id, NodeKind::host_memory);
  spec_.links.push_back({socket, id, "memory", {}});
}

void FabricBuilder::measured_link(const LinkSpec& ends, LinkKind kind, const Quantity& gb_s) {
  const LinkType* like = like_type(kind);
  const double latency = kind == LinkKind::nvlink ? 0.285 : 0.1925;
  LinkType type = like ? *like : LinkType{};
  type.kind = kind;
  if (!like) type.latency_us = {latency, "assumed: as on measured hosts", false};
  type.bandwidth_gb_s = gb_s;
  type.back_gb_s.reset();
  type.generation = 0;
  type.width = 0;
  const std::string name = ends.type.empty() ? "of_" + ends.a : ends.type;
  spec_.link_types[name] = type;
  spec_.links.push_back({ends.a, ends.b, name, {}});
}

FabricSpec FabricBuilder::take() {
  const bool used =
      std::any_of(spec_.links.begin(), spec_.links.end(), [](const LinkSpec& l) { return l.type == "pcie"; });
  if (!used) spec_.link_types.erase("pcie");
  return std::move(spec_);
}

}  // namespace specstep::comm
