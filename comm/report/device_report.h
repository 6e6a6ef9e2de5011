// What `specstep comm --executor cuda` prints: tables of times, the checks, refusals, and prices beside measurements.
#pragma once

#include <string>
#include <vector>

#include "comm/measure.h"
#include "comm/report/comm_table.h"

namespace specstep::comm {

struct DeviceReport {
  std::string where;  // the GPUs
  Measurement measured;
  std::vector<CommTable> tables;  // one for each condition that was timed
  Pricer* model = nullptr;        // prices beside measurements
};

/// `model` may be nullptr; it outlives the report.
DeviceReport device_report(const Measurement& measured, const std::string& where, Pricer* model);

std::string device_text(const DeviceReport& report);
/// nccl-tests' columns, a table for each backend: left the graph, right calls launched one by one. All are in place.
std::string device_text_as_nccl_tests(const DeviceReport& report);
/// specstep.comm/1, with `backends`: what was checked, refusals, failures, notes, memory.
nlohmann::ordered_json device_json(const DeviceReport& report);

/// Whether a backend failed, or gave wrong sums.
bool any_failed(const Measurement& measured);

}  // namespace specstep::comm
