// How specstep's own backends are run.
#pragma once

#include <cstdint>
#include <string>

#include "model/base/describe.h"

namespace specstep::comm {

/// Settings of the backends that are kernels of our own: push1, pull1, rsag, island, hostbc, ring, q8.
struct OwnSettings {
  std::string wire = "sentinel";  // push1: how a word tells that it has arrived
  std::string transfer = "push";  // rsag: who moves the data
  std::int64_t blocks = 0;        // thread blocks of a call at most; 0: chosen
  std::int64_t largest_kib = 0;   // of a call in one piece; 0: chosen
  bool operator==(const OwnSettings&) const = default;
};
void describe(Fields& f, OwnSettings& s);
void check(const OwnSettings& s, Checker& c);

/// One line, equal for equal settings.
std::string text_of(const OwnSettings& s);

}  // namespace specstep::comm
