// The tables that nccl-tests prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/table/measured.h"

namespace specstep::comm {

struct NcclTestTime {
  double seconds = 0;
  double algorithm_gb_s = 0;
  double bus_gb_s = 0;
};

struct NcclTestRow {
  int line = 0;
  std::int64_t bytes = 0;
  NcclTestTime out_of_place;
  NcclTestTime in_place;
  bool disagree = false;  // the two differ by more than a half
};

struct NcclTestTable {
  std::string file;
  std::vector<NcclTestRow> rows;
  std::optional<int> ranks;  // as listed, else from bus / algorithm bandwidth = 2 (n - 1) / n where that is precise
  std::optional<bool> captured = {};  // `graph:` of the header
  std::optional<DType> dtype = {};
  std::vector<std::string> notes;
  Issues left_out;  // rows that were wrong, cut or broken, and failures that the log reports
  /// Out-of-place times as a curve.
  MeasuredCurve curve() const;
  /// As `specstep comm --table` reads it: times, and what else is known in columns of their own.
  std::string csv() const;
};

/// An allreduce table; log lines between its rows are skipped. Throws InputError with place and reason: no usable rows,
/// another collective (by the ratio of its bandwidths or the missing operation), a failed validation.
NcclTestTable parse_nccl_tests(std::string_view text, const std::string& file);

}  // namespace specstep::comm
