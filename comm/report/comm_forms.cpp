// The comm table as text, CSV and JSON.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "comm/report/comm_table.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

std::vector<std::string> backends_of(const CommTable& table) {
  std::vector<std::string> ids;
  for (const CommRow& row : table.rows)
    if (std::find(ids.begin(), ids.end(), row.backend) == ids.end()) ids.push_back(row.backend);
  return ids;
}

const CommRow* find(const CommTable& table, const std::string& id, std::int64_t bytes) {
  for (const CommRow& row : table.rows)
    if (row.backend == id && row.bytes == bytes) return &row;
  return nullptr;
}

std::set<std::int64_t> sizes_of(const CommTable& table) {
  std::set<std::int64_t> sizes;
  for (const CommRow& row : table.rows) sizes.insert(row.bytes);
  return sizes;
}

/// Names and times of a table with one width for its columns.
std::size_t column_width(const CommTable& table) {
  std::size_t width = 9;
  for (const CommRow& row : table.rows)
    width = std::max({width, row.backend.size(), formatted("{:.2f}", row.seconds * 1e6).size()});
  return width;
}

std::string launch_text(const CommTable& table) {
  return !table.mode_known     ? "launch not given (graph or eager)"
         : table.call.captured ? "in a CUDA graph"
                               : "launched eagerly";
}

std::string mode_of(const CommTable& table) {
  return !table.mode_known ? "unknown" : table.call.captured ? "graph" : "eager";
}

}  // namespace

std::string times_text(const CommTable& table) {
  const std::vector<std::string> ids = backends_of(table);
  const std::size_t width = column_width(table);
  std::string text = formatted("{:>12}", "us");
  for (const std::string& id : ids) text += formatted(" {:>{}}", id, width);
  text += "  best\n";
  for (std::int64_t bytes : sizes_of(table)) {
    text += formatted("{:>12}", grouped(bytes));
    const CommRow* best = nullptr;
    for (const std::string& id : ids) {
      const CommRow* row = find(table, id, bytes);
      text += row ? formatted(" {:>{}.2f}", row->seconds * 1e6, width) : formatted(" {:>{}}", "-", width);
      const bool real = row && id != "null" && id != "delay" && id != "q8" && row->algorithm != "out of line, not used";
      if (real && (!best || row->seconds < best->seconds)) best = row;
    }
    text += formatted("  {}\n", best ? best->backend : "-");
  }
  return text;
}

namespace {

std::string link_text(const CommRow& row) {
  std::string text;
  for (const auto& [kind, bytes] : row.link_bytes)
    text += formatted("{}{} {}", text.empty() ? "" : ", ", name_of(kind), bytes_text(bytes));
  return text.empty() ? "-" : text;
}

std::string details_text(const CommTable& table, std::int64_t bytes) {
  const std::size_t width = column_width(table);
  std::string text =
      formatted("at {}\n{:<9} {:>{}} {:>9} {:>9}  {:<26} {:<34} {}\n", bytes_text(static_cast<double>(bytes)),
                "backend", "us", width, "alg GB/s", "bus GB/s", "algorithm", "held back by", "bytes over links");
  for (const CommRow& row : table.rows) {
    if (row.bytes != bytes) continue;
    text += formatted("{:<9} {:>{}.2f} {:>9.2f} {:>9.2f}  {:<26} {:<34} {}{}{}\n", row.backend, row.seconds * 1e6,
                      width, row.algorithm_gb_s, row.bus_gb_s, row.algorithm, row.bottleneck, link_text(row),
                      row.extrapolated ? "  (extrapolated)" : "",
                      row.provenance == Provenance::assumed ? "  (assumed)" : "");
  }
  return text;
}

/// Errors of predictions are fractions of what was measured.
nlohmann::ordered_json device_json(const CommRow& r) {
  const DeviceRow& d = *r.device;
  nlohmann::ordered_json out{{"cache", d.cold ? "cold" : "warm"},
                             {"calls", d.calls},
                             {"replays", d.replays},
                             {"checked", d.checked},
                             {"wrong", d.wrong}};
  if (!d.norm.empty()) out["norm"] = d.norm;
  if (!d.predicted) return out;
  out["predicted_seconds"] = *d.predicted;
  if (r.seconds > 0) out["error"] = *d.predicted / r.seconds - 1;
  return out;
}

}  // namespace

std::string comm_text(const CommTable& table) {
  const std::string ranks =
      table.call.ranks > 0 ? formatted(" on {} rank{}", table.call.ranks, table.call.ranks == 1 ? "" : "s") : "";
  std::string text = formatted("{}\n{}{}, {}\n\n", table.title, name_of(table.call.kind), ranks, launch_text(table)) +
                     times_text(table) + "\n";
  const bool measured = !table.rows.empty() && table.rows.front().provenance == Provenance::measured;
  if (!measured && !table.rows.empty()) {
    const auto sizes = sizes_of(table);
    text += details_text(table, *std::next(sizes.begin(), static_cast<std::ptrdiff_t>(sizes.size() / 2))) + "\n";
  }
  text += crossovers_text(table);
  for (const std::string& note : table.notes) text += "note: " + note + "\n";
  return text;
}

std::string crossovers_text(const CommTable& table) {
  std::string text;
  for (const Crossover& x : table.against)
    text += formatted("{} against {} alone: cheaper up to about {} ({} to {})\n", x.below, x.above, bytes_text(x.at),
                      bytes_text(x.low), bytes_text(x.high));
  for (const Crossover& x : table.changes)
    text += formatted("best up to about {} is {}, above it {}; not to be told apart from {} to {}\n", bytes_text(x.at),
                      x.below, x.above, bytes_text(x.low), bytes_text(x.high));
  return text;
}

std::string comm_csv(const std::vector<CommTable>& tables) {
  const bool devices = !tables.empty() && !tables.front().rows.empty() && tables.front().rows.front().device;
  std::string text =
      "backend,ranks,bytes,mode,seconds,low,high,bottleneck,algorithm,algorithm_gb_s,bus_gb_s,provenance";
  text += devices ? ",cache,calls,replays,checked,wrong,predicted_seconds,norm\n" : "\n";
  for (const CommTable& table : tables)
    for (const CommRow& r : table.rows) {
      text += formatted("{},{},{},{},{:.9g},{:.9g},{:.9g},\"{}\",\"{}\",{:.6g},{:.6g},{}", r.backend, r.ranks, r.bytes,
                        mode_of(table), r.seconds, r.low, r.high, r.bottleneck, r.algorithm, r.algorithm_gb_s,
                        r.bus_gb_s, name_of(r.provenance));
      if (const auto& d = r.device)
        text += formatted(",{},{},{},{},{},{},{}", d->cold ? "cold" : "warm", d->calls, d->replays, d->checked,
                          d->wrong, d->predicted ? formatted("{:.9g}", *d->predicted) : "", d->norm);
      text += '\n';
    }
  return text;
}

nlohmann::ordered_json comm_json(const std::vector<CommTable>& tables) {
  using Json = nlohmann::ordered_json;
  Json out{
      {"schema", "specstep.comm/1"}, {"rows", Json::array()}, {"crossovers", Json::array()}, {"notes", Json::array()}};
  for (const CommTable& table : tables) {
    for (const CommRow& r : table.rows) {
      Json links = Json::object();
      for (const auto& [kind, bytes] : r.link_bytes) links[name_of(kind)] = bytes;
      out["rows"].push_back({{"backend", r.backend},
                             {"collective", name_of(table.call.kind)},
                             {"dtype", table.dtype_known ? name_of(table.call.dtype) : "unknown"},
                             {"ranks", r.ranks},
                             {"bytes", r.bytes},
                             {"mode", mode_of(table)},
                             {"seconds", r.seconds},
                             {"low", r.low},
                             {"high", r.high},
                             {"bottleneck", r.bottleneck},
                             {"algorithm_gb_s", r.algorithm_gb_s},
                             {"bus_gb_s", r.bus_gb_s},
                             {"provenance", name_of(r.provenance)},
                             {"algorithm", r.algorithm},
                             {"extrapolated", r.extrapolated},
                             {"link_bytes", links},
                             {"from", table.title}});
      if (r.device) out["rows"].back().update(device_json(r));
    }
    for (const auto& [list, among] : {std::pair{&table.changes, "all"}, std::pair{&table.against, "two"}})
      for (const Crossover& x : *list)
        out["crossovers"].push_back({{"below", x.below},
                                     {"above", x.above},
                                     {"bytes", x.at},
                                     {"low", x.low},
                                     {"high", x.high},
                                     {"among", among},
                                     {"from", table.title}});
    for (const std::string& note : table.notes) out["notes"].push_back(note);
  }
  return out;
}

}  // namespace specstep::comm
