// One allreduce measured on devices: what is asked, and what was found. The CUDA module carries it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl_settings.h"
#include "comm/own_settings.h"
#include "comm/topology.h"
#include "model/base/dtype.h"

namespace specstep::comm {

/// For seeing the watchdog at work: this rank puts down no call from this one on, counted from 0.
struct CommFault {
  int rank = 0;
  int call = 0;
  int ranks = 0;  // only among so many ranks; 0: whatever their number
};

struct MeasureRequest {
  int ranks = 0;                      // 0: as many as devices, or as processes
  std::vector<int> devices;           // of the ranks of this host, in order; empty: one each
  std::vector<std::string> backends;  // empty: all but those that exchange nothing
  std::vector<std::int64_t> sizes;    // bytes, of whole values
  DType dtype = DType::bf16;
  int calls = 122;             // in a graph, or of an eager round: the in-layer allreduces of a 61-layer model
  int replays = 100;           // at most
  double seconds_each = 0.25;  // for the replays of one backend, size and condition; three replays always
  bool graph = true, cold = true, eager = true;
  bool norm = false;          // also with the residual sum and the norm of the rows, in one kernel and as two
  std::int64_t width = 7168;  // values in a row of these
  bool check_only = false;
  OwnSettings own;
  NcclSettings nccl;
  const Topology* target = nullptr;  // delay: the fabric that is waited for; outlives the measurement
  double wait_limit_seconds = 30;
  std::function<void(const std::string&)> progress;  // told what comes next, on the process that reports
  std::optional<CommFault> fault;                    // then only the graph of the first size is run
};

/// Seconds of one call on the slowest rank: of a replay, divided by its calls. p99 of few replays is the slowest one.
struct Timing {
  double least = 0, median = 0, p99 = 0;
  int calls = 0, replays = 0;
};

/// Conditions of a timing. warm: one array, used again and again. cold: a rank of each device sweeps its cache before
/// every call, and what the sweep takes alone is subtracted. fused: allreduce, residual sum and norm in one kernel;
/// pair: the allreduce and a kernel for the rest; both in a graph like `graph`, for sizes of whole rows.
struct MeasuredSize {
  std::int64_t bytes = 0;
  std::string refusal;       // why there is nothing else
  std::int64_t checked = 0;  // values on all ranks, by eager calls and by a graph
  std::int64_t wrong = 0;    // of them; backends that are not exact: beyond the bound of their rounding
  double largest_error = 0;  // of a value
  std::optional<Timing> graph, cold, eager, fused, pair;
};

struct MeasuredBackend {
  std::string id;
  std::string refusal;                // it cannot run here
  std::vector<std::string> failures;  // what ranks said when it failed, each once
  std::vector<std::string> notes;
  std::int64_t device_bytes = 0;  // of a rank
  std::vector<MeasuredSize> sizes;
};

/// What to look at when calls of a backend did not end, or nothing when that is not how it failed.
std::string hang_hint(const MeasuredBackend& backend);

struct Measurement {
  int ranks = 0;
  DType dtype = DType::bf16;
  std::optional<OwnSettings> own;  // of our own backends, where kernels of ours were measured
  int ranks_per_device = 1;        // most
  std::vector<MeasuredBackend> backends;
};

/// Times in any order, of which there is at least one, as a Timing of `calls` calls each.
Timing timing_of(std::vector<double> seconds, int calls);

/// Integers that sums of any order give exactly in f32, f16 and bf16: up to 256 of sums over `ranks` ranks. `round`
/// tells calls apart.
int check_value(int rank, int ranks, std::int64_t index, int round);
/// A rank's values, or the sum of all, encoded. Types f32, f16, bf16.
std::vector<std::byte> check_values(int rank, int ranks, std::int64_t count, DType dtype, int round);
std::vector<std::byte> check_sums(int ranks, std::int64_t count, DType dtype, int round);

struct SumFaults {
  std::int64_t wrong = 0;
  double largest_error = 0;
};
/// `got` against the sums, bit by bit. Of backends that are not exact values are right within `rounding`, a share of
/// the sum of the magnitudes; 0 for exact ones.
SumFaults faults_of_sums(const std::vector<std::byte>& got, int ranks, DType dtype, int round, double rounding);

}  // namespace specstep::comm
