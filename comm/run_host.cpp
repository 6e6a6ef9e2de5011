// The interpreter. Every transfer of a phase reads the state before the phase; sums are added in transfer order.
#include "comm/run_host.h"

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Slice slice(const Range& range, std::size_t count) {
  return {part_begin(count, range.first, range.of), part_begin(count, range.last, range.of)};
}

void require_place(const Schedule& schedule, int place) {
  if (place < 0 || place >= schedule.places())
    throw Error(formatted("schedule '{}' names place {} of {}", schedule.name, place, schedule.places()));
}

template <class T>
void run_phase(const Schedule& schedule, const Phase& phase, std::vector<std::vector<T>>& places) {
  const std::vector<std::vector<T>> before = places;
  for (const Transfer& t : phase.transfers) {
    require_place(schedule, t.src);
    require_place(schedule, t.dst);
    const auto& source = before[static_cast<std::size_t>(t.src)];
    auto& target = places[static_cast<std::size_t>(t.dst)];
    const Slice from = slice(t.from, source.size());
    const Slice to = slice(t.to, target.size());
    if (from.end - from.begin != to.end - to.begin)
      throw Error(formatted("schedule '{}', phase '{}': a transfer changes its length", schedule.name, phase.name));
    for (std::size_t i = 0; i < from.end - from.begin; ++i) {
      const T value = source[from.begin + i];
      target[to.begin + i] = t.effect == Effect::copy ? value : static_cast<T>(target[to.begin + i] + value);
    }
  }
}

template <class T>
void run(const Schedule& schedule, std::vector<std::vector<T>>& vectors) {
  if (static_cast<int>(vectors.size()) != schedule.ranks)
    throw Error(formatted("schedule '{}' is for {} ranks, not {}", schedule.name, schedule.ranks, vectors.size()));
  for (const auto& v : vectors)
    if (v.size() != vectors.front().size()) throw Error("vectors of different lengths");
  std::vector<std::vector<T>> places = vectors;
  places.resize(static_cast<std::size_t>(schedule.places()), std::vector<T>(vectors.front().size(), T{}));
  for (const Phase& phase : schedule.phases) run_phase(schedule, phase, places);
  places.resize(vectors.size());
  vectors = std::move(places);
}

}  // namespace

void run_on_host(const Schedule& schedule, std::vector<std::vector<std::int64_t>>& vectors) { run(schedule, vectors); }
void run_on_host(const Schedule& schedule, std::vector<std::vector<float>>& vectors) { run(schedule, vectors); }

}  // namespace specstep::comm
