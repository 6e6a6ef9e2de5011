// Three processes under mpirun: what they gather, and that one which fails or is missing ends them all.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "model/base/formatted.h"

namespace specstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A group must have ended this long after a failure.
constexpr int end_within_seconds = 30;

struct Ended {
  int status = -1;  // of mpirun; 124 when it had to be ended
  std::string output;
};

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (access(SPECSTEP_MPIEXEC, X_OK) != 0) GTEST_SKIP() << "no mpirun here";
    // Open MPI 4 and 5: containers have one user and few cores. Other MPIs ignore these.
    for (const char* name :
         {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe",
          "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(name, "1", 1);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 1);
  }

  static Ended play(const std::string& scene, double limit_seconds) {
    const std::string command = formatted("timeout -k 5 {} {} -n 3 {} {} {} 2>&1", end_within_seconds, SPECSTEP_MPIEXEC,
                                          SPECSTEP_MPI_TEST_RANK, scene, limit_seconds);
    Ended ended;
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) return ended;
    char text[256];
    while (std::fgets(text, sizeof text, pipe)) ended.output += text;
    const int status = pclose(pipe);
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended;
  }

  /// Fails with an error, by itself, in time.
  static void expect_end(const Ended& ended, const auto& output) {
    EXPECT_NE(ended.status, 0) << ended.output;
    EXPECT_NE(ended.status, 124) << "still running after " << end_within_seconds << " s: " << ended.output;
    EXPECT_THAT(ended.output, output);
  }
};

TEST_F(Mpi, EveryRankGetsEveryPart) {
  const Ended ended = play("gather", 25);
  EXPECT_EQ(ended.status, 0) << ended.output;
  for (int r = 0; r < 3; ++r) EXPECT_THAT(ended.output, HasSubstr(formatted("rank {} of 3 is content", r)));
}

TEST_F(Mpi, ARankThatFailsEndsAllWithItsReason) {
  expect_end(play("fails", 600), HasSubstr("rank 2 of 3: out of memory"));
}

TEST_F(Mpi, ARankThatIsKilledEndsAll) { expect_end(play("killed", 600), HasSubstr("Killed")); }

TEST_F(Mpi, ARankThatDoesNotArriveIsNamed) {
  expect_end(play("never_arrives", 6), HasSubstr("rank 2 did not arrive at 'weights' within 6 s"));
}

TEST_F(Mpi, ARankThatDoesNotStartIsNotWaitedForLongerThanTheLimit) {
  expect_end(play("never_starts", 6), HasSubstr("did not return within 6 s"));
}

TEST_F(Mpi, ARankThatLeavesIsNotWaitedForLongerThanTheLimit) { expect_end(play("leaves", 6), HasSubstr("within 6 s")); }

TEST_F(Mpi, RanksOutOfStepAreTold) {
  expect_end(play("out_of_step", 600), AllOf(HasSubstr("'weights'"), HasSubstr("'handles'")));
}

}  // namespace
}  // namespace specstep
