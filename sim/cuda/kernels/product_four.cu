// Products over four-bit codes.
#include "sim/cuda/kernels/product_choice.cuh"

namespace specstep::cuda {

void multiply_int4(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_product<Int4Codec>(job, average_rows, stream);
}
void multiply_mxfp4(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_product<Mxfp4Codec>(job, average_rows, stream);
}
void multiply_nvfp4(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_product<Nvfp4Codec>(job, average_rows, stream);
}

}  // namespace specstep::cuda
