// A division of the ranks into islands of equal size.
#pragma once

#include <cstdint>
#include <vector>

namespace specstep::comm::protocol {

inline constexpr int most_island_ranks = 8;

/// Members at the same place of their islands exchange with each other. Plain data, so that kernels get it by value.
struct IslandPlan {
  int islands = 1;
  int members = 1;                              // of an island
  std::int8_t rank_at[most_island_ranks] = {};  // [island][place]
  std::int8_t island_of[most_island_ranks] = {};
  std::int8_t place_of[most_island_ranks] = {};

  constexpr int rank(int island, int place) const { return rank_at[island * members + place]; }
};

/// `lists[i][j]` exchanges with `lists[k][j]`. Throws Unsupported with the reason unless each of `ranks` ranks stands
/// in one list and all lists are equally long.
IslandPlan island_plan_of(const std::vector<std::vector<int>>& lists, int ranks);

}  // namespace specstep::comm::protocol
