// Imports from what users pasted: counts, classes, the fabrics built from them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/import/likeness.h"
#include "comm/pricing.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string data(const std::string& name) {
  return yaml::read_text(std::string(SPECSTEP_SOURCE_DIR) + "/comm/import/testdata/" + name);
}

SmiMatrix smi(const std::string& name) { return parse_smi_topo(data(name), name); }

Imported imported(const std::string& name, const std::string& like = "switch_4p4_microchip") {
  return fabric_from_smi(smi(name), fabric_file(like));
}

struct Real {
  std::string file;
  std::size_t gpus;
  bool full_nvlink;
};

TEST(SmiTopo, RealMatrices) {
  for (const Real& r :
       {Real{"t1_5gpu_mixed.txt", 5, false}, Real{"t2_pxb_pix.txt", 4, false}, Real{"t3_v100_mlx.txt", 4, true},
        Real{"t4_v100_cube.txt", 8, false}, Real{"t5_h100_numa3157.txt", 4, true},
        Real{"t6_h100_9nic_doubletab.txt", 8, true}, Real{"asus_topo.txt", 8, false}}) {
    SCOPED_TRACE(r.file);
    const SmiMatrix m = smi(r.file);
    EXPECT_EQ(m.gpus.size(), r.gpus);
    EXPECT_EQ(m.full_nvlink(), r.full_nvlink);
  }
}

TEST(SmiTopo, Classes) {
  EXPECT_THAT(smi("asus_topo.txt").pair_counts(), ElementsAre(Pair("NODE", 8), Pair("PIX", 4), Pair("SYS", 16)));
  EXPECT_THAT(smi("t2_pxb_pix.txt").pair_counts(), ElementsAre(Pair("PIX", 1), Pair("PXB", 1), Pair("SYS", 4)));
  EXPECT_THAT(smi("t6_h100_9nic_doubletab.txt").pair_counts(), ElementsAre(Pair("NV18", 28)));
  const SmiMatrix cube = smi("t4_v100_cube.txt");
  for (std::size_t g = 0; g < 8; ++g) EXPECT_EQ(cube.nvlinks_of(g), 6);
  const SmiMatrix mixed = smi("t1_5gpu_mixed.txt");
  EXPECT_EQ(mixed.slowest(), PairClass::sys);
  EXPECT_EQ(mixed.ring_crossings(), 2);
  EXPECT_EQ(smi("t3_v100_mlx.txt").ring_crossings(), 0);
}

TEST(SmiTopo, NumaColumns) {
  using testing::Optional;
  EXPECT_THAT(smi("t5_h100_numa3157.txt").numa, ElementsAre(Optional(3), Optional(1), Optional(7), Optional(5)));
  EXPECT_THAT(smi("t1_5gpu_mixed.txt").numa[0], Optional(1));
  EXPECT_THAT(smi("asus_topo.txt").numa[7], Optional(1));
  for (const auto& numa : smi("t4_v100_cube.txt").numa) EXPECT_EQ(numa, std::nullopt);  // no such column
}

std::string refused(const std::string& text) {
  return refusal_of([&] { parse_smi_topo(text, "t.txt"); });
}

TEST(SmiTopo, WrongInputIsRefusedWithTheLine) {
  EXPECT_THAT(refused(""), HasSubstr("t.txt:1:1: no GPU columns"));
  EXPECT_THAT(refused("hello\n"), HasSubstr("no GPU columns"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\t X \tPIX\n"), HasSubstr("t.txt:2:1: the row of GPU1 is missing; 2 rows"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n"),
              HasSubstr("t.txt:3:1: GPU1 to GPU0 is SYS, the other way PIX; a symmetric matrix"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n"), HasSubstr("t.txt:2:8: 'OK' is a P2P status"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\tX\tQQ\nGPU1\tQQ\tX\n"), HasSubstr("'QQ' is not a class of links"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\tX\nGPU1\tPIX\tX\n"), HasSubstr("t.txt:2:6: no cell for GPU1"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU1\tPIX\tX\n"), HasSubstr("row of GPU1; the row of GPU0"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\tPIX\tX\nGPU1\tX\tPIX\n"), HasSubstr("no X for GPU0 itself"));
}

TEST(SmiTopo, SpacesInsteadOfTabs) {
  const SmiMatrix m =
      parse_smi_topo("      GPU0  GPU1  CPU Affinity\nGPU0   X    PHB   0-7\nGPU1  PHB    X    0-7\n", "t");
  EXPECT_THAT(m.pair_counts(), ElementsAre(Pair("PHB", 1)));
}

// The fabric that is built has the same classes again, and can be written, read and priced.
TEST(FabricFromSmi, KeepsTheClasses) {
  for (const char* file : {"t1_5gpu_mixed.txt", "t2_pxb_pix.txt", "asus_topo.txt"}) {
    SCOPED_TRACE(file);
    const SmiMatrix m = smi(file);
    const Imported made = imported(file);
    const Topology t = build_topology(read_config<FabricSpec>(yaml::parse(imported_yaml(made), "made.yaml")));
    ASSERT_EQ(gpu_count(t), static_cast<int>(m.gpus.size()));
    for (int a = 0; a < gpu_count(t); ++a)
      for (int b = 0; b < a; ++b) {
        const PairClass kind = m.cells[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)].kind;
        const NcclLevel expected = kind == PairClass::pix   ? NcclLevel::pix
                                   : kind == PairClass::pxb ? NcclLevel::pxb
                                   : kind == PairClass::sys ? NcclLevel::sys
                                                            : NcclLevel::phb;
        EXPECT_EQ(t.distance(a, b), expected) << a << " " << b;
      }
    EXPECT_GT(price("nccl", t, {.ranks = gpu_count(t), .bytes = 14336}).seconds, 0);
  }
}

TEST(FabricFromSmi, NvlinkDirectAndThroughASwitch) {
  const Topology direct = build_topology(imported("t5_h100_numa3157.txt", "h200_nvswitch8").spec);
  EXPECT_TRUE(direct.full_nvlink(4));
  EXPECT_EQ(direct.nvswitch(), -1);
  const Imported switched = imported("t6_h100_9nic_doubletab.txt", "h200_nvswitch8");
  const Topology t = build_topology(switched.spec);
  EXPECT_TRUE(t.full_nvlink(8));
  EXPECT_GE(t.nvswitch(), 0);
  EXPECT_NEAR(price("pull1", t, {.ranks = 8, .bytes = 14336}).seconds,
              price("pull1", fabric("h200_nvswitch8"), {.ranks = 8, .bytes = 14336}).seconds, 1e-8);
  EXPECT_THAT(switched.notes, testing::Contains(HasSubstr("9 network devices")));
  const Topology cube = build_topology(imported("t4_v100_cube.txt").spec);
  EXPECT_FALSE(cube.full_nvlink(8));
  EXPECT_TRUE(cube.nvlink(0, 4));
  EXPECT_FALSE(cube.nvlink(0, 5));
}

TEST(NcclXml, UnclosedElementNamesItsLine) {
  const std::string message = refusal_of([] { parse_xml(data("graph_fragment.xml"), "g.xml"); });
  EXPECT_THAT(message, HasSubstr("g.xml:1:1: unclosed element 'graph' at line 1"));
}

TEST(NcclXml, GraphAttributes) {
  const NcclGraphElement g = graph_element(parse_xml(data("graph_fragment.xml") + "</graph>", "g.xml"), "g.xml");
  EXPECT_EQ(g.pattern, 4);
  EXPECT_EQ(g.channels, 2);
  EXPECT_EQ(g.speed_intra, 24);
  EXPECT_EQ(g.speed_inter, 24);
  EXPECT_EQ(g.type_intra, "PHB");
  EXPECT_EQ(g.type_inter, "PIX");
}

TEST(NcclXml, WrongXmlIsRefused) {
  const auto refused_xml = [](const std::string& text) { return refusal_of([&] { parse_xml(text, "x.xml"); }); };
  EXPECT_THAT(refused_xml(""), HasSubstr("no element"));
  EXPECT_THAT(refused_xml("<a>\n<b></a>"), HasSubstr("x.xml:2:7: '</a>' closes 'b' of line 2"));
  EXPECT_THAT(refused_xml("<a b=c/>"), HasSubstr("no value in quotes"));
  EXPECT_THAT(refused_xml("<a/><b/>"), HasSubstr("text after the last element"));
  EXPECT_THAT(refused_xml("<a b=\"1"), HasSubstr("ends inside a tag"));
  EXPECT_THAT(refused_xml("<a>text</a>"), HasSubstr("text inside"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  EXPECT_THAT(refused_xml(deep), HasSubstr("too deep"));
}

TEST(NcclXml, DumpOfTheMeasuredHost) {
  const Imported made = fabric_from_nccl_xml(parse_xml(data("h200_topo.xml"), "h"), "h", fabric_file("h200_nvswitch8"));
  const Topology t = build_topology(made.spec);
  EXPECT_EQ(gpu_count(t), 2);
  EXPECT_TRUE(t.full_nvlink(2));
  EXPECT_THAT(made.assumed, testing::Contains(HasSubstr("virtual machine")));
  EXPECT_THAT(made.assumed, testing::Contains(HasSubstr("no link width or no speed for 2 of its PCIe links")));
  EXPECT_THAT(refusal_of([] {
                fabric_from_nccl_xml(parse_xml("<system><cpu/></system>", "s.xml"), "s.xml",
                                     fabric_file("h200_nvswitch8"));
              }),
              HasSubstr("s.xml:1:1: no <gpu>"));
}

TEST(P2pMatrixFile, DiagonalIsNoLinkAndTheSlowGpuIsNamed) {
  const P2pMatrix m = parse_p2p_matrix(data("p2p_matrix.txt"), "m.txt");
  ASSERT_EQ(m.size(), 6);
  EXPECT_DOUBLE_EQ(m.best_of(3), 50.97);
  EXPECT_DOUBLE_EQ(m.best_of(0), 56.57);
  const Imported made = fabric_from_p2p(m, fabric_file("switch_4p4_microchip"));
  EXPECT_THAT(made.notes[0], HasSubstr("gpu3 is slow in all its pairs: 50.97"));
  EXPECT_EQ(std::count_if(made.notes.begin(), made.notes.end(),
                          [](const std::string& n) { return n.find("is slow") != std::string::npos; }),
            1);
  const Topology t = build_topology(made.spec);
  const Route& pair = t.route(t.gpus()[0], t.gpus()[3]);
  EXPECT_DOUBLE_EQ(t.links()[static_cast<std::size_t>(pair.links[1])].bytes_per_second, 50.97e9);
}

TEST(P2pMatrixFile, WrongMatricesAreRefused) {
  const auto refused_matrix = [](const std::string& text) { return refusal_of([&] { parse_p2p_matrix(text, "m"); }); };
  EXPECT_THAT(refused_matrix("x\n"), HasSubstr("m:1:1: no line that begins with D\\D"));
  EXPECT_THAT(refused_matrix("D\\D 0 1\n0 900 50\n"), HasSubstr("m:2:1: row 1 is missing"));
  EXPECT_THAT(refused_matrix("D\\D 0 1\n0 900 50\n1 50\n"), HasSubstr("m:3:3: 1 cells; 2"));
  EXPECT_THAT(refused_matrix("D\\D 0 1\n0 900 50\n1 20 900\n"), HasSubstr("m:3:1: 1 to 0 is 20, the other way 50"));
  EXPECT_THAT(refused_matrix("D\\D 0 1\n0 1 1\n1 1 1\n"), HasSubstr("zeros and ones"));
  EXPECT_THAT(refused_matrix("D\\D 0 1\n0 900 -5\n1 5 900\n"), HasSubstr("'-5' is not a bandwidth"));
  EXPECT_THAT(refused_matrix("D\\D 0 1\n0 900 OK\n1 OK 900\n"), HasSubstr("'OK' is not a bandwidth"));
}

/// Eight GPUs, `inside` within halves and `across` between them.
std::string halves(double inside, double across) {
  std::string text = "D\\D 0 1 2 3 4 5 6 7\n";
  for (int a = 0; a < 8; ++a) {
    text += std::to_string(a);
    for (int b = 0; b < 8; ++b) text += " " + std::to_string(a == b ? 1500.0 : a / 4 == b / 4 ? inside : across);
    text += "\n";
  }
  return text;
}

double pair_rate(const Topology& t, int a, int b) {
  double least = 1e30;
  for (int id : t.route(t.gpus()[static_cast<std::size_t>(a)], t.gpus()[static_cast<std::size_t>(b)]).links)
    least = std::min(least, t.links()[static_cast<std::size_t>(id)].bytes_per_second);
  return least;
}

TEST(P2pMatrixFile, SlowPairsBetweenGroupsBecomeUplinks) {
  const Imported made = fabric_from_p2p(parse_p2p_matrix(halves(50.1, 18.2), "m"), fabric_file("switch_4p4_microchip"));
  const Topology t = build_topology(made.spec);
  EXPECT_DOUBLE_EQ(pair_rate(t, 0, 3), 50.1e9);
  EXPECT_DOUBLE_EQ(pair_rate(t, 0, 4), 18.2e9);
  EXPECT_THAT(made.assumed, testing::Contains(HasSubstr("GPUs 0,1,2,3 to the others get 18.2")));
}

TEST(P2pMatrixFile, PairsThatNoGroupingExplainsAreNamed) {
  const std::string text = "D\\D 0 1 2\n0 900 50 50\n1 50 900 20\n2 50 20 900\n";
  const Imported made = fabric_from_p2p(parse_p2p_matrix(text, "m"), fabric_file("switch_4p4_microchip"));
  EXPECT_THAT(made.assumed, testing::Contains(HasSubstr("gpu1-gpu2 20.0 GB/s")));
}

TEST(P2pMatrixFile, FasterThanPcieIsNvlink) {
  const P2pMatrix all = parse_p2p_matrix(halves(390, 390), "m");
  EXPECT_EQ(likeness(facts_of(all)).fabric, "h200_nvswitch8");
  const Topology switched = build_topology(fabric_from_p2p(all, fabric_file("h200_nvswitch8")).spec);
  EXPECT_TRUE(switched.full_nvlink(8));
  EXPECT_GE(switched.nvswitch(), 0);
  EXPECT_DOUBLE_EQ(pair_rate(switched, 0, 7), 390e9);
  const P2pMatrix some = parse_p2p_matrix(halves(90, 20), "m");
  EXPECT_EQ(likeness(facts_of(some)).fabric, "switch_4p4_microchip");
  const Topology mixed = build_topology(fabric_from_p2p(some, fabric_file("switch_4p4_microchip")).spec);
  EXPECT_TRUE(mixed.nvlink(0, 3));
  EXPECT_FALSE(mixed.nvlink(0, 4));
  EXPECT_DOUBLE_EQ(pair_rate(mixed, 0, 4), 20e9);
}

// The parts that p2pBandwidthLatencyTest prints, in its order.
TEST(P2pMatrixFile, OfTheWholeOutputTakesOneDirectionWithPeerAccess) {
  const P2pMatrix m = parse_p2p_matrix(data("p2p_test_output.txt"), "m");
  EXPECT_DOUBLE_EQ(m.gb_s[0][1], 51.2);
  EXPECT_THAT(m.notes, testing::ElementsAre(HasSubstr("'Unidirectional P2P=Enabled Bandwidth (P2P Writes)")));
  const Topology t = build_topology(fabric_from_p2p(m, fabric_file("switch_4p4_microchip")).spec);
  EXPECT_EQ(t.path(0, 1), PathClass::p2p);
  EXPECT_EQ(t.path(0, 2), PathClass::none);
  EXPECT_EQ(t.path(1, 2), PathClass::none);
}

TEST(P2pMatrixFile, MatricesOfOtherKindsAreTakenWithAWord) {
  const std::string cells = "D\\D 0 1\n0 900 50\n1 50 900\n";
  EXPECT_THAT(parse_p2p_matrix("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n" + cells, "m").notes,
              testing::Contains(HasSubstr("peer access was off")));
  EXPECT_THAT(parse_p2p_matrix("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n" + cells, "m").notes,
              testing::Contains(HasSubstr("both directions added up")));
}

std::string dump(const std::string& speed, const std::string& width, const std::string& more = "") {
  const auto gpu = [&](const std::string& bus, const std::string& dev) {
    return "<pci busid=\"" + bus + "\" link_speed=\"" + speed + "\" link_width=\"" + width + "\">\n<gpu dev=\"" + dev +
           "\" sm=\"90\"/></pci>\n";
  };
  return "<system version=\"1\"><cpu numaid=\"0\">\n" + gpu("a", "0") + gpu("b", "1") + more + "</cpu></system>\n";
}

Imported from_dump(const std::string& text) {
  return fabric_from_nccl_xml(parse_xml(text, "x.xml"), "x.xml", fabric_file("switch_4p4_microchip"));
}

// The fabric it is like has Gen5 x16 links of 56.3 GB/s. A lane of Gen4 carries half of that, one of Gen1 (8b/10b, 2
// Gbit/s) 63.5 times less than one of Gen5 (128b/130b, 31.5 Gbit/s).
TEST(NcclXml, LinksAreWhatTheyTrainedAt) {
  const auto slowest = [](const std::string& speed, const std::string& width) {
    return pair_rate(build_topology(from_dump(dump(speed, width)).spec), 0, 1) / 1e9;
  };
  EXPECT_NEAR(slowest("32.0 GT/s PCIe", "16"), 56.3, 1e-9);
  EXPECT_NEAR(slowest("32.0 GT/s PCIe", "8"), 56.3 / 2, 1e-9);
  EXPECT_NEAR(slowest("16 GT/s", "16"), 56.3 / 2, 1e-9);
  EXPECT_NEAR(slowest("2.5 GT/s PCIe", "1"), 56.3 / (32.0 * 128 / 130 / 2) / 16, 1e-9);
  const Topology t = build_topology(from_dump(dump("16.0 GT/s PCIe", "8")).spec);
  EXPECT_EQ(t.links()[2].generation, 4);
  EXPECT_EQ(t.links()[2].width, 8);
  EXPECT_TRUE(t.links()[2].narrowed);
}

TEST(NcclXml, WhatNoLinkOrMachineHasIsRefusedWithItsPlace) {
  const auto refused_dump = [](const std::string& text) { return refusal_of([&] { from_dump(text); }); };
  EXPECT_THAT(refused_dump(dump("32.0 GT/s PCIe", "abc")), HasSubstr("x.xml:2:1: link_width: 'abc'"));
  EXPECT_THAT(refused_dump(dump("32.0 GT/s PCIe", "-16")), HasSubstr("link_width: '-16'"));
  EXPECT_THAT(refused_dump(dump("7 GT/s", "16")), HasSubstr("link_speed: '7 GT/s'"));
  EXPECT_THAT(refused_dump(dump("fast", "16")), HasSubstr("link_speed: 'fast'"));
  EXPECT_THAT(refused_dump(dump("8 GT/s", "16", "<pci busid=\"c\"><gpu dev=\"0\"/></pci>")),
              HasSubstr("dev: '0' is there twice"));
  EXPECT_THAT(refused_dump(dump("8 GT/s", "16", "<pci busid=\"b\"><gpu dev=\"2\"/></pci>")),
              HasSubstr("busid: 'b' is there twice"));
  EXPECT_THAT(refused_dump("<system version=\"9\"/>"), HasSubstr("x.xml:1:1: version: is '9'"));
}

TEST(SmiTopo, WhatNoMachineHasIsRefused) {
  EXPECT_THAT(refused("\tGPU0\tGPU1\nGPU0\tX\tNV999\nGPU1\tNV999\tX\n"), HasSubstr("t.txt:2:8: 'NV999' NVLinks"));
  EXPECT_THAT(refused("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tSYS\nGPU1\tPIX\tX\tPIX\nGPU2\tSYS\tPIX\tX\n"),
              HasSubstr("GPU2 to GPU0 is SYS, but GPU1 is PIX from the one and PIX from the other"));
}

TEST(Likeness, NvlinkMachinesGetAnNvlinkFabric) {
  const SmiMatrix eight = smi("t6_h100_9nic_doubletab.txt");
  EXPECT_EQ(likeness(facts_of(eight)).fabric, "h200_nvswitch8");
  EXPECT_EQ(likeness(facts_of(smi("asus_topo.txt"))).fabric, "switch_4p4_microchip");
  EXPECT_EQ(facts_of(eight).nvlinks, 18);
  Imported made = imported("t6_h100_9nic_doubletab.txt");
  note_likeness(made, facts_of(eight), {"switch_4p4_microchip", ""}, fabric_file("switch_4p4_microchip"));
  EXPECT_THAT(made.assumed, testing::Contains(HasSubstr("--like h200_nvswitch8 does")));
}

TEST(Likeness, TheFileTellsTheGpu) {
  const XmlElement system = parse_xml(data("h200_topo.xml"), "h");
  EXPECT_TRUE(facts_of(system).full_nvlink);
  EXPECT_EQ(facts_of(system).compute_capability, 90);
  EXPECT_EQ(likeness(facts_of(system)).fabric, "h200_nvswitch8");
  Imported made = from_dump(dump("32.0 GT/s PCIe", "16"));
  const GpuFacts pcie = facts_of(parse_xml(dump("32.0 GT/s PCIe", "16"), "x"));
  EXPECT_FALSE(pcie.full_nvlink);
  note_likeness(made, pcie, likeness(pcie), fabric_file("switch_4p4_microchip"));
  EXPECT_EQ(made.spec.nccl.compute_capability, 90);
  EXPECT_THAT(made.assumed, testing::Contains(HasSubstr("the file says sm_90; switch_4p4_microchip is of sm_120")));
}

}  // namespace
}  // namespace specstep::comm
