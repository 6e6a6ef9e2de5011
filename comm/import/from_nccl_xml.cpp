// A fabric from NCCL's topology dump: <system> of <cpu>, nested <pci> (a bridge or a device), <gpu> with <nvlink>,
// <nic>.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "comm/import/builder.h"
#include "comm/import/imported.h"
#include "model/base/error.h"

namespace specstep::comm {
namespace {

constexpr int most_links = 64;  // bonded, as the width of a link type

const XmlElement* child(const XmlElement& e, std::string_view name) {
  for (const XmlElement& c : e.children)
    if (c.name == name) return &c;
  return nullptr;
}

/// A whole number from the text's begin, and what follows it.
std::optional<std::pair<double, std::string>> number_and_rest(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return std::pair{value, std::string(end, text.data() + text.size())};
}

class XmlImport {
 public:
  XmlImport(const std::string& file, const FabricSpec& like)
      : file_(file), build_(like, "imported from an NCCL topology dump") {}

  Imported run(const XmlElement& system) {
    if (system.name != "system")
      refuse(system, "", "<" + system.name + ">", "a <system> element (NCCL_TOPO_DUMP_FILE)");
    if (const std::string* version = system.attribute("version"); version && *version != "1")
      refuse(system, "version", "is '" + *version + "'", "1, the version that NCCL writes");
    for (const XmlElement& cpu : system.children) {
      if (cpu.name != "cpu") continue;
      const std::string socket = "cpu" + std::to_string(sockets_);
      build_.node(socket, NodeKind::socket);
      build_.memory("mem" + std::to_string(sockets_), socket);
      for (int other = 0; other < sockets_; ++other) build_.socket_link("cpu" + std::to_string(other), socket);
      ++sockets_;
      if (cpu.text("numaid") == "-1")
        assumed_.push_back("a CPU without NUMA number (a virtual machine): sockets may be hidden");
      devices(cpu, socket);
    }
    if (gpu_by_bus_.empty()) refuse(system, "", "no <gpu> in the dump", "a dump of a machine with GPUs");
    links();
    if (unknown_links_ > 0)
      assumed_.push_back(
          fmt::format("the dump has no link width or no speed for {} of its PCIe links: those are taken to be "
                      "as wide and fast as in the fabric it is like",
                      unknown_links_));
    return {build_.take(), std::move(notes_), std::move(assumed_)};
  }

 private:
  [[noreturn]] void refuse(const XmlElement& e, const char* key, const std::string& what,
                           const std::string& allowed) const {
    throw InputError({{file_, e.line, e.column}, key, what, allowed});
  }

  /// What the link above a device trained at. NCCL writes the words of /sys: "16.0 GT/s PCIe"; empty, "Unknown" or a
  /// width of 0 or 255 where a virtual machine hides them.
  Trained trained(const XmlElement& pci) {
    Trained link;
    const std::string speed = pci.text("link_speed");
    if (!speed.empty() && !speed.starts_with("Unknown")) {
      constexpr std::array<double, 6> rates{2.5, 5, 8, 16, 32, 64};
      const auto read = number_and_rest(speed);
      const auto found = read ? std::find(rates.begin(), rates.end(), read->first) : rates.end();
      if (found == rates.end() || !read->second.starts_with(" GT/s"))
        refuse(pci, "link_speed", "'" + speed + "'", "2.5, 5, 8, 16, 32 or 64 GT/s");
      link.generation = static_cast<int>(found - rates.begin()) + 1;
    }
    const std::string width = pci.text("link_width");
    if (!width.empty() && width != "0" && width != "255") {
      constexpr std::array<double, 6> widths{1, 2, 4, 8, 12, 16};
      const auto read = number_and_rest(width);
      if (!read || !read->second.empty() || std::find(widths.begin(), widths.end(), read->first) == widths.end())
        refuse(pci, "link_width", "'" + width + "'", "1, 2, 4, 8, 12 or 16 lanes, 0 where unknown");
      link.width = static_cast<int>(read->first);
    }
    unknown_links_ += link.generation == 0 || link.width == 0 ? 1 : 0;
    return link;
  }

  void devices(const XmlElement& parent, const std::string& above) {
    for (const XmlElement& pci : parent.children) {
      if (pci.name != "pci") continue;
      if (const XmlElement* gpu = child(pci, "gpu")) {
        add_gpu(pci, *gpu, above);
      } else if (child(pci, "pci")) {
        const std::string id = "switch" + std::to_string(switches_++);
        build_.node(id, NodeKind::pcie_switch);
        build_.pcie(id, above, trained(pci));
        devices(pci, id);
      }
    }
  }

  void add_gpu(const XmlElement& pci, const XmlElement& gpu, const std::string& above) {
    const std::string id = "gpu" + std::to_string(gpu_by_bus_.size());
    build_.node(id, NodeKind::gpu);
    build_.pcie(id, above, trained(pci));
    if (!gpu_by_bus_.emplace(pci.text("busid"), id).second)
      refuse(pci, "busid", "'" + pci.text("busid") + "' is there twice", "one address for each GPU");
    if (const std::string* dev = gpu.attribute("dev"); dev && !devices_.insert(*dev).second)
      refuse(gpu, "dev", "'" + *dev + "' is there twice", "one number for each GPU");
    for (const XmlElement& link : gpu.children)
      if (link.name == "nvlink") nvlinks_.push_back({id, link});
  }

  void links() {
    for (const auto& [gpu, link] : nvlinks_) {
      const std::string text = link.text("count");
      int count = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
      if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > most_links)
        refuse(link, "count", "'" + text + "' links", fmt::format("1 to {}", most_links));
      const auto peer = gpu_by_bus_.find(link.text("target"));
      if (peer == gpu_by_bus_.end()) {
        if (!build_.has("nvswitch")) {
          build_.node("nvswitch", NodeKind::nvswitch);
          assumed_.push_back("NVLinks that end at no GPU: an NVSwitch inferred");
        }
        build_.nvlink(gpu, "nvswitch", count);
      } else if (gpu < peer->second) {
        build_.nvlink(gpu, peer->second, count);
      }
    }
  }

  struct NvLink {
    std::string gpu;
    XmlElement element;
  };

  const std::string& file_;
  FabricBuilder build_;
  std::vector<std::string> notes_;
  std::vector<std::string> assumed_;
  std::set<std::string> devices_;
  int unknown_links_ = 0;
  std::map<std::string, std::string> gpu_by_bus_;
  std::vector<NvLink> nvlinks_;
  int sockets_ = 0;
  int switches_ = 0;
};

}  // namespace

Imported fabric_from_nccl_xml(const XmlElement& system, const std::string& file, const FabricSpec& like) {
  return XmlImport(file, like).run(system);
}

}  // namespace specstep::comm
