// Facts about where a result was made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace specstep {

struct DeviceFacts;

/// Version of this program, "0.1.0".
std::string program_version();
/// One line per library built in or found: name, version.
std::vector<std::pair<std::string, std::string>> library_versions();
/// Versions, compiler, operating system, processor and cores of this host.
nlohmann::ordered_json environment();
/// The same with the GPUs of a measurement.
nlohmann::ordered_json environment(const std::vector<DeviceFacts>& devices);

}  // namespace specstep
