#include "sim/comm_served.h"

#include "comm/backend.h"
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

void require_served(const CommSpec& comm, const comm::Topology& topology, const comm::Call& call) {
  const std::string& id = comm.pick(call.bytes);
  if (is_comm_choice(id)) return;
  if (const auto reason = comm::refusal(id, topology, call))
    throw InputError(Issue{{},
                           key_of(comm, call.bytes),
                           formatted("cannot carry {} of {} B: {}", name_of(call.kind), grouped(call.bytes), *reason),
                           "a backend that can, see 'specstep list --backends'"});
}

}  // namespace specstep
