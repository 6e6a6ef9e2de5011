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

constexpr int most_ranks = 8;
constexpr double pack_bytes = 16;
constexpr double ring_lines = 24 * (2 + 8.0 / 3) / (8 * (2 + 8));  // packets of a store against those of 32-byte pairs
constexpr int copy_streams = 4;                                    // of ce
constexpr double most_threads = 512;                               // of a block
constexpr double nccl_dev_threads = 256;

/// A call of our kernels, and what their parts take on this fabric.
struct PricedCall {
  const Topology& topology;
  const Call& call;
  const OwnKernels& kernels;
  double step, more, fence, norm, flag;
  double blocks;
  PricedCall(const Topology& t, const Call& c)
      : topology(t),
        call(c),
        kernels(*t.spec().gpu.own_kernels),
        step(kernels.step_us.value * us),
        more(c.ranks > 2 ? kernels.more_ranks_us.value * us : 0),
        fence(kernels.fence_us.value * us),
        norm(kernels.norm_us.value * us),
        flag(slowest_flag_seconds(t, c.ranks)),
        blocks(c.own->blocks > 0 ? static_cast<double>(c.own->blocks) : double{most_own_blocks}) {}
};

// How often memory moves what comes into an inbox.
constexpr double with_markers = 3;
constexpr double with_flags = 2;

Carrier carrier(Wire wire, double passes, double fixed) {
  return {.wire = wire, .kernel = {.fixed = fixed, .inbox_passes = passes, .fitted = true}};
}

Variant pushed_lines(const PricedCall& x) {
  return {one_shot(x.call.ranks, Operation::write), carrier(Wire::ll, with_flags, x.step + x.more)};
}

Variant pushed(const PricedCall& x) {
  if (x.call.own->wire != "ll")
    return {one_shot(x.call.ranks, Operation::write), carrier(Wire::plain, with_markers, x.step + x.more)};
  Variant v = pushed_lines(x);
  v.carrier.kernel.stores_per_second = x.kernels.line_gb_s.value * 1e9;
  return v;
}

Variant pulled(const PricedCall& x) {
  Variant v{one_shot(x.call.ranks, Operation::read), carrier(Wire::plain, with_flags, x.step + x.more + 2 * x.fence)};
  if (!x.call.norm) return v;
  // The end flag is on its way while the norm is made, which every kernel is charged with.
  v.schedule.end_barrier = false;
  v.carrier.kernel.fixed += std::max(0.0, x.flag - x.norm);
  return v;
}

Variant two_stages(const PricedCall& x) {
  const int ranks = x.call.ranks;
  if (x.call.own->transfer != "pull")
    return {two_stage(ranks, Operation::write), carrier(Wire::plain, with_markers, 2 * (x.step + x.more))};
  Variant v{two_stage(ranks, Operation::read), carrier(Wire::plain, with_flags, x.step + 2 * x.more + x.fence)};
  v.schedule.end_barrier = false;
  v.carrier.kernel.stage = x.fence;
  return v;
}

Variant over_islands(const PricedCall& x) {
  const Islands& given = x.call.own->islands;
  const Islands plan = given.empty() ? cheapest_islands(x.topology, x.call.ranks) : given;
  Variant v{island(plan, Operation::write), carrier(Wire::plain, with_markers, 0)};
  for (Phase& phase : v.schedule.phases) {
    v.carrier.kernel.fixed += x.step + x.more;
    phase.fp32 = phase.name.starts_with("exchange");
  }
  return v;
}

Variant round_the_ring(const PricedCall& x) {
  Variant v{ring(Collective::all_reduce, in_rank_order(x.call.ranks)), carrier(Wire::ll, with_flags, 0)};
  for (Phase& phase : v.schedule.phases) {
    v.carrier.kernel.fixed += x.step;
    phase.fp32 = phase.transfers.front().effect == Effect::combine;
  }
  v.carrier.kernel.stores_per_second = x.kernels.line_gb_s.value * 1e9 / ring_lines;
  return v;
}

Variant quantised(const PricedCall& x) {
  return {two_stage(x.call.ranks, Operation::write), carrier(Wire::fp8, with_markers, 0)};
}

Variant by_copies(const PricedCall& x) {
  const EndpointSpec& gpu = x.topology.spec().gpu;
  const int peers = x.call.ranks - 1;
  const int in_turn = 2 * ((peers + copy_streams - 1) / copy_streams) + (x.call.ranks == 2 ? 1 : 2);
  const double fixed = gpu.graph_node_us.value * us + 2 * x.fence + in_turn * x.kernels.copy_us.value * us;
  Variant v{two_stage(x.call.ranks, Operation::write), carrier(Wire::plain, with_flags, fixed)};
  v.schedule.name = "two-stage by copies";
  v.carrier.kernel.per_byte = 2.0 * peers / x.call.ranks / (gpu.reduce_gb_s.value * 1e9);
  return v;
}

/// The longest message that hostbc shows in pairs.
std::int64_t most_in_pairs(int ranks) {
  const protocol::Capacity room{ranks, std::numeric_limits<std::uint32_t>::max(), 1};
  return std::int64_t{protocol::packs_in_pairs(room)} * std::int64_t{sizeof(protocol::Pack)};
}

Variant over_boards(const PricedCall& x) {
  Variant v{host_broadcast(x.call.ranks), carrier(Wire::ll, with_flags, x.step + x.more)};
  if (x.call.bytes <= most_in_pairs(x.call.ranks)) {
    v.schedule.phases.back().streamed = true;
    return v;
  }
  constexpr double blocks = protocol::blocks_with_flags;  // fewer than these were slower, which is not priced
  v.schedule.name += ", flags";
  v.carrier =
      carrier(Wire::plain, with_flags, x.step + x.more + x.fence + (blocks - 1) * x.kernels.host_fence_us.value * us);
  v.carrier.kernel.loads = blocks * most_threads;
  Phase look = v.schedule.phases.back();
  look.name = "look for flags";
  for (Transfer& transfer : look.transfers) transfer.from = transfer.to = {0, 0, 1};
  v.schedule.phases.insert(v.schedule.phases.begin() + 1, look);
  return v;
}

/// Seconds that grow with the size in steps.
using InSteps = std::function<double(std::int64_t)>;

/// Warps of a block of a call, as OwnComm::grid_for shares out its packs.
double warps_of(double packs, double blocks) {
  return std::clamp(std::ceil(packs / blocks / 32), 2.0, most_threads / 32);
}

InSteps codecs_in_turn(const PricedCall& x) {
  return [codecs = 3 * x.call.ranks - 1, codec = x.kernels.codec_us.value, warp = x.kernels.codec_warp_us.value,
          blocks = x.blocks](std::int64_t bytes) {
    const double packs = std::ceil(static_cast<double>(bytes) / pack_bytes);
    return codecs * (codec + warp * (warps_of(packs, blocks) - 2)) * us;
  };
}

InSteps lines_in_rounds(const PricedCall& x) {
  return [round = x.flag + x.step + x.more, blocks = x.blocks](std::int64_t bytes) {
    const double rounds = std::ceil(static_cast<double>(bytes) / pack_bytes / (blocks * nccl_dev_threads));
    return std::max(0.0, rounds - 1) * round;
  };
}

struct OwnRow {
  std::string_view id;
  Variant (*variant)(const PricedCall&);
  InSteps (*in_steps)(const PricedCall&) = nullptr;
  std::int64_t (*other_above)(int ranks) = nullptr;  // the size above which the variant is another one
};
constexpr std::array<OwnRow, 9> own_rows{{{"push1", pushed},
                                          {"pull1", pulled},
                                          {"rsag", two_stages},
                                          {"island", over_islands},
                                          {"ring", round_the_ring},
                                          {"q8", quantised, codecs_in_turn},
                                          {"ce", by_copies},
                                          {"hostbc", over_boards, nullptr, most_in_pairs},
                                          {"nccl_dev", pushed_lines, lines_in_rounds}}};

const OwnRow* row_of(const std::string& id) {
  const auto* found = std::find_if(own_rows.begin(), own_rows.end(), [&](const OwnRow& row) { return row.id == id; });
  return found == own_rows.end() ? nullptr : found;
}

}  // namespace

bool priced_as_own(const std::string& id, const Topology& topology, const Call& call) {
  return call.own && topology.spec().gpu.own_kernels && call.kind == Collective::all_reduce && call.ranks > 1 &&
         call.ranks <= most_ranks && row_of(id);
}

std::vector<Variant> own_variants(const std::string& id, const Topology& topology, const Call& call) {
  const PricedCall x(topology, call);
  Variant v = row_of(id)->variant(x);
  v.schedule.name = "own " + v.schedule.name;
  v.carrier.value_bytes = bytes_of(call.dtype);
  if (v.carrier.kernel.loads == 0) v.carrier.kernel.loads = x.blocks * most_threads;
  if (call.norm) v.carrier.kernel.fixed += x.norm;
  return {std::move(v)};
}

Prepared own_price(const std::string& id, const Topology& topology, const Call& call) {
  const OwnRow& row = *row_of(id);
  const InSteps in_steps = row.in_steps ? row.in_steps(PricedCall(topology, call)) : InSteps{};
  const auto of_size = [&](std::int64_t bytes) {
    Call one = call;
    one.bytes = bytes;
    return priced_schedules(topology, own_variants(id, topology, one), in_steps);
  };
  if (!row.other_above) return of_size(call.bytes);
  return [most = row.other_above(call.ranks), up_to = of_size(row.other_above(call.ranks)),
          above = of_size(row.other_above(call.ranks) + 1)](const Call& now) {
    return now.bytes <= most ? up_to(now) : above(now);
  };
}

}  // namespace specstep::comm
