#include "sim/comm_served.h"

#include "comm/backend.h"
#include "comm/island_plan.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep {

namespace {
std::string key_of(const CommSpec& comm, std::int64_t bytes) {
  const std::vector<CommRule>& rows = comm.rows();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].up_to_kib || static_cast<double>(bytes) <= *rows[i].up_to_kib * 1024)
      return formatted("comm.{}table[{}].backend", comm.table_file ? "table_file." : "", i);
  return "comm.backend";
}
}  // namespace

const std::vector<std::vector<int>>* asked_islands(const CommSpec& comm, std::int64_t ranks) {
  const bool asked = comm.own && !comm.own->islands.empty() && comm::ranks_of(comm.own->islands) == ranks;
  return asked ? &comm.own->islands : nullptr;
}

std::optional<std::string> backend_refusal(const CommSpec& comm, const std::string& backend,
                                           const comm::Topology& topology, const comm::Call& call) {
  const auto* islands = backend == "island" ? asked_islands(comm, call.ranks) : nullptr;
  return islands ? comm::refusal_in(*islands, topology, call) : comm::refusal(backend, topology, call);
}

void require_served(const CommSpec& comm, const comm::Topology& topology, const comm::Call& call) {
  const std::string& id = comm.pick(call.bytes);
  if (is_comm_choice(id)) return;
  if (const auto reason = backend_refusal(comm, id, topology, call))
    throw InputError(Issue{{},
                           key_of(comm, call.bytes),
                           formatted("cannot carry {} of {} B: {}", name_of(call.kind), grouped(call.bytes), *reason),
                           "a backend that can, see 'specstep list --backends'"});
}

}  // namespace specstep
