// How fast prices are: the product promises 10^5 allreduce prices a second on one core, and a 16-GPU all-to-all in less
// than a millisecond.
#include <benchmark/benchmark.h>

#include "comm/pricing.h"
#include "comm/schedule_price.h"
#include "comm/schedules/schedules.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

void allreduce_price(benchmark::State& state, const char* id) {
  Pricer pricer(fabric("asus_dual_turin_collapse"));
  std::int64_t bytes = 1024;
  for (auto _ : state) {
    bytes = bytes > (1 << 20) ? 1024 : bytes + 16;
    benchmark::DoNotOptimize(pricer.price(id, {.ranks = 8, .bytes = bytes}));
  }
}
BENCHMARK_CAPTURE(allreduce_price, nccl, "nccl");
BENCHMARK_CAPTURE(allreduce_price, pull1, "pull1");
BENCHMARK_CAPTURE(allreduce_price, island, "island");

void prepared_from_scratch(benchmark::State& state) {
  const Topology t = fabric("asus_dual_turin_collapse");
  for (auto _ : state) benchmark::DoNotOptimize(price("pull1", t, {.ranks = 8, .bytes = 14336}));
}
BENCHMARK(prepared_from_scratch);

void all_to_all_of_sixteen(benchmark::State& state) {
  const Topology t = fabric("switch_4x4_islands");
  const Schedule schedule = direct(Collective::all_to_all, 16, Operation::write);
  for (auto _ : state) benchmark::DoNotOptimize(price_schedule(schedule, t, {}));
}
BENCHMARK(all_to_all_of_sixteen);

}  // namespace
}  // namespace specstep::comm

BENCHMARK_MAIN();
