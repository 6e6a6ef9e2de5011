// Products over one-byte codes and bf16.
#include "sim/cuda/kernels/product_choice.cuh"

namespace specstep::cuda {

void multiply_fp8(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_product<Fp8Codec>(job, average_rows, stream);
}
void multiply_int8(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_product<Int8Codec>(job, average_rows, stream);
}
void multiply_bf16(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_product<Bf16Codec>(job, average_rows, stream);
}

}  // namespace specstep::cuda
