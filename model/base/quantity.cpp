// Reading of quantities.
#include "model/base/quantity.h"

#include "model/base/formatted.h"

namespace specstep {

void describe(Fields& f, Quantity& q) {
  f.required("value", q.value, "the number, in the unit of the key");
  f.optional("source", q.source, "where the number comes from: document, page, date, or the measurement");
  f.optional("fitted", q.fitted, "true when it was fitted; the source then says to what");
}

void check_range(Checker& c, const std::string& key, const Quantity& q, const Range& range) {
  if (!range.holds(q.value)) c.fail(key + ".value", formatted("is {}", q.value), range.text());
}

}  // namespace specstep
