// A fabric from NCCL's topology dump: <system> of <cpu>, nested <pci> (a bridge or a device), <gpu> with <nvlink>,
// <nic>.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "comm/import/builder.h"
#include "comm/import/imported.h"
#include "model/base/error.h"

namespace specstep::comm {
namespace {

const XmlElement* child(const XmlElement& e, std::string_view name) {
  for (const XmlElement& c : e.children)
    if (c.name == name) return &c;
  return nullptr;
}

class XmlImport {
 public:
  XmlImport(const std::string& file, const FabricSpec& like)
      : file_(file), build_(like, "imported from an NCCL topology dump") {}

  Imported run(const XmlElement& system) {
    if (system.name != "system")
      throw InputError(
          {{file_, system.line, 1}, "", "<" + system.name + ">", "a <system> element (NCCL_TOPO_DUMP_FILE)"});
    for (const XmlElement& cpu : system.children) {
      if (cpu.name != "cpu") continue;
      const std::string socket = "cpu" + std::to_string(sockets_);
      build_.node(socket, NodeKind::socket);
      build_.memory("mem" + std::to_string(sockets_), socket);
      for (int other = 0; other < sockets_; ++other) build_.socket_link("cpu" + std::to_string(other), socket);
      ++sockets_;
      if (cpu.text("numaid") == "-1")
        notes_.push_back("a CPU without NUMA number (a virtual machine): sockets may be hidden");
      devices(cpu, socket);
    }
    if (gpu_by_bus_.empty())
      throw InputError({{file_, system.line, 1}, "", "no <gpu> in the dump", "a dump of a machine with GPUs"});
    links();
    notes_.push_back("bandwidths and latencies of PCIe links: taken over from the fabric it is like");
    return {build_.take(), std::move(notes_)};
  }

 private:
  void devices(const XmlElement& parent, const std::string& above) {
    for (const XmlElement& pci : parent.children) {
      if (pci.name != "pci") continue;
      if (const XmlElement* gpu = child(pci, "gpu")) {
        add_gpu(pci, *gpu, above);
      } else if (child(pci, "pci")) {
        const std::string id = "switch" + std::to_string(switches_++);
        build_.node(id, NodeKind::pcie_switch);
        build_.pcie(id, above);
        devices(pci, id);
      }
    }
  }

  void add_gpu(const XmlElement& pci, const XmlElement& gpu, const std::string& above) {
    const std::string id = "gpu" + std::to_string(gpu_by_bus_.size());
    build_.node(id, NodeKind::gpu);
    build_.pcie(id, above);
    gpu_by_bus_[pci.text("busid")] = id;
    if (pci.text("link_width") == "0") notes_.push_back(id + ": the dump has no link width");
    for (const XmlElement& link : gpu.children)
      if (link.name == "nvlink") nvlinks_.push_back({id, link});
  }

  void links() {
    for (const auto& [gpu, link] : nvlinks_) {
      const std::string text = link.text("count");
      int count = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
      if (error != std::errc() || end != text.data() + text.size() || count < 1)
        throw InputError({{file_, link.line, 1}, "count", "'" + text + "' links", "a whole number above 0"});
      const auto peer = gpu_by_bus_.find(link.text("target"));
      if (peer == gpu_by_bus_.end()) {
        if (!build_.has("nvswitch")) {
          build_.node("nvswitch", NodeKind::nvswitch);
          notes_.push_back("NVLinks that end at no GPU: an NVSwitch inferred");
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
