// The door of comm/ for whoever needs the time of a collective.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/own_settings.h"
#include "comm/schedule.h"
#include "comm/topology.h"
#include "model/base/dtype.h"

namespace specstep::comm {

/// One collective call. `bytes`: all_reduce, reduce_scatter: the whole vector held by each rank; all_gather: the part
/// each rank contributes; all_to_all: what each rank sends in all.
struct Call {
  Collective kind = Collective::all_reduce;
  int ranks = 1;
  std::int64_t bytes = 0;
  DType dtype = DType::bf16;
  bool captured = true;  // in a CUDA graph; false: launched eagerly
  /// Given: specstep's own kernels with these settings, where the fabric knows their steps. Else, and elsewhere, what
  /// serving engines ship.
  std::optional<OwnSettings> own = {};
  bool norm = false;  // our kernel goes on with the residual sum and the norm of the rows
};

/// Where a price comes from: a measurement, a formula with a fitted constant, published constants alone, or an
/// assumption that nobody backs.
enum class Provenance { measured, fit, datasheet, assumed };

/// Isolated time of one call: ranks aligned, calls back to back in a graph (captured) or launched eagerly.
struct CommPrice {
  double seconds = 0;
  std::string algorithm;
  std::string bottleneck;
  Provenance provenance = Provenance::datasheet;
  bool extrapolated = false;  // outside the sizes and rank counts that the model was checked at
};

/// A row of the one table of backends; see backends.h.
struct BackendRow;
/// All backends, in the order of reports. Ids: nccl nccl_sym nccl_dev push1 pull1 rsag island hostbc ring ce q8 nvls
/// null delay.
const std::vector<BackendRow>& backends();

/// Why a backend cannot serve this call on this topology, or nothing. An unknown id is answered with the ids there are.
std::optional<std::string> refusal(const std::string& id, const Topology& topology, const Call& call);

/// Throws InputError with the reason when refused. One rank costs nothing.
CommPrice price(const std::string& id, const Topology& topology, const Call& call);

/// No exact allreduce can be faster than this: 2 (n - 1) / n of the message through the fastest link of the slowest
/// GPU, plus one kernel node. A measured time below it launched nothing or moved nothing.
double least_allreduce_seconds(const Topology& topology, const Call& call);

/// Prices many calls on one topology: prepares each (backend, kind, ranks, dtype, own, norm) once. Not shared between
/// threads.
class Pricer {
 public:
  explicit Pricer(Topology topology);
  ~Pricer();
  Pricer(Pricer&&) noexcept;
  Pricer& operator=(Pricer&&) noexcept;
  CommPrice price(const std::string& id, const Call& call);
  const Topology& topology() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace specstep::comm

namespace specstep {
template <>
struct EnumNames<comm::Provenance> {
  static std::vector<std::string> names() { return {"measured", "fit", "datasheet", "assumed"}; }
};
}  // namespace specstep
