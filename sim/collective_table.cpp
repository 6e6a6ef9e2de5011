// Reading of measured collectives, and the time between their sizes.
#include "sim/collective_table.h"

#include <algorithm>

#include "comm/backend.h"
#include "comm/table/crossover.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep {

namespace {

bool serves(CurveLaunch launch, bool captured) {
  return launch == CurveLaunch::both || (launch == CurveLaunch::captured) == captured;
}

}  // namespace

std::optional<double> CollectiveTable::seconds(const std::string& backend, const comm::Call& call) const {
  if (call.kind != comm::Collective::all_reduce || call.ranks != ranks) return std::nullopt;
  if (static_cast<double>(call.bytes) <= above_kib * kib) return std::nullopt;
  for (const CollectiveCurve& curve : curves) {
    if (curve.backend != backend || !serves(curve.launch, call.captured)) continue;
    comm::Curve line{backend, {}};
    for (const CollectivePoint& p : curve.points) line.points.emplace_back(p.bytes, p.us * us);
    return comm::value_at(line, static_cast<double>(call.bytes));
  }
  return std::nullopt;
}

void describe(Fields& f, CollectivePoint& p) {
  f.required("bytes", p.bytes, "message of each rank", {.min = 1, .max = 1e15});
  f.required("us", p.us, "time of one call", {.min = 0, .max = 1e9, .above_min = true});
}

void describe(Fields& f, CollectiveCurve& c) {
  f.required("backend", c.backend, "the backend that was measured (specstep list --backends)");
  f.optional("launch", c.launch, "how the calls were launched; both: the curve serves either");
  f.required("points", c.points, "measured sizes, ascending");
}

void check(const CollectiveCurve& v, Checker& c) {
  std::vector<std::string> ids;
  for (const comm::BackendRow& row : comm::backends()) ids.push_back(row.id);
  if (std::find(ids.begin(), ids.end(), v.backend) == ids.end())
    c.fail("backend", formatted("unknown backend '{}'{}", v.backend, did_you_mean(v.backend, ids)), one_of(ids));
  if (v.points.size() < 2) c.fail("points", formatted("has {}", v.points.size()), "two sizes or more");
  for (std::size_t i = 1; i < v.points.size(); ++i)
    if (v.points[i].bytes <= v.points[i - 1].bytes)
      c.fail(formatted("points[{}].bytes", i), "does not grow", "sizes ascending");
}

void describe(Fields& f, CollectiveTable& t) {
  f.optional("name", t.name, "name of the table");
  f.required("source", t.source, "where the times come from");
  f.required("ranks", t.ranks, "ranks of the calls", {.min = 2, .max = 1024});
  f.optional("above_kib", t.above_kib, "messages up to this size are priced by the fabric all the same", {.min = 0});
  f.required("curves", t.curves, "times of allreduces, by backend");
}

void check(const CollectiveTable& t, Checker& c) {
  for (std::size_t i = 0; i < t.curves.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (t.curves[i].backend == t.curves[j].backend &&
          (serves(t.curves[i].launch, true) == serves(t.curves[j].launch, true) ||
           serves(t.curves[i].launch, false) == serves(t.curves[j].launch, false)))
        c.fail(formatted("curves[{}]", i), formatted("measures {} again", t.curves[i].backend),
               "one curve for each backend and launch");
}

}  // namespace specstep
