// Few rows or many.
#pragma once

#include <type_traits>

#include "sim/cuda/kernels/product_many.cuh"
#include "sim/cuda/kernels/product_mma.cuh"
#include "sim/cuda/kernels/product_stream.cuh"

namespace specstep::cuda {

/// Of one format. Where a matrix meets many rows, each of its weights is to be read and decoded once for all of them.
template <class Codec>
void launch_product(const ProductJob& job, double average_rows, cudaStream_t stream) {
  // The rows of a dense product are known, those of experts scatter about their average.
  const double many = job.spans ? 6 : mma_rows;
  constexpr int long_tiles = 24;
  if (average_rows > many && suits_many(job)) return launch_many<Codec>(job, stream);
  if constexpr (Codec::small)
    if (suits_stream(job) && launch_stream<Codec>(job, average_rows, stream)) return;
  if (Codec::long_chunks && job.weight.tiling.col_tiles >= long_tiles)
    launch_mma<std::conditional_t<Codec::long_chunks, LongChunks<Codec>, Codec>>(job, average_rows, stream);
  else
    launch_mma<Codec>(job, average_rows, stream);
}

}  // namespace specstep::cuda
