// How specstep's own backends are run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/describe.h"

namespace specstep::comm {

/// Settings of the backends that are our own: push1, pull1, rsag, island, hostbc, ring, ce, q8, nvls.
struct OwnSettings {
  std::string wire = "sentinel";          // push1: how a word tells that it has arrived
  std::string transfer = "push";          // rsag: who moves the data
  std::int64_t blocks = 0;                // thread blocks of a call at most; 0: chosen
  std::int64_t largest_kib = 0;           // of a call in one piece; 0: chosen
  std::vector<std::vector<int>> islands;  // island: islands[i][j] exchanges with islands[k][j]; empty: from the fabric
  bool nvls = false;                      // nvls: may be used
  auto operator<=>(const OwnSettings&) const = default;
};
void describe(Fields& f, OwnSettings& s);
void check(const OwnSettings& s, Checker& c);

/// "{0 1} {2 3}", or that they come from the fabric.
std::string text_of_islands(const std::vector<std::vector<int>>& islands);
/// One line, equal for equal settings.
std::string text_of(const OwnSettings& s);

}  // namespace specstep::comm
