// The table of `specstep comm`: backends by sizes, what holds them back, and where the best one changes.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/pricing.h"
#include "comm/table/measured.h"

namespace specstep::comm {

struct CommQuery {
  Call call;                          // kind, ranks, dtype, captured; its bytes are not used
  std::vector<std::int64_t> sizes;    // ascending
  std::vector<std::string> backends;  // empty: all that are not refused
};

/// What a row measured on devices has beside its time. Its seconds are the median of replays, low and high the least
/// and the 99th percentile.
struct DeviceRow {
  bool cold = false;  // caches were swept before each call
  int calls = 0, replays = 0;
  std::int64_t checked = 0;  // values
  std::int64_t wrong = 0;
  std::optional<double> predicted = {};  // seconds, where a fabric was given and prices it
  std::string norm = {};                 // with residual sum and norm behind: "fused" in one kernel, "pair" as two
};

/// One backend at one size. Bandwidths as nccl-tests defines them: algorithm = size / time, bus = that times what each
/// rank must move per byte.
struct CommRow {
  std::string backend;
  int ranks = 1;
  std::int64_t bytes = 0;
  bool captured = true;
  double seconds = 0;
  double low = 0;  // with the uncertainty of the model, or the samples of a table
  double high = 0;
  double algorithm_gb_s = 0;
  double bus_gb_s = 0;
  std::string algorithm;
  std::string bottleneck;
  Provenance provenance = Provenance::datasheet;
  bool extrapolated = false;
  std::map<LinkKind, double> link_bytes;  // over links of each kind, both directions, in all
  std::optional<DeviceRow> device = {};
};

struct CommTable {
  std::string title;
  Call call;
  bool mode_known = true;          // a measured table may not say how its calls were launched
  bool dtype_known = true;         // nor of what type its values were
  std::vector<CommRow> rows;       // backend by backend
  std::vector<Crossover> changes;  // of the best of all
  std::vector<Crossover> against;  // of nccl and the one-shot backends, two by two
  std::vector<std::string> notes;
};

/// A backend that serves none of the sizes becomes a note, or InputError when it was asked for; so does a query that no
/// backend serves, with the reason of each. Sizes that a backend cannot serve are left out with one note.
CommTable comm_table(Pricer& pricer, const CommQuery& query);
/// From measured tables. What the table says of ranks, launch and type is used, else what `call` says; InputError when
/// `call.ranks` contradicts the table.
CommTable measured_comm_table(const MeasuredTable& table, const Call& call, double uncertainty);

/// Bus over algorithm bandwidth, as nccl-tests defines it; 0 when the number of ranks is not known.
double bus_factor(Collective kind, int ranks);

std::string comm_text(const CommTable& table);
/// Parts of it: times by size and backend with the best one; crossovers, a line each.
std::string times_text(const CommTable& table);
std::string crossovers_text(const CommTable& table);
std::string comm_csv(const std::vector<CommTable>& tables);
/// specstep.comm/1
nlohmann::ordered_json comm_json(const std::vector<CommTable>& tables);

}  // namespace specstep::comm
