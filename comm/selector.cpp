// The choice is a shortest path: sizes in order, a node for each backend that has a time there, and a toll for
// changing.
#include "comm/selector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "comm/dispatch.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::int64_t pack_bytes = 16;
constexpr double same_speed = 0.03;  // of two measurements: the band of a crossover

std::vector<std::int64_t> sizes_of(const std::vector<Curve>& curves) {
  std::vector<std::int64_t> sizes;
  for (const Curve& curve : curves)
    for (const auto& [bytes, seconds] : curve.points) sizes.push_back(bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// losses[size][curve]: log of time over best time, or never.
std::vector<std::vector<double>> losses_of(const std::vector<Curve>& curves, const std::vector<std::int64_t>& sizes) {
  std::vector<std::vector<double>> losses;
  for (const std::int64_t bytes : sizes) {
    std::vector<double> seconds;
    seconds.reserve(curves.size());
    for (const Curve& curve : curves) seconds.push_back(value_at(curve, static_cast<double>(bytes)).value_or(never));
    const double best = *std::min_element(seconds.begin(), seconds.end());
    for (double& one : seconds) one = one == never ? never : std::log(one / best);
    losses.push_back(std::move(seconds));
  }
  return losses;
}

/// The curve of each size on the cheapest path. Of equal paths the one that changes later.
std::vector<std::size_t> cheapest_path(const std::vector<std::vector<double>>& losses, double toll) {
  const std::size_t curves = losses.front().size();
  std::vector<double> cost = losses.front();
  std::vector<std::vector<std::size_t>> from;
  for (std::size_t i = 1; i < losses.size(); ++i) {
    const auto best = static_cast<std::size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
    std::vector<double> next(curves, never);
    std::vector<std::size_t> came(curves, best);
    for (std::size_t c = 0; c < curves; ++c) {
      const bool stays = cost[c] <= cost[best] + toll;
      came[c] = stays ? c : best;
      next[c] = (stays ? cost[c] : cost[best] + toll) + losses[i][c];
    }
    cost = std::move(next);
    from.push_back(std::move(came));
  }
  std::vector<std::size_t> path{static_cast<std::size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin())};
  for (std::size_t i = from.size(); i-- > 0;) path.push_back(from[i][path.back()]);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Where `below` ends between two sizes: at their crossing, or at the lower size where they do not cross there.
Crossover change_between(const Curve& below, const Curve& above, double low, double high) {
  const auto within = [&](const Crossover& x) { return x.at >= low && x.at <= high; };
  const std::vector<Crossover> all = crossovers({below, above}, same_speed);
  const auto found = std::find_if(all.begin(), all.end(), within);
  if (found != all.end()) return *found;
  return {below.name, above.name, low, low, high};
}

}  // namespace

const std::string& Selection::pick(std::int64_t bytes) const {
  for (const SelectedRow& row : rows)
    if (!row.up_to_bytes || bytes <= *row.up_to_bytes) return row.backend;
  throw InputError({{}, "comm.table", "a table without rows picks no backend", ""});
}

Selection select(const std::vector<Curve>& all, double must_save) {
  std::vector<Curve> curves;
  for (const Curve& curve : all)
    if (!curve.points.empty()) curves.push_back(curve);
  Selection out;
  const std::vector<std::int64_t> sizes = sizes_of(curves);
  if (sizes.empty()) return out;
  const std::vector<std::size_t> path = cheapest_path(losses_of(curves, sizes), std::log1p(must_save));
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (path[i] == path[i + 1]) continue;
    Crossover change = change_between(curves[path[i]], curves[path[i + 1]], static_cast<double>(sizes[i]),
                                      static_cast<double>(sizes[i + 1]));
    const auto limit = std::max(sizes[i], static_cast<std::int64_t>(change.at) / pack_bytes * pack_bytes);
    out.rows.push_back({limit, curves[path[i]].name});
    out.crossovers.push_back(std::move(change));
  }
  out.rows.push_back({std::nullopt, curves[path.back()].name});
  return out;
}

std::vector<Curve> curves_to_select(const Measurement& measured) {
  std::vector<Curve> curves;
  for (const MeasuredBackend& backend : measured.backends) {
    if (!gives_sum(backend.id)) continue;
    Curve curve{backend.id, {}};
    for (const MeasuredSize& size : backend.sizes) {
      if (size.wrong > 0 || size.checked == 0) continue;
      const Timing* graph = size.graph ? &*size.graph : nullptr;
      const Timing* cold = size.cold ? &*size.cold : nullptr;
      double seconds = 0;
      if (graph && cold)
        seconds = (graph->median + cold->median) / 2;
      else if (graph || cold)
        seconds = (graph ? graph : cold)->median;
      else if (size.eager)
        seconds = size.eager->median;
      if (seconds > 0) curve.points.emplace_back(size.bytes, seconds);
    }
    std::sort(curve.points.begin(), curve.points.end());
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::string text_of(const Selection& selection) {
  std::string text;
  for (const SelectedRow& row : selection.rows) {
    const std::string size =
        row.up_to_bytes ? "up to " + bytes_text(static_cast<double>(*row.up_to_bytes)) : "above, or any size";
    text += formatted("{}: {}\n", size, row.backend);
  }
  return text;
}

std::string yaml_of(const Selection& selection, const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& line : comments) text += "# " + line + "\n";
  text += "table:\n";
  for (const SelectedRow& row : selection.rows)
    text += row.up_to_bytes ? formatted("  - {{up_to_kib: {}, backend: {}}}\n",
                                        static_cast<double>(*row.up_to_bytes) / 1024, row.backend)
                            : formatted("  - {{backend: {}}}\n", row.backend);
  return text;
}

std::string packed(const Selection& selection) {
  nlohmann::json rows = nlohmann::json::array(), changes = nlohmann::json::array();
  for (const SelectedRow& row : selection.rows) rows.push_back({row.up_to_bytes.value_or(-1), row.backend});
  for (const Crossover& x : selection.crossovers) changes.push_back({x.below, x.above, x.at, x.low, x.high});
  return nlohmann::json{{"rows", rows}, {"changes", changes}}.dump();
}

Selection unpacked(std::string_view text) {
  try {
    const nlohmann::json all = nlohmann::json::parse(text);
    Selection out;
    for (const auto& row : all.at("rows")) {
      const std::int64_t limit = row.at(0);
      out.rows.push_back({limit < 0 ? std::nullopt : std::optional(limit), row.at(1)});
    }
    for (const auto& x : all.at("changes")) out.crossovers.push_back({x.at(0), x.at(1), x.at(2), x.at(3), x.at(4)});
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error(formatted("a table from another rank cannot be read: {}", e.what()));
  }
}

}  // namespace specstep::comm
