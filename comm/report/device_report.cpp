#include "comm/report/device_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "comm/own_price.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

// Medians of two runs differ by a few percent.
constexpr double measured_uncertainty = 0.03;

struct Condition {
  std::optional<Timing> MeasuredSize::*timing;
  bool captured;
  bool cold;
  const char* title;
  const char* name;
  const char* norm = "";  // how the residual sum and the norm were done, where they were timed too
};
constexpr Condition conditions[] = {
    {&MeasuredSize::graph, true, false, "in a CUDA graph, caches warm", "graph"},
    {&MeasuredSize::cold, true, true, "in a CUDA graph, caches swept before each call", "cold"},
    {&MeasuredSize::eager, false, false, "launched one by one", "eager"},
    {&MeasuredSize::pair, true, false, "with residual sum and norm as a second kernel, in a CUDA graph", "pair",
     "pair"},
    {&MeasuredSize::fused, true, false, "with residual sum and norm in the same kernel, in a CUDA graph", "fused",
     "fused"},
};

Call call_of(const Measurement& m, bool captured, std::int64_t bytes) {
  return {.ranks = m.ranks, .bytes = bytes, .dtype = m.dtype, .captured = captured, .own = m.own};
}

CommRow row_of(const Measurement& m, const MeasuredBackend& backend, const MeasuredSize& size, const Condition& c,
               Pricer* model) {
  const Timing& t = *(size.*c.timing);
  CommRow row{backend.id, m.ranks, size.bytes, c.captured, t.median, t.least, t.p99};
  if (t.median > 0) row.algorithm_gb_s = static_cast<double>(size.bytes) / t.median / 1e9;
  row.bus_gb_s = row.algorithm_gb_s * bus_factor(Collective::all_reduce, m.ranks);
  row.provenance = Provenance::measured;
  row.device = DeviceRow{c.cold, t.calls, t.replays, size.checked, size.wrong, {}, c.norm};
  Call call = call_of(m, c.captured, size.bytes);
  call.norm = std::string_view(c.norm) == "fused" && model && priced_as_own(backend.id, model->topology(), call);
  const bool has_price = !c.cold && (c.norm[0] == '\0' || call.norm);
  if (model && has_price && !refusal(backend.id, model->topology(), call))
    row.device->predicted = model->price(backend.id, call).seconds;
  return row;
}

std::vector<Curve> curves_of(const CommTable& table) {
  std::vector<Curve> curves;
  for (const CommRow& row : table.rows) {
    if (row.seconds <= 0 || row.backend == "null" || row.backend == "delay" || row.backend == "q8") continue;
    if (curves.empty() || curves.back().name != row.backend) curves.push_back({row.backend, {}});
    curves.back().points.emplace_back(row.bytes, row.seconds);
  }
  return curves;
}

std::string us_text(double seconds) { return formatted("{:.2f}", seconds / us); }

std::string error_text(const CommRow& row) {
  if (!row.device->predicted || row.seconds <= 0) return "-";
  return formatted("{:+.0f} %", 100 * (*row.device->predicted / row.seconds - 1));
}

std::string details_text(const DeviceReport& report) {
  std::vector<std::int64_t> sizes;
  for (const CommRow& row : report.tables.front().rows) sizes.push_back(row.bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.empty()) return "";
  const std::int64_t at = sizes[sizes.size() / 2];
  std::string text =
      formatted("at {} B\n{:<9} {:<6} {:>9} {:>9} {:>9} {:>8} {:>8} {:>10} {:>7}\n", grouped(at), "backend", "mode",
                "min us", "median us", "p99 us", "alg GB/s", "bus GB/s", "predicted", "error");
  for (std::size_t i = 0; i < report.tables.size(); ++i)
    for (const CommRow& row : report.tables[i].rows) {
      if (row.bytes != at) continue;
      const std::string mode = !row.captured              ? "eager"
                               : row.device->cold         ? "cold"
                               : row.device->norm.empty() ? "graph"
                                                          : row.device->norm;
      text += formatted("{:<9} {:<6} {:>9} {:>9} {:>9} {:>8.2f} {:>8.2f} {:>10} {:>7}\n", row.backend, mode,
                        us_text(row.low), us_text(row.seconds), us_text(row.high), row.algorithm_gb_s, row.bus_gb_s,
                        row.device->predicted ? us_text(*row.device->predicted) : "-", error_text(row));
    }
  return text + "\n";
}

/// What became of each backend: checked, refused, failed.
std::string outcomes_text(const Measurement& m) {
  std::string text;
  for (const MeasuredBackend& b : m.backends) {
    if (!b.refusal.empty()) text += formatted("{:<9} refused: {}\n", b.id, b.refusal);
    for (const std::string& failure : b.failures) text += formatted("{:<9} FAILED: {}\n", b.id, failure);
    if (const std::string hint = hang_hint(b); !hint.empty()) text += formatted("{:<9} hint: {}\n", "", hint);
    std::int64_t checked = 0, wrong = 0;
    double error = 0;
    for (const MeasuredSize& s : b.sizes) {
      checked += s.checked;
      wrong += s.wrong;
      error = std::max(error, s.largest_error);
      if (!s.refusal.empty()) text += formatted("{:<9} refused at {} B: {}\n", b.id, grouped(s.bytes), s.refusal);
      if (s.wrong > 0)
        text += formatted("{:<9} WRONG at {} B: {} of {} values\n", b.id, grouped(s.bytes), grouped(s.wrong),
                          grouped(s.checked));
    }
    if (checked == 0 || wrong > 0) continue;
    text += error > 0 ? formatted("{:<9} {} values within the bound of their rounding, the largest error {:.3g}\n",
                                  b.id, grouped(checked), error)
                      : formatted("{:<9} {} values exact\n", b.id, grouped(checked));
  }
  return text;
}

const char* nccl_tests_type(DType dtype) {
  return dtype == DType::f32 ? "float" : dtype == DType::f16 ? "half" : "bfloat16";
}

}  // namespace

DeviceReport device_report(const Measurement& measured, const std::string& where, Pricer* model) {
  DeviceReport report{where, measured, {}, model};
  for (const Condition& c : conditions) {
    CommTable table{.title = std::string(c.title) + ", " + where, .call = call_of(measured, c.captured, 0)};
    for (const MeasuredBackend& b : measured.backends)
      for (const MeasuredSize& size : b.sizes)
        if (size.*c.timing) table.rows.push_back(row_of(measured, b, size, c, model));
    if (table.rows.empty()) continue;
    table.changes = crossovers(curves_of(table), measured_uncertainty);
    report.tables.push_back(std::move(table));
  }
  return report;
}

bool any_failed(const Measurement& measured) {
  return std::any_of(measured.backends.begin(), measured.backends.end(), [](const MeasuredBackend& b) {
    return !b.failures.empty() ||
           std::any_of(b.sizes.begin(), b.sizes.end(), [](const MeasuredSize& s) { return s.wrong > 0; });
  });
}

std::string device_text(const DeviceReport& report) {
  const Measurement& m = report.measured;
  std::string text = formatted("all_reduce of {} on {} rank{}, {}\n", name_of(m.dtype), m.ranks,
                               m.ranks == 1 ? "" : "s", report.where);
  if (!report.tables.empty() && !report.tables.front().rows.empty())
    text += formatted("median of one call of {} back to back, on the slowest rank\n",
                      report.tables.front().rows.front().device->calls);
  for (const CommTable& table : report.tables)
    text += formatted("\n{}\n", table.title.substr(0, table.title.size() - report.where.size() - 2)) +
            times_text(table) + crossovers_text(table);
  text += "\n";
  if (!report.tables.empty()) text += details_text(report);
  text += outcomes_text(m);
  for (const MeasuredBackend& b : m.backends)
    for (const std::string& note : b.notes) text += "note: " + note + "\n";
  if (m.ranks_per_device > 1)
    text += formatted("note: up to {} ranks share a GPU: no link between GPUs is measured between them\n",
                      m.ranks_per_device);
  return text;
}

std::string device_text_as_nccl_tests(const DeviceReport& report) {
  const Measurement& m = report.measured;
  std::string text = formatted(
      "# specstep comm, {} ranks, {}\n# left: in a CUDA graph; right: launched one by one; both "
      "in place, the median on the slowest rank\n",
      m.ranks, report.where);
  const auto times = [&](const std::optional<Timing>& t, const MeasuredSize& s) {
    if (!t || t->median <= 0) return formatted("{:>9} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
    const double rate = static_cast<double>(s.bytes) / t->median / 1e9;
    return formatted("{:>9} {:>7.2f} {:>7.2f} {:>6}", us_text(t->median), rate,
                     rate * bus_factor(Collective::all_reduce, m.ranks), s.wrong);
  };
  for (const MeasuredBackend& b : m.backends) {
    text += formatted("#\n# backend {}\n", b.id);
    if (!b.refusal.empty()) text += formatted("# refused: {}\n", b.refusal);
    for (const std::string& failure : b.failures) text += formatted("# failed: {}\n", failure);
    if (b.sizes.empty()) continue;
    text += formatted("# {:>10} {:>12} {:>8} {:>5} {:>4} {:>9} {:>7} {:>7} {:>6} {:>9} {:>7} {:>7} {:>6}\n", "size",
                      "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
                      "#wrong");
    text += formatted("# {:>10} {:>12} {:>8} {:>5} {:>4} {:>9} {:>7} {:>7} {:>6} {:>9} {:>7} {:>7} {:>6}\n", "(B)",
                      "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
    for (const MeasuredSize& s : b.sizes) {
      if (!s.refusal.empty()) {
        text += formatted("# {:>10} refused: {}\n", s.bytes, s.refusal);
        continue;
      }
      const auto width = static_cast<std::int64_t>(bytes_of(m.dtype));
      text += formatted("  {:>10} {:>12} {:>8} {:>5} {:>4} {} {}\n", s.bytes, s.bytes / width, nccl_tests_type(m.dtype),
                        "sum", -1, times(s.graph, s), times(s.eager, s));
    }
  }
  return text;
}

nlohmann::ordered_json device_json(const DeviceReport& report) {
  using Json = nlohmann::ordered_json;
  Json out = comm_json(report.tables);
  out["backends"] = Json::array();
  for (const MeasuredBackend& b : report.measured.backends) {
    Json one{{"backend", b.id}, {"ranks", report.measured.ranks}};
    if (!b.refusal.empty()) one["refusal"] = b.refusal;
    if (!b.failures.empty()) one["failures"] = b.failures;
    if (const std::string hint = hang_hint(b); !hint.empty()) one["hint"] = hint;
    if (!b.notes.empty()) one["notes"] = b.notes;
    one["device_bytes"] = b.device_bytes;
    one["checks"] = Json::array();
    for (const MeasuredSize& s : b.sizes) {
      Json check{{"bytes", s.bytes}, {"checked", s.checked}, {"wrong", s.wrong}, {"largest_error", s.largest_error}};
      if (!s.refusal.empty()) check["refusal"] = s.refusal;
      one["checks"].push_back(std::move(check));
    }
    out["backends"].push_back(std::move(one));
  }
  return out;
}

}  // namespace specstep::comm
