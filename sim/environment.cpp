// Versions and host facts.
#include "sim/environment.h"

#include <sys/utsname.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/base/formatted.h"
#include "sim/executor.h"
#include "sim/module.h"

namespace specstep {

std::string program_version() { return SPECSTEP_VERSION; }

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> out{
      {"fmt", formatted("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann-json",
       formatted("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"yaml-cpp", SPECSTEP_YAML_CPP_VERSION},
      {"Eigen", SPECSTEP_EIGEN_VERSION},
      {"CLI11", SPECSTEP_CLI11_VERSION}};
  for (const char* module : {"cuda", "mpi"})
    for (const auto& line : module_versions(module)) out.push_back(line);
  return out;
}

namespace {
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}
}  // namespace

nlohmann::ordered_json environment() {
  utsname os{};
  const bool known = uname(&os) == 0;
  return {{"specstep", program_version()},
          {"git", SPECSTEP_GIT},
          {"build", SPECSTEP_BUILD},
          {"compiler", SPECSTEP_COMPILER},
          {"os", known ? formatted("{} {}", os.sysname, os.release) : "unknown"},
          {"processor", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"gpus", nlohmann::ordered_json::array()}};
}

nlohmann::ordered_json environment(const std::vector<DeviceFacts>& devices) {
  nlohmann::ordered_json out = environment();
  for (const DeviceFacts& d : devices)
    out["gpus"].push_back({{"name", d.name},
                           {"memory_gib", d.memory_gib},
                           {"driver", d.driver},
                           {"cuda", d.cuda},
                           {"cublas", d.cublas},
                           {"sm_clock_mhz", d.sm_clock_mhz},
                           {"memory_clock_mhz", d.memory_clock_mhz},
                           {"temperature_c", d.temperature_c},
                           {"power_limit_w", d.power_limit_w}});
  return out;
}

}  // namespace specstep
