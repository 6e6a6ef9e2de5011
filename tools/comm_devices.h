// specstep comm with an executor that measures: options, and the measurement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/measure.h"
#include "comm/pricing.h"
#include "tools/cli.h"

namespace specstep {

struct DeviceOptions {
  std::string executor = "cost";
  std::vector<int> devices;
  std::vector<std::string> conditions{"graph", "cold", "eager"};
  bool check = false;
  std::int64_t width = 7168;
  int calls = 122;
  int replays = 100;
  double seconds = 0.25;
  double wait_limit = 30;
  std::vector<std::string> own, nccl;
  std::string fault;
  std::string format = "table";

  /// Settings of our own backends, where --own gives some.
  std::optional<comm::OwnSettings> own_settings() const;
  bool measures() const { return executor != "cost"; }
};

/// Adds the options to `specstep comm`.
void add_device_options(CLI::App& command, DeviceOptions& options, CommonOptions& common);

/// Throws InputError that names an option which only a measurement reads.
void refuse_without_measurement(const CLI::App& command);

/// What is common to prices and measurements.
struct DeviceQuery {
  std::vector<int> ranks;  // a measurement for each number; empty: one rank for each device
  std::vector<std::int64_t> sizes;
  std::vector<std::string> backends;
  DType dtype = DType::bf16;
  comm::Pricer* model = nullptr;             // prices beside measurements, and what delay waits for
  std::optional<comm::OwnSettings> own{};    // of a run, where --own gives none
  std::optional<comm::NcclSettings> nccl{};  // of a run, where --nccl gives none
};

/// Measures for each number of ranks and delivers. A backend that fails or hangs for one number is told, and the others
/// go on. Throws Error after that when one failed, Unsupported when none could run.
void run_on_devices(const DeviceOptions& options, const DeviceQuery& query, const CommonOptions& common);

}  // namespace specstep
