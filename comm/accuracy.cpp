// Pricing a table of measurements, and the report of it.
#include "comm/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "comm/pricing.h"
#include "comm/table/csv.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

template <class E>
E choice(const CsvTable& table, const CsvRow& row, const std::string& column) {
  const auto names = EnumNames<E>::names();
  const std::string& text = row.cells[table.column(column)];
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw InputError({table.place(row), column, "'" + text + "'", one_of(names)});
  return static_cast<E>(found - names.begin());
}

AccuracyRow read_row(const CsvTable& table, const CsvRow& row) {
  const auto text = [&](const char* name) { return row.cells[table.column(name)]; };
  AccuracyRow r{text("id"), text("group"), text("fabric"), text("backend"), text("mode"), text("source")};
  r.measured = table.number(row, table.column("us")) * 1e-6;
  r.scored = choice<Scored>(table, row, "scored");
  if (r.mode != "graph" && r.mode != "eager")
    throw InputError({table.place(row), "mode", "'" + r.mode + "'", "graph or eager"});
  r.call = {.kind = choice<Collective>(table, row, "collective"),
            .ranks = static_cast<int>(table.whole(row, table.column("ranks"))),
            .bytes = table.whole(row, table.column("bytes")),
            .captured = r.mode == "graph"};
  if (!table.has("own")) return r;
  ReadOptions how;
  if (!text("own").empty()) how.overrides.push_back(parse_override(text("own")));
  r.call.own = read_config<OwnSettings>(yaml::parse("{}", table.file()), how);
  r.call.norm = text("fusion") == "rmsnorm";
  return r;
}

double quantile(std::vector<double> sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::string percent(double fraction) { return formatted("{:.1f} %", 100 * fraction); }

std::string stats_table(const std::vector<ErrorStats>& groups) {
  std::string text = "| group | rows | median | p90 | largest | bias |\n|---|---|---|---|---|---|\n";
  for (const ErrorStats& g : groups)
    text += formatted("| {} | {} | {} | {} | {} | {:+.1f} % |\n", g.name, g.count, percent(g.median), percent(g.p90),
                      percent(g.largest), 100 * g.bias);
  return text;
}

}  // namespace

std::vector<AccuracyRow> predict_table(const std::string& path, const ConfigLibrary& library) {
  const CsvTable table = CsvTable::load(path);
  std::map<std::string, Pricer> pricers;
  std::vector<AccuracyRow> rows;
  for (const CsvRow& row : table.rows()) {
    AccuracyRow r = read_row(table, row);
    auto found = pricers.find(r.fabric);
    if (found == pricers.end()) {
      const auto file = library.find(r.fabric, "fabrics", path, table.place(row), "fabric");
      found = pricers.emplace(r.fabric, Pricer(build_topology(load_config<FabricSpec>(file)))).first;
    }
    const CommPrice price = found->second.price(r.backend, r.call);
    r.predicted = price.seconds;
    r.algorithm = price.algorithm;
    rows.push_back(std::move(r));
  }
  return rows;
}

ErrorStats errors_of(const std::string& name, const std::vector<const AccuracyRow*>& rows) {
  ErrorStats stats{name, static_cast<int>(rows.size())};
  std::vector<double> sizes;
  for (const AccuracyRow* row : rows) {
    sizes.push_back(std::abs(row->error()));
    stats.bias += row->error() / static_cast<double>(rows.size());
  }
  if (sizes.empty()) return stats;
  std::sort(sizes.begin(), sizes.end());
  stats.median = quantile(sizes, 0.5);
  stats.p90 = quantile(sizes, 0.9);
  stats.largest = sizes.back();
  return stats;
}

std::vector<ErrorStats> group_errors(const std::vector<AccuracyRow>& rows, const std::vector<Scored>& kinds) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const AccuracyRow*>> groups;
  for (const AccuracyRow& row : rows) {
    if (std::find(kinds.begin(), kinds.end(), row.scored) == kinds.end()) continue;
    if (!groups.contains(row.group)) order.push_back(row.group);
    groups[row.group].push_back(&row);
  }
  std::vector<ErrorStats> stats;
  stats.reserve(order.size());
  for (const std::string& name : order) stats.push_back(errors_of(name, groups[name]));
  return stats;
}

std::string accuracy_report(const std::vector<AccuracyRow>& rows) {
  std::vector<AccuracyRow> others, own;
  for (const AccuracyRow& row : rows) (row.call.own ? own : others).push_back(row);
  const auto table = [](const std::vector<AccuracyRow>& some, const std::vector<Scored>& kinds) {
    return stats_table(group_errors(some, kinds));
  };
  std::string text = "## Scored\n\n" + table(others, {Scored::yes}) + "\n## Listed, not scored\n\n" +
                     table(others, {Scored::order, Scored::outlier, Scored::listed, Scored::fitted});
  if (!own.empty())
    text += "\n## Own kernels, held out\n\nUp to 1 MiB; no constant was fitted to these rows.\n\n" +
            table(own, {Scored::yes}) + "\n## Own kernels, fitted to\n\n" + table(own, {Scored::fitted}) +
            "\n## Own kernels, above 1 MiB\n\nHeld out as well; not promised.\n\n" + table(own, {Scored::listed});
  text += "\n## Row by row\n";
  std::string group;
  for (const AccuracyRow& r : rows) {
    if (r.group != group) {
      group = r.group;
      text += formatted("\n### {}\n\nfabric {}, backend {}, {} on {} ranks, {}\n\n", group, r.fabric, r.backend,
                        name_of(r.call.kind), r.call.ranks, r.mode);
      text += "| bytes | measured us | predicted us | error | scored | algorithm |\n|---|---|---|---|---|---|\n";
    }
    text += formatted("| {} | {:.2f} | {:.2f} | {:+.1f} % | {} | {} |\n", r.call.bytes, r.measured * 1e6,
                      r.predicted * 1e6, 100 * r.error(), name_of(r.scored), r.algorithm);
  }
  return text;
}

}  // namespace specstep::comm
