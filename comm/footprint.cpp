#include "comm/footprint.h"

#include <array>
#include <string_view>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

protocol::Regions own_regions(const std::string& backend, const OwnSettings& settings, int islands) {
  protocol::Regions r;
  if (backend == "push1") (settings.wire == "ll" ? r.lines : r.packs) = true;
  if (backend == "pull1") r.input = true;
  if (backend == "rsag" && settings.transfer == "pull") r.input = r.reduced = true;
  if (backend == "rsag" && settings.transfer != "pull") r.partials = r.results = true;
  if (backend == "island") {
    r.partials = r.results = true;
    r.crossings = islands;
  }
  if (backend == "ring") r.hops = true;
  if (backend == "hostbc") r.board = true;
  if (backend == "q8") r.cells = true;
  if (backend == "ce") r.parts = r.reduced = true;
  return r;
}

Footprint footprint_of(const std::string& backend, int ranks, std::int64_t largest_bytes, const OwnSettings& settings) {
  constexpr std::array<std::string_view, 8> ours{"push1", "pull1", "rsag", "island", "ring", "hostbc", "q8", "ce"};
  if (ranks < 1 || largest_bytes < 1)
    throw Unsupported(formatted("a footprint of {} ranks and {} bytes", ranks, largest_bytes));
  if (backend == "null" || backend == "delay") return {};
  bool own = false;
  for (const std::string_view id : ours) own = own || id == backend;
  const auto peers = static_cast<std::size_t>(ranks - 1);
  // nvls: the values themselves, and flags, on every rank; all of it is mapped once more, through the switch.
  if (backend == "nvls") {
    const std::size_t values = static_cast<std::size_t>(largest_bytes) + own_exchange_bytes;
    return {.device = values, .mapped_peer = peers * values};
  }
  if (!own) return {.known = false};

  if (settings.largest_kib > 0) largest_bytes = settings.largest_kib * 1024;
  const int halves = ranks % 2 == 0 ? 2 : 1;
  protocol::Regions regions =
      own_regions(backend, settings, settings.islands.empty() ? halves : static_cast<int>(settings.islands.size()));
  regions.exchange = own_exchange_bytes;
  const auto packs = static_cast<std::uint32_t>((largest_bytes + 15) / 16);
  const std::size_t bytes = protocol::room_of(regions, {ranks, packs, most_own_blocks}).bytes;
  Footprint out{.mapped_peer = peers * bytes};
  (backend == "hostbc" ? out.host_pinned : out.device) = bytes;
  return out;
}

}  // namespace specstep::comm
