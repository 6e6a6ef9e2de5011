// Prices of our own kernels: closed forms of each protocol on small fabrics, and whose kernel is priced.
#include "comm/own_price.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Two switches of `each` GPUs whose own kernels take round times. Launch 1 us, links 10 GB/s. Between the switches a
/// flag takes 0.5 + 3 x 0.25 = 1.25 us and a read 1.35; under one switch a flag takes 1.
Topology own_fabric(int each) {
  FabricSpec spec = fabric_text(two_switches(each)).spec();
  spec.gpu.own_kernels = OwnKernels{.step_us = {.value = 0.1},
                                    .more_ranks_us = {.value = 0.2},
                                    .fence_us = {.value = 0.3},
                                    .host_fence_us = {.value = 0.7},
                                    .line_gb_s = {.value = 5},
                                    .codec_us = {.value = 0.4},
                                    .codec_warp_us = {.value = 0.05},
                                    .copy_us = {.value = 3},
                                    .norm_us = {.value = 1}};
  return build_topology(spec);
}

Call own_call(int ranks, std::int64_t bytes, const OwnSettings& own = {}) {
  return {.ranks = ranks, .bytes = bytes, .own = own};
}

double us_of(const std::string& id, const Call& call) {
  return price(id, own_fabric(call.ranks / 2), call).seconds * 1e6;
}

constexpr std::int64_t size = 160000;  // 16 us over a link
constexpr double link_us = 16;

TEST(OwnPrice, PushIsOneStep) {
  EXPECT_NEAR(us_of("push1", own_call(2, size)), 1 + 1.25 + 0.1 + link_us, 0.01);
  // Twice the bytes, at the rate of stores in pairs: half that of a link.
  EXPECT_NEAR(us_of("push1", own_call(2, size, {.wire = "ll"})), 1 + 1.25 + 0.1 + 4 * link_us, 0.01);
  // Four ranks: the uplink carries 4 S one way, and the kernel is that of up to eight.
  EXPECT_NEAR(us_of("push1", own_call(4, size)), 1 + 1.25 + 0.1 + 0.2 + 4 * link_us, 0.01);
}

// A step to lay the input out, then fence, flag and read, then fence and flag.
TEST(OwnPrice, PullHasAFenceInEachBarrier) {
  EXPECT_NEAR(us_of("pull1", own_call(2, size)), 1 + 0.1 + (0.3 + 1.25 + 1.35) + (0.3 + 1.25) + link_us, 0.01);
}

// One block of 512 threads keeps 8 KiB in flight over 1.35 us, 6.07 GB/s of the link's 10.
TEST(OwnPrice, FewBlocksHaveFewLoadsInFlight) {
  const double fixed = 1 + 0.1 + (0.3 + 1.25 + 1.35) + (0.3 + 1.25);
  EXPECT_NEAR(us_of("pull1", own_call(2, size, {.blocks = 1})), fixed + 160000 * 1.35 / 8192, 0.01);
}

TEST(OwnPrice, TwoStagesByWritesAreTwoSteps) {
  EXPECT_NEAR(us_of("rsag", own_call(2, size)), 1 + 2 * (1.25 + 0.1) + link_us, 0.01);
}

// Two barriers with their reads, none at the end; what the fabric says of engines' stages, 2 us, has no part in it.
TEST(OwnPrice, TwoStagesByReadsHaveTwoBarriers) {
  EXPECT_NEAR(us_of("rsag", own_call(2, size, {.transfer = "pull"})), 1 + 0.1 + 2 * (0.3 + 1.25 + 1.35) + link_us,
              0.01);
}

// Half the vector as fp32 in pairs, four times its bytes, and half as values in pairs; 1.4 times as many packets.
TEST(OwnPrice, RingCarriesUnroundedSums) {
  const double bytes_us = (0.5 * 4 + 0.5 * 2) * 160000 / 5e3 * 1.4;
  EXPECT_NEAR(us_of("ring", own_call(2, size)), 1 + 2 * (1.25 + 0.1) + bytes_us, 0.01);
  Call floats = own_call(2, size);
  floats.dtype = DType::f32;
  EXPECT_NEAR(us_of("ring", floats), 1 + 2 * (1.25 + 0.1) + 2 * 160000 / 5e3 * 1.4, 0.01);
}

// {0 1} {2 3}: flags of 1, 1.25 and 1 us. Half of the vector inside an island twice; between them each of the two
// members sends half of it as fp32, so that 2 S share the uplink.
TEST(OwnPrice, IslandsExchangeUnroundedSums) {
  EXPECT_NEAR(us_of("island", own_call(4, size)), 1 + 3.25 + 3 * (0.1 + 0.2) + (0.5 + 2 + 0.5) * link_us, 0.01);
}

// Two ranks: three codecs of parts and sums that go out, two that come in. 160,000 B are 10,000 packs: 64 blocks of 5
// warps. Half a byte a value and its share of the scale.
TEST(OwnPrice, QuantisingIsCodecsInTurn) {
  const double bytes_us = (1 + 4.0 / 256) / 2 * link_us;
  EXPECT_NEAR(us_of("q8", own_call(2, size)), 1 + 2 * 1.25 + 5 * (0.4 + 3 * 0.05) + bytes_us, 0.01);
  EXPECT_NEAR(us_of("q8", own_call(2, 2048)), 1 + 2 * 1.25 + 5 * 0.4 + bytes_us * 2048 / 160000, 0.01);
  // Four ranks: 2 + 3 x 3 codecs; each pair of switches carries 2 x 2 quarters in each of the two stages.
  EXPECT_NEAR(us_of("q8", own_call(4, 2048)), 1 + 2 * 1.25 + 11 * 0.4 + 2 * bytes_us * 2048 / 160000, 0.01);
}

// Two kernels with a barrier each, and copies: to the peer, to the peer, out of the inbox; with three peers on streams
// beside each other, and two out of the inbox, since a middle rank's own part lies between them.
TEST(OwnPrice, CopyEnginesWorkInTurn) {
  EXPECT_NEAR(us_of("ce", own_call(2, size)), 2 * 1 + 2 * (1.25 + 0.3) + 3 * 3 + link_us, 0.01);
  EXPECT_NEAR(us_of("ce", own_call(4, size)), 2 * 1 + 2 * (1.25 + 0.3) + 4 * 3 + 2 * link_us, 0.01);
}

// Over PCIe with memory beside it: a write and a read of 0.88 and 0.965 us, arrival of two 1.035, launch 0.52, a step
// of 0.1. 28,672 B twice over, in pairs: reads keep 256 x 128 B in flight over 0.965 us. Two ranks use pairs up to 192
// KiB.
TEST(OwnPrice, BoardsInPairsAreReadWhileTheyAreWritten) {
  FabricSpec spec = fabric("h200_nvlink2").spec();
  spec.gpu.own_kernels = own_fabric(1).spec().gpu.own_kernels;
  const Topology t = build_topology(spec);
  const double fixed = 0.52 + 1.035 + 0.88 + 0.965 + 0.1;
  const double read_us_a_byte = 0.965 / (256 * 128);
  const double sum_us_a_byte = 2 / 3300e3;
  const auto us_of_boards = [&](std::int64_t bytes, const OwnSettings& own = {}) {
    return price("hostbc", t, own_call(2, bytes, own)).seconds * 1e6;
  };
  EXPECT_NEAR(us_of_boards(28672), fixed + 28672 * (2 * read_us_a_byte + sum_us_a_byte), 0.01);
  EXPECT_NEAR(us_of_boards(196608), fixed + 196608 * (2 * read_us_a_byte + sum_us_a_byte), 0.01);
  // Longer ones are written, then a fence of 0.3 and seven of 0.7 in turn, then a flag is read, then the data.
  const double with_flags = fixed + 0.3 + 7 * 0.7 + 0.965;
  EXPECT_NEAR(us_of_boards(458752), with_flags + 458752 * (read_us_a_byte + 1 / 54e3 + sum_us_a_byte), 0.01);
  EXPECT_EQ(us_of_boards(458752), us_of_boards(458752, {.blocks = 4}));
}

// 64 blocks of 256 threads take 262,144 B a round.
TEST(OwnPrice, NcclsLinesComeInRounds) {
  const double step = 1.25 + 0.1;
  EXPECT_NEAR(us_of("nccl_dev", own_call(2, 262144)), 1 + step + 2 * 26.2144, 0.01);
  EXPECT_NEAR(us_of("nccl_dev", own_call(2, 262160)), 1 + 2 * step + 2 * 26.216, 0.01);
  EXPECT_NEAR(us_of("nccl_dev", own_call(2, 2 * 262144, {.blocks = 32})), 1 + 4 * step + 4 * 26.2144, 0.01);
}

TEST(OwnPrice, ANormIsMadeBehindTheSum) {
  const auto with_norm = [](const std::string& id) {
    Call call = own_call(2, size);
    const double apart = us_of(id, call);
    call.norm = true;
    return us_of(id, call) - apart;
  };
  EXPECT_NEAR(with_norm("push1"), 1, 1e-9);
  EXPECT_NEAR(with_norm("rsag"), 1, 1e-9);
  EXPECT_NEAR(with_norm("pull1"), 0, 1e-9);  // its end flag takes 1.25 us meanwhile
}

TEST(OwnPrice, EnginesKernelsAreThoseThatAreNotAskedForAsOurs) {
  const Topology t = own_fabric(1);
  const Call plain{.ranks = 2, .bytes = size};
  const Topology without = fabric_text(two_switches(1));
  for (const char* id : {"push1", "pull1", "rsag", "ring", "q8", "ce", "nccl_dev", "hostbc", "nccl"}) {
    if (refusal(id, t, plain)) continue;
    EXPECT_EQ(price(id, t, plain).seconds, price(id, without, plain).seconds) << id;
    EXPECT_EQ(price(id, without, own_call(2, size)).seconds, price(id, without, plain).seconds) << id;
    EXPECT_THAT(price(id, t, plain).algorithm, testing::Not(StartsWith("own"))) << id;
  }
  EXPECT_EQ(price("nccl", t, own_call(2, size)).seconds, price("nccl", t, plain).seconds);
  const CommPrice ours = price("pull1", t, own_call(2, size));
  EXPECT_THAT(ours.algorithm, StartsWith("own"));
  EXPECT_EQ(price("pull1", fabric("h200_nvlink2"), own_call(2, size)).provenance, Provenance::fit);
}

// Our kernels carry any whole number of values, engines' whole packs of 16 bytes.
TEST(OwnPrice, OnlyEnginesKernelsNeedWholePacks) {
  const Topology t = own_fabric(1);
  EXPECT_THAT(refusal("push1", t, {.ranks = 2, .bytes = 14338}).value_or(""), HasSubstr("16-byte packs"));
  EXPECT_FALSE(refusal("push1", t, own_call(2, 14338)).has_value());
}

TEST(OwnPrice, NvlsIsOursOnlyWhereItIsAskedFor) {
  FabricSpec spec = fabric("h200_nvswitch8").spec();
  spec.multicast = true;
  const Topology t = build_topology(spec);
  EXPECT_FALSE(refusal("nvls", t, {.ranks = 8, .bytes = 8192}).has_value());  // engines'
  EXPECT_THAT(refusal("nvls", t, own_call(8, 8192)).value_or(""), HasSubstr("comm.own.nvls: true"));
  EXPECT_FALSE(refusal("nvls", t, own_call(8, 8192, {.nvls = true})).has_value());
}

TEST(OwnPrice, NcclsOtherBackendsNeedItsVersionAndAGpuForEachRank) {
  const Call call{.ranks = 2, .bytes = 14336};
  for (const char* id : {"nccl_sym", "nccl_dev"}) {
    EXPECT_FALSE(refusal(id, fabric("h200_nvlink2"), call).has_value()) << id;
    EXPECT_TRUE(refusal(id, fabric("h200_1gpu_8ranks"), call).has_value()) << id;
    FabricSpec old = fabric("h200_nvlink2").spec();
    old.nccl.version = "2.26.5";
    EXPECT_THAT(refusal(id, build_topology(old), call).value_or(""), HasSubstr("the fabric has 2.26.5")) << id;
  }
  EXPECT_EQ(nccl_version("2.28"), (std::array{2, 28, 0}));
  for (const char* wrong : {"", "banana", "2", "2.", "2.28.x", "2.28.9.1", "-2.28"})
    EXPECT_FALSE(nccl_version(wrong).has_value()) << wrong;
}

// A number of which nobody says where it is from makes a price of its fabric assumed.
TEST(OwnPrice, BareNumbersMakeAssumedPrices) {
  FabricSpec spec = fabric("h200_nvlink2").spec();
  const Call call{.ranks = 2, .bytes = 14336};
  EXPECT_EQ(price("nccl", build_topology(spec), call).provenance, Provenance::fit);
  spec.nccl.measured_base.ring_ll_us = Quantity{.value = 3};
  for (const char* id : {"nccl", "push1", "nccl_sym"})
    EXPECT_EQ(price(id, build_topology(spec), call).provenance, Provenance::assumed) << id;
}

TEST(OwnPrice, APricerKeepsSettingsApart) {
  Pricer pricer(own_fabric(1));
  const double push = pricer.price("rsag", own_call(2, size)).seconds;
  const double pull = pricer.price("rsag", own_call(2, size, {.transfer = "pull"})).seconds;
  const double engines = pricer.price("rsag", {.ranks = 2, .bytes = size}).seconds;
  EXPECT_LT(push, pull);
  EXPECT_NE(pull, engines);
  EXPECT_EQ(pricer.price("rsag", own_call(2, size)).seconds, push);
}

TEST(OwnPrice, IslandsThatAreGivenNeedNoSwitches) {
  const Topology t = fabric("h200_nvswitch8");
  EXPECT_THAT(refusal("island", t, own_call(4, 1024)).value_or(""), HasSubstr("do not divide"));
  EXPECT_FALSE(refusal("island", t, own_call(4, 1024, {.islands = {{0, 1}, {2, 3}}})));
  EXPECT_THAT(refusal("island", t, own_call(4, 1024, {.islands = {{0, 1}, {2}}})).value_or(""),
              HasSubstr("differ in size"));
  EXPECT_THAT(refusal("island", t, own_call(2, 1024, {.islands = {{0, 1}, {2, 3}}})).value_or(""),
              HasSubstr("rank 2 of 2"));
}

TEST(OwnPrice, EagerCallsLastTheLaunchInterval) {
  Call call = own_call(2, 2048);
  call.captured = false;
  EXPECT_NEAR(us_of("push1", call), 4, 1e-9);
  EXPECT_GT(us_of("q8", call), 5);  // codecs are in the kernel
}

}  // namespace
}  // namespace specstep::comm
