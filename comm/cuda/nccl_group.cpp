#include "comm/cuda/nccl_group.h"

#include <unistd.h>

#include <array>
#include <vector>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

using Members = std::vector<std::array<std::string, 4>>;  // refusal, device, version, settings
enum Part : std::size_t { refusal, device, version, settings };

std::array<std::string, 4> split(const std::string& text) {
  std::array<std::string, 4> out;
  std::size_t begin = 0;
  for (std::string& part : out) {
    const std::size_t end = text.find('\0', begin);
    part = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return out;
}

void require_equal(const Members& members, Part part, const std::string& noun) {
  for (std::size_t r = 1; r < members.size(); ++r)
    if (members[r][part] != members[0][part])
      throw Unsupported(
          formatted("backend {} differ: {} on rank 0, {} on rank {}", noun, members[0][part], members[r][part], r));
}

}  // namespace

std::string settings_text(const NcclSettings& s) {
  const auto text = [](const std::string& given) { return given.empty() ? std::string("NCCL's choice") : given; };
  const auto number = [&](std::int64_t given) { return text(given > 0 ? std::to_string(given) : ""); };
  return formatted("algorithm: {}, protocol: {}, p2p_level: {}, channels at least: {}, at most: {}, nvls: {}",
                   text(s.algorithm), text(s.protocol), text(s.p2p_level), number(s.min_channels),
                   number(s.max_channels), s.nvls ? "on" : "off");
}

std::string device_address() {
  int ordinal = 0;
  std::array<char, 64> pci{}, host{};
  check(cudaGetDevice(&ordinal), "asking for the current device");
  check(cudaDeviceGetPCIBusId(pci.data(), static_cast<int>(pci.size()), ordinal), "asking for a PCI address");
  (void)gethostname(host.data(), host.size() - 1);
  return formatted("{} of {}", pci.data(), host.data());
}

void require_nccl_group(const NcclMember& mine, Bootstrap& group, std::string_view backend) {
  std::string text;
  for (const std::string* part : {&mine.refusal, &mine.device, &mine.version, &mine.settings}) text += *part + '\0';
  Members members;
  for (const std::string& member : group.all_gather(text, "who takes part in nccl")) members.push_back(split(member));
  for (std::size_t r = 0; r < members.size(); ++r)
    if (!members[r][refusal].empty()) throw Unsupported(formatted("rank {}: {}", r, members[r][refusal]));
  for (std::size_t r = 0; r < members.size(); ++r)
    for (std::size_t other = 0; other < r; ++other)
      if (members[r][device] == members[other][device])
        throw Unsupported(formatted("backend {}: ranks {} and {} share GPU {}; NCCL gives each rank a GPU of its own",
                                    backend, other, r, members[r][device]));
  require_equal(members, version, formatted("{}: versions of NCCL", backend));
  require_equal(members, settings, formatted("{}: settings", backend));
}

}  // namespace specstep::comm
