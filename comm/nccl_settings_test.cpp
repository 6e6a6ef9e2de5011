// Settings that NCCL would ignore without a word are refused.
#include "comm/nccl_settings.h"

#include <gmock/gmock.h>

#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

NcclSettings settings(const std::string& text) { return read_config<NcclSettings>(yaml::parse(text, "n.yaml")); }
std::string refused(const std::string& text) {
  return refusal_of([&] { settings(text); });
}

TEST(NcclSettings, LeavesTheChoiceToNcclAndMulticastOff) { EXPECT_EQ(settings("{}"), NcclSettings{}); }

TEST(NcclSettings, ReadsWhatItIsGiven) {
  EXPECT_EQ(settings("{algorithm: Ring, protocol: LL128, p2p_level: SYS, min_channels: 2, max_channels: 4}"),
            (NcclSettings{"Ring", "LL128", "SYS", 2, 4, false}));
  EXPECT_EQ(settings("{protocol: 'LL,LL128,Simple'}").protocol, "LL,LL128,Simple");
  EXPECT_EQ(nccl_protocols("LL,Simple"), (std::array{true, false, true}));
  EXPECT_EQ(settings("{algorithm: NVLS, nvls: true}").algorithm, "NVLS");
}

TEST(NcclSettings, RefusesNamesThatNcclDoesNotKnow) {
  EXPECT_THAT(refused("{algorithm: ring}"), AllOf(HasSubstr("n.yaml:1"), HasSubstr("'ring'"), HasSubstr("Ring")));
  EXPECT_THAT(refused("{protocol: LL64}"), HasSubstr("LL128"));
  EXPECT_THAT(refused("{protocol: 'LL,Simpel'}"), HasSubstr("Simple"));
  EXPECT_THAT(refused("{protocol: 'LL,'}"), HasSubstr("LL128"));
  EXPECT_THAT(refused("{p2p_level: P2P}"), HasSubstr("PXB"));
}

TEST(NcclSettings, RefusesWhatContradictsItself) {
  EXPECT_THAT(refused("{algorithm: NVLS}"), HasSubstr("nvls: true"));
  EXPECT_THAT(refused("{min_channels: 8, max_channels: 4}"), HasSubstr("at most max_channels, 4"));
}

}  // namespace
}  // namespace specstep::comm
