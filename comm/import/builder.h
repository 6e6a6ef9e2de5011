// Putting a fabric together from imported parts.
#pragma once

#include <string>
#include <vector>

#include "comm/fabric.h"

namespace specstep::comm {

/// Starts as `like` without its layout: link types, GPU ends and NCCL part are kept. Types that `like` lacks are added
/// with numbers that say that they are assumed.
class FabricBuilder {
 public:
  FabricBuilder(const FabricSpec& like, std::string summary);

  void node(const std::string& id, NodeKind kind);
  bool has(const std::string& id) const;
  void pcie(const std::string& a, const std::string& b);
  /// `count` bonded NVLinks between two nodes.
  void nvlink(const std::string& a, const std::string& b, int count);
  void socket_link(const std::string& a, const std::string& b);
  void memory(const std::string& id, const std::string& socket);
  /// A PCIe link of its own type.
  void measured_link(const std::string& a, const std::string& b, double gb_s, const std::string& source);

  FabricSpec take();

 private:
  const LinkType& ensure(const std::string& name, LinkKind kind, double gb_s, double latency_us,
                         const std::string& source);
  const LinkType* like_type(LinkKind kind) const;

  FabricSpec spec_;
  std::map<std::string, LinkType> known_;
};

}  // namespace specstep::comm
