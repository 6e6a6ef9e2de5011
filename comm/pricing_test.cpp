// Prices: arithmetic on small fabrics, refusals, and the interface that sim relies on.
#include "comm/pricing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/backend.h"
#include "comm/island_plan.h"
#include "comm/schedules/schedules.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

double us_of(const std::string& id, const Topology& t, int ranks, std::int64_t bytes) {
  return price(id, t, {.ranks = ranks, .bytes = bytes}).seconds * 1e6;
}

// 2+2 GPUs on links of 10 GB/s. Launch 1 us. Push: the slowest flag is 0.5 + 3 * 0.25. The uplink carries 4 S one way.
TEST(Pricing, PushOnTwoSwitchesIsArithmetic) {
  const Topology t = fabric_text(two_switches(2));
  EXPECT_NEAR(us_of("push1", t, 4, 160000), 1 + 1.25 + 4 * 160000 / 10e3, 0.01);
}

// Pull adds: barrier 1.25, read 0.6 + 0.75, barrier 1.25.
TEST(Pricing, PullAddsTwoBarriersAndARoundTrip) {
  const Topology t = fabric_text(two_switches(2));
  EXPECT_NEAR(us_of("pull1", t, 4, 160000), 1 + 1.25 + 1.35 + 1.25 + 4 * 160000 / 10e3, 0.01);
}

// Ring: each step is as long as its longest link is far for the rank that waits; bytes 2 * 3/4 * S in LL (twice).
TEST(Pricing, RingSendsOneFlowOverTheUplink) {
  const Topology t = fabric_text(two_switches(2));
  const double bytes_us = 6 * (160000 / 4) * 2 / 10e3;
  const double price = us_of("ring", t, 4, 160000);
  EXPECT_GT(price, 1 + 6 * 1.0 + bytes_us);
  EXPECT_LT(price, 1 + 6 * 1.25 + bytes_us + 0.01);
}

// Bytes over the busiest uplink direction with two islands of four (a closed form of each algorithm).
TEST(Pricing, BytesPerUplink) {
  const Topology t = fabric_text(two_switches(4));
  const auto uplink = [&](const Schedule& s, Wire wire) { return price_schedule(s, t, {.wire = wire}).busiest_uplink; };
  const std::vector<std::vector<int>> islands{{0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_DOUBLE_EQ(uplink(one_shot(8, Operation::write), Wire::sentinel), 16);
  EXPECT_DOUBLE_EQ(uplink(one_shot(8, Operation::read), Wire::plain), 16);
  EXPECT_DOUBLE_EQ(uplink(one_shot(8, Operation::write), Wire::ll), 32);
  EXPECT_NEAR(uplink(one_shot(8, Operation::write), Wire::ll128), 17.1, 0.05);
  EXPECT_DOUBLE_EQ(uplink(two_stage(8, Operation::read), Wire::plain), 4);
  EXPECT_DOUBLE_EQ(uplink(ring(Collective::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}), Wire::plain), 1.75);
  EXPECT_DOUBLE_EQ(uplink(ring(Collective::all_reduce, {0, 1, 2, 3, 4, 5, 6, 7}), Wire::ll), 3.5);
  EXPECT_DOUBLE_EQ(uplink(chain({0, 1, 2, 3, 4, 5, 6, 7}), Wire::plain), 1);
  EXPECT_DOUBLE_EQ(uplink(island(islands, Operation::write), Wire::sentinel), 1);
  EXPECT_NEAR(uplink(two_stage(8, Operation::read), Wire::fp8), 2, 0.05);
}

// A division that is asked for is the one that is priced. With pairs across the uplink each of four pairs sends half
// the message over it to reduce and half to gather, and nothing to exchange: 4 of the message in a direction instead
// of 1.
TEST(Pricing, TheDivisionThatIsAskedFor) {
  const Topology t = fabric_text(two_switches(4));
  const std::vector<std::vector<int>> along{{0, 1, 2, 3}, {4, 5, 6, 7}}, across{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_DOUBLE_EQ(price_schedule(island(across, Operation::read), t, {}).busiest_uplink, 4);
  constexpr std::int64_t bytes = std::int64_t{1} << 24;
  const auto in = [](const std::vector<std::vector<int>>& islands, int ranks) {
    return Call{.ranks = ranks, .bytes = bytes, .own = OwnSettings{.islands = islands}};
  };
  const double more = price("island", t, in(across, 8)).seconds - price("island", t, in(along, 8)).seconds;
  const double uplink = 10e9;  // bytes a second
  EXPECT_NEAR(more, 3 * static_cast<double>(bytes) / uplink, 0.02 * more);
  EXPECT_DOUBLE_EQ(price("island", t, in(along, 8)).seconds, price("island", t, {.ranks = 8, .bytes = bytes}).seconds)
      << "no pair map is cheaper here";
  // Where the fabric has no division of its own, one that is asked for can be carried out all the same.
  const Call four{.ranks = 4, .bytes = bytes};
  EXPECT_TRUE(refusal("island", t, four)) << "all on one switch";
  EXPECT_FALSE(refusal("island", t, in({{0, 1}, {2, 3}}, 4)));
  EXPECT_TRUE(refusal("island", t, in(along, 4))) << "a division of eight ranks is none of four";
}

TEST(Pricing, OneRankCostsNothing) {
  const Topology t = fabric("h200_nvswitch8");
  for (const BackendRow& row : backends()) {
    const Call call{.ranks = 1, .bytes = 14336};
    if (!refusal(row.id, t, call)) {
      EXPECT_EQ(price(row.id, t, call).seconds, 0) << row.id;
    }
  }
}

TEST(Pricing, EagerIsNeverBelowTheLaunchInterval) {
  const Topology t = fabric("h200_nvswitch8");
  const CommPrice eager = price("nccl", t, {.ranks = 2, .bytes = 14336, .captured = false});
  EXPECT_NEAR(eager.seconds * 1e6, 13, 1e-9);  // measured 12.74 on two H200
  EXPECT_EQ(eager.bottleneck, "eager launch");
  EXPECT_GT(price("nccl", t, {.ranks = 8, .bytes = 1 << 26, .captured = false}).seconds, 100e-6);
}

TEST(Pricing, PricerAgreesWithPrice) {
  const Topology t = fabric("asus_dual_turin_collapse");
  Pricer pricer(t);
  for (const BackendRow& row : backends())
    for (int ranks : {2, 4, 8})
      for (std::int64_t bytes : {1024, 14336, 43008, 1 << 20}) {
        const Call call{.ranks = ranks, .bytes = bytes};
        if (refusal(row.id, t, call)) {
          EXPECT_THROW(pricer.price(row.id, call), InputError);
          continue;
        }
        const CommPrice once = price(row.id, t, call);
        const CommPrice again = pricer.price(row.id, call);
        EXPECT_DOUBLE_EQ(once.seconds, again.seconds) << row.id;
        EXPECT_EQ(once.algorithm, again.algorithm);
        EXPECT_FALSE(once.bottleneck.empty());
      }
}

TEST(Pricing, TimeGrowsWithBytes) {
  for (const std::string name : {"switch_4p4_microchip", "h200_nvswitch8", "asus_dual_turin_collapse"}) {
    Pricer pricer(fabric(name));
    for (const BackendRow& row : backends()) {
      if (row.id == "nvls") continue;
      double last = 0;
      for (std::int64_t bytes = 1024; bytes <= (1 << 24); bytes *= 2) {
        const double now = pricer.price(row.id, {.ranks = 8, .bytes = bytes}).seconds;
        EXPECT_GE(now, last) << name << " " << row.id << " " << bytes;
        last = now;
      }
    }
  }
}

TEST(Refusal, SaysWhy) {
  const Topology t = fabric("switch_4p4_microchip");
  EXPECT_THAT(*refusal("nccll", t, {.ranks = 8, .bytes = 64}), HasSubstr("did you mean 'nccl'?"));
  EXPECT_THAT(*refusal("nvls", t, {.ranks = 8, .bytes = 64}), HasSubstr("multicast"));
  EXPECT_THAT(*refusal("push1", t, {.ranks = 9, .bytes = 64}), HasSubstr("9 ranks on a fabric of 8 GPUs"));
  EXPECT_THAT(*refusal("push1", t, {.ranks = 8, .bytes = 15}), HasSubstr("16-byte packs"));
  EXPECT_THAT(*refusal("push1", t, {.kind = Collective::all_gather, .ranks = 8, .bytes = 64}),
              HasSubstr("no all_gather; nccl has"));
  EXPECT_THAT(*refusal("nccl", t, {.ranks = 8, .bytes = -1}), HasSubstr("-1 bytes"));
  EXPECT_THAT(*refusal("island", t, {.ranks = 4, .bytes = 64}), HasSubstr("islands"));
  EXPECT_FALSE(refusal("nccl", t, {.kind = Collective::all_to_all, .ranks = 8, .bytes = 4096}).has_value());
}

TEST(Refusal, PairsWithoutPeerAccessLeaveNcclAndTheHost) {
  FabricSpec spec = fabric_file("switch_4p4_microchip");
  spec.default_path = PathClass::none;
  const Topology t = build_topology(spec);
  const Call call{.ranks = 8, .bytes = 14336};
  for (const char* id : {"push1", "pull1", "rsag", "island", "ring", "ce", "q8", "nccl_sym", "nccl_dev"})
    EXPECT_THAT(refusal(id, t, call).value_or(""), HasSubstr("cannot reach each other's memory")) << id;
  EXPECT_FALSE(refusal("hostbc", t, call).has_value());
  EXPECT_FALSE(refusal("nccl", t, call).has_value());
  EXPECT_GT(us_of("nccl", t, 8, 14336), us_of("nccl", fabric("switch_4p4_microchip"), 8, 14336) + 15);
}

// 43,008 B on 8 ranks over 56.3 GB/s: 1.75 S / 56.3 = 1.34 us, plus a node of 0.52 us.
TEST(Floor, NoExactBackendIsBelowIt) {
  const Topology t = fabric("switch_4p4_microchip");
  EXPECT_NEAR(least_allreduce_seconds(t, {.ranks = 8, .bytes = 43008}) * 1e6, 43008 * 1.75 / 56.3e3 + 0.52, 1e-6);
  for (const std::string name : {"switch_4p4_microchip", "h200_nvswitch8", "asus_dual_turin_collapse"}) {
    const Topology here = fabric(name);
    for (const BackendRow& row : backends())
      for (std::int64_t bytes : {1024, 43008, 1 << 22}) {
        const Call call{.ranks = 8, .bytes = bytes};
        if (row.id == "null" || row.id == "q8" || refusal(row.id, here, call)) continue;
        EXPECT_GE(price(row.id, here, call).seconds, least_allreduce_seconds(here, call)) << name << " " << row.id;
      }
  }
}

// Bytes that a GPU must at least receive, over its one link.
TEST(Floor, NoCollectiveOfNcclIsFasterThanTheLinks) {
  for (const std::string name : {"h200_nvswitch8", "h100_nvswitch8", "switch_4p4_microchip"}) {
    const Topology t = fabric(name);
    double link = 0;
    for (const Link& l : t.links())
      if (l.to == t.gpus()[0]) link = std::max(link, l.bytes_per_second);
    for (const Collective kind :
         {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all})
      for (std::int64_t bytes : {1 << 16, 1 << 20, 1 << 24, 1 << 28}) {
        const double received = (kind == Collective::all_gather   ? 7.0
                                 : kind == Collective::all_reduce ? 14.0 / 8
                                                                  : 7.0 / 8) *
                                static_cast<double>(bytes);
        EXPECT_GE(price("nccl", t, {.kind = kind, .ranks = 8, .bytes = bytes}).seconds, received / link)
            << name << " " << name_of(kind) << " " << bytes;
      }
  }
}

// Each GPU sends and receives its vector and its part: 9/8 S over 389 GB/s, of which Hopper's switch gives 0.85.
TEST(Nvls, TheFourPhasesShareTheLinks) {
  FabricSpec spec = fabric_file("h200_nvswitch8");
  spec.multicast = true;
  spec.nccl.nvls = true;
  const Topology t = build_topology(spec);
  const auto seconds = [&](const char* id, std::int64_t bytes) {
    return price(id, t, {.ranks = 8, .bytes = bytes}).seconds;
  };
  const double slope = (seconds("nvls", 1 << 28) - seconds("nvls", 1 << 27)) / (1 << 27);
  EXPECT_NEAR(slope * 389e9 * 0.85, 9.0 / 8, 1e-9);
  EXPECT_EQ(price("nvls", t, {.ranks = 8, .bytes = 4096}).provenance, Provenance::assumed);
  double bus = 0;
  for (std::int64_t mib = 1; mib <= 512; mib += mib < 64 ? 1 : 64) {
    const double now = static_cast<double>(mib) / seconds("nccl", mib << 20);
    EXPECT_GE(now, 0.999 * bus) << mib;  // bandwidth does not fall with size
    bus = now;
  }
  EXPECT_EQ(price("nccl", t, {.ranks = 8, .bytes = 1 << 28}).algorithm, "NVLS Simple");
}

TEST(Nvls, NcclCannotUseASwitchThatIsNotThere) {
  FabricSpec spec = fabric_file("h200_nvswitch8");
  spec.nccl.nvls = true;
  EXPECT_THAT(refusal_of([&] { build_topology(spec); }), HasSubstr("nccl.nvls: true, but the fabric has no multicast"));
}

TEST(FirstGpus, PriceAsTheyDoInTheWholeFabric) {
  const FabricSpec whole = fabric_file("asus_dual_turin_collapse");
  const Topology four = build_topology(first_gpus(whole, 4));
  EXPECT_EQ(gpu_count(four), 4);
  EXPECT_DOUBLE_EQ(us_of("pull1", four, 4, 43008), us_of("pull1", build_topology(whole), 4, 43008));
  EXPECT_EQ(gpu_count(build_topology(first_gpus(whole, 99))), 8);
}

// A range that what the interface promises must stay in: published and measured values in the test's own words.
TEST(Anchors, NcclOnHealthyFabrics) {
  const double pcie = us_of("nccl", fabric("switch_4p4_microchip"), 8, 14336);
  EXPECT_GT(pcie, 21);
  EXPECT_LT(pcie, 28);
  const double nvlink = us_of("nccl", fabric("h200_nvswitch8"), 8, 14336);
  EXPECT_GT(nvlink, 15);
  EXPECT_LT(nvlink, 18);
}

// The published twin of the seed machine, nothing fitted to the seed.
TEST(Anchors, CollapseTwin) {
  const Topology t = fabric("asus_dual_turin_collapse");
  const double one_stage = us_of("pull1", t, 8, 14336);
  EXPECT_GT(one_stage, 110);
  EXPECT_LT(one_stage, 145);
  const double nccl = us_of("nccl", t, 8, 14336);
  EXPECT_GT(nccl, 22);
  EXPECT_LT(nccl, 32);
  EXPECT_LT(us_of("pull1", fabric("switch_4p4_microchip"), 8, 14336), 13);
}

}  // namespace
}  // namespace specstep::comm
