// Predicted against measured, over a table of field measurements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/pricing.h"
#include "model/base/config_io.h"

namespace specstep::comm {

/// yes: in the statistics; fitted: a constant was fitted to it; order: only the order of magnitude is claimed; outlier:
/// named so by its source; listed: shown.
enum class Scored { yes, order, outlier, listed, fitted };

struct AccuracyRow {
  std::string id;
  std::string group;
  std::string fabric;
  std::string backend;
  std::string mode;
  std::string source;
  Call call;
  double measured = 0;   // seconds
  double predicted = 0;  // seconds
  std::string algorithm;
  Scored scored = Scored::listed;
  double error() const { return predicted / measured - 1; }
};

/// Reads a table as in traces/comm/README.md and prices every row. With a column `own`, rows are of our own kernels.
/// Throws InputError with the place.
std::vector<AccuracyRow> predict_table(const std::string& path, const ConfigLibrary& library);

/// Statistics of the absolute errors of some rows, as fractions.
struct ErrorStats {
  std::string name;
  int count = 0;
  double median = 0;
  double p90 = 0;
  double largest = 0;
  double bias = 0;  // mean signed error
};
/// By group, in the order of first appearance, of rows that are scored in one of these ways.
std::vector<ErrorStats> group_errors(const std::vector<AccuracyRow>& rows, const std::vector<Scored>& kinds);
ErrorStats errors_of(const std::string& name, const std::vector<const AccuracyRow*>& rows);

/// Markdown: statistics by group, of rows of our own kernels apart; then every row by group.
std::string accuracy_report(const std::vector<AccuracyRow>& rows);

}  // namespace specstep::comm

namespace specstep {
template <>
struct EnumNames<comm::Scored> {
  static std::vector<std::string> names() { return {"yes", "order", "outlier", "listed", "fitted"}; }
};
}  // namespace specstep
