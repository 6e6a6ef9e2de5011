// NCCL's cost model against a table worked out from its source by other hands, and against measurements.
#include "comm/nccl_model.h"

#include <gtest/gtest.h>

namespace specstep::comm {
namespace {

NcclNode pcie(int ranks, double bus) {
  return {.ranks = ranks, .nvlink = false, .compute_capability = 120, .channels = 2, .channel_gb_s = bus / 2};
}

const NcclNode hopper_switch{.ranks = 8, .nvlink = true, .compute_capability = 90, .channels = 24, .channel_gb_s = 20};

struct Row {
  const char* name;
  NcclNode node;
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  std::vector<double> us;  // at 4 KiB, 14,336, 43,008, 64 KiB, 128 KiB, 256 KiB, 512 KiB, 1 MiB
};

using enum NcclAlgorithm;
using enum NcclProtocol;

// Microseconds to three digits, computed from NVIDIA/nccl@v2.28.9-1 src/graph/tuning.cc independently of this code.
const std::vector<Row> table{
    {"PCIe bus 48 ring LL", pcie(8, 48), ring, ll, {20.9, 21.6, 23.7, 25.4, 30.2, 39.7, 58.8, 97}},
    {"PCIe bus 48 tree LL", pcie(8, 48), tree, ll, {21.8, 24.3, 31.4, 39.6, 65.9, 134, 246, 382}},
    {"PCIe bus 48 ring LL128", pcie(8, 48), ring, ll128, {49.2, 49.6, 50.7, 51.6, 54.2, 59.4, 69.8, 90.6}},
    {"PCIe bus 48 ring Simple", pcie(8, 48), ring, simple, {88.3, 88.7, 89.8, 90.6, 93.0, 97.8, 107, 126}},
    {"PCIe bus 48 tree Simple", pcie(8, 48), tree, simple, {64.6, 65.2, 67.6, 69.3, 76.3, 88.1, 112, 159}},
    {"PCIe bus 30 ring LL", pcie(8, 30), ring, ll, {21.1, 22.3, 25.6, 28.2, 35.9, 51.2, 81.8, 143}},
    {"PCIe 4 ranks ring LL", pcie(4, 48), ring, ll, {12.9, 13.5, 15.3, 16.7, 20.8, 29.0, 45.4, 78}},
    {"NVSwitch Hopper ring LL", hopper_switch, ring, ll, {15.1, 15.2, 15.5, 15.8, 16.6, 18.3, 21.5, 28}},
};

TEST(NcclModel, PredictedTableWithinOnePercent) {
  const std::vector<std::int64_t> bytes{4096, 14336, 43008, 65536, 131072, 262144, 524288, 1048576};
  for (const Row& row : table)
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto time = nccl_predicts(row.node, Collective::all_reduce, bytes[i], row.algorithm, row.protocol);
      ASSERT_TRUE(time.has_value());
      EXPECT_NEAR(time->seconds * 1e6, row.us[i], 0.01 * row.us[i]) << row.name << " " << bytes[i];
    }
}

TEST(NcclModel, ChoosesRingLlForSmallMessagesAndNoLl128OnPcie) {
  EXPECT_EQ(nccl_name(nccl_choice(pcie(8, 48), Collective::all_reduce, 14336)), "ring LL");
  EXPECT_EQ(nccl_name(nccl_choice(pcie(8, 48), Collective::all_reduce, 64 << 20)), "ring Simple");
  for (std::int64_t bytes = 1024; bytes <= (256 << 20); bytes *= 2)
    EXPECT_NE(nccl_choice(pcie(8, 48), Collective::all_reduce, bytes).protocol, ll128);
  EXPECT_EQ(nccl_name(nccl_choice(hopper_switch, Collective::all_reduce, 8 << 20)), "ring LL128");
}

// NCCL_PROTO=LL,LL128,Simple: the same table, now with its LL128 row among the choices.
TEST(NcclModel, ProtocolsOfTheEnvironmentAllowLl128OnPcie) {
  NcclNode node = pcie(8, 48);
  node.protocols = std::array{true, true, true};
  EXPECT_EQ(nccl_name(nccl_choice(node, Collective::all_reduce, 524288)), "ring LL");      // 58.8 below 69.8 us
  EXPECT_EQ(nccl_name(nccl_choice(node, Collective::all_reduce, 1048576)), "ring LL128");  // 90.6 below 97
  node.protocols = std::array{false, false, true};
  EXPECT_EQ(nccl_name(nccl_choice(node, Collective::all_reduce, 14336)), "tree Simple");  // 65.2 below 88.7
}

TEST(NcclModel, NvlsOnlyWhereAllowed) {
  NcclNode node = hopper_switch;
  for (std::int64_t bytes : {14336, 2 << 20})
    EXPECT_NE(nccl_choice(node, Collective::all_reduce, bytes).algorithm, nvls);
  node.nvls = true;
  EXPECT_EQ(nccl_choice(node, Collective::all_reduce, 2 << 20).algorithm, nvls);
}

TEST(NcclModel, GatherAndScatterAreRingsOfHalfTheSteps) {
  const NcclNode node = pcie(8, 48);
  // base 6.6 + 7 hops of 1.0, and 8 x 1 MiB over 24 GB/s * 8/7.
  const auto gather = nccl_predicts(node, Collective::all_gather, 1 << 20, ring, ll);
  EXPECT_NEAR(gather->seconds * 1e6, 13.6 + 8 * 1048576 / (24e3 * 8 / 7), 1e-6);
  const auto scatter = nccl_predicts(node, Collective::reduce_scatter, 8 << 20, ring, ll);
  EXPECT_NEAR(scatter->seconds, gather->seconds, 1e-12);
  EXPECT_FALSE(nccl_predicts(node, Collective::all_gather, 1 << 20, tree, ll).has_value());
}

// What is measured on a host changes what a ring in LL costs there, and nothing of what NCCL takes.
TEST(NcclModel, AMeasuredBaseEntersThePriceAndNotTheChoice) {
  NcclNode node = hopper_switch;
  const NcclNode plain = node;
  node.ring_ll_base = 5e-6;
  for (const std::int64_t bytes : {1024, 57344, 1 << 20, 8 << 20}) {
    const NcclTime choice = nccl_choice(node, Collective::all_reduce, bytes);
    EXPECT_EQ(nccl_name(choice), nccl_name(nccl_choice(plain, Collective::all_reduce, bytes)));
    const double less = choice.algorithm == ring && choice.protocol == ll ? 1.6e-6 : 0;
    EXPECT_NEAR(nccl_cost(plain, Collective::all_reduce, bytes, choice) -
                    nccl_cost(node, Collective::all_reduce, bytes, choice),
                less, 1e-12);
  }
}

// Two H200 with NCCL_P2P_DISABLE=1, 122 calls in a graph, NCCL 2.28.3: measured for specstep. The two constants of the
// class were fitted to the first four and the last; 1,835,008 B is a prediction.
TEST(NcclModel, SharedMemoryClassMatchesTheHostItWasFittedOnAndOneSizeMore) {
  NcclNode node{.ranks = 2, .nvlink = false, .compute_capability = 90, .channels = 16, .channel_gb_s = 20};
  node.shm_share = 1;
  node.shm_hop = 2.6e-6;
  node.shm_bus_gb_s = 28;
  const std::vector<std::pair<std::int64_t, double>> measured{{14336, 12.98},  {43008, 13.89},   {114688, 21.08},
                                                              {458752, 44.22}, {1835008, 87.05}, {7340032, 273.35}};
  for (const auto& [bytes, us] : measured) {
    NcclNode seen = node;
    seen.channels = 1;
    seen.channel_gb_s = 28;
    const NcclTime choice = nccl_choice(seen, Collective::all_reduce, bytes);
    EXPECT_NEAR(nccl_cost(node, Collective::all_reduce, bytes, choice) * 1e6, us, 0.15 * us) << bytes;
  }
}

}  // namespace
}  // namespace specstep::comm
