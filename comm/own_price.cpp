// Price of specstep's own kernels, from what comm/protocol and comm/cuda/own make a thread do.
//
// Beside what every kernel takes (schedule_price.cpp):
//
//   push1     one step.
//   pull1     a step that lays the input where peers read it; a fence before each of its two barriers.
//   rsag      by writes two steps. By reads as pull1, without an end barrier: the next call's first one serves.
//   island    a step in each of its three phases; what crosses is fp32.
//   ring      a step in each of 2 (n - 1) phases; sums on their way are fp32. It knows two neighbours only, so that its
//             steps are those of two ranks whatever their number.
//   q8        no steps but codecs, one behind the other: n - 1 parts and one's own are encoded and n - 1 decoded, the
//             sum is encoded, n - 1 sums are decoded: 3 n - 1. A block's warps share its multiprocessor.
//   ce        two kernels with a barrier each; copies to peers before and behind the first, on four streams, and behind
//             the second one or two from the inbox to the vector, which pass memory once more.
//   hostbc    one step; in pairs what a rank wrote is read while it still writes. With flags a fence, then in turn one
//   of
//             each further block, and a look for the flag ahead of the data.
//   nccl_dev  one step for each round of 256 threads a block, and the flag again.
//
// Inboxes: what comes with marker values is written, read and emptied, 3 passes; the rest is written and read, 2.
// Pairs {data, epoch} of one thread fill 32 bytes in two stores, so that the warp's store passes eight lines of 128
// bytes, each a packet with a header and byte masks: a GPU stores them slower than whole lines (`line_gb_s`). The
// ring's packs lie 96 bytes apart, in 24 lines: in units of 16 bytes 24 (2 + 8 / 3) instead of 8 (2 + 8), 1.4 times as
// many. nccl_dev's lie beside each other, and have the links' rate.
#include "comm/own_price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "comm/footprint.h"
#include "comm/island_plan.h"
#include "comm/protocol/boards.h"
#include "comm/schedules/schedules.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

constexpr std::array<std::string_view, 9> known{"push1", "pull1", "rsag",   "island",  "ring",
                                                "q8",    "ce",    "hostbc", "nccl_dev"};
constexpr int most_ranks = 8;
constexpr double pack_bytes = 16;
constexpr double ring_lines = 24 * (2 + 8.0 / 3) / (8 * (2 + 8));  // packets of a store against those of 32-byte pairs
constexpr int copy_streams = 4;                                    // of ce
constexpr double most_threads = 512;                               // of a block
constexpr double nccl_dev_threads = 256;

struct Times {
  double step, more, fence, norm, flag;
  Times(const OwnKernels& k, const Topology& t, int ranks)
      : step(k.step_us.value * us),
        more(ranks > 2 ? k.more_ranks_us.value * us : 0),
        fence(k.fence_us.value * us),
        norm(k.norm_us.value * us),
        flag(slowest_flag_seconds(t, ranks)) {}
};

// How often memory moves what comes into an inbox.
constexpr double with_markers = 3;
constexpr double with_flags = 2;

Carrier carrier(Wire wire, double passes, double fixed) {
  return {.wire = wire, .kernel = {.fixed = fixed, .inbox_passes = passes, .fitted = true}};
}

Variant one_stage(const Times& x, const Call& call) {
  Variant v{one_shot(call.ranks, Operation::read), carrier(Wire::plain, with_flags, x.step + x.more + 2 * x.fence)};
  if (!call.norm) return v;
  // The end flag is on its way while the norm is made.
  v.schedule.end_barrier = false;
  v.carrier.kernel.fixed += std::max(x.norm, x.flag);
  return v;
}

Variant two_stages(const Times& x, const Call& call) {
  if (call.own->transfer != "pull")
    return {two_stage(call.ranks, Operation::write), carrier(Wire::plain, with_markers, 2 * (x.step + x.more))};
  Variant v{two_stage(call.ranks, Operation::read), carrier(Wire::plain, with_flags, x.step + 2 * x.more + x.fence)};
  v.schedule.end_barrier = false;
  v.carrier.kernel.stage = x.fence;
  return v;
}

Variant over_islands(const Topology& t, const Times& x, const Call& call) {
  const Islands plan = call.own->islands.empty() ? cheapest_islands(t, call.ranks) : call.own->islands;
  Variant v{island(plan, Operation::write), carrier(Wire::plain, with_markers, 0)};
  for (Phase& phase : v.schedule.phases) {
    v.carrier.kernel.fixed += x.step + x.more;
    phase.fp32 = phase.name.starts_with("exchange");
  }
  return v;
}

Variant round_the_ring(const Times& x, const Call& call, double line_rate) {
  Variant v{ring(Collective::all_reduce, in_rank_order(call.ranks)), carrier(Wire::ll, with_flags, 0)};
  for (Phase& phase : v.schedule.phases) {
    v.carrier.kernel.fixed += x.step;
    phase.fp32 = phase.transfers.front().effect == Effect::combine;
  }
  v.carrier.kernel.stores_per_second = line_rate / ring_lines;
  return v;
}

Variant by_copies(const Topology& t, const Times& x, const Call& call) {
  const EndpointSpec& gpu = t.spec().gpu;
  const int peers = call.ranks - 1;
  const int in_turn = 2 * ((peers + copy_streams - 1) / copy_streams) + (call.ranks == 2 ? 1 : 2);
  const double fixed = gpu.graph_node_us.value * us + 2 * x.fence + in_turn * gpu.own_kernels->copy_us.value * us;
  Variant v{two_stage(call.ranks, Operation::write), carrier(Wire::plain, with_flags, fixed)};
  v.schedule.name = "two-stage by copies";
  v.carrier.kernel.per_byte = 2.0 * peers / call.ranks / (gpu.reduce_gb_s.value * 1e9);
  return v;
}

double blocks_of(const Call& call) {
  return call.own->blocks > 0 ? static_cast<double>(call.own->blocks) : double{most_own_blocks};
}

/// Of a message in pairs.
Variant over_boards(const Times& x, const Call& call) {
  Variant v{host_broadcast(call.ranks), carrier(Wire::ll, with_flags, x.step + x.more)};
  v.schedule.phases.back().streamed = true;
  return v;
}

/// Of a longer one.
Variant over_boards_with_flags(const Topology& t, const Call& call, double blocks) {
  const OwnKernels& k = *t.spec().gpu.own_kernels;
  const Times x(k, t, call.ranks);
  const double fences = x.fence + (blocks - 1) * k.host_fence_us.value * us;
  Variant v{host_broadcast(call.ranks), carrier(Wire::plain, with_flags, x.step + x.more + fences)};
  v.schedule.name += ", flags";
  Phase look = v.schedule.phases.back();
  look.name = "look for flags";
  for (Transfer& transfer : look.transfers) transfer.from = transfer.to = {0, 0, 1};
  v.schedule.phases.insert(v.schedule.phases.begin() + 1, look);
  return v;
}

Variant own_variant(const std::string& id, const Topology& t, const Call& call) {
  const OwnKernels& k = *t.spec().gpu.own_kernels;
  const Times x(k, t, call.ranks);
  const double line_rate = k.line_gb_s.value * 1e9;
  if (id == "pull1") return one_stage(x, call);
  if (id == "rsag") return two_stages(x, call);
  if (id == "island") return over_islands(t, x, call);
  if (id == "ring") return round_the_ring(x, call, line_rate);
  if (id == "q8") return {two_stage(call.ranks, Operation::write), carrier(Wire::fp8, with_markers, 0)};
  if (id == "ce") return by_copies(t, x, call);
  if (id == "hostbc") return over_boards(x, call);
  const bool lines = id == "nccl_dev" || call.own->wire == "ll";
  Variant v{one_shot(call.ranks, Operation::write), lines ? carrier(Wire::ll, with_flags, x.step + x.more)
                                                          : carrier(Wire::plain, with_markers, x.step + x.more)};
  if (lines && id == "push1") v.carrier.kernel.stores_per_second = line_rate;
  return v;
}

/// Warps of a block of a call, as OwnComm::grid_for shares out its packs.
double warps_of(double packs, double blocks) {
  return std::clamp(std::ceil(packs / blocks / 32), 2.0, most_threads / 32);
}

/// Seconds that grow with the size in steps; empty where there are none.
std::function<double(std::int64_t)> in_steps(const std::string& id, const Topology& t, const Call& call) {
  const OwnKernels& k = *t.spec().gpu.own_kernels;
  const double blocks = blocks_of(call);
  if (id == "q8")
    return [=, codecs = 3 * call.ranks - 1, codec = k.codec_us.value, warp = k.codec_warp_us.value](std::int64_t b) {
      return codecs * (codec + warp * (warps_of(std::ceil(static_cast<double>(b) / pack_bytes), blocks) - 2)) * us;
    };
  if (id == "nccl_dev") {
    const Times x(k, t, call.ranks);
    return [=, round = x.flag + x.step + x.more](std::int64_t b) {
      const double rounds = std::ceil(static_cast<double>(b) / pack_bytes / (blocks * nccl_dev_threads));
      return std::max(0.0, rounds - 1) * round;
    };
  }
  return {};
}

}  // namespace

bool priced_as_own(const std::string& id, const Topology& topology, const Call& call) {
  return call.own && topology.spec().gpu.own_kernels && call.kind == Collective::all_reduce && call.ranks > 1 &&
         call.ranks <= most_ranks && std::find(known.begin(), known.end(), id) != known.end();
}

namespace {

Variant completed(Variant v, const Call& call, double blocks) {
  v.schedule.name = "own " + v.schedule.name;
  v.carrier.value_bytes = bytes_of(call.dtype);
  v.carrier.kernel.loads = blocks * most_threads;
  return v;
}

/// The longest message that hostbc shows in pairs.
std::int64_t bytes_in_pairs(int ranks) {
  const protocol::Capacity room{ranks, std::numeric_limits<std::uint32_t>::max(), 1};
  return std::int64_t{protocol::packs_in_pairs(room)} * std::int64_t{sizeof(protocol::Pack)};
}

Variant boards_with_flags(const Topology& topology, const Call& call) {
  const double blocks = std::min(blocks_of(call), double{protocol::blocks_with_flags});
  return completed(over_boards_with_flags(topology, call, blocks), call, blocks);
}

/// The kernel takes pairs or flags by the size.
Prepared boards_price(const Topology& topology, Call call) {
  call.bytes = bytes_in_pairs(call.ranks);
  return [most = call.bytes, pairs = priced_schedules(topology, own_variants("hostbc", topology, call)),
          longer = priced_schedules(topology, {boards_with_flags(topology, call)})](const Call& now) {
    return now.bytes <= most ? pairs(now) : longer(now);
  };
}

}  // namespace

std::vector<Variant> own_variants(const std::string& id, const Topology& topology, const Call& call) {
  if (id == "hostbc" && call.bytes > bytes_in_pairs(call.ranks)) return {boards_with_flags(topology, call)};
  Variant v = completed(own_variant(id, topology, call), call, blocks_of(call));
  if (call.norm && id != "pull1") v.carrier.kernel.fixed += topology.spec().gpu.own_kernels->norm_us.value * us;
  return {std::move(v)};
}

Prepared own_price(const std::string& id, const Topology& topology, const Call& call) {
  if (id == "hostbc") return boards_price(topology, call);
  return priced_schedules(topology, own_variants(id, topology, call), in_steps(id, topology, call));
}

}  // namespace specstep::comm
