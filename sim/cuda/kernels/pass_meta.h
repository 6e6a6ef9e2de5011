// What differs from run to run of a captured pass, in device memory: a graph reads it anew each time.
#pragma once

#include <cstdint>

namespace specstep::cuda {

/// Token t belongs to sequence t / tokens_each of this rank.
struct PassMeta {
  std::int64_t sequences = 0;
  std::int64_t tokens_each = 0;
  const std::int32_t* tokens = nullptr;     // [tokens] ids
  const std::int32_t* positions = nullptr;  // [tokens] place in the text
  const std::int32_t* slots = nullptr;      // [tokens] where the sequence's cache keeps the token
  const std::int32_t* base = nullptr;       // [sequences] committed tokens: slots that every token of it sees
  /// Which slots from base on a token sees, itself included: bit i of [tokens][mask_words] is slot base + i. Null: a
  /// chain, token i of its sequence sees slots up to its own.
  const std::uint32_t* mask = nullptr;
  std::int64_t mask_words = 0;
  const std::int32_t* pages = nullptr;  // [sequences][pages_each]: page of slot i is pages[i / page_tokens]
  std::int64_t pages_each = 0;

  std::int64_t count() const { return sequences * tokens_each; }
};

/// Tokens of a page of a cache.
inline constexpr std::int64_t page_tokens = 64;

}  // namespace specstep::cuda
