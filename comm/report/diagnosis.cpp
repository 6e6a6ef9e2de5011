// From rates that are too low to likely causes.
//
// A row is suspicious below 70 % of the rate that the fabric file gives without its declared slowdowns: the question is
// what a healthy fabric of this layout would do. Causes are tried in this order, the more specific first:
//   a declared slowdown explains it (its rate is within a factor of 1.5 of the measured)
//   several GPUs of one switch towards several roots: cross-root collapse
//   loads of a kernel are slow where copies are not: staging through system memory
//   the pair shares a switch and gets half: ACS redirects peer traffic
//   all pairs of one GPU are slow: its link trained at fewer lanes or a lower generation
// A rate well above what the links give is no fault of the machine but of the file or the measurement, and is named
// too.
#include "comm/report/diagnosis.h"

#include <algorithm>
#include <set>

namespace specstep::comm {
namespace {

constexpr double suspicious_below = 0.7;
constexpr double explained_within = 1.5;
constexpr double above_all = 1.15;

struct Cause {
  std::string text;
  std::string remedy;
};

bool fans_to_two_roots(const Topology& t, const Pattern& p) {
  for (const PeerFlow& a : p.flows)
    for (const PeerFlow& b : p.flows)
      if (a.source_rank != b.source_rank && t.switch_of(a.source_rank) == t.switch_of(b.source_rank) &&
          t.root_of(a.target_rank) != t.root_of(b.target_rank))
        return true;
  return false;
}

Cause declared_cause(const Topology& t, const MeasuredRate& m) {
  const PatternRate with = rate_of(t, m.pattern, m.copies);
  const double ratio = with.total / m.bytes_per_second;
  if (ratio > explained_within || ratio < 1 / explained_within) return {};
  for (const SharedLimit& limit : slowdowns_of(t, m.pattern.flows))
    if (limit.name == with.limit) return {"declared in the fabric file: " + limit.name, limit.cause->remedy};
  return {};
}

bool copies_are_fine(const Topology& healthy, const MeasuredRate& slow, const std::vector<MeasuredRate>& all) {
  return std::any_of(all.begin(), all.end(), [&](const MeasuredRate& m) {
    return m.copies && m.pattern.name == slow.pattern.name &&
           m.bytes_per_second > suspicious_below * rate_of(healthy, m.pattern, true).total;
  });
}

/// All single flows from or to this rank are slow, and there is more than one.
bool slow_everywhere(const Topology& healthy, int rank, const std::vector<MeasuredRate>& all) {
  int slow = 0;
  for (const MeasuredRate& m : all) {
    if (m.pattern.flows.size() != 1) continue;
    const PeerFlow& f = m.pattern.flows.front();
    if (f.source_rank != rank && f.target_rank != rank) continue;
    if (m.bytes_per_second > suspicious_below * rate_of(healthy, m.pattern, m.copies).total) return false;
    ++slow;
  }
  return slow > 1;
}

Cause likely_cause(const Topology& t, const Topology& healthy, const MeasuredRate& m,
                   const std::vector<MeasuredRate>& all) {
  if (const Cause declared = declared_cause(t, m); !declared.text.empty()) return declared;
  if (fans_to_two_roots(t, m.pattern))
    return {
        "several GPUs of one switch towards several roots: cross-root collapse",
        "pair each switch with one destination root (island pair map), use a ring across, or move the GPUs under one "
        "root"};
  if (!m.copies && copies_are_fine(healthy, m, all))
    return {"kernel accesses are slow where copies are not: peer traffic staged through system memory",
            "enable peer access in the driver (forced P2P), then check that sums are right"};
  const PeerFlow& first = m.pattern.flows.front();
  if (m.pattern.flows.size() <= 2 && t.switch_of(first.source_rank) == t.switch_of(first.target_rank) &&
      t.distance(first.source_rank, first.target_rank) == NcclLevel::pix &&
      !slow_everywhere(healthy, first.source_rank, all) && !slow_everywhere(healthy, first.target_rank, all))
    return {"a pair of one switch is slow: ACS may redirect its traffic to the root complex",
            "switch ACS redirection off on the switch's downstream ports, or in the BIOS"};
  for (int rank : {first.source_rank, first.target_rank})
    if (m.pattern.flows.size() == 1 && slow_everywhere(healthy, rank, all))
      return {"all pairs of " + t.node(t.gpus()[static_cast<std::size_t>(rank)]).id +
                  " are slow: its link trained at fewer lanes or a lower generation",
              "compare LnkSta with LnkCap of that GPU, reseat it or its riser"};
  return {"slower than this layout should be; no known cause fits", "measure one flow, a shared uplink and all to all"};
}

}  // namespace

std::vector<MeasuredRate> measured_rates(const CsvTable& csv, const Topology& t) {
  const std::size_t pattern = csv.column("pattern");
  std::vector<MeasuredRate> rates;
  if (!csv.has("write_gbps") && !csv.has("read_gbps"))
    throw InputError({{csv.file(), 1, 1}, "", "no column of rates", "write_gbps or read_gbps"});
  for (const CsvRow& row : csv.rows())
    for (const auto& [name, operation] :
         {std::pair{"write_gbps", Operation::write}, std::pair{"read_gbps", Operation::read}}) {
      if (!csv.has(name) || row.cells[csv.column(name)].empty()) continue;
      const double gb_s = csv.number(row, csv.column(name));
      if (gb_s <= 0) throw InputError({csv.place(row), name, "not above 0", "a rate above 0"});
      const bool kernel = csv.has("by") && row.cells[csv.column("by")] == "kernel";
      rates.push_back({parse_pattern(row.cells[pattern], operation, t, csv.place(row)), !kernel, gb_s * 1e9});
    }
  return rates;
}

std::vector<MeasuredRate> matrix_rates(const std::vector<std::vector<double>>& gb_s) {
  std::vector<MeasuredRate> rates;
  for (std::size_t a = 0; a < gb_s.size(); ++a)
    for (std::size_t b = 0; b < gb_s.size(); ++b) {
      if (a == b) continue;
      const int from = static_cast<int>(a);
      const int to = static_cast<int>(b);
      rates.push_back(
          {{std::to_string(a) + ">" + std::to_string(b), {{from, to, Operation::write}}}, true, gb_s[a][b] * 1e9});
    }
  return rates;
}

std::vector<Finding> diagnose(const Topology& t, const std::vector<MeasuredRate>& measured) {
  FabricSpec spec = t.spec();
  spec.slowdowns.clear();
  const Topology healthy = build_topology(spec);
  std::vector<Finding> findings;
  for (const MeasuredRate& m : measured) {
    Finding f{rate_of(healthy, m.pattern, m.copies), m.bytes_per_second};
    f.suspicious = m.bytes_per_second < suspicious_below * f.expected.total;
    if (f.suspicious) {
      Cause cause = likely_cause(t, healthy, m, measured);
      f.cause = std::move(cause.text);
      f.remedy = std::move(cause.remedy);
    }
    f.above = m.bytes_per_second > above_all * f.expected.total;
    if (f.above) {
      f.cause =
          "more than the links of the fabric file give: both directions added up, another unit, or another fabric";
      f.remedy = "10^9 bytes per second of one direction; NVLink has to be in the fabric file";
    }
    findings.push_back(std::move(f));
  }
  return findings;
}

}  // namespace specstep::comm
