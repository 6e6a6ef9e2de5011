// What a rank was waiting for when it gave up.
#pragma once

#include <string>
#include <string_view>

#include "comm/protocol/call.h"

namespace specstep::comm::protocol {

struct WaitRecord {
  Protocol protocol{};
  std::int32_t site = 0;
  std::uint32_t epoch = 0;
  Awaited what;
};

/// One sentence that names the call, the rank, and what it waited for. `name` is that of a protocol or a backend.
std::string text_of(std::string_view name, const WaitRecord& record, int rank);

}  // namespace specstep::comm::protocol
