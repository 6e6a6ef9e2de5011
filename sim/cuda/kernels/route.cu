// Experts of each token, and the tokens of each expert.
#include <stdexcept>
#include <string>

#include "sim/cuda/kernels/early.cuh"
#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/kernels/rows.cuh"

namespace specstep::cuda {

namespace {

constexpr int most_experts = 1024;  // a thread each
constexpr int block_warps = 32;
constexpr int block_threads = 32 * block_warps;
constexpr int most_at_once = 32;  // tokens that one block routes and sorts: a warp each

__device__ unsigned lane_id() { return threadIdx.x % 32; }
__device__ unsigned lanes_before() { return (1U << lane_id()) - 1; }

/// Grows with the score; 1 for what is not a number. 0 is left for experts that are taken or not there.
__device__ std::uint32_t key_of(float score) {
  if (isnan(score)) return 1;
  const std::uint32_t bits = __float_as_uint(score == 0.0F ? 0.0F : score);  // the two zeros are equal
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}

/// What a warp chose of a token's scores. Lane l holds experts l, l + 32, ...: C of them.
template <int C>
struct Chosen {
  float score[C];
  std::uint32_t taken = 0;  // bit j: expert j * 32 + lane
  float sum = 0;            // of exp(score - most) over the chosen
  float most = 0;

  __device__ float weight(int j) const { return expf(score[j] - most) / sum; }
};

template <int C>
__device__ Chosen<C> choose(const float* scores, int experts, int top_k) {
  Chosen<C> out;
  std::uint32_t key[C];
#pragma unroll
  for (int j = 0; j < C; ++j) {
    const int expert = j * 32 + static_cast<int>(lane_id());
    out.score[j] = expert < experts ? scores[expert] : 0.0F;
    key[j] = expert < experts ? key_of(out.score[j]) : 0;
  }
  for (int k = 0; k < top_k; ++k) {
    std::uint32_t mine = 0;
    int at = 0;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      at = key[j] > mine ? j : at;
      mine = key[j] > mine ? key[j] : mine;
    }
    const std::uint32_t best = __reduce_max_sync(all_lanes, mine);
    const unsigned expert = mine == best ? static_cast<unsigned>(at) * 32 + lane_id() : ~0U;
    if (__reduce_min_sync(all_lanes, expert) != expert) continue;
    out.taken |= 1U << at;
#pragma unroll
    for (int j = 0; j < C; ++j) key[j] = j == at ? 0 : key[j];
  }
  float most = -INFINITY;
#pragma unroll
  for (int j = 0; j < C; ++j)
    if (out.taken >> j & 1) most = fmaxf(most, out.score[j]);
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(all_lanes, most, step));
  out.most = most;
#pragma unroll
  for (int j = 0; j < C; ++j)
    if (out.taken >> j & 1) out.sum += expf(out.score[j] - most);
  for (int step = 16; step > 0; step /= 2) out.sum += __shfl_xor_sync(all_lanes, out.sum, step);
  return out;
}

/// Calls f(j, expert, choice) in the lane that holds it, for each chosen expert; `choice` counts them in ascending
/// order.
template <int C, class F>
__device__ void each_choice(std::uint32_t taken, F&& f) {
  unsigned before = 0;
#pragma unroll
  for (int j = 0; j < C; ++j) {
    const bool mine = taken >> j & 1;
    const unsigned all = __ballot_sync(all_lanes, mine);
    if (mine) f(j, j * 32 + static_cast<int>(lane_id()), before + __popc(all & lanes_before()));
    before += __popc(all);
  }
}

template <int C>
__device__ void write_choices(const RouteCall& call, std::int64_t token, const Chosen<C>& chosen) {
  each_choice<C>(chosen.taken, [&](int j, int expert, unsigned choice) {
    call.ids[token * call.top_k + choice] = expert;
    call.weights[token * call.top_k + choice] = chosen.weight(j);
  });
}

/// What stands before a thread's expert: pairs, and experts with any.
struct Before {
  int pairs, met;
};

/// Of all threads of a full block, each with the pairs of one expert.
__device__ Before sum_before(int count) {
  __shared__ int pairs_of[block_warps], met_of[block_warps];
  const unsigned warp = threadIdx.x / 32;
  int sum = count;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(all_lanes, sum, step);
    if (lane_id() >= static_cast<unsigned>(step)) sum += other;
  }
  const unsigned met = __ballot_sync(all_lanes, count > 0);
  if (lane_id() == 31) {
    pairs_of[warp] = sum;
    met_of[warp] = __popc(met);
  }
  __syncthreads();
  const bool earlier = lane_id() < warp;
  return {sum - count + __reduce_add_sync(all_lanes, earlier ? pairs_of[lane_id()] : 0),
          __popc(met & lanes_before()) + __reduce_add_sync(all_lanes, earlier ? met_of[lane_id()] : 0)};
}

/// Thread e knows how many pairs expert e has: first places of all experts, and which have any. Ends with a barrier.
__device__ void write_begins(int count, int local_experts, int* begin, const Grouping& grouping, std::int32_t* met) {
  const auto expert = static_cast<int>(threadIdx.x);
  const Before before = sum_before(count);
  const int end = before.pairs + count;
  const int met_here = before.met + (count > 0 ? 1 : 0);
  auto* spans = reinterpret_cast<int2*>(grouping.spans);
  begin[expert] = before.pairs;
  if (expert < local_experts) grouping.begin[expert] = before.pairs;
  if (spans && count > 0) spans[met_here] = make_int2(expert, before.pairs);
  if (expert == local_experts - 1) {
    grouping.begin[local_experts] = end;
    if (spans) spans[0] = make_int2(met_here, end);
    if (met) *met = met_here;
  }
  __syncthreads();
}

/// Routing and sorting of up to 32 tokens: a warp a token. A bit of met_by[expert] is a token, so places among an
/// expert's pairs are bits before the token's.
template <int C>
__global__ void __launch_bounds__(block_threads) route_few(RouteCall call) {
  __shared__ unsigned met_by[most_experts];
  __shared__ int begin[most_experts];
  met_by[threadIdx.x] = 0;
  wait_for_predecessor();
  const std::int64_t token = threadIdx.x / 32;
  const auto first = static_cast<int>(call.first_expert);
  const auto held = static_cast<int>(call.local_experts);
  const bool here = token < call.tokens;
  Chosen<C> chosen;
  if (here) {
    chosen =
        choose<C>(call.scores + token * call.experts, static_cast<int>(call.experts), static_cast<int>(call.top_k));
    write_choices(call, token, chosen);
  }
  __syncthreads();
  if (here)
    each_choice<C>(chosen.taken, [&](int, int expert, unsigned) {
      if (expert >= first && expert < first + held) atomicOr(&met_by[expert - first], 1U << token);
    });
  __syncthreads();
  write_begins(__popc(met_by[threadIdx.x]), held, begin, call.grouping, call.met);
  if (here)
    each_choice<C>(chosen.taken, [&](int, int expert, unsigned choice) {
      const int local = expert - first;
      if (local < 0 || local >= held) return;
      const int place = begin[local] + __popc(met_by[local] & ((1U << token) - 1));
      call.grouping.pair_of[place] = static_cast<std::int32_t>(token * call.top_k + choice);
    });
}

/// Routing of any number of tokens: a warp a token.
template <int C>
__global__ void __launch_bounds__(128) route_many(RouteCall call) {
  const std::int64_t token = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (token >= call.tokens) return;
  write_choices(
      call, token,
      choose<C>(call.scores + token * call.experts, static_cast<int>(call.experts), static_cast<int>(call.top_k)));
}

struct Pairs {
  const std::int32_t* expert;
  int count;
  int first_expert, local_experts;

  /// Local expert of a pair, -1 for one of another rank.
  __device__ int local(int pair) const {
    if (pair >= count) return -1;
    const int at = expert[pair] - first_expert;
    return at >= 0 && at < local_experts ? at : -1;
  }
};

/// Sorting of any number of pairs by one block: counts, first places, then 1,024 pairs at a time, each behind those of
/// earlier rounds, of earlier warps of its round, and of earlier lanes of its warp.
__global__ void __launch_bounds__(block_threads)
    sort_pairs(Pairs pairs, Grouping grouping, std::int32_t* met, int experts_rounded) {
  extern __shared__ unsigned words[];
  auto* of_warp = reinterpret_cast<unsigned char*>(words);  // [warps][experts_rounded]: pairs of a warp's round
  __shared__ int next[most_experts];                        // first counts, then the next place of each expert
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  next[thread] = 0;
  __syncthreads();
  for (int pair = thread; pair < pairs.count; pair += block_threads)
    if (const int expert = pairs.local(pair); expert >= 0) atomicAdd(&next[expert], 1);
  __syncthreads();
  write_begins(next[thread], pairs.local_experts, next, grouping, met);
  for (int round = 0; round < pairs.count; round += block_threads) {
    for (int i = thread; i < block_warps * experts_rounded / 4; i += block_threads) words[i] = 0;
    __syncthreads();
    const int pair = round + thread;
    const int expert = pairs.local(pair);
    const unsigned same = __match_any_sync(all_lanes, expert);
    if (expert >= 0 && (same & lanes_before()) == 0)
      of_warp[warp * experts_rounded + expert] = static_cast<unsigned char>(__popc(same));
    __syncthreads();
    if (expert >= 0) {
      int place = next[expert] + __popc(same & lanes_before());
      for (int w = 0; w < warp; ++w) place += of_warp[w * experts_rounded + expert];
      grouping.pair_of[place] = pair;
    }
    __syncthreads();
    if (thread < pairs.local_experts)
      for (int w = 0; w < block_warps; ++w) next[thread] += of_warp[w * experts_rounded + thread];
    __syncthreads();
  }
}

void launch_sort(const Pairs& pairs, const Grouping& grouping, std::int32_t* met, cudaStream_t stream) {
  const int rounded = (pairs.local_experts + 3) / 4 * 4;
  const auto shared = static_cast<std::size_t>(block_warps * rounded);
  sort_pairs<<<1, block_threads, shared, stream>>>(pairs, grouping, met, rounded);
}

template <int C>
void launch_route(const RouteCall& call, cudaStream_t stream) {
  if (call.tokens <= most_at_once) {
    launch_early(route_few<C>, {dim3(1), block_threads, 0, stream}, call);
    return;
  }
  constexpr int warps = 4;
  route_many<C><<<blocks_for(call.tokens, warps), 32 * warps, 0, stream>>>(call);
  launch_sort({call.ids, static_cast<int>(call.tokens * call.top_k), static_cast<int>(call.first_expert),
               static_cast<int>(call.local_experts)},
              call.grouping, call.met, stream);
}

void check_experts(std::int64_t experts, const char* what) {
  if (experts < 1 || experts > most_experts)
    throw std::invalid_argument(std::string(what) + ": " + std::to_string(experts) + " experts; 1 to " +
                                std::to_string(most_experts));
}

}  // namespace

void route(const RouteCall& call, cudaStream_t stream) {
  check_experts(call.experts, "route");
  check_experts(call.local_experts, "route, of this rank");
  if (call.top_k < 1 || call.top_k > call.experts)
    throw std::invalid_argument("route: top-" + std::to_string(call.top_k) + " of " + std::to_string(call.experts) +
                                " experts");
  if (call.experts <= 128)
    launch_route<4>(call, stream);
  else if (call.experts <= 256)
    launch_route<8>(call, stream);
  else if (call.experts <= 384)
    launch_route<12>(call, stream);
  else
    launch_route<32>(call, stream);
  comm::check(cudaGetLastError(), "route");
}

void group_pairs(const std::int32_t* expert, std::int64_t pairs, std::int64_t first_expert, std::int64_t local_experts,
                 const Grouping& grouping, cudaStream_t stream, std::int32_t* met) {
  check_experts(local_experts, "group_pairs");
  launch_sort({expert, static_cast<int>(pairs), static_cast<int>(first_expert), static_cast<int>(local_experts)},
              grouping, met, stream);
  comm::check(cudaGetLastError(), "group_pairs");
}

}  // namespace specstep::cuda
