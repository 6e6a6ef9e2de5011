// Layouts from what tools print.
#include "comm/import/imported.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "comm/import/builder.h"
#include "comm/topology.h"
#include "model/base/config_io.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

/// Groups of GPUs that are joined by cells no further than `reach`.
std::vector<std::vector<int>> groups_within(const SmiMatrix& m, const std::function<bool(const PairCell&)>& joined) {
  const std::size_t count = m.cells.size();
  std::vector<int> group(count, -1);
  std::vector<std::vector<int>> groups;
  const std::function<void(std::size_t)> mark = [&](std::size_t a) {
    group[a] = static_cast<int>(groups.size()) - 1;
    groups.back().push_back(static_cast<int>(a));
    for (std::size_t b = 0; b < count; ++b)
      if (group[b] < 0 && joined(m.cells[a][b])) mark(b);
  };
  for (std::size_t a = 0; a < count; ++a) {
    if (group[a] >= 0) continue;
    groups.emplace_back();
    mark(a);
    std::sort(groups.back().begin(), groups.back().end());
  }
  return groups;
}

bool same_numa(const SmiMatrix& m, std::size_t a, std::size_t b) { return m.numa[a] && m.numa[a] == m.numa[b]; }

class SmiImport {
 public:
  SmiImport(const SmiMatrix& m, const FabricSpec& like)
      : m_(m), build_(like, formatted("{} GPUs, imported from nvidia-smi topo -m", m.gpus.size())) {}

  Imported run() {
    for (std::size_t i = 0; i < m_.gpus.size(); ++i) build_.node(gpu(static_cast<int>(i)), NodeKind::gpu);
    sockets();
    nvlinks();
    assumed_.push_back(
        "whether pairs have peer access is not in the matrix (nvidia-smi topo -p2p rw): all are taken to have it");
    if (m_.nics > 0) notes_.push_back(formatted("{} network devices left out", m_.nics));
    return {build_.take(), std::move(notes_), std::move(assumed_)};
  }

 private:
  std::string gpu(int i) const { return "gpu" + std::to_string(i); }

  std::vector<std::vector<int>> socket_groups() const {
    const auto by_cells = groups_within(m_, [](const PairCell& c) {
      return c.kind != PairClass::sys && c.kind != PairClass::nvlink && c.kind != PairClass::self;
    });
    // NVLink cells hide the PCIe distance; the NUMA column tells, where it is there.
    std::vector<std::vector<int>> merged;
    for (const auto& group : by_cells) {
      const auto same = std::find_if(merged.begin(), merged.end(), [&](const std::vector<int>& other) {
        return same_numa(m_, static_cast<std::size_t>(other[0]), static_cast<std::size_t>(group[0])) &&
               m_.cells[static_cast<std::size_t>(other[0])][static_cast<std::size_t>(group[0])].kind != PairClass::sys;
      });
      if (same == merged.end())
        merged.push_back(group);
      else
        same->insert(same->end(), group.begin(), group.end());
    }
    return merged;
  }

  void sockets() {
    const auto groups = socket_groups();
    for (std::size_t s = 0; s < groups.size(); ++s) {
      const std::string socket = "cpu" + std::to_string(s);
      build_.node(socket, NodeKind::socket);
      build_.memory("mem" + std::to_string(s), socket);
      roots(groups[s], socket);
      for (std::size_t t = 0; t < s; ++t) build_.socket_link("cpu" + std::to_string(t), socket);
    }
    assumed_.push_back(formatted("{} socket{} inferred{}", groups.size(), groups.size() == 1 ? "" : "s",
                                 groups.size() > 2 ? "; every two taken to be joined directly" : ""));
  }

  void roots(const std::vector<int>& members, const std::string& socket) {
    const auto within = [&](std::initializer_list<PairClass> kinds) {
      std::vector<std::vector<int>> mine;
      for (const auto& group : groups_within(
               m_, [&](const PairCell& c) { return std::find(kinds.begin(), kinds.end(), c.kind) != kinds.end(); }))
        if (std::find(members.begin(), members.end(), group[0]) != members.end()) mine.push_back(group);
      return mine;
    };
    for (const auto& root : within({PairClass::phb, PairClass::pxb, PairClass::pix})) {
      const std::string id = "root" + std::to_string(root_count_++);
      build_.node(id, NodeKind::root_complex);
      build_.pcie(id, socket);
      for (const auto& tree : within({PairClass::pxb, PairClass::pix}))
        if (std::find(root.begin(), root.end(), tree[0]) != root.end()) switches(tree, id, within({PairClass::pix}));
    }
  }

  void switches(const std::vector<int>& tree, const std::string& root, const std::vector<std::vector<int>>& leaves) {
    std::vector<std::vector<int>> mine;
    for (const auto& leaf : leaves)
      if (std::find(tree.begin(), tree.end(), leaf[0]) != tree.end()) mine.push_back(leaf);
    std::string above = root;
    if (mine.size() > 1) {
      above = "switch" + std::to_string(switch_count_++);
      build_.node(above, NodeKind::pcie_switch);
      build_.pcie(above, root);
    }
    for (const auto& leaf : mine) {
      std::string parent = above;
      if (leaf.size() > 1 || mine.size() > 1) {
        parent = "switch" + std::to_string(switch_count_++);
        build_.node(parent, NodeKind::pcie_switch);
        build_.pcie(parent, above);
      }
      for (int i : leaf) build_.pcie(gpu(i), parent);
    }
  }

  void nvlinks() {
    int most = 0;
    for (std::size_t i = 0; i < m_.gpus.size(); ++i) most = std::max(most, m_.nvlinks_of(i));
    if (most == 0) return;
    if (m_.full_nvlink() && most > most_nvlinks) {
      build_.node("nvswitch", NodeKind::nvswitch);
      for (std::size_t i = 0; i < m_.gpus.size(); ++i)
        build_.nvlink(gpu(static_cast<int>(i)), "nvswitch", m_.cells[i][i == 0 ? 1 : 0].nvlinks);
      assumed_.push_back(formatted("more than {} NVLinks per GPU over all pairs: an NVSwitch inferred", most_nvlinks));
      return;
    }
    for (std::size_t a = 0; a < m_.gpus.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (m_.cells[a][b].nvlinks > 0)
          build_.nvlink(gpu(static_cast<int>(b)), gpu(static_cast<int>(a)), m_.cells[a][b].nvlinks);
    if (!m_.full_nvlink()) notes_.push_back("not every pair has NVLink: no full NVLink");
  }

  const SmiMatrix& m_;
  FabricBuilder build_;
  std::vector<std::string> notes_;
  std::vector<std::string> assumed_;
  int root_count_ = 0;
  int switch_count_ = 0;
};

}  // namespace

Imported fabric_from_smi(const SmiMatrix& matrix, const FabricSpec& like) { return SmiImport(matrix, like).run(); }

std::string imported_yaml(const Imported& imported) {
  std::string text;
  for (const std::string& open : imported.assumed) text += "# assumed: " + open + "\n";
  for (const std::string& note : imported.notes) text += "# " + note + "\n";
  text += to_yaml(dump_config(imported.spec));
  build_topology(read_config<FabricSpec>(yaml::parse(text, "imported fabric")));
  return text;
}

}  // namespace specstep::comm
