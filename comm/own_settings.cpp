#include "comm/own_settings.h"

#include <algorithm>
#include <vector>

#include "comm/island_plan.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {
void must_be_one_of(const std::vector<std::string>& names, const char* key, const std::string& value, Checker& c) {
  if (std::find(names.begin(), names.end(), value) != names.end()) return;
  c.fail(key, formatted("unknown '{}'{}", value, did_you_mean(value, names)), one_of(names));
}
}  // namespace

void describe(Fields& f, OwnSettings& s) {
  f.optional("wire", s.wire, "push1: sentinel (data that cannot be a marker) or ll (a flag beside each 4 bytes)");
  f.optional("transfer", s.transfer, "rsag: push (ranks write to each other) or pull (they read, between barriers)");
  f.optional("blocks", s.blocks, "thread blocks of a call at most; 0: chosen by size and by ranks that share a GPU",
             {.min = 0, .max = 64});
  f.optional("largest_kib", s.largest_kib, "KiB of a call in one piece, which sizes the inboxes; 0: chosen",
             {.min = 0, .max = 65536});
  f.optional("islands", s.islands,
             "island: lists of ranks, equally long, each rank once; those at the same place of their lists exchange. "
             "Empty: the "
             "cheapest division by the fabric's switches, roots or sockets",
             {.min = 0, .max = 7});
  f.optional("nvls", s.nvls, "nvls: true allows sums in the NVLink switch; it is not used otherwise");
}

void check(const OwnSettings& s, Checker& c) {
  must_be_one_of({"sentinel", "ll"}, "wire", s.wire, c);
  must_be_one_of({"push", "pull"}, "transfer", s.transfer, c);
  if (const auto fault = division_fault(s.islands)) c.fail("islands" + fault->key, fault->what, fault->allowed);
}

std::string text_of_islands(const std::vector<std::vector<int>>& islands) {
  if (islands.empty()) return "from the fabric";
  std::string text;
  for (const auto& members : islands) {
    text += text.empty() ? "{" : " {";
    for (std::size_t j = 0; j < members.size(); ++j) text += formatted("{}{}", j == 0 ? "" : " ", members[j]);
    text += "}";
  }
  return text;
}

std::string text_of(const OwnSettings& s) {
  return formatted("wire {}, transfer {}, blocks {}, largest {} KiB, islands {}, nvls {}", s.wire, s.transfer, s.blocks,
                   s.largest_kib, text_of_islands(s.islands), s.nvls ? "allowed" : "not allowed");
}

}  // namespace specstep::comm
