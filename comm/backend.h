// A backend is a row: what it is, what it needs, and how its price is prepared. The table stands in backends.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/pricing.h"
#include "comm/schedule_price.h"

namespace specstep::comm {

/// Price of a call of the kind, ranks and dtype it was prepared for. Cheap.
using Prepared = std::function<CommPrice(const Call&)>;

/// What a backend asks of the fabric.
struct Needs {
  bool p2p = false;          // every pair reaches the other's memory, staged or not
  bool host_memory = false;  // pinned memory near each rank
  bool multicast = false;    // a switch that reduces and broadcasts
  bool packs = false;        // the message is a whole number of 16-byte packs
};

/// A way to carry out a call. Of several, the cheapest at each size is taken.
struct Variant {
  Schedule schedule;
  Carrier carrier;
};

struct BackendRow {
  std::string id;
  std::string summary;
  std::vector<Collective> kinds;
  Needs needs;
  int max_ranks = 8;
  /// What is moved: priced when the row has no `prepare`, else only for counting bytes. Empty when nothing is.
  std::vector<Variant> (*variants)(const Topology&, const Call&) = nullptr;
  /// A price of its own kind.
  Prepared (*prepare)(const Topology&, const Call&) = nullptr;
  /// A reason of its own, or nullptr.
  std::optional<std::string> (*refuses)(const Topology&, const Call&) = nullptr;
  /// Relative uncertainty of a price: about the 90th percentile of the errors in docs/accuracy.md.
  double uncertainty = 0.15;
};

/// The row with this id, or InputError that names the ids there are.
const BackendRow& backend(const std::string& id);

/// What a row moves for a call: variants of our own kernel, or of the row.
std::vector<Variant> variants_of(const BackendRow& row, const Topology& topology, const Call& call);

/// The price of a row for calls like this one.
Prepared prepared(const BackendRow& row, const Topology& topology, const Call& call);
/// `beside`, where given: seconds of a call of so many bytes that are no line in the bytes.
Prepared priced_schedules(const Topology& topology, const std::vector<Variant>& variants,
                          const std::function<double(std::int64_t)>& beside = {});

/// The switch that reduces and broadcasts, with what of its links NCCL's constants give it.
SchedulePrice switch_price(const Topology& topology, int ranks);

/// One kernel in a graph, or the interval at which a host launches it eagerly, whichever is longer.
double with_launch(double captured_seconds, bool captured, double eager_interval_seconds);

BackendRow nccl_row();
BackendRow nccl_sym_row();
BackendRow nccl_dev_row();
BackendRow push1_row();
BackendRow pull1_row();
BackendRow rsag_row();
BackendRow island_row();
BackendRow hostbc_row();
BackendRow ring_row();
BackendRow ce_row();
BackendRow q8_row();
BackendRow nvls_row();
BackendRow null_row();
BackendRow delay_row();

}  // namespace specstep::comm
