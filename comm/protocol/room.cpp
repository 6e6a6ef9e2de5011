#include "comm/protocol/room.h"

#include "comm/protocol/boards.h"
#include "comm/protocol/quantised.h"
#include "comm/protocol/ring.h"

namespace specstep::comm::protocol {

namespace {
constexpr std::size_t line_bytes = 256;

class Sections {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = end_;
    end_ += (bytes + line_bytes - 1) / line_bytes * line_bytes;
    return at;
  }
  std::size_t end() const { return end_; }

 private:
  std::size_t end_ = 0;
};
}  // namespace

Room room_of(const Regions& regions, const Capacity& c) {
  const auto ranks = static_cast<std::size_t>(c.ranks);
  const std::size_t shard = shard_packs(c.packs, c.ranks);
  const std::size_t whole = std::size_t{2} * ranks * c.packs * sizeof(Pack);
  const std::size_t shards = std::size_t{2} * ranks * shard * sizeof(Pack);
  Sections sections;
  Room room;
  room.flags = sections.take(std::size_t{2} * c.blocks * ranks * sizeof(std::uint32_t));
  if (regions.packs) room.packs = sections.take(whole);
  if (regions.partials) room.partials = sections.take(shards);
  if (regions.results) room.results = sections.take(shards);
  if (regions.lines) room.lines = sections.take(2 * whole);
  if (regions.input) room.input = sections.take(c.packs * sizeof(Pack));
  if (regions.reduced) room.reduced = sections.take(shard * sizeof(Pack));
  if (regions.crossings > 0) {
    const auto islands = static_cast<std::size_t>(regions.crossings);
    room.crossings = sections.take(std::size_t{2} * islands * shard_packs(c.packs, c.ranks / regions.crossings) *
                                   most_wide_packs * sizeof(Pack));
  }
  const std::size_t line = 2 * sizeof(Pack);  // a pack in pairs of data and epoch
  if (regions.hops) room.hops = sections.take(std::size_t{2} * (ranks - 1) * shard * lines_of_hop * line);
  if (regions.board) {
    room.board = sections.take(2 * pairs_of_board(packs_in_pairs(c)) * sizeof(std::uint64_t));
    room.shown = sections.take(std::size_t{2} * c.packs * sizeof(Pack));
  }
  if (regions.cells) {
    const std::size_t groups = shard_packs(groups_of(c.packs, values_per_pack), c.ranks);
    room.cells = sections.take(std::size_t{4} * ranks * groups * packs_of_slot * sizeof(Pack));
  }
  if (regions.parts) {
    room.parts = sections.take(ranks * shard * sizeof(Pack));
    room.gathered = sections.take(c.packs * sizeof(Pack));
  }
  if (regions.exchange > 0) room.exchange = sections.take(regions.exchange);
  room.bytes = sections.end();
  return room;
}

}  // namespace specstep::comm::protocol
