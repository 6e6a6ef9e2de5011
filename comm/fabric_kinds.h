// The words of a fabric file.
#pragma once

#include <string>
#include <vector>

#include "model/base/describe.h"

namespace specstep::comm {

enum class NodeKind { gpu, pcie_switch, root_port, root_complex, socket, host_memory, nvswitch, nic };
enum class LinkKind { pcie, nvlink, socket, memory, network };
/// How one GPU reaches the memory of another: peer access, copies through system memory, or not at all.
enum class PathClass { p2p, staged, none };
enum class Operation { read, write };
/// Flows that a slowdown holds together: those of one GPU, of one switch, or all that cross in one direction.
enum class Pool { gpu, pcie_switch, direction };
/// What the destinations of a slowdown's trigger are counted by.
enum class Ends { root, gpu };

/// nvidia-smi's and NCCL's classes of distance, from near to far; a level of NCCL_P2P_LEVEL.
enum class NcclLevel { loc, nvl, pix, pxb, phb, sys };

}  // namespace specstep::comm

namespace specstep {
template <>
struct EnumNames<comm::NodeKind> {
  static std::vector<std::string> names() {
    return {"gpu", "pcie_switch", "root_port", "root_complex", "socket", "host_memory", "nvswitch", "nic"};
  }
};
template <>
struct EnumNames<comm::LinkKind> {
  static std::vector<std::string> names() { return {"pcie", "nvlink", "socket", "memory", "network"}; }
};
template <>
struct EnumNames<comm::PathClass> {
  static std::vector<std::string> names() { return {"p2p", "staged", "none"}; }
};
template <>
struct EnumNames<comm::Operation> {
  static std::vector<std::string> names() { return {"read", "write"}; }
};
template <>
struct EnumNames<comm::Pool> {
  static std::vector<std::string> names() { return {"gpu", "pcie_switch", "direction"}; }
};
template <>
struct EnumNames<comm::Ends> {
  static std::vector<std::string> names() { return {"root", "gpu"}; }
};
template <>
struct EnumNames<comm::NcclLevel> {
  static std::vector<std::string> names() { return {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}; }
};
}  // namespace specstep
