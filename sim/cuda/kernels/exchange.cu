// Rows on their way to other ranks and back: copies, whatever the values are.
#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/kernels/rows.cuh"

namespace specstep::cuda {

namespace {

constexpr int threads_each = 256;

/// Calls f with a value of the largest unit that rows of `values` can be copied in, and the units of a row.
template <class F>
void with_unit(Real real, std::int64_t values, std::initializer_list<const void*> places, F&& f) {
  const std::int64_t bytes = bytes_of(real);
  if (packs_fit(16 / bytes, bytes, {values}, places))
    f(uint4{}, values * bytes / 16);
  else if (real == Real::f32)
    f(float{}, values);
  else
    f(std::uint16_t{}, values);
}

template <class U>
__device__ void copy_part(const U* from, U* to, std::int64_t units, unsigned part) {
  const std::int64_t at = static_cast<std::int64_t>(part) * blockDim.x + threadIdx.x;
  if (at < units) to[at] = from[at];
}

template <class U>
__global__ void place_side_by_side(const U* parts, U* out, std::int64_t units) {
  const std::int64_t row = blockIdx.x, rows = gridDim.x, rank = blockIdx.z, ranks = gridDim.z;
  copy_part(parts + (rank * rows + row) * units, out + (row * ranks + rank) * units, units, blockIdx.y);
}

template <class U>
__global__ void send_rows(ExchangeRows call, std::int64_t units) {
  const std::int64_t slot = blockIdx.x;
  const std::int64_t owner = slot / call.pairs;
  const std::int64_t pair = slot % call.pairs;
  const std::int32_t id = call.ids[pair];
  const bool mine = id >= 0 && id / call.experts_each == owner;
  if (blockIdx.y == 0 && threadIdx.x == 0) call.out_ids[slot] = mine ? id : -1;
  if (!mine) return;
  copy_part(static_cast<const U*>(call.rows) + pair / call.top_k * units, static_cast<U*>(call.out) + slot * units,
            units, blockIdx.y);
}

template <class U>
__global__ void fetch_rows(ExchangeRows call, std::int64_t units) {
  const std::int64_t pair = blockIdx.x;
  const std::int64_t owner = call.ids[pair] / call.experts_each;
  copy_part(static_cast<const U*>(call.rows) + (owner * call.pairs + pair) * units,
            static_cast<U*>(call.out) + pair * units, units, blockIdx.y);
}

}  // namespace

void side_by_side(const void* parts, void* out, std::int64_t ranks, std::int64_t rows, std::int64_t cols, Real real,
                  cudaStream_t stream) {
  if (rows == 0 || cols == 0) return;
  with_unit(real, cols, {parts, out}, [&]<class U>(U, std::int64_t units) {
    const unsigned threads = threads_for(units, threads_each);
    const dim3 grid(static_cast<unsigned>(rows), blocks_for(units, threads), static_cast<unsigned>(ranks));
    place_side_by_side<U><<<grid, threads, 0, stream>>>(static_cast<const U*>(parts), static_cast<U*>(out), units);
  });
  comm::check(cudaGetLastError(), "side_by_side");
}

void dispatch_rows(const ExchangeRows& call, Real real, cudaStream_t stream) {
  if (call.pairs == 0) return;
  with_unit(real, call.hidden, {call.rows, call.out}, [&]<class U>(U, std::int64_t units) {
    const unsigned threads = threads_for(units, threads_each);
    const dim3 grid(static_cast<unsigned>(call.owners * call.pairs), blocks_for(units, threads));
    send_rows<U><<<grid, threads, 0, stream>>>(call, units);
  });
  comm::check(cudaGetLastError(), "dispatch_rows");
}

void gather_rows(const ExchangeRows& call, Real real, cudaStream_t stream) {
  if (call.pairs == 0) return;
  with_unit(real, call.hidden, {call.rows, call.out}, [&]<class U>(U, std::int64_t units) {
    const unsigned threads = threads_for(units, threads_each);
    const dim3 grid(static_cast<unsigned>(call.pairs), blocks_for(units, threads));
    fetch_rows<U><<<grid, threads, 0, stream>>>(call, units);
  });
  comm::check(cudaGetLastError(), "gather_rows");
}

}  // namespace specstep::cuda
