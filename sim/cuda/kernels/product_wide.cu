// Products over one-byte codes and bf16.
#include "sim/cuda/kernels/product_mma.cuh"

namespace specstep::cuda {

void multiply_fp8(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_mma<Fp8Codec>(job, average_rows, stream);
}
void multiply_int8(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_mma<Int8Codec>(job, average_rows, stream);
}
void multiply_bf16(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_mma<Bf16Codec>(job, average_rows, stream);
}

}  // namespace specstep::cuda
