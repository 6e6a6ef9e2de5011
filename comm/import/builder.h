// Putting a fabric together from imported parts.
#pragma once

#include <string>
#include <vector>

#include "comm/fabric.h"

namespace specstep::comm {

/// What a PCIe link trained at; 0 where it is not known.
struct Trained {
  int generation = 0;
  int width = 0;
};

/// Starts as `like` without its layout: link types, GPU ends and NCCL part are kept. Types that `like` lacks are added
/// with numbers that say that they are assumed.
class FabricBuilder {
 public:
  FabricBuilder(const FabricSpec& like, std::string summary);

  void node(const std::string& id, NodeKind kind);
  bool has(const std::string& id) const;
  /// At the rate of the fabric it is like, scaled to what the link trained at.
  void pcie(const std::string& a, const std::string& b, Trained trained = {});
  /// `count` bonded NVLinks between two nodes.
  void nvlink(const std::string& a, const std::string& b, int count);
  void socket_link(const std::string& a, const std::string& b);
  void memory(const std::string& id, const std::string& socket);
  /// A link of its own type, of kind pcie or nvlink.
  void measured_link(const LinkSpec& ends, LinkKind kind, const Quantity& gb_s);
  void path(const std::string& a, const std::string& b, PathClass path);

  FabricSpec take();

 private:
  const LinkType& ensure(const std::string& name, LinkKind kind, double gb_s, double latency_us,
                         const std::string& source);
  const LinkType* like_type(LinkKind kind) const;
  std::string pcie_type(int generation);

  FabricSpec spec_;
  std::map<std::string, LinkType> known_;
};

}  // namespace specstep::comm
