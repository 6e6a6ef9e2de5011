// Which backend is fastest here: every one that opens is checked and timed, within a bounded time.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "comm/cuda/device_comm.h"
#include "comm/selector.h"

namespace specstep::comm {

struct Probe {
  Selection selection;                // equal on all ranks
  std::vector<std::string> measured;  // backends that opened and were exact
  std::vector<std::string> notes;     // what was left out, and why
  bool serves(const std::string& id) const { return std::find(measured.begin(), measured.end(), id) != measured.end(); }
};

/// Every rank of the group calls it, its device current. `request` is what each backend is opened with; its `backend`
/// is not read. Backends that refuse, or sum wrongly, are left out. The timing takes about `seconds`, beside the
/// opening of the backends. The table is that of rank 0. Throws Unsupported when no backend is left, Error when a rank
/// fails.
Probe probe(const CommRequest& request, DType dtype, double seconds, Bootstrap& group);

}  // namespace specstep::comm
