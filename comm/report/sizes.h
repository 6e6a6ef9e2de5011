// Lists of message sizes as users write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace specstep::comm {

/// "1K,43008,1M"; "1K:64K" (doubling); "1K:64K:1K" (steps); "1K:1M:x2" (factors, down to whole 16-byte packs). K, M, G
/// are powers of 1024. Throws
/// InputError: no number, a step that does not grow, an end below the start, more than 1000 sizes.
std::vector<std::int64_t> parse_sizes(const std::string& text);

}  // namespace specstep::comm
