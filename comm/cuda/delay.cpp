// The backend that waits for the price of a call on another fabric.
#include <map>
#include <stdexcept>
#include <tuple>

#include "comm/cuda/check.h"
#include "comm/cuda/delay_clock.h"
#include "comm/cuda/rows.h"
#include "comm/pricing.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

/// A wait longer than this is a fabric file gone wrong, or a call that no decode pass makes.
constexpr double longest_seconds = 1;

class DelayComm final : public DeviceComm {
 public:
  DelayComm(const CommRequest& request, int rank)
      : pricer_(*request.target), rank_(rank), target_ranks_(request.target_ranks) {}

  void all_reduce(void*, std::int64_t count, DType dtype, cudaStream_t stream) override {
    wait({Collective::all_reduce, target_ranks_, whole(count, 1, dtype), dtype}, {}, stream);
  }
  void all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) override {
    wait({Collective::all_gather, target_ranks_, whole(count, 1, dtype), dtype},
         own_part_to(part, all, rank_, count, dtype), stream);
  }
  void reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) override {
    wait({Collective::reduce_scatter, target_ranks_, whole(count, target_ranks_, dtype), dtype},
         own_part_from(values, part, rank_, count, dtype), stream);
  }
  void all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) override {
    wait({Collective::all_to_all, target_ranks_, whole(count, target_ranks_, dtype), dtype},
         own_part_within(from, to, rank_, count, dtype), stream);
  }

  std::vector<std::string> notes() const override;
  std::int64_t device_bytes() const override { return 0; }
  void check_health() override {}
  void abort() noexcept override {}  // waits end by themselves

 private:
  using Key = std::tuple<Collective, std::int64_t, DType, bool>;

  static std::int64_t whole(std::int64_t parts_count, int parts, DType dtype) {
    return static_cast<std::int64_t>(value_bytes(parts_count, dtype)) * parts;
  }
  void wait(Call call, const OwnCopy& copy, cudaStream_t stream);
  const CommPrice& price_of(const Call& call);

  DelayClock clock_;
  Pricer pricer_;
  int rank_;
  int target_ranks_;
  std::map<Key, CommPrice> prices_;
};

void DelayComm::wait(Call call, const OwnCopy& copy, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "asking whether a stream is captured");
  call.captured = status == cudaStreamCaptureStatusActive;
  launch_wait(clock_.ticker(), clock_.ticks_for(price_of(call).seconds), copy, stream);
}

const CommPrice& DelayComm::price_of(const Call& call) {
  const Key key{call.kind, call.bytes, call.dtype, call.captured};
  const auto known = prices_.find(key);
  if (known != prices_.end()) return known->second;
  const CommPrice price = pricer_.price("delay", call);
  if (price.seconds > longest_seconds)
    throw Error(formatted("delay: {} of {} among {} of {} GPUs is priced {}; waits end at {}", name_of(call.kind),
                          bytes_text(static_cast<double>(call.bytes)), call.ranks, gpu_count(pricer_.topology()),
                          seconds_text(price.seconds), seconds_text(longest_seconds)));
  return prices_.emplace(key, price).first->second;
}

std::vector<std::string> DelayComm::notes() const {
  std::vector<std::string> out{formatted("delay: plays rank {} of {} on a fabric of {} GPUs; nothing is exchanged, "
                                         "each call waits for nccl's price there",
                                         rank_, target_ranks_, gpu_count(pricer_.topology())),
                               "delay: " + clock_.text()};
  const auto text = [&](const CommPrice& price) {
    return formatted("{} ({}{}){}", seconds_text(price.seconds), price.algorithm,
                     price.extrapolated ? ", extrapolated" : "",
                     price.seconds < clock_.floor_seconds() ? ", below the floor: lasts the floor" : "");
  };
  for (const auto& [key, price] : prices_) {
    const auto& [kind, bytes, dtype, captured] = key;
    const auto other = prices_.find({kind, bytes, dtype, !captured});
    const bool alike = other != prices_.end() && text(other->second) == text(price);
    if (alike && captured) continue;  // told with the eager one
    out.push_back(formatted("delay: {} of {} {}, {}: {}", name_of(kind), bytes_text(static_cast<double>(bytes)),
                            name_of(dtype),
                            alike      ? "eager and captured"
                            : captured ? "captured"
                                       : "eager",
                            text(price)));
  }
  return out;
}

}  // namespace

std::unique_ptr<DeviceComm> open_delay(const CommRequest& request, Bootstrap& group) {
  if (!request.target) throw std::logic_error("delay: no target fabric");
  if (group.ranks() > request.target_ranks)
    throw Unsupported(
        formatted("delay: {} ranks here cannot be the first of {} there", group.ranks(), request.target_ranks));
  if (request.target_ranks > gpu_count(*request.target))
    throw Unsupported(
        formatted("delay: {} ranks on a fabric of {} GPUs", request.target_ranks, gpu_count(*request.target)));
  return std::make_unique<DelayComm>(request, group.rank());
}

}  // namespace specstep::comm
