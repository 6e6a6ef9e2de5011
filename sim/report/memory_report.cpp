#include "sim/report/memory_report.h"

#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep {

using Json = nlohmann::ordered_json;

std::string memory_text(const MemoryBudget& b) {
  std::string out = formatted("\nmemory of one GPU, GiB ({}: {})\n", b.rule, b.source);
  for (const MemoryTerm& t : memory_terms(b)) out += formatted("  {:<20} {:>9.3f}  {}\n", t.name, t.bytes / gib, t.how);
  for (const MemoryComparison& c : b.compared) {
    const bool tokens = c.unit == "tokens";
    const auto text = [&](double value) { return formatted("{:.{}f}", value, tokens ? 0 : 3); };
    out += formatted("  reported: {} {} {}, modelled {}, unexplained {}\n", c.name, text(c.reported), c.unit,
                     text(c.modelled), text(c.unexplained()));
  }
  return out;
}

Json memory_json(const MemoryBudget& b) {
  Json reserve = Json::array(), terms = Json::array(), compared = Json::array();
  for (const ReserveTerm& t : b.fraction.terms) reserve.push_back({{"what", t.what}, {"mib", t.mib}});
  for (const MemoryTerm& t : memory_terms(b))
    terms.push_back({{"name", t.name}, {"gib", t.bytes / gib}, {"how", t.how}, {"given", t.given}});
  for (const MemoryComparison& c : b.compared)
    compared.push_back({{"name", c.name},
                        {"unit", c.unit},
                        {"reported", c.reported},
                        {"modelled", c.modelled},
                        {"unexplained", c.unexplained()}});
  return {{"rule", b.rule},
          {"source", b.source},
          {"fraction", b.fraction.value},
          {"automatic", b.automatic},
          {"reserve", std::move(reserve)},
          {"vision_factor", b.fraction.vision_factor},
          {"terms", std::move(terms)},
          {"kv_bytes_per_token", b.kv_per_token},
          {"kv_bytes_per_sequence", b.kv_per_sequence},
          {"kv_tokens", b.kv_tokens},
          {"largest_batch", b.largest_batch},
          {"compared", std::move(compared)}};
}

}  // namespace specstep
