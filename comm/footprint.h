// Memory that the backends of our own take, known without a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/own_settings.h"
#include "comm/protocol/room.h"

namespace specstep::comm {

/// Bytes for each rank. `known` is false for libraries, which say how much they took only once they are open.
struct Footprint {
  std::size_t device = 0;
  std::size_t host_pinned = 0;
  std::size_t mapped_peer = 0;  // memory of the other ranks that this one maps
  bool known = true;
};

/// The parts of an inbox that one of our backends uses with these settings; none for ids that are not ours. `islands`:
/// how many, for the backend of that name.
protocol::Regions own_regions(const std::string& backend, const OwnSettings& settings, int islands);

/// Bytes through which the other collectives of our backends go.
inline constexpr std::size_t own_exchange_bytes = std::size_t{1} << 20;
/// Thread blocks of a call at most.
inline constexpr std::uint32_t most_own_blocks = 64;

/// What a backend takes whose largest call in one piece has `largest_bytes`, or as `settings.largest_kib` has it. Of
/// island without a division: two islands where the ranks are even. Throws Unsupported for less than one rank or byte.
Footprint footprint_of(const std::string& backend, int ranks, std::int64_t largest_bytes,
                       const OwnSettings& settings = {});

}  // namespace specstep::comm
