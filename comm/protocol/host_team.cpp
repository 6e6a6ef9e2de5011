// Inboxes of threads, and the story of a call that did not end.
#include "comm/protocol/host_team.h"

#include <stdexcept>

#include "comm/protocol/two_stage.h"
#include "model/base/formatted.h"

namespace specstep::comm::protocol {

namespace {

std::size_t slots(const Capacity& c, std::uint32_t packs) {
  return std::size_t{2} * static_cast<std::size_t>(c.ranks) * packs * words_per_pack;
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
  }
  return "";
}

HostRank::HostRank(const Capacity& c)
    : packs_(slots(c, c.packs)),
      partials_(slots(c, shard_packs(c.packs, c.ranks))),
      results_(slots(c, shard_packs(c.packs, c.ranks))),
      flags_(std::size_t{2} * c.blocks * static_cast<std::size_t>(c.ranks)),
      lines_(slots(c, c.packs)),
      input_(c.packs),
      reduced_(shard_packs(c.packs, c.ranks)) {
  inbox_ = {packs_.data(), partials_.data(), results_.data(), lines_.data(),  flags_.data(),
            &epoch_,       &entered_,        input_.data(),   reduced_.data()};
}

void HostRank::reset(std::uint32_t epoch) {
  for (auto* words : {&packs_, &partials_, &results_})
    for (HostWord& w : *words) w.store(sentinel);
  for (HostPair& p : lines_) p.store(0);      // no call has epoch 0
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
  for (int r = 0; r < c.ranks; ++r) {
    ranks_.push_back(std::make_unique<HostRank>(c));
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
  if (run_lane(memory, shape.protocol, call, lane)) return;
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
