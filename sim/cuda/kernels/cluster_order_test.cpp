// Where clusters find their places, as the device itself says.
#include "sim/cuda/kernels/cluster_order.h"

#include <set>

#include "sim/cuda/kernels/device_test.h"

namespace specstep::cuda {
namespace {

using Places = std::vector<std::int32_t>;

class ClusterOrder : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    cudaDeviceProp device{};
    comm::check(cudaGetDeviceProperties(&device, 0), "properties of a device");
    if (device.major != 9) GTEST_SKIP() << "what is tested was seen on Hopper";
  }
  /// Multiprocessors of clusters behind a launch of `before` clusters, and of `between` where that is not 0.
  static Places places(int before, int between) {
    const OnDevice<std::int32_t> out(static_cast<std::size_t>(2 * pairs_of_multiprocessors()));
    empty_clusters(before, nullptr);
    if (between > 0) empty_clusters(between, nullptr);
    places_of_clusters(out.get(), nullptr);
    return out.back();
  }
  static std::set<Places> behind_any(int between) {
    std::set<Places> out;
    for (int before = 1; before <= 24; ++before) out.insert(places(before, between));
    return out;
  }
};

TEST_F(ClusterOrder, IsOneBehindSomeLaunchOfNearlyAllPlaces) {
  std::size_t fewest = 24;
  for (int less = 0; less < 4; ++less) fewest = std::min(fewest, behind_any(pairs_of_multiprocessors() - less).size());
  EXPECT_EQ(fewest, 1U);
}

TEST_F(ClusterOrder, DependsOnTheClustersBefore) { EXPECT_GT(behind_any(0).size(), 1U); }

TEST_F(ClusterOrder, PlacesAPairOnMultiprocessorsSideBySide) {
  const Places found = places(3, 0);
  for (std::size_t pair = 0; pair + 1 < found.size(); pair += 2)
    EXPECT_EQ(found[pair] / 2, found[pair + 1] / 2) << "pair " << pair / 2;
}

}  // namespace
}  // namespace specstep::cuda
