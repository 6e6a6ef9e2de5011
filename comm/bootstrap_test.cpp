// Threads that meet, and what the others are told of one that does not.
#include "comm/bootstrap.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Ends = std::vector<std::unique_ptr<Bootstrap>>;

/// Runs work on a thread for each rank; what each threw, or "".
std::vector<std::string> on_all(Ends& ends, const std::function<void(Bootstrap&)>& work) {
  std::vector<std::string> thrown(ends.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < ends.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        work(*ends[r]);
      } catch (const Error& e) {
        thrown[r] = e.what();
      }
    });
  threads.clear();
  return thrown;
}

TEST(Bootstrap, EveryRankGetsEveryPartInRankOrder) {
  Ends ends = thread_bootstrap(5, 60);
  std::vector<std::vector<std::string>> last(5);
  const auto thrown = on_all(ends, [&](Bootstrap& group) {
    for (int round = 0; round < 500; ++round) {
      const std::vector<std::string> all = group.all_gather(formatted("{}.{}", group.rank(), round), "parts");
      for (int r = 0; r < group.ranks(); ++r)
        if (all.at(static_cast<std::size_t>(r)) != formatted("{}.{}", r, round))
          throw Error(formatted("round {}: got '{}' as part {}", round, all.at(static_cast<std::size_t>(r)), r));
      group.barrier("end of round");
      last[static_cast<std::size_t>(group.rank())] = all;
    }
  });
  EXPECT_EQ(thrown, std::vector<std::string>(5));
  for (const auto& all : last) EXPECT_EQ(all, (std::vector<std::string>{"0.499", "1.499", "2.499", "3.499", "4.499"}));
}

TEST(Bootstrap, PartsOfAnyBytesAndLengths) {
  Ends ends = thread_bootstrap(3, 60);
  std::vector<std::vector<std::string>> all(3);
  on_all(ends, [&](Bootstrap& g) {
    all[static_cast<std::size_t>(g.rank())] = g.all_gather(std::string(static_cast<std::size_t>(g.rank()), '\0'), "x");
  });
  for (const auto& got : all)
    EXPECT_EQ(got, (std::vector<std::string>{"", std::string(1, '\0'), std::string(2, '\0')}));
}

TEST(Bootstrap, OneRankNeedsNobody) {
  Ends ends = thread_bootstrap(1, 0.001);
  EXPECT_EQ(ends[0]->all_gather("a", "x"), std::vector<std::string>{"a"});
  EXPECT_EQ(ends[0]->rank(), 0);
  EXPECT_EQ(ends[0]->local_ranks(), 1);
}

TEST(Bootstrap, NamesTheRankThatFailedAndWhy) {
  Ends ends = thread_bootstrap(4, 60);
  const auto thrown = on_all(ends, [](Bootstrap& g) {
    g.barrier("start");
    if (g.rank() == 2)
      g.fail("out of memory");
    else
      g.barrier("weights");
  });
  EXPECT_EQ(thrown[2], "");
  for (const std::size_t r : {0u, 1u, 3u})
    EXPECT_THAT(thrown[r], AllOf(HasSubstr(formatted("rank {}", r)), HasSubstr("'weights'"),
                                 HasSubstr("rank 2 failed: out of memory")));
}

TEST(Bootstrap, NamesTheRanksThatDidNotArrive) {
  Ends ends = thread_bootstrap(4, 0.05);
  const auto thrown = on_all(ends, [](Bootstrap& g) {
    if (g.rank() == 0 || g.rank() == 3) g.barrier("capture");
  });
  for (const std::size_t r : {0u, 3u})
    EXPECT_THAT(thrown[r], HasSubstr("ranks 1, 2 did not arrive at 'capture' within 0.05 s"));
}

TEST(Bootstrap, AFailureStays) {
  Ends ends = thread_bootstrap(2, 60);
  ends[0]->fail("first");
  ends[1]->fail("second");
  for (int again = 0; again < 2; ++again) {
    const auto thrown = on_all(ends, [](Bootstrap& g) { g.barrier("late"); });
    for (const std::string& text : thrown) EXPECT_THAT(text, HasSubstr("rank 0 failed: first"));
  }
}

TEST(Bootstrap, ARankThatLeavesIsNotWaitedFor) {
  Ends ends = thread_bootstrap(2, 60);
  std::string thrown;
  std::jthread waiting([&] {
    try {
      ends[0]->barrier("end");
    } catch (const Error& e) {
      thrown = e.what();
    }
  });
  ends[1].reset();
  waiting.join();
  EXPECT_THAT(thrown, HasSubstr("rank 1 has left"));
}

TEST(Bootstrap, AMeetingThatWasCompleteIsGood) {
  for (int again = 0; again < 200; ++again) {
    Ends ends = thread_bootstrap(2, 60);
    std::vector<std::vector<std::string>> all(2);
    const auto thrown = on_all(ends, [&](Bootstrap& g) {
      all[static_cast<std::size_t>(g.rank())] = g.all_gather("x", "parts");
      if (g.rank() == 1) g.fail("afterwards");
    });
    EXPECT_EQ(thrown, std::vector<std::string>(2));
    for (const auto& got : all) EXPECT_EQ(got, (std::vector<std::string>{"x", "x"}));
  }
}

TEST(Bootstrap, RanksOutOfStepAreTold) {
  Ends ends = thread_bootstrap(2, 60);
  const auto thrown = on_all(ends, [](Bootstrap& g) { g.barrier(g.rank() == 0 ? "sizes" : "handles"); });
  for (const std::string& text : thrown) EXPECT_THAT(text, AllOf(HasSubstr("'sizes'"), HasSubstr("'handles'")));
}

}  // namespace
}  // namespace specstep::comm
