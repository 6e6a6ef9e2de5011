// The tensor-core products of each stored format, compiled apart.
#pragma once

#include <cuda_runtime_api.h>

namespace specstep::cuda {

struct ProductJob;

/// split_k: the warps of a block share 16 rows of the matrix and sum; for long rows. Otherwise each has its own 16.
void multiply_int4(const ProductJob& job, bool split_k, cudaStream_t stream);   // scales bf16
void multiply_mxfp4(const ProductJob& job, bool split_k, cudaStream_t stream);  // scales e8m0
void multiply_nvfp4(const ProductJob& job, bool split_k, cudaStream_t stream);  // scales e4m3
void multiply_fp8(const ProductJob& job, bool split_k, cudaStream_t stream);    // scales f32, or one
void multiply_int8(const ProductJob& job, bool split_k, cudaStream_t stream);   // scales f32, or one
void multiply_bf16(const ProductJob& job, bool split_k, cudaStream_t stream);

}  // namespace specstep::cuda
