// One rank of mpi_test: test_rank SCENE LIMIT_SECONDS.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/bootstrap.h"
#include "model/base/formatted.h"
#include "sim/executor.h"
#include "sim/module.h"

using specstep::formatted;
using specstep::comm::Bootstrap;

namespace {

/// Far longer than any test runs: a rank that is stuck.
void stuck() { std::this_thread::sleep_for(std::chrono::hours(1)); }

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// Parts of other lengths on each rank, the last ones too long for MPI's eager way.
void gather(Bootstrap& group) {
  for (std::size_t round = 0; round < 200; ++round) {
    const std::size_t length = round * round * 7;
    const auto text = [&](int rank) {
      return std::string(length + static_cast<std::size_t>(rank), static_cast<char>('a' + rank));
    };
    const auto all = group.all_gather(text(group.rank()), "parts");
    for (int r = 0; r < group.ranks(); ++r)
      expect(all.at(static_cast<std::size_t>(r)) == text(r), formatted("round {}: part {} is wrong", round, r));
    group.barrier("end of round");
  }
  expect(group.local_rank() == group.rank() && group.local_ranks() == group.ranks(), "one host, other local ranks");
  expect(specstep::comm::under_mpi(), "under_mpi does not see mpirun");
  std::printf("rank %d of %d is content\n", group.rank(), group.ranks());
}

void play(const std::string& scene, double limit) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = std::getenv("PMI_RANK");
  const bool last = rank && std::string(rank) == "2";
  if (scene == "never_starts" && last) stuck();
  const auto group = specstep::open_module("mpi").make_bootstrap(limit);
  if (scene == "gather") return gather(*group);
  group->barrier("start");
  if (group->rank() == 2) {
    if (scene == "killed") std::raise(SIGKILL);
    if (scene == "fails") group->fail("out of memory");
    if (scene == "never_arrives") stuck();
    if (scene == "leaves") return;
  }
  group->barrier(scene == "out_of_step" && group->rank() == 2 ? "handles" : "weights");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    play(argv[1], std::atof(argv[2]));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
