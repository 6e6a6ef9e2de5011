// Inboxes of threads, and the story of a call that did not end.
#include "comm/protocol/host_team.h"

#include <numeric>
#include <stdexcept>

#include "comm/protocol/run_lane.h"
#include "model/base/formatted.h"

namespace specstep::comm::protocol {

namespace {

/// Words, or pairs, of `packs` places for each of `sources`, in two halves.
std::size_t slots(int sources, std::uint32_t packs) {
  return std::size_t{2} * static_cast<std::size_t>(sources) * packs * words_per_pack;
}

std::uint32_t groups_of_shard(const Capacity& c) { return shard_packs(groups_of(c.packs, values_per_pack), c.ranks); }

bool run(HostMemory& m, Protocol protocol, const Call& call, const Lane& lane) {
  switch (protocol) {
    case Protocol::push_sentinel:
      return run_lane<Protocol::push_sentinel>(m, call, lane);
    case Protocol::push_ll:
      return run_lane<Protocol::push_ll>(m, call, lane);
    case Protocol::pull_one_stage:
      return run_lane<Protocol::pull_one_stage>(m, call, lane);
    case Protocol::pull_two_stage:
      return run_lane<Protocol::pull_two_stage>(m, call, lane);
    case Protocol::push_two_stage:
      return run_lane<Protocol::push_two_stage>(m, call, lane);
    case Protocol::push_islands:
      return run_lane<Protocol::push_islands>(m, call, lane);
    case Protocol::ring_ll:
      return run_lane<Protocol::ring_ll>(m, call, lane);
    case Protocol::boards:
      return run_lane<Protocol::boards>(m, call, lane);
    case Protocol::quantised_two_stage:
      return run_lane<Protocol::quantised_two_stage>(m, call, lane);
    case Protocol::copied_two_stage:
      return run_lane<Protocol::copied_two_stage>(m, call, lane);
  }
  return false;
}

IslandPlan plan_of(const TeamOptions& options) {
  if (!options.islands.empty()) return island_plan_of(options.islands, options.capacity.ranks);
  std::vector<int> all(static_cast<std::size_t>(options.capacity.ranks));
  std::iota(all.begin(), all.end(), 0);
  return island_plan_of({all}, options.capacity.ranks);
}

std::string text_of(const WaitRecord& record, int rank) { return text_of(name_of(record.protocol), record, rank); }

}  // namespace

std::string_view name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::push_sentinel:
      return "push_sentinel";
    case Protocol::push_ll:
      return "push_ll";
    case Protocol::pull_one_stage:
      return "pull_one_stage";
    case Protocol::pull_two_stage:
      return "pull_two_stage";
    case Protocol::push_two_stage:
      return "push_two_stage";
    case Protocol::push_islands:
      return "push_islands";
    case Protocol::ring_ll:
      return "ring_ll";
    case Protocol::boards:
      return "boards";
    case Protocol::quantised_two_stage:
      return "quantised_two_stage";
    case Protocol::copied_two_stage:
      return "copied_two_stage";
  }
  return "";
}

HostRank::HostRank(const Capacity& c, const IslandPlan& islands)
    : packs_(slots(c.ranks, c.packs)),
      partials_(slots(c.ranks, shard_packs(c.packs, c.ranks))),
      results_(slots(c.ranks, shard_packs(c.packs, c.ranks))),
      crossings_(slots(islands.islands, most_wide_packs * shard_packs(c.packs, islands.members))),
      cells_(2 * slots(c.ranks, packs_of_slot * groups_of_shard(c))),
      flags_(std::size_t{2} * c.blocks * static_cast<std::size_t>(c.ranks)),
      lines_(slots(c.ranks, c.packs)),
      hops_(slots(c.ranks - 1, lines_of_hop * shard_packs(c.packs, c.ranks))),
      board_(2 * pairs_of_board(packs_in_pairs(c))),
      input_(c.packs),
      shown_(std::size_t{2} * c.packs),
      reduced_(shard_packs(c.packs, c.ranks)),
      parts_(static_cast<std::size_t>(c.ranks) * shard_packs(c.packs, c.ranks)),
      gathered_(c.packs) {
  inbox_.packs = packs_.data();
  inbox_.partials = partials_.data();
  inbox_.results = results_.data();
  inbox_.lines = lines_.data();
  inbox_.flags = flags_.data();
  inbox_.epoch = &epoch_;
  inbox_.entered = &entered_;
  inbox_.input = input_.data();
  inbox_.reduced = reduced_.data();
  inbox_.crossings = crossings_.data();
  inbox_.hops = hops_.data();
  inbox_.board = board_.data();
  inbox_.shown = shown_.data();
  inbox_.cells = cells_.data();
  inbox_.parts = parts_.data();
  inbox_.gathered = gathered_.data();
}

void HostRank::reset(std::uint32_t epoch) {
  for (auto* words : {&packs_, &partials_, &results_, &crossings_, &cells_})
    for (HostWord& w : *words) w.store(sentinel);
  for (auto* pairs : {&lines_, &hops_, &board_})
    for (HostPair& p : *pairs) p.store(0);    // no call has epoch 0
  for (HostWord& w : flags_) w.store(epoch);  // the largest count that no call to come waits for
  epoch_.store(epoch);
  entered_.store(0);
  const std::lock_guard lock(mutex_);
  record_.reset();
}

HostTeam::HostTeam(const TeamOptions& options) : options_(options) {
  const Capacity& c = options_.capacity;
  if (c.ranks < 1 || c.ranks > HostMemory::most_ranks || c.packs < 1 || c.blocks < 1)
    throw std::logic_error(formatted("a team needs 1 to {} ranks, packs and blocks", HostMemory::most_ranks));
  control_.capacity = c;
  control_.islands = plan_of(options_);
  for (int r = 0; r < c.ranks; ++r) {
    ranks_.push_back(std::make_unique<HostRank>(c, control_.islands));
    ranks_.back()->reset(options_.first_epoch);
    control_.inboxes.push_back(ranks_.back()->inbox());
  }
}

void HostTeam::allreduce(int rank, const CallShape& shape, Pack* out) {
  for (std::uint32_t block = 0; block < shape.blocks; ++block) run_block(rank, shape, block, out);
}

void HostTeam::run_block(int rank, const CallShape& shape, std::uint32_t block, Pack* out) {
  const Capacity& c = options_.capacity;
  if (rank < 0 || rank >= c.ranks || shape.packs < 1 || shape.packs > c.packs || block >= shape.blocks ||
      shape.blocks > c.blocks)
    throw std::logic_error(formatted("allreduce of {} packs by block {} of {} on rank {} does not fit the team",
                                     shape.packs, block, shape.blocks, rank));
  HostRank& own = *ranks_[static_cast<std::size_t>(rank)];
  HostMemory memory(control_, own, {shape.protocol, shape.site, 0, {}}, rank,
                    std::chrono::steady_clock::now() + options_.time_limit);
  const Lane lane{block, shape.blocks, block, enter_call(memory, shape.blocks)};
  memory.set_epoch(lane.epoch);
  const Call call{shape.site, rank, c.ranks, shape.packs, own.input().data(), out};
  // Lanes are packs of a stride, one for each block: a block is one thread here.
  if (run(memory, shape.protocol, call, lane)) return;
  throw CallAborted(text_of(*own.record(), rank));
}

std::string HostTeam::diagnosis() const {
  for (std::size_t first = 0; first < ranks_.size(); ++first) {
    if (!ranks_[first]->record()) continue;
    std::size_t at = first;
    for (std::size_t hops = 0; hops < ranks_.size(); ++hops) {
      const auto next = static_cast<std::size_t>(ranks_[at]->record()->what.rank);
      if (!ranks_[next]->record()) break;
      at = next;
    }
    return text_of(*ranks_[at]->record(), static_cast<int>(at));
  }
  return "";
}

void HostTeam::reset() {
  control_.abort.store(false);
  for (const auto& rank : ranks_) rank->reset(options_.first_epoch);
}

}  // namespace specstep::comm::protocol
