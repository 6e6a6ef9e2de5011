// Products over four-bit codes.
#include "sim/cuda/kernels/product_mma.cuh"

namespace specstep::cuda {

void multiply_int4(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_mma<Int4Codec>(job, average_rows, stream);
}
void multiply_mxfp4(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_mma<Mxfp4Codec>(job, average_rows, stream);
}
void multiply_nvfp4(const ProductJob& job, double average_rows, cudaStream_t stream) {
  launch_mma<Nvfp4Codec>(job, average_rows, stream);
}

}  // namespace specstep::cuda
