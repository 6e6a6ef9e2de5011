// The builders: one file per algorithm.
#pragma once

#include <string>
#include <vector>

#include "comm/schedule.h"

namespace specstep::comm {

/// 0, 1, ..., ranks - 1.
std::vector<int> in_rank_order(int ranks);

/// Ring: ranks pass parts to the next one, in `order` of ranks. all_reduce, reduce_scatter, all_gather.
Schedule ring(Collective kind, const std::vector<int>& order);
/// Chain: sums down a line of ranks, then hands the result back up.
Schedule chain(const std::vector<int>& order);
/// Binomial tree: sums to rank 0 and broadcasts.
Schedule tree(int ranks);
/// One-shot: every rank gets every other's whole vector and adds. By reads between two barriers, or by writes.
Schedule one_shot(int ranks, Operation operation);
/// Two-stage: reduce-scatter, then all-gather, each in one step. By reads or by writes.
Schedule two_stage(int ranks, Operation operation);
/// Reduce-scatter, all-gather or all-to-all in one step.
Schedule direct(Collective kind, int ranks, Operation operation);
/// Recursive doubling: partners at distance 1, 2, 4, ...; ranks beyond a power of two fold in first.
Schedule recursive_doubling(int ranks);
/// Reduce-scatter inside each island, exchange between islands, all-gather inside. All islands have the same size k;
/// `islands[i][j]` holds part j, and exchanges with part j of the other islands: the pair map is the order inside.
Schedule island(const std::vector<std::vector<int>>& islands, Operation operation);
/// Host broadcast: each rank writes once to pinned host memory near it, all others read that.
Schedule host_broadcast(int ranks);
/// Multicast: the switch reduces what it reads from all ranks and hands it out to all (NVLink SHARP).
Schedule multicast(int ranks);

}  // namespace specstep::comm
