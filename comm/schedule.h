// A collective as data: who moves which part to whom, in which order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/fabric.h"

namespace specstep::comm {

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all };

/// Parts `first` up to, not including, `last` when a vector is cut into `of` parts. Fractions instead of elements: one
/// schedule serves every length.
struct Range {
  int first = 0;
  int last = 1;
  int of = 1;
  double share() const { return static_cast<double>(last - first) / of; }
  bool operator==(const Range&) const = default;
};

/// Element where part `index` of `of` begins in a vector of `count` elements: parts differ by at most one element.
inline std::size_t part_begin(std::size_t count, int index, int of) {
  return count * static_cast<std::size_t>(index) / static_cast<std::size_t>(of);
}

enum class Effect { combine, copy };

/// Moves a range from one place to another. Places 0..ranks-1 are the vectors of the ranks; higher ones are the
/// schedule's `extras`. Who acts: a read is done by the destination, a write by the source.
struct Transfer {
  int src = 0;
  int dst = 0;
  Range from;
  Range to;
  Effect effect = Effect::copy;
  Operation operation = Operation::write;
};

/// How a phase knows that its inputs are there.
///   none     it does not depend on another rank
///   data     each receiver waits for what it receives (flags or marker values travel with the data)
///   barrier  all ranks have arrived
enum class Sync { none, data, barrier };

/// Transfers that may all be in flight together. Each sees the state before the phase.
struct Phase {
  std::string name;
  Sync sync = Sync::data;
  std::vector<Transfer> transfers;
  /// It hands on, piece by piece, what the phase before it brings: both use the links at the same time.
  bool streamed = false;
  /// Sums travel unrounded, as fp32.
  bool fp32 = false;
};

/// A buffer that is not a rank's own vector: pinned host memory beside a rank, or the reducing switch.
struct Extra {
  enum class Kind { host_buffer, nvswitch } kind = Kind::host_buffer;
  int rank = 0;  // beside this rank
};

struct Schedule {
  std::string name;
  Collective kind = Collective::all_reduce;
  int ranks = 1;
  std::vector<Extra> extras;
  std::vector<Phase> phases;
  bool end_barrier = false;  // needed before a peer may reuse what was read

  int places() const { return ranks + static_cast<int>(extras.size()); }
};

/// What a schedule looks like, for tables and tests.
struct ScheduleCounts {
  int phases = 0;
  int transfers = 0;
  int most_in_flight = 0;  // transfers of the busiest phase
  double bytes = 0;        // moved in all, as multiples of the message
};
ScheduleCounts count(const Schedule& schedule);

/// Bytes on the wire for a payload. What the receiver needs in order to know that data has arrived.
///   plain     payload only; arrival by barriers or flags
///   sentinel  16-byte packs, marker values replaced at the sender: no extra bytes
///   ll        8 payload bytes in each 16
///   ll128     120 payload bytes in each 128 (needs 128-byte store atomicity: NVLink only)
///   fp8       one byte a value and a 4-byte scale for each 256 values
enum class Wire { plain, sentinel, ll, ll128, fp8 };
/// Wire bytes for one payload byte of values of `value_bytes` each.
double wire_factor(Wire wire, double value_bytes);

}  // namespace specstep::comm

namespace specstep {
template <>
struct EnumNames<comm::Collective> {
  static std::vector<std::string> names() { return {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}; }
};
template <>
struct EnumNames<comm::Wire> {
  static std::vector<std::string> names() { return {"plain", "sentinel", "ll", "ll128", "fp8"}; }
};
}  // namespace specstep
