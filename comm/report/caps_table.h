// What backends can do, as a table.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace specstep::comm {

/// At most 100 columns. Memory is that of a rank among `ranks`, for calls of at most `largest_bytes` in one piece.
std::string caps_text(int ranks, std::int64_t largest_bytes);
/// An array, a map for each backend.
nlohmann::ordered_json caps_json(int ranks, std::int64_t largest_bytes);

}  // namespace specstep::comm
