#include "comm/cuda/check_sums.h"

#include <bit>
#include <cstring>

#include "comm/cuda/check.h"
#include "comm/cuda/handles.h"
#include "comm/cuda/wait.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

constexpr int count = 999;

struct FreeOnDevice {
  void operator()(void* memory) const noexcept { (void)cudaFree(memory); }
};

std::size_t width(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

/// A small integer as a value of the type: bf16 is the upper half of f32, f16 has an exponent with another bias.
std::uint32_t encoded(int value, DType dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == DType::f32) return bits;
  if (dtype == DType::bf16) return bits >> 16;
  return value == 0 ? 0U : ((bits >> 13) & 0x3FFU) | (((bits >> 23) - 112U) << 10);
}

int given(int rank, int i, int below) { return i * (rank + 1) % below; }

/// The values of one rank, or for rank -1 the sums over `ranks`.
std::string values_of(int rank, int ranks, DType dtype, int below) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    int value = rank < 0 ? 0 : given(rank, i, below);
    for (int r = 0; rank < 0 && r < ranks; ++r) value += given(r, i, below);
    const std::uint32_t bits = encoded(value, dtype);
    out.append(reinterpret_cast<const char*>(&bits), width(dtype));
  }
  return out;
}

}  // namespace

void check_sums(DeviceComm& comm, Bootstrap& group, std::string_view backend, double limit_seconds, int below) {
  const Stream stream = make_stream();
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    std::string values = values_of(group.rank(), group.ranks(), dtype, below);
    void* memory = nullptr;
    check(cudaMalloc(&memory, values.size()), "allocating values to check");
    const std::unique_ptr<void, FreeOnDevice> owner(memory);
    check(cudaMemcpy(memory, values.data(), values.size(), cudaMemcpyHostToDevice), "copying values to check");
    check(cudaStreamSynchronize(nullptr), "copying values to check");  // such a copy may go on after the call
    group.barrier(formatted("values of {} to check {}", name_of(dtype), backend));
    comm.all_reduce(memory, count, dtype, stream.get());
    wait_for(stream.get(), comm, limit_seconds, formatted("checking sums of {}", backend));
    comm.check_health();
    check(cudaMemcpy(values.data(), memory, values.size(), cudaMemcpyDeviceToHost), "copying sums");
    if (values != values_of(-1, group.ranks(), dtype, below))
      throw Error(formatted("{}: sums of {} on rank {} are wrong: memory of other ranks is not what it seems", backend,
                            name_of(dtype), group.rank()));
  }
  group.barrier(formatted("sums of {} were checked", backend));
}

}  // namespace specstep::comm
