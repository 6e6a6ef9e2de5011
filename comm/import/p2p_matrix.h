// Bandwidth matrices of p2pBandwidthLatencyTest and its kin ("D\D" layout), 10^9 bytes per second.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specstep::comm {

/// More than a PCIe link carries in one direction (Gen5 x16: 63 GB/s); what is faster is NVLink.
inline constexpr double pcie_limit_gb_s = 64;

struct P2pMatrix {
  std::vector<std::vector<double>> gb_s;  // the diagonal is on-device bandwidth
  std::vector<std::vector<bool>> reach;   // who has peer access to whom; empty when the text does not say
  std::vector<std::string> notes;         // which matrix was taken, where there are several
  int size() const { return static_cast<int>(gb_s.size()); }
  /// Of a pair, the better direction.
  double rate(int a, int b) const;
  /// What a GPU gets at best from any other.
  double best_of(int gpu) const;
};

/// Of several matrices takes "Unidirectional P2P=Enabled", else the first of bandwidths; one of zeros and ones gives
/// `reach`. Throws InputError with place and reason: no matrix, a row or column missing, a cell that is no number above
/// zero, a cell more than 20 % off its mirror, connectivity alone.
P2pMatrix parse_p2p_matrix(std::string_view text, const std::string& file);

}  // namespace specstep::comm
