// Runs a schedule on host buffers: the truth that every schedule and every device kernel is held against.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule.h"

namespace specstep::comm {

/// `vectors[r]` is rank r's vector: input and output. All of the same length. Throws Error when the schedule does not
/// fit the vectors or a transfer leaves its place.
///
/// all_reduce: every vector ends as the sum. reduce_scatter: part r of vector r ends as the sum of that part.
/// all_gather: part r of each vector ends as part r of vector r. all_to_all: part s of vector r ends as part r of
/// vector s; the length must then be a multiple of the ranks.
void run_on_host(const Schedule& schedule, std::vector<std::vector<std::int64_t>>& vectors);
void run_on_host(const Schedule& schedule, std::vector<std::vector<float>>& vectors);

}  // namespace specstep::comm
