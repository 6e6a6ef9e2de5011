// Graphs, routes, and what is refused.
#include "comm/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

TEST(Topology, RoutesPassTheUplinkOnlyBetweenSwitches) {
  const Topology t = fabric_text(two_switches(2));
  EXPECT_EQ(gpu_count(t), 4);
  EXPECT_EQ(t.route(t.gpus()[0], t.gpus()[1]).links.size(), 2U);
  EXPECT_EQ(t.route(t.gpus()[0], t.gpus()[3]).links.size(), 3U);
  EXPECT_DOUBLE_EQ(t.route(t.gpus()[0], t.gpus()[3]).latency, 0.75e-6);
  EXPECT_EQ(t.distance(0, 1), NcclLevel::pix);
  EXPECT_EQ(t.distance(0, 3), NcclLevel::pxb);
}

TEST(Topology, GpusDoNotForward) {
  // A line g0 - g1 - g2: g0 cannot reach g2 through g1.
  const std::string text = R"(
nodes: [{id: g0, kind: gpu}, {id: g1, kind: gpu}, {id: g2, kind: gpu}]
link_types: {nv: {kind: nvlink, bandwidth_gb_s: 20, latency_us: 0.3}}
links: [{a: g0, b: g1, type: nv}, {a: g1, b: g2, type: nv}]
)";
  EXPECT_THAT(refusal_of([&] { fabric_text(text); }), HasSubstr("no way between g0 and g2"));
}

TEST(Topology, NvlinkIsTakenEvenWhereAWayOverSwitchesHasLessLatency) {
  const Topology t = fabric_text(R"(
nodes: [{id: g0, kind: gpu}, {id: g1, kind: gpu}, {id: s, kind: pcie_switch}]
link_types: {nv: {kind: nvlink, bandwidth_gb_s: 20, latency_us: 3}, x: {bandwidth_gb_s: 10, latency_us: 0.1}}
links: [{a: g0, b: g1, type: nv}, {a: g0, b: s, type: x}, {a: g1, b: s, type: x}]
)");
  EXPECT_TRUE(t.full_nvlink(2));
  EXPECT_EQ(t.distance(0, 1), NcclLevel::nvl);
}

TEST(Topology, AcsSendsPeerTrafficUpToTheRootAndBack) {
  const std::string links = R"(
link_types: {x: {bandwidth_gb_s: 10, latency_us: 0.25}}
links: [{a: g0, b: s, type: x}, {a: g1, b: s, type: x}, {a: s, b: rc, type: x}]
)";
  const std::string nodes = "nodes: [{id: g0, kind: gpu}, {id: g1, kind: gpu}, {id: rc, kind: root_complex}, ";
  const Topology plain = fabric_text(nodes + "{id: s, kind: pcie_switch}]" + links);
  const Topology acs = fabric_text(nodes + "{id: s, kind: pcie_switch, acs_redirect: true}]" + links);
  EXPECT_EQ(plain.route(plain.gpus()[0], plain.gpus()[1]).links.size(), 2U);
  EXPECT_EQ(acs.route(acs.gpus()[0], acs.gpus()[1]).links.size(), 4U);
}

TEST(Topology, HalfWidthIsHalfTheBandwidth) {
  const Topology t = fabric_text(R"(
nodes: [{id: g0, kind: gpu}, {id: g1, kind: gpu}, {id: s, kind: pcie_switch}]
link_types: {x: {bandwidth_gb_s: 40, latency_us: 0.1, width: 16}}
links: [{a: g0, b: s, type: x}, {a: g1, b: s, type: x, width: 8}]
)");
  EXPECT_DOUBLE_EQ(t.links()[0].bytes_per_second, 40e9);
  EXPECT_DOUBLE_EQ(t.links()[2].bytes_per_second, 20e9);
  EXPECT_TRUE(t.links()[2].narrowed);
}

TEST(Topology, DirectionsMayDiffer) {
  const Topology t = fabric_text(R"(
nodes: [{id: g0, kind: gpu}, {id: g1, kind: gpu}]
link_types: {x: {bandwidth_gb_s: 40, back_gb_s: 30, latency_us: 0.1}}
links: [{a: g0, b: g1, type: x}]
)");
  EXPECT_DOUBLE_EQ(t.links()[0].bytes_per_second, 40e9);
  EXPECT_DOUBLE_EQ(t.links()[1].bytes_per_second, 30e9);
}

struct Wrong {
  std::string text;
  std::string reason;
};

class WrongFabric : public testing::TestWithParam<Wrong> {};

TEST_P(WrongFabric, IsRefusedWithPlaceAndReason) {
  const std::string message = refusal_of([] { fabric_text(GetParam().text); });
  EXPECT_THAT(message, HasSubstr(GetParam().reason));
}

const std::string pair = "nodes: [{id: g0, kind: gpu}, {id: g1, kind: gpu}]\n";
const std::string x = "link_types: {x: {bandwidth_gb_s: 10, latency_us: 0.1, width: 16}}\n";
INSTANTIATE_TEST_SUITE_P(
    All, WrongFabric,
    testing::Values(
        Wrong{"nodes: [{id: s, kind: pcie_switch}]\n" + x + "links: []\n", "f.yaml:1:8: nodes: no GPU"},
        Wrong{pair + x + "links: [{a: g0, b: g7, type: x}]\n", "f.yaml:3:20: links[0].b: no node 'g7'"},
        Wrong{pair + x + "links: [{a: g0, b: g0, type: x}]\n", "joins 'g0' with itself"},
        Wrong{pair + x + "links: [{a: g0, b: g1, type: y}]\n", "no link type 'y'"},
        Wrong{pair + x + "links: [{a: g0, b: g1, type: x, width: 32}]\n", "wider than its type"},
        Wrong{pair + x + "links: []\n", "no way between g0 and g1"},
        Wrong{"nodes: [{id: g0, kind: gpu}, {id: g0, kind: gpu}]\n" + x + "links: []\n", "'g0' is there twice"},
        Wrong{pair + "link_types: {x: {bandwidth_gb_s: -10, latency_us: 0.1}}\nlinks: [{a: g0, b: g1, type: x}]\n",
              "f.yaml:2:34: link_types.x.bandwidth_gb_s"},
        Wrong{pair + x + "links: [{a: g0, b: g1, type: x}]\ndefault_path: staged\n", "staging: missing"},
        Wrong{pair + x + "links: [{a: g0, b: g1, type: x}]\npaths: [{a: g0, b: s9, path: none}]\n", "no GPU 's9'"}));

TEST(InstalledFabrics, AllLoadAndConnect) {
  const ConfigLibrary library(std::string(SPECSTEP_SOURCE_DIR) + "/configs");
  const auto names = library.names("fabrics");
  EXPECT_GE(names.size(), 3U);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    EXPECT_GE(gpu_count(fabric(name)), 1);
    EXPECT_FALSE(fabric_file(name).summary.empty());
  }
}

// Every number of an installed fabric says where it comes from.
TEST(InstalledFabrics, EveryNumberHasASource) {
  const ConfigLibrary library(std::string(SPECSTEP_SOURCE_DIR) + "/configs");
  for (const std::string& name : library.names("fabrics")) {
    SCOPED_TRACE(name);
    const FabricSpec spec = fabric_file(name);
    const std::vector<const Quantity*> all = quantities_of(spec);
    EXPECT_GE(all.size(), 15U);
    for (const Quantity* q : all) EXPECT_FALSE(q->bare());
  }
}

}  // namespace
}  // namespace specstep::comm
