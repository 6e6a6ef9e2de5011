// Comma-separated tables with places for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace specstep::comm {

struct CsvRow {
  int line = 0;
  std::vector<std::string> cells;
};

/// A header line and rows of the same width. Quoted cells may hold commas; blank lines and carriage returns are
/// skipped.
class CsvTable {
 public:
  /// Throws InputError: empty text, a name twice, a row of another width, an open quote.
  static CsvTable parse(std::string_view text, const std::string& file);
  static CsvTable load(const std::string& path);

  const std::vector<std::string>& columns() const { return columns_; }
  const std::vector<CsvRow>& rows() const { return rows_; }
  const std::string& file() const { return file_; }
  bool has(const std::string& column) const;
  /// Index of a column; InputError that names the columns there are.
  std::size_t column(const std::string& name) const;
  /// A number above zero, or at least zero. InputError with line and column name otherwise.
  double number(const CsvRow& row, std::size_t column) const;
  long long whole(const CsvRow& row, std::size_t column) const;
  Location place(const CsvRow& row) const { return {file_, row.line, 1}; }

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<CsvRow> rows_;
};

}  // namespace specstep::comm
