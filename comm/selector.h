// From measured times to a table: which backend carries which sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/measure.h"
#include "comm/table/crossover.h"

namespace specstep::comm {

/// Messages up to this size use this backend; the last row has no limit.
struct SelectedRow {
  std::optional<std::int64_t> up_to_bytes;
  std::string backend;
  bool operator==(const SelectedRow&) const = default;
};

struct Selection {
  std::vector<SelectedRow> rows;
  std::vector<Crossover> crossovers;  // where one row ends and the next begins
  /// The backend for a message; InputError where the table is empty.
  const std::string& pick(std::int64_t bytes) const;
};

/// What a change of backend from one size to the next must save, summed over the sizes it is for: noise of a few
/// percent makes no rows.
inline constexpr double change_must_save = 0.1;

/// The table with the least sum over sizes of log(time / best time), where each change costs log(1 + must_save). Limits
/// stand where two curves cross, in whole 16-byte packs. A backend carries only sizes within its curve; beyond the
/// largest size the last row goes on. Curves that have no points are left out; without any, the table is empty.
Selection select(const std::vector<Curve>& curves, double must_save = change_must_save);

/// Curves to select from, of what gives exact sums and was not wrong: the mean of warm and cold graphs where both were
/// timed, since a pass is neither. Eager times only where no graph was timed.
std::vector<Curve> curves_to_select(const Measurement& measured);

/// One line for each row: "up to 56.0 KiB: push1".
std::string text_of(const Selection& selection);

/// YAML that `comm.table_file` reads, under comment lines.
std::string yaml_of(const Selection& selection, const std::vector<std::string>& comments);

/// For sending to other ranks, and back. `unpacked` throws Error for a text that is none of ours.
std::string packed(const Selection& selection);
Selection unpacked(std::string_view text);

}  // namespace specstep::comm
