// Measured rates against what the fabric should give: what looks broken, why, and what to do.
#pragma once

#include <string>
#include <vector>

#include "comm/report/patterns.h"
#include "comm/table/csv.h"

namespace specstep::comm {

struct MeasuredRate {
  Pattern pattern;
  bool copies = true;  // copy engine; false: loads and stores of a kernel
  double bytes_per_second = 0;
};

struct Finding {
  PatternRate expected;
  double measured = 0;      // bytes per second
  bool suspicious = false;  // below 70 % of what is expected
  bool above = false;       // more than the fabric file can give
  std::string cause;
  std::string remedy;
};

/// Rows with a column `pattern` and one of `write_gbps`, `read_gbps` (10^9 bytes per second); a column `by` says `copy`
/// (the default) or `kernel`. Throws InputError with the place.
std::vector<MeasuredRate> measured_rates(const CsvTable& csv, const Topology& topology);
/// A bandwidth matrix of pairs, 10^9 bytes per second; the diagonal is on-device bandwidth and is left out.
std::vector<MeasuredRate> matrix_rates(const std::vector<std::vector<double>>& gb_s);

std::vector<Finding> diagnose(const Topology& topology, const std::vector<MeasuredRate>& measured);

}  // namespace specstep::comm
