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
}  // namespace

void describe(Fields& f, NcclSettings& s) {
  f.optional("algorithm", s.algorithm, "NCCL_ALGO: Ring, Tree, NVLS or NVLSTree; left out, NCCL chooses");
  f.optional("protocol", s.protocol, "NCCL_PROTO: LL, LL128 or Simple; left out, NCCL chooses");
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
  must_be_one_of({"LL", "LL128", "Simple"}, "protocol", s.protocol, c);
  must_be_one_of({"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}, "p2p_level", s.p2p_level, c);
  if (s.algorithm.starts_with("NVLS") && !s.nvls)
    c.fail("algorithm", "is " + s.algorithm + ", and nvls is off", "with nvls: true");
  if (s.max_channels > 0 && s.min_channels > s.max_channels)
    c.fail("min_channels", formatted("is {}", s.min_channels), formatted("at most max_channels, {}", s.max_channels));
}

}  // namespace specstep::comm
