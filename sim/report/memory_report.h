// The memory ledger as text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/engine/budget.h"

namespace specstep {

/// A compact table: every term with how it came about, then reported figures with what is unexplained.
std::string memory_text(const MemoryBudget& budget);
/// {rule, source, fraction, automatic, reserve: [{what, mib}], vision_factor, terms: [{name, gib, how, given}],
/// kv_bytes_per_token, kv_bytes_per_sequence, kv_tokens, largest_batch, compared: [{name, unit, reported, modelled,
/// unexplained}]}
nlohmann::ordered_json memory_json(const MemoryBudget& budget);

}  // namespace specstep
