// How fast attention reads its cache: microseconds of a call inside a CUDA graph, and bytes of keys and values a second
// beside what a device-to-device copy moves. Caches are rotated so that none is found in the second-level cache. As in
// a pass, each call stands behind a small kernel of another kind that it depends on; the time of those alone is taken
// off.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <vector>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/attention.h"

namespace specstep::cuda {
namespace {

using comm::check;

/// Bytes that no second-level cache holds.
constexpr std::int64_t beyond_cache = 256 << 20;

/// Numbers in (-2, 2): the power that a product draws depends on them.
__global__ void fill(std::uint16_t* to, std::int64_t count) {
  const auto first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; i < count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    auto word = static_cast<std::uint32_t>(i) * 2654435761U;
    word = (word ^ word >> 15) * 2246822519U;
    to[i] = static_cast<std::uint16_t>((word >> 16 & 0x81FF) | 0x3E00);  // sign, two low bits of the exponent, mantissa
  }
}
/// As fast as it gets: eight loads of each thread in flight.
__global__ void __launch_bounds__(512) copy(uint4* to, const uint4* from) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 4096 + threadIdx.x;
  uint4 values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = from[first + i * 512];
#pragma unroll
  for (int i = 0; i < 8; ++i) to[first + i * 512] = values[i];
}
/// What stands between two calls.
__global__ void touch(std::uint16_t* query) { query[threadIdx.x] ^= 1; }

class Memory {
 public:
  explicit Memory(std::int64_t bytes) {
    check(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), "memory of the benchmark");
    check(cudaMemset(data_, 0, static_cast<std::size_t>(bytes)), "its zeros");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void fill_with_numbers(std::int64_t bytes) const {
    fill<<<1024, 256>>>(as<std::uint16_t>(), bytes / 2);
    check(cudaGetLastError(), "numbers of the benchmark");
  }

 private:
  void* data_ = nullptr;
};

/// Milliseconds of one launch of what `record` puts on the stream, replayed as a graph; best of five.
template <typename Fn>
double graph_ms(cudaStream_t stream, Fn record) {
  // What was uploaded and filled went to the default stream, which this one does not wait for.
  check(cudaDeviceSynchronize(), "what the benchmark needs");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  record();
  check(cudaStreamEndCapture(stream, &graph), "end of capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiation");
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  // An idle device runs at a fraction of its clocks: keep it busy for a while first.
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(40)) {
    for (int i = 0; i < 4; ++i) check(cudaGraphLaunch(exec, stream), "graph launch");
    check(cudaStreamSynchronize(stream), "graph");
  }
  float best = 1e30F;
  for (int i = 0; i < 5; ++i) {
    check(cudaGraphLaunch(exec, stream), "graph launch");  // keeps the device busy while the next one is launched
    check(cudaEventRecord(begin, stream), "record");
    check(cudaGraphLaunch(exec, stream), "graph launch");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "graph");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    best = std::min(best, ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  return best;
}

/// Bytes read and written by a copy, in 10^9 a second.
double copy_gb_s(cudaStream_t stream) {
  constexpr std::int64_t bytes = std::int64_t{4} << 30;
  constexpr int times = 4;
  const Memory from(bytes), to(bytes);
  from.fill_with_numbers(bytes);
  const double ms = graph_ms(stream, [&] {
    for (int i = 0; i < times; ++i) {
      copy<<<bytes / (4096 * sizeof(uint4)), 512, 0, stream>>>(to.as<uint4>(), from.as<uint4>());
      check(cudaGetLastError(), "copy");
    }
  });
  return 2.0 * times * bytes / ms / 1e6;
}

struct Shape {
  const char* name;
  AttentionKind kind;
  std::int64_t heads, kv_heads, score_dim, value_dim;
};

Attention operation(const Shape& s, std::int64_t batch, std::int64_t context, std::int64_t queries) {
  Attention op;
  op.kind = s.kind;
  op.sequences = batch;
  op.queries = queries;
  op.context = context;
  op.heads = s.heads;
  op.score_dim = s.score_dim;
  op.value_dim = s.value_dim;
  op.cached_values = s.kind == AttentionKind::mla ? s.score_dim : 2 * s.kv_heads * s.score_dim;
  return op;
}

/// One pass of chains behind `context` tokens, pages in order.
class Pass {
 public:
  explicit Pass(const Attention& op)
      : pages_each_((op.context + op.queries + page_tokens - 1) / page_tokens), memory_(bytes_of(op)) {
    const std::int64_t tokens = op.sequences * op.queries;
    std::vector<std::int32_t> numbers;
    for (std::int64_t t = 0; t < tokens; ++t) numbers.push_back(static_cast<std::int32_t>(op.context + t % op.queries));
    numbers.insert(numbers.end(), static_cast<std::size_t>(op.sequences), static_cast<std::int32_t>(op.context));
    const std::size_t first_page = numbers.size();
    numbers.resize(first_page + static_cast<std::size_t>(op.sequences * pages_each_));
    std::iota(numbers.begin() + static_cast<std::ptrdiff_t>(first_page), numbers.end(), 0);
    const auto* at = memory_.as<std::int32_t>();
    check(cudaMemcpy(memory_.as<void>(), numbers.data(), numbers.size() * 4, cudaMemcpyHostToDevice), "pass");
    meta.sequences = op.sequences;
    meta.tokens_each = op.queries;
    meta.positions = meta.slots = at;
    meta.base = at + tokens;
    meta.pages = at + first_page;
    meta.pages_each = pages_each_;
  }
  PassMeta meta;
  std::int64_t pages() const { return meta.sequences * pages_each_; }

 private:
  static std::int64_t bytes_of(const Attention& op) {
    return op.sequences * (op.queries + 2 + (op.context + op.queries) / page_tokens + 1) * 4;
  }
  std::int64_t pages_each_;
  Memory memory_;
};

void measure(const Shape& shape, const Attention& op, double copy, cudaStream_t stream) {
  constexpr std::int64_t nope_dim = 128;
  const Pass pass(op);
  const std::int64_t cache_bytes = pass.pages() * page_tokens * op.cached_values * 2;
  const std::int64_t caches = std::clamp<std::int64_t>(beyond_cache / cache_bytes + 1, 1, 256);
  const Memory pool(caches * cache_bytes);
  const std::int64_t tokens = op.sequences * op.queries;
  const std::int64_t width =
      shape.kind == AttentionKind::mla ? op.heads * op.value_dim : (op.heads + 2 * shape.kv_heads) * op.score_dim;
  const std::int64_t rope_dim = op.score_dim - op.value_dim;
  const Memory query(tokens * width * 2), rotated(tokens * op.heads * (nope_dim + rope_dim) * 2);
  query.fill_with_numbers(tokens * width * 2);
  rotated.fill_with_numbers(tokens * op.heads * (nope_dim + rope_dim) * 2);
  pool.fill_with_numbers(caches * cache_bytes);
  const Memory out(tokens * op.heads * op.value_dim * 2), workspace(attention_workspace(op));
  AttentionCall call;
  call.op = op;
  call.query = query.as<void>();
  call.query_stride = width;
  call.rotated = rotated.as<void>();
  call.nope_dim = nope_dim;
  call.rope_dim = rope_dim;
  call.out = out.as<void>();
  call.workspace = workspace.as<void>();
  call.scale = 1.0F / 16;
  const std::int64_t calls = std::clamp<std::int64_t>(caches, 4, 256);
  const auto alternate = [&](bool attending) {
    for (std::int64_t i = 0; i < calls; ++i) {
      touch<<<1, 32, 0, stream>>>(query.as<std::uint16_t>());
      check(cudaGetLastError(), "kernel between two calls");
      const Cache cache{pool.as<char>() + i % caches * cache_bytes, DType::bf16, op.cached_values};
      if (attending) attend(call, cache, pass.meta, Real::bf16, stream);
    }
  };
  const double ms = graph_ms(stream, [&] { alternate(true); }) - graph_ms(stream, [&] { alternate(false); });
  const double us = ms * 1000 / static_cast<double>(calls);
  const double bytes = static_cast<double>(op.sequences * (op.context + op.queries) * op.cached_values * 2);
  std::printf("%-14s batch %2ld  context %6ld  queries %ld  %9.2f us  %7.1f GB/s  %5.1f %% of copy\n", shape.name,
              static_cast<long>(op.sequences), static_cast<long>(op.context), static_cast<long>(op.queries), us,
              bytes / us / 1e3, 100 * bytes / us / 1e3 / copy);
}

/// All shapes, or those of one context and one number of queries (0: of any).
void measure_all(std::int64_t only_context, std::int64_t only_queries) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const double copied = copy_gb_s(stream);
  std::printf("device-to-device copy: %.1f GB/s read and written\n", copied);
  const Shape shapes[] = {{"kimi mla tp8", AttentionKind::mla, 8, 1, 576, 512},
                          {"llama gqa tp8", AttentionKind::gqa, 8, 1, 128, 128},
                          {"llama gqa tp2", AttentionKind::gqa, 32, 4, 128, 128}};
  for (const Shape& shape : shapes)
    for (const std::int64_t batch : {1, 8})
      for (const std::int64_t context : {300, 1024, 4096, 32768, 131072})
        for (const std::int64_t queries : {1, 2, 3, 4})
          if ((only_context == 0 || context == only_context) && (only_queries == 0 || queries == only_queries))
            measure(shape, operation(shape, batch, context, queries), copied, stream);
  check(cudaStreamDestroy(stream), "stream");
}

}  // namespace
}  // namespace specstep::cuda

/// Arguments: context, queries; without them all are measured.
int main(int count, char** arguments) {
  try {
    specstep::cuda::measure_all(count > 1 ? std::atoll(arguments[1]) : 0, count > 2 ? std::atoll(arguments[2]) : 0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attention benchmark: %s\n", e.what());
    return 1;
  }
  return 0;
}
