// Few rows or many.
#pragma once

#include "sim/cuda/kernels/product_many.cuh"
#include "sim/cuda/kernels/product_mma.cuh"

namespace specstep::cuda {

/// Of one format. Where a matrix meets many rows, each of its weights is to be read and decoded once for all of them.
template <class Codec>
void launch_product(const ProductJob& job, double average_rows, cudaStream_t stream) {
  constexpr double many = 6;
  if (average_rows > many && suits_many(job))
    launch_many<Codec>(job, stream);
  else
    launch_mma<Codec>(job, average_rows, stream);
}

}  // namespace specstep::cuda
