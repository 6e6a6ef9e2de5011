// Drawing a fabric: a tree over PCIe and memory links below each socket or root, then NVLink and socket links.
#include "comm/report/drawing.h"

#include <map>
#include <set>

#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

std::string link_text(const Link& link) {
  std::string text = formatted("{:.1f} GB/s", link.bytes_per_second / 1e9);
  if (link.latency > 0) text += formatted(", {:.2f} us", link.latency * 1e6);
  if (link.generation > 0) text += formatted(", gen {}", link.generation);
  if (link.width > 0) text += formatted(" x{}", link.width);
  if (link.narrowed) text += " (narrowed)";
  return text;
}

class Drawer {
 public:
  explicit Drawer(const Topology& t) : t_(t) {}

  std::string text() {
    for (const NodeKind kind : {NodeKind::socket, NodeKind::root_complex, NodeKind::root_port, NodeKind::pcie_switch})
      for (int i = 0; i < t_.node_count(); ++i)
        if (t_.node(i).kind == kind && seen_.insert(i).second) {
          out_ += t_.node(i).id + "  " + name_of(kind) + "\n";
          below(i, "");
        }
    others();
    return out_;
  }

 private:
  std::string label(int node) const {
    std::string text = t_.node(node).id;
    for (std::size_t rank = 0; rank < t_.gpus().size(); ++rank)
      if (t_.gpus()[rank] == node) return text + formatted("  rank {}", rank);
    text += "  " + name_of(t_.node(node).kind);
    return t_.node(node).acs_redirect ? text + ", ACS redirects peer traffic" : text;
  }

  void below(int node, const std::string& indent) {
    std::vector<std::size_t> children;
    for (std::size_t i = 0; i < t_.links().size(); ++i) {
      const Link& link = t_.links()[i];
      const bool in_tree =
          link.kind == LinkKind::pcie || link.kind == LinkKind::memory || link.kind == LinkKind::network;
      if (link.from == node && in_tree && seen_.insert(link.to).second) {
        drawn_.insert(i);
        children.push_back(i);
      }
    }
    for (std::size_t k = 0; k < children.size(); ++k) {
      const Link& link = t_.links()[children[k]];
      const bool last = k + 1 == children.size();
      out_ += formatted("{}{}{}  [{}]\n", indent, last ? "`- " : "|- ", label(link.to), link_text(link));
      if (t_.node(link.to).kind != NodeKind::gpu) below(link.to, indent + (last ? "   " : "|  "));
    }
  }

  bool drawn_either_way(const Link& link) const {
    for (std::size_t i : drawn_) {
      const Link& d = t_.links()[i];
      if ((d.from == link.from && d.to == link.to) || (d.from == link.to && d.to == link.from)) return true;
    }
    return false;
  }

  void others() {
    std::map<std::string, std::vector<std::string>> rest;  // text of the link -> its ends
    for (std::size_t i = 0; i < t_.links().size(); i += 2) {
      const Link& link = t_.links()[i];
      if (drawn_either_way(link)) continue;
      rest[name_of(link.kind) + "  [" + link_text(link) + "]"].push_back(t_.node(link.from).id + " - " +
                                                                         t_.node(link.to).id);
    }
    for (const auto& [kind, ends] : rest) {
      out_ += kind + ":";
      for (std::size_t i = 0; i < ends.size(); ++i) out_ += (i ? ", " : "  ") + ends[i];
      out_ += "\n";
    }
  }

  const Topology& t_;
  std::set<int> seen_;
  std::set<std::size_t> drawn_;
  std::string out_;
};

}  // namespace

std::string drawing(const Topology& topology) { return Drawer(topology).text(); }

}  // namespace specstep::comm
