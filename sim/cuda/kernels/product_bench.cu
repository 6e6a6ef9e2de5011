// Times of grouped products beside the copy bandwidth of the same GPU.
// cuda_product_bench [part of a shape's name [numbers of tokens]]
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/product.h"

namespace specstep::cuda {
namespace {

using comm::check;

constexpr int most_calls = 64, repeats = 5;
constexpr int prompt = 256;  // tokens from which on a call is one of a prompt

std::shared_ptr<void> device_memory(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256))), "bench memory");
  check(cudaMemset(memory, 0, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256))), "bench memory");
  return {memory, cudaFree};
}

template <class T>
std::shared_ptr<void> on_device(const std::vector<T>& values) {
  std::shared_ptr<void> memory = device_memory(static_cast<std::int64_t>(values.size() * sizeof(T)));
  check(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "bench memory");
  return memory;
}

struct Events {
  Events() {
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
  }
  ~Events() { cudaEventDestroy(begin), cudaEventDestroy(end); }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  cudaEvent_t begin = nullptr, end = nullptr;
};

/// Best of some runs, in seconds.
template <class Work>
double best_time(cudaStream_t stream, Work work) {
  const Events events;
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    check(cudaEventRecord(events.begin, stream), "event");
    work();
    check(cudaEventRecord(events.end, stream), "event");
    check(cudaEventSynchronize(events.end), "bench");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events.begin, events.end), "event");
    best = std::min(best, ms * 1e-3);
  }
  return best;
}

/// Device to device, read plus written, in bytes a second.
double copy_bandwidth(cudaStream_t stream) {
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  const std::shared_ptr<void> from = device_memory(bytes), to = device_memory(bytes);
  const double seconds = best_time(stream, [&] {
    for (int i = 0; i < 8; ++i)
      check(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  return 2.0 * 8 * bytes / seconds;
}

/// What the router leaves of `tokens` tokens that each choose top_k of the experts.
struct Routing {
  std::vector<std::int32_t> pair_of, begin, spans;
  int met = 0;
};

Routing draw(int tokens, int top_k, int among, int experts, std::mt19937& random) {
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(experts));
  std::vector<int> deck(static_cast<std::size_t>(among));
  for (int e = 0; e < among; ++e) deck[static_cast<std::size_t>(e)] = e;
  for (int t = 0; t < tokens; ++t) {
    std::shuffle(deck.begin(), deck.end(), random);
    for (int i = 0; i < top_k; ++i)
      rows[static_cast<std::size_t>(deck[static_cast<std::size_t>(i)])].push_back(t * top_k + i);
  }
  Routing out;
  out.spans = {0, tokens * top_k};
  for (int e = 0; e < experts; ++e) {
    const auto& of = rows[static_cast<std::size_t>(e)];
    const auto place = static_cast<std::int32_t>(out.pair_of.size());
    out.begin.push_back(place);
    if (of.empty()) continue;
    ++out.met;
    out.spans.insert(out.spans.end(), {e, place});
    out.pair_of.insert(out.pair_of.end(), of.begin(), of.end());
  }
  out.begin.push_back(tokens * top_k);
  out.spans[0] = out.met;
  out.spans.resize(2 * static_cast<std::size_t>(experts + 1));
  return out;
}

struct Shape {
  const char* name;
  WeightFormat format;
  int experts, top_k;
  std::int64_t n, k;
  bool down;  // rows of the input are those of pairs, not of tokens
};

/// Copies of one layer's experts, so that a call meets none of its predecessors' in the second-level cache.
class Pool {
 public:
  explicit Pool(const Shape& shape) {
    const StoredBytes bytes = stored_bytes(shape.format, shape.experts, shape.n, shape.k);
    const std::int64_t each = bytes.values + bytes.scales;
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>((std::int64_t{4} << 30) / each, 1, 8); ++i) {
      memory_.push_back(device_memory(bytes.values)), memory_.push_back(device_memory(bytes.scales));
      StoredMatrix m{shape.format, memory_[memory_.size() - 2].get(), memory_.back().get()};
      m.whole_scale = whole_scale(shape.format, 0.02F);
      m.count = shape.experts, m.rows = shape.n, m.cols = shape.k;
      fill_any(m, static_cast<std::uint64_t>(i), nullptr);
      matrices_.push_back(m);
    }
    bytes_of_expert_ = static_cast<double>(each) / shape.experts;
    check(cudaDeviceSynchronize(), "fill");
  }
  const StoredMatrix& at(int i) const { return matrices_[static_cast<std::size_t>(i) % matrices_.size()]; }
  double bytes_of_expert() const { return bytes_of_expert_; }

 private:
  std::vector<std::shared_ptr<void>> memory_;
  std::vector<StoredMatrix> matrices_;
  double bytes_of_expert_ = 0;
};

/// Replays of a graph of many calls, each with a routing of its own among the first `experts`.
void time_product(const Shape& shape, const Pool& pool, int tokens, int experts, double copy, cudaStream_t stream) {
  std::mt19937 random(17);
  const int calls = tokens < prompt ? most_calls : most_calls / 8;
  const std::int64_t pairs = static_cast<std::int64_t>(tokens) * shape.top_k;
  const std::int64_t in_rows = shape.down ? pairs : tokens;
  std::vector<std::shared_ptr<void>> memory;
  const auto kept = [&](std::shared_ptr<void> m) { return memory.emplace_back(std::move(m)).get(); };
  GroupedProduct call;
  call.in = kept(on_device(std::vector<std::uint16_t>(static_cast<std::size_t>(in_rows * shape.k), 0x3F80)));
  call.in_stride = shape.k, call.share = shape.down ? 1 : shape.top_k;
  call.settled = shape.down;  // in a pass the first product and an activation lie between it and the router
  call.out = kept(device_memory(pairs * shape.n * 2)), call.out_stride = shape.n, call.pairs = pairs;
  double met = 0;
  std::vector<GroupedProduct> all;
  for (int i = 0; i < calls; ++i) {
    const Routing routing = draw(tokens, shape.top_k, experts, shape.experts, random);
    met += static_cast<double>(routing.met) / calls;
    call.grouping = {static_cast<std::int32_t*>(kept(on_device(routing.pair_of))),
                     static_cast<std::int32_t*>(kept(on_device(routing.begin))),
                     static_cast<std::int32_t*>(kept(on_device(routing.spans)))};
    call.weight = pool.at(i);
    all.push_back(call);
  }
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (const GroupedProduct& each : all) grouped_product(each, Real::bf16, stream);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "capture");
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  check(cudaGraphLaunch(exec, stream), "graph");  // warm
  const double seconds = best_time(stream, [&] { check(cudaGraphLaunch(exec, stream), "graph"); }) / calls;
  check(cudaGraphExecDestroy(exec), "graph");
  check(cudaGraphDestroy(graph), "graph");
  const double bytes = met * pool.bytes_of_expert();
  const double flops = 2.0 * static_cast<double>(pairs * shape.n * shape.k);
  std::printf("%-30s M %4d  experts met %6.1f  %8.2f MB  %9.2f us  %7.1f GB/s  %5.3f of the copy  %6.1f TFLOP/s\n",
              shape.name, tokens, met, bytes * 1e-6, seconds * 1e6, bytes / seconds * 1e-9, bytes / seconds / copy,
              flops / seconds * 1e-12);
}

/// `part`: of the names of the shapes to time. `only`: numbers of tokens; none: all.
void bench(std::string_view part, const std::vector<int>& only) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const double copy = copy_bandwidth(stream);
  std::printf("device to device copy, read plus written: %.1f GB/s\n", copy * 1e-9);
  const WeightFormat int4{DType::int4, 32, DType::bf16}, bf16, fp8{DType::fp8, 16384, DType::f32},
      mxfp4{DType::mxfp4, 32, DType::fp8};
  for (const Shape& shape : {Shape{"kimi-k2.5 tp8 gate_up, int4", int4, 384, 8, 512, 7168, false},
                             Shape{"kimi-k2.5 tp8 down, int4", int4, 384, 8, 7168, 256, true},
                             Shape{"kimi-k2.5 tp8 gate_up, bf16", bf16, 384, 8, 512, 7168, false},
                             Shape{"kimi-k2.5 tp8 down, bf16", bf16, 384, 8, 7168, 256, true},
                             Shape{"deepseek-v3 tp8 gate_up, fp8", fp8, 256, 8, 512, 7168, false},
                             Shape{"deepseek-v3 tp8 down, fp8", fp8, 256, 8, 7168, 256, true},
                             Shape{"gpt-oss-120b gate_up, mxfp4", mxfp4, 128, 4, 5760, 2880, false},
                             Shape{"gpt-oss-120b down, mxfp4", mxfp4, 128, 4, 2880, 2880, true},
                             Shape{"mixtral-8x7b tp2 gate_up, bf16", bf16, 8, 2, 14336, 4096, false},
                             Shape{"mixtral-8x7b tp2 down, bf16", bf16, 8, 2, 4096, 7168, true}}) {
    if (std::string_view(shape.name).find(part) == std::string_view::npos) continue;
    const Pool pool(shape);
    for (const int tokens : only.empty() ? std::vector<int>{1, 3, 4, 8, 32, prompt, 4 * prompt} : only)
      time_product(shape, pool, tokens, shape.experts, copy, stream);
    if (!only.empty()) continue;
    // Tokens that are alike choose alike.
    time_product(shape, pool, 4 * prompt, std::min(2 * shape.top_k, shape.experts), copy, stream);
  }
  check(cudaStreamDestroy(stream), "stream");
}

}  // namespace
}  // namespace specstep::cuda

int main(int count, char** arguments) {
  try {
    std::vector<int> tokens;
    for (int i = 2; i < count; ++i) tokens.push_back(std::stoi(arguments[i]));
    specstep::cuda::bench(count > 1 ? arguments[1] : "", tokens);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
