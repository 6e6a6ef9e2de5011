// Generated tokens as a result tells them: told apart by a digest, compared token by token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/result.h"

namespace specstep {

using Tokens = std::vector<std::vector<std::int32_t>>;  // of each sequence

/// 16 hex digits: FNV-1a (64 bit) over each sequence's tokens in order, as decimal numbers with a space behind each and
/// a line feed behind each sequence.
std::string digest_of(const Tokens& tokens);

/// Where two texts part: the earliest position of any sequence; -1 when they are the same.
std::int64_t first_difference(const Tokens& a, const Tokens& b);

}  // namespace specstep
