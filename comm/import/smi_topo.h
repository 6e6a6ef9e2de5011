// The matrix of `nvidia-smi topo -m`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/fabric.h"

namespace specstep::comm {

inline constexpr int most_nvlinks = 18;  // of one GPU: Hopper and Blackwell

/// How two GPUs are joined, from near to far.
enum class PairClass { self, nvlink, pix, pxb, phb, node, sys };

struct PairCell {
  PairClass kind = PairClass::self;
  int nvlinks = 0;  // bonded links of an NV# cell
  bool operator==(const PairCell&) const = default;
};

struct SmiMatrix {
  std::vector<std::string> gpus;
  std::vector<std::vector<PairCell>> cells;
  std::vector<std::optional<int>> numa;  // as printed; neither dense nor ascending
  int nics = 0;

  /// Pairs of GPUs of each class, by nvidia-smi's names; NV# keeps its number.
  std::map<std::string, int> pair_counts() const;
  bool full_nvlink() const;
  /// The furthest class of any pair.
  PairClass slowest() const;
  /// How often a ring over all GPUs must at least pass between sockets.
  int ring_crossings() const;
  int nvlinks_of(std::size_t gpu) const;
};

/// Colour codes, doubled tabs, NIC rows and columns and missing columns are handled. Throws InputError with line and
/// reason for anything else: no GPU, a row or a cell missing, an unknown class, cells that contradict their mirror, or
/// a matrix of P2P status.
SmiMatrix parse_smi_topo(std::string_view text, const std::string& file);

std::string class_name(const PairCell& cell);

}  // namespace specstep::comm
