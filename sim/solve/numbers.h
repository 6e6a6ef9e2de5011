// The real numbers of a config, found by walking its declaration: whatever key is added is found.
#pragma once

#include <string>
#include <vector>

#include "sim/config.h"

namespace specstep::solving {

struct ConfigNumber {
  std::string key;  // dotted path as `--set` takes it
  double value = 0;
};

/// Every real number, of quantities their value, whose key begins with one of `prefixes`; keys left out of the file
/// show their default, absent options do not.
std::vector<ConfigNumber> config_numbers(RunConfig config, const std::vector<std::string>& prefixes);

/// The same config with one number, found by config_numbers, multiplied.
RunConfig scaled(RunConfig config, const std::string& key, double factor);

}  // namespace specstep::solving
