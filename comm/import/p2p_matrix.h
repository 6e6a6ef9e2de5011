// Bandwidth matrices of p2pBandwidthLatencyTest and its kin ("D\D" layout), 10^9 bytes per second.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specstep::comm {

struct P2pMatrix {
  std::vector<std::vector<double>> gb_s;  // the diagonal is on-device bandwidth
  int size() const { return static_cast<int>(gb_s.size()); }
  /// What a GPU gets at best from any other.
  double best_of(int gpu) const;
};

/// Takes the first matrix of the text. Throws InputError with line and reason: no matrix, a row or column missing, a
/// cell that is no number above zero, a cell more than 20 % off its mirror, a matrix of zeros and ones (connectivity).
P2pMatrix parse_p2p_matrix(std::string_view text, const std::string& file);

}  // namespace specstep::comm
