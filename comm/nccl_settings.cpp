// Names that NCCL knows; it ignores others without a word.
#include "comm/nccl_settings.h"

#include <algorithm>
#include <vector>

#include "model/base/formatted.h"

namespace specstep::comm {

namespace {
void must_be_one_of(const std::vector<std::string>& names, const char* key, const std::string& value, Checker& c) {
  if (value.empty() || std::find(names.begin(), names.end(), value) != names.end()) return;
  c.fail(key, formatted("unknown '{}'{}", value, did_you_mean(value, names)), one_of(names));
}
constexpr std::array<const char*, 3> protocol_names{"LL", "LL128", "Simple"};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}
}  // namespace

std::array<bool, 3> nccl_protocols(const std::string& list) {
  std::array<bool, 3> out{};
  for (const std::string& name : parts_of(list))
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] || name == protocol_names[i];
  return out;
}

void describe(Fields& f, NcclSettings& s) {
  f.optional("algorithm", s.algorithm, "NCCL_ALGO: Ring, Tree, NVLS or NVLSTree; left out, NCCL chooses");
  f.optional("protocol", s.protocol,
             "NCCL_PROTO: LL, LL128, Simple or several with commas; cost reads it too; left out, NCCL chooses");
  f.optional("p2p_level", s.p2p_level,
             "NCCL_P2P_LEVEL: pairs further apart than LOC, NVL, PIX, PXB, PHB or SYS use host memory");
  f.optional("min_channels", s.min_channels, "thread blocks of a call, at least; 0 leaves it to NCCL",
             {.min = 0, .max = 64});
  f.optional("max_channels", s.max_channels, "thread blocks of a call, at most; 0 leaves it to NCCL",
             {.min = 0, .max = 64});
  f.optional("nvls", s.nvls, "let NCCL use multicast through the NVLink switch (NCCL_NVLS_ENABLE)");
}

void check(const NcclSettings& s, Checker& c) {
  must_be_one_of({"Ring", "Tree", "NVLS", "NVLSTree"}, "algorithm", s.algorithm, c);
  if (!s.protocol.empty())
    for (const std::string& name : parts_of(s.protocol))
      must_be_one_of({protocol_names.begin(), protocol_names.end()}, "protocol", name.empty() ? "," : name, c);
  must_be_one_of({"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}, "p2p_level", s.p2p_level, c);
  if (s.algorithm.starts_with("NVLS") && !s.nvls)
    c.fail("algorithm", "is " + s.algorithm + ", and nvls is off", "with nvls: true");
  if (s.max_channels > 0 && s.min_channels > s.max_channels)
    c.fail("min_channels", formatted("is {}", s.min_channels), formatted("at most max_channels, {}", s.max_channels));
}

}  // namespace specstep::comm
