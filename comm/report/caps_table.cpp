#include "comm/report/caps_table.h"

#include <nlohmann/json.hpp>

#include "comm/backend.h"
#include "comm/caps.h"
#include "comm/footprint.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

const char* mark(bool yes) { return yes ? "yes" : "-"; }

std::string memory(std::size_t bytes, bool known) {
  if (!known) return "?";
  return bytes == 0 ? "-" : formatted("{:.2f}", static_cast<double>(bytes) / mib);
}

std::string most(int ranks) { return ranks > 512 ? "any" : std::to_string(ranks); }

std::string row_text(const std::string& id, int ranks, std::int64_t largest_bytes) {
  const Caps& c = caps_of(id);
  const Footprint f = footprint_of(id, ranks, largest_bytes);
  return formatted("{:<9}{:>6}{:>6}{:>6}{:>5}{:>5}{:>5}{:>6}{:>5}{:>5}{:>6}{:>6}{:>6}{:>8}{:>8}{:>8}\n", id,
                   mark(c.graph), mark(c.processes), mark(c.share_gpu), mark(c.needs_p2p), mark(c.needs_nvlink),
                   mark(c.needs_host_memory), mark(c.exchanges && c.lossless), mark(c.fp32), mark(c.fused_rmsnorm),
                   mark(c.same_every_run), mark(c.same_on_all_ranks), most(c.max_ranks), memory(f.device, f.known),
                   memory(f.host_pinned, f.known), memory(f.mapped_peer, f.known));
}

}  // namespace

std::string caps_text(int ranks, std::int64_t largest_bytes) {
  std::string text = formatted("{:<9}{:>6}{:>6}{:>6}{:>5}{:>5}{:>5}{:>6}{:>5}{:>5}{:>6}{:>6}{:>6}{:>8}{:>8}{:>8}\n", "",
                               "graph", "procs", "share", "p2p", "nvl", "host", "exact", "fp32", "norm",
                               "runs=", "rank=", "ranks", "device", "pinned", "mapped");
  for (const BackendRow& row : backends()) text += row_text(row.id, ranks, largest_bytes);
  text +=
      "\ngraph: calls can be captured. procs: ranks may be processes. share: ranks may share a GPU.\n"
      "Needs: p2p (all reach each other's memory), nvl (NVLink), host (pinned memory). exact: no codec.\n"
      "fp32: of partial sums. norm: residual and RMSNorm in the same kernel. runs=, rank=: equal bits in\n"
      "every run, on all ranks. All work in place, on f32, f16 and bf16, at any whole number of values.\n";
  text += formatted("Memory: MiB of a rank among {}, calls of {} in one piece; ?: known once it is open.\n\n", ranks,
                    bytes_text(static_cast<double>(largest_bytes)));
  for (const BackendRow& row : backends()) {
    const Caps& c = caps_of(row.id);
    text += formatted("{:<9} {}\n  {}\n", row.id, row.summary, determinism_text(c));
    if (!c.limits.empty()) text += formatted("  {}\n", c.limits);
  }
  return text;
}

nlohmann::ordered_json caps_json(int ranks, std::int64_t largest_bytes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const BackendRow& row : backends()) {
    const Caps& c = caps_of(row.id);
    const Footprint f = footprint_of(row.id, ranks, largest_bytes);
    nlohmann::ordered_json memory{{"ranks", ranks}, {"largest_bytes", largest_bytes}, {"known", f.known}};
    if (f.known) memory.update({{"device", f.device}, {"host_pinned", f.host_pinned}, {"mapped_peer", f.mapped_peer}});
    out.push_back({{"name", row.id},
                   {"summary", row.summary},
                   {"exchanges", c.exchanges},
                   {"in_place", c.in_place},
                   {"graph", c.graph},
                   {"processes", c.processes},
                   {"share_gpu", c.share_gpu},
                   {"needs_p2p", c.needs_p2p},
                   {"needs_nvlink", c.needs_nvlink},
                   {"needs_host_memory", c.needs_host_memory},
                   {"lossless", c.lossless},
                   {"fp32_accumulate", c.fp32},
                   {"fused_rmsnorm", c.fused_rmsnorm},
                   {"max_ranks", c.max_ranks},
                   {"alignment", c.alignment},
                   {"dtypes", c.dtypes},
                   {"same_every_run", c.same_every_run},
                   {"same_on_all_ranks", c.same_on_all_ranks},
                   {"rank_order", c.rank_order},
                   {"determinism", determinism_text(c)},
                   {"limits", c.limits},
                   {"memory", std::move(memory)}});
  }
  return out;
}

}  // namespace specstep::comm
