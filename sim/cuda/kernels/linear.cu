// The gated delta rule: a block for each value head of a sequence holds the head's state in registers and takes the
// tokens one by one.
#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/cuda/kernels/attention_device.cuh"

namespace specstep::cuda {

namespace {

constexpr int rows_each = 32;  // rows of the state that a thread holds, of one column
constexpr int most_threads = 1024;

struct LinearParams {
  const void* qkvz;
  const void* gates;
  std::int64_t gates_stride;
  std::int32_t key_heads, value_heads, key_dim, value_dim, slices;  // slices of rows_each rows
  void* out;
  float* state;
  float* after;
  const std::int32_t* parent;
  std::int64_t tokens_each;
};

/// Where a block is: thread (column, slice) holds rows slice * rows_each + i of its column. Threads that only fill up
/// the last warp have a slice behind the last and hold nothing.
struct Place {
  std::int32_t head, column, slice;
  std::int64_t sequence;

  __device__ std::int64_t state_at(const LinearParams& p, std::int64_t which, std::int32_t i) const {
    const std::int64_t row = slice * rows_each + i;
    return ((which * p.value_heads + head) * p.key_dim + row) * p.value_dim + column;
  }
};

__device__ void load_state(const LinearParams& p, const Place& at, const float* from, std::int64_t which,
                           float (&memory)[rows_each]) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
    memory[i] = at.slice * rows_each + i < p.key_dim ? from[at.state_at(p, which, i)] : 0;
}

__device__ void keep_state(const LinearParams& p, const Place& at, float* to, std::int64_t which,
                           const float (&memory)[rows_each]) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
    if (at.slice * rows_each + i < p.key_dim) to[at.state_at(p, which, i)] = memory[i];
}

/// Sum over the block of what each thread brings, in an order that only the block's size decides.
__device__ float block_sum(float v, float* shared) {
  v = warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (std::uint32_t w = 0; w < (blockDim.x + 31) / 32; ++w) sum += shared[w];
  return sum;
}

/// A key or query of the token at length one, into shared memory; zeros behind its end.
template <typename T>
__device__ void unit_row(const LinearParams& p, const T* from, float* to, float* shared) {
  float squares = 0;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < p.key_dim; i += static_cast<int>(blockDim.x)) {
    const float v = to_float(from[i]);
    squares += v * v;
  }
  const float length = sqrtf(block_sum(squares, shared) + 1e-6F);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < p.slices * rows_each; i += static_cast<int>(blockDim.x))
    to[i] = i < p.key_dim ? to_float(from[i]) / length : 0;
}

/// Product of a row with this thread's slice of the state, summed over the slices of the column.
__device__ float times_state(const LinearParams& p, const Place& at, const float* row, const float (&memory)[rows_each],
                             float* sums) {
  float own = 0;
  if (at.slice < p.slices)
#pragma unroll
    for (int i = 0; i < rows_each; ++i) own += row[at.slice * rows_each + i] * memory[i];
  __syncthreads();
  if (at.slice < p.slices) sums[at.slice * p.value_dim + at.column] = own;
  __syncthreads();
  float sum = 0;
  for (std::int32_t s = 0; s < p.slices; ++s) sum += sums[s * p.value_dim + at.column];
  return sum;
}

template <typename T>
__device__ void step(const LinearParams& p, const Place& at, std::int64_t token, float* shared,
                     float (&memory)[rows_each]) {
  float* query = shared;
  float* key = query + p.slices * rows_each;
  float* sums = key + p.slices * rows_each;
  float* warps = sums + p.slices * p.value_dim;
  const std::int64_t keys = static_cast<std::int64_t>(p.key_heads) * p.key_dim;
  const std::int64_t values = static_cast<std::int64_t>(p.value_heads) * p.value_dim;
  const std::int32_t key_head = at.head / (p.value_heads / p.key_heads);
  const T* row = static_cast<const T*>(p.qkvz) + token * 2 * (keys + values);
  const T* gates = static_cast<const T*>(p.gates) + token * p.gates_stride;
  unit_row(p, row + static_cast<std::int64_t>(key_head) * p.key_dim, query, warps);
  unit_row(p, row + keys + static_cast<std::int64_t>(key_head) * p.key_dim, key, warps);
  const float write = 1 / (1 + expf(-to_float(gates[at.head])));
  const float decay = 1 / (1 + expf(to_float(gates[p.value_heads + at.head])));  // exp(-softplus(a))
  const std::int64_t column = static_cast<std::int64_t>(at.head) * p.value_dim + at.column;
#pragma unroll
  for (int i = 0; i < rows_each; ++i) memory[i] *= decay;
  __syncthreads();  // query and key are whole
  const float held = times_state(p, at, key, memory, sums);
  const float change = write * (to_float(row[2 * keys + column]) - held);
  if (at.slice < p.slices)
#pragma unroll
    for (int i = 0; i < rows_each; ++i) memory[i] += key[at.slice * rows_each + i] * change;
  const float read = times_state(p, at, query, memory, sums);
  const float squares = block_sum(at.slice == 0 ? read * read : 0, warps);
  if (at.slice > 0) return;
  const float z = to_float(row[2 * keys + values + column]);
  const float normed = read / sqrtf(squares / static_cast<float>(p.value_dim) + 1e-6F);
  static_cast<T*>(p.out)[token * values + column] = from_float<T>(normed * z / (1 + expf(-z)));
}

template <typename T, int Threads>
__global__ void __launch_bounds__(Threads) recur(const __grid_constant__ LinearParams p) {
  extern __shared__ float shared[];
  const Place at{static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(threadIdx.x) % p.value_dim,
                 static_cast<std::int32_t>(threadIdx.x) / p.value_dim, static_cast<std::int64_t>(blockIdx.y)};
  const std::int64_t first = at.sequence * p.tokens_each;
  float memory[rows_each];
  std::int64_t holds = -2;  // the token whose state is in the registers
  for (std::int64_t token = first; token < first + p.tokens_each; ++token) {
    const std::int64_t follows = p.parent ? p.parent[token] : token > first ? token - 1 : -1;
    if (follows < 0)
      load_state(p, at, p.state, at.sequence, memory);
    else if (follows != holds)
      load_state(p, at, p.after, follows, memory);
    step<T>(p, at, token, shared, memory);
    holds = token;
    if (p.after) keep_state(p, at, p.after, token, memory);
  }
  if (!p.after) keep_state(p, at, p.state, at.sequence, memory);
}

template <typename T>
void launch(const LinearParams& p, dim3 grid, cudaStream_t stream) {
  const std::int32_t threads = (p.slices * p.value_dim + 31) / 32 * 32;
  const auto bytes = static_cast<unsigned>((2 * p.slices * rows_each + p.slices * p.value_dim + 32) * 4);
  if (threads <= most_threads / 2)  // twice the registers
    recur<T, most_threads / 2><<<grid, threads, bytes, stream>>>(p);
  else
    recur<T, most_threads><<<grid, threads, bytes, stream>>>(p);
  comm::check(cudaGetLastError(), "linear attention: launch");
}

}  // namespace

void linear_attention(const LinearCall& call, const PassMeta& meta, Real real, cudaStream_t stream) {
  const LinearAttention& op = call.op;
  if (meta.count() == 0) return;
  const std::int64_t slices = (op.key_dim + rows_each - 1) / rows_each;
  if (slices * op.value_dim > most_threads)
    throw Error("linear attention: the state of a head has more than 32768 values");
  if (call.key_heads < 1 || op.value_heads % call.key_heads != 0)
    throw Error("linear attention: value heads do not fall on the key heads");
  if (!call.after && call.parent) throw Error("linear attention: a tree needs the state behind each token");
  const auto narrow = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
  const LinearParams p{call.qkvz,
                       call.gates,
                       call.gates_stride,
                       narrow(call.key_heads),
                       narrow(op.value_heads),
                       narrow(op.key_dim),
                       narrow(op.value_dim),
                       narrow(slices),
                       call.out,
                       call.state,
                       call.after,
                       call.parent,
                       meta.tokens_each};
  const dim3 grid(static_cast<unsigned>(op.value_heads), static_cast<unsigned>(meta.sequences));
  if (real == Real::f32)
    launch<float>(p, grid, stream);
  else
    launch<__nv_bfloat16>(p, grid, stream);
}

}  // namespace specstep::cuda
