// What is printed of a measurement on devices.
#include "comm/report/device_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "comm/import/nccl_tests.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

MeasuredSize timed(std::int64_t bytes, double graph_us, double eager_us) {
  MeasuredSize size;
  size.bytes = bytes;
  size.checked = 1000;
  size.graph = Timing{graph_us * 0.9e-6, graph_us * 1e-6, graph_us * 1.5e-6, 122, 50};
  size.cold = Timing{graph_us * 1e-6, graph_us * 1.2e-6, graph_us * 2e-6, 32, 20};
  size.eager = Timing{eager_us * 0.9e-6, eager_us * 1e-6, eager_us * 1.2e-6, 122, 50};
  return size;
}

/// push1 is better up to about 64 KiB; island refuses, hostbc fails.
Measurement scene() {
  Measurement m;
  m.ranks = 8;
  m.ranks_per_device = 4;
  MeasuredBackend push, rsag, island, hostbc;
  push.id = "push1";
  rsag.id = "rsag";
  island.id = "island";
  hostbc.id = "hostbc";
  island.refusal = "the ranks are one island";
  hostbc.failures = {"rank 0 waited in vain for rank 3"};
  push.notes = {"push1: wire sentinel"};
  for (const std::int64_t kib : {4, 16, 64, 256}) {
    push.sizes.push_back(timed(kib * 1024, 4 + 0.1 * static_cast<double>(kib), 20));
    rsag.sizes.push_back(timed(kib * 1024, 9 + 0.02 * static_cast<double>(kib), 25));
  }
  m.backends = {push, rsag, island, hostbc};
  return m;
}

TEST(DeviceReport, PutsEveryConditionInATableWithItsCrossover) {
  const DeviceReport report = device_report(scene(), "2 x GPU", nullptr);
  ASSERT_EQ(report.tables.size(), 3U);
  EXPECT_EQ(report.tables[0].rows.size(), 8U);
  ASSERT_EQ(report.tables[0].changes.size(), 1U);
  EXPECT_EQ(report.tables[0].changes[0].below, "push1");
  EXPECT_EQ(report.tables[0].changes[0].above, "rsag");
  EXPECT_TRUE(report.tables[1].rows[0].device->cold);
  EXPECT_FALSE(report.tables[2].rows[0].captured);
  const CommRow& row = report.tables[0].rows[0];
  EXPECT_DOUBLE_EQ(row.algorithm_gb_s, 4096 / 4.4e-6 / 1e9);
  EXPECT_DOUBLE_EQ(row.bus_gb_s, row.algorithm_gb_s * 14 / 8);
  EXPECT_EQ(row.provenance, Provenance::measured);
}

TEST(DeviceReport, NormsInTheSameKernelAndAsAnotherStandInTablesOfTheirOwn) {
  Measurement m = scene();
  m.backends[0].sizes[0].fused = Timing{5.0e-6, 5.1e-6, 6e-6, 122, 50};
  m.backends[0].sizes[0].pair = Timing{6.0e-6, 6.2e-6, 7e-6, 122, 50};
  const DeviceReport report = device_report(m, "2 x GPU", nullptr);
  ASSERT_EQ(report.tables.size(), 5U);
  EXPECT_EQ(report.tables[3].rows.at(0).device->norm, "pair");
  EXPECT_EQ(report.tables[4].rows.at(0).device->norm, "fused");
  EXPECT_DOUBLE_EQ(report.tables[3].rows[0].seconds - report.tables[4].rows[0].seconds, 6.2e-6 - 5.1e-6);
  EXPECT_EQ(device_json(report)["rows"].back()["norm"], "fused");
  EXPECT_FALSE(device_json(report)["rows"].front().contains("norm"));
}

TEST(DeviceReport, SaysWhatWasRefusedAndWhatFailed) {
  const std::string text = device_text(device_report(scene(), "2 x GPU", nullptr));
  EXPECT_THAT(text, AllOf(HasSubstr("all_reduce of bf16 on 8 ranks, 2 x GPU"),
                          HasSubstr("island    refused: the ranks are one island"),
                          HasSubstr("hostbc    FAILED: rank 0 waited in vain for rank 3"),
                          HasSubstr("push1     4,000 values exact"), HasSubstr("note: push1: wire sentinel"),
                          HasSubstr("up to 4 ranks share a GPU")));
  EXPECT_TRUE(any_failed(scene()));
}

TEST(DeviceReport, WrongSumsAreAFailure) {
  Measurement m = scene();
  m.backends.resize(1);
  EXPECT_FALSE(any_failed(m));
  m.backends[0].sizes[1].wrong = 7;
  EXPECT_TRUE(any_failed(m));
  EXPECT_THAT(device_text(device_report(m, "2 x GPU", nullptr)), HasSubstr("WRONG at 16,384 B: 7 of 1,000 values"));
}

TEST(DeviceReport, SetsPricesBesideMeasurements) {
  Pricer model(fabric_text(two_switches(4)));
  const DeviceReport report = device_report(scene(), "8 x GPU", &model);
  const CommRow& row = report.tables[0].rows[0];
  ASSERT_TRUE(row.device->predicted);
  EXPECT_DOUBLE_EQ(*row.device->predicted,
                   model.price("push1", {Collective::all_reduce, 8, 4096, DType::bf16, true}).seconds);
  EXPECT_FALSE(report.tables[1].rows[0].device->predicted);  // no price has cold caches
  const auto json = device_json(report);
  EXPECT_EQ(json["schema"], "specstep.comm/1");
  EXPECT_DOUBLE_EQ(json["rows"][0]["error"].get<double>(), *row.device->predicted / row.seconds - 1);
  EXPECT_EQ(json["rows"][0]["provenance"], "measured");
  EXPECT_EQ(json["rows"][0]["cache"], "warm");
  EXPECT_EQ(json["backends"][2]["refusal"], "the ranks are one island");
  EXPECT_THAT(comm_csv(report.tables), HasSubstr(",cache,calls,replays,checked,wrong,predicted_seconds,norm\n"));
}

// Kernels of ours were measured: theirs are the prices beside them, with a norm in the kernel too.
TEST(DeviceReport, SetsPricesOfOwnKernelsBesideThem) {
  Measurement m = scene();
  m.own = OwnSettings{};
  m.backends.resize(1);
  m.backends[0].sizes[0].fused = m.backends[0].sizes[0].pair = Timing{5e-6, 6e-6, 7e-6, 122, 50};
  Pricer model(fabric("h200_nvswitch8"));
  const DeviceReport report = device_report(m, "8 x GPU", &model);
  ASSERT_EQ(report.tables.size(), 5U);
  Call call{.ranks = 8, .bytes = 4096, .own = OwnSettings{}};
  const double own = model.price("push1", call).seconds;
  EXPECT_EQ(report.tables[0].rows[0].device->predicted, own);
  EXPECT_NE(own, model.price("push1", {.ranks = 8, .bytes = 4096}).seconds);
  EXPECT_FALSE(report.tables[3].rows[0].device->predicted);  // the norm as a second kernel
  EXPECT_NEAR(*report.tables[4].rows[0].device->predicted - own, 1.84e-6, 1e-12);
}

// What is printed in nccl-tests' columns is read as nccl-tests prints it.
TEST(DeviceReport, InTheColumnsOfNcclTestsIsReadBack) {
  Measurement m = scene();
  m.backends.resize(1);
  const std::string text = device_text_as_nccl_tests(device_report(m, "8 x GPU", nullptr));
  EXPECT_THAT(text, Not(HasSubstr("N/A")));
  const NcclTestTable table = parse_nccl_tests(text, "log");
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[1].bytes, 16384);
  EXPECT_NEAR(table.rows[1].out_of_place.seconds, 5.6e-6, 1e-8);
  EXPECT_NEAR(table.rows[1].in_place.seconds, 20e-6, 1e-8);
  EXPECT_EQ(table.ranks, 8);
  EXPECT_EQ(table.dtype, DType::bf16);
}

}  // namespace
}  // namespace specstep::comm
