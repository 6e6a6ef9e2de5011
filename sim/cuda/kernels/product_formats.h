// The tensor-core products of each stored format, compiled apart.
#pragma once

#include <cuda_runtime_api.h>

namespace specstep::cuda {

struct ProductJob;

/// average_rows: of the input, for each matrix; decides how warps stand and how much of the input is kept at hand.
void multiply_int4(const ProductJob& job, double average_rows, cudaStream_t stream);   // scales bf16
void multiply_mxfp4(const ProductJob& job, double average_rows, cudaStream_t stream);  // scales e8m0
void multiply_nvfp4(const ProductJob& job, double average_rows, cudaStream_t stream);  // scales e4m3
void multiply_fp8(const ProductJob& job, double average_rows, cudaStream_t stream);    // scales f32, or one
void multiply_int8(const ProductJob& job, double average_rows, cudaStream_t stream);   // scales f32, or one
void multiply_bf16(const ProductJob& job, double average_rows, cudaStream_t stream);

}  // namespace specstep::cuda
