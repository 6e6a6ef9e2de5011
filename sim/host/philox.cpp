// Ten rounds of two 32 x 32 bit products; constants of the paper.
#include "sim/host/philox.h"

namespace specstep::host {

PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  constexpr std::uint64_t multiply_0 = 0xD2511F53;
  constexpr std::uint64_t multiply_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t weyl_1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = multiply_0 * c[0];
    const std::uint64_t b = multiply_1 * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return c;
}

}  // namespace specstep::host
