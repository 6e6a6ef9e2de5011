// What the ranks must agree on before NCCL may start: NCCL itself would hang or blame the wrong thing.
#pragma once

#include <string>
#include <string_view>

#include "comm/bootstrap.h"
#include "comm/nccl_settings.h"

namespace specstep::comm {

/// What one rank brings.
struct NcclMember {
  std::string refusal;   // why this rank cannot take part; empty when it can
  std::string device;    // host and PCI address
  std::string version;   // of the library
  std::string settings;  // as text
};

std::string settings_text(const NcclSettings& settings);

/// The current device, as host and PCI address.
std::string device_address();

/// Every rank calls it. Throws Unsupported, alike on all ranks: a rank that cannot take part, two ranks on one GPU,
/// libraries of different versions, different settings.
void require_nccl_group(const NcclMember& mine, Bootstrap& group, std::string_view backend = "nccl");

}  // namespace specstep::comm
