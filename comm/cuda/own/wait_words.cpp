#include "comm/cuda/own/wait_words.h"

#include <cstddef>
#include <new>

#include "comm/cuda/check.h"
#include "comm/protocol/wait_record.h"
#include "model/base/error.h"

namespace specstep::comm {

namespace {
// Words: a line for the count of calls, one for the blocks that have read it, one that says that all is over.
constexpr std::size_t apart = 64;
constexpr std::size_t retired = 2 * apart;
}  // namespace

void WaitWords::FreeOnDevice::operator()(std::uint32_t* words) const noexcept { (void)cudaFree(words); }

WaitWords::WaitWords() {
  constexpr std::size_t bytes = 3 * apart * sizeof(std::uint32_t);
  void* memory = nullptr;
  comm::check(cudaMalloc(&memory, bytes), "allocating counters");
  counters_.reset(static_cast<std::uint32_t*>(memory));
  comm::check(cudaMemset(memory, 0, bytes), "clearing counters");
  constexpr std::uint32_t aborted = 1;
  comm::check(cudaMemcpy(counters_.get() + retired + 1, &aborted, sizeof(aborted), cudaMemcpyHostToDevice),
              "filling counters");
  comm::check(cudaDeviceSynchronize(), "filling counters");
  comm::check(cudaHostAlloc(&memory, sizeof(Host), cudaHostAllocPortable | cudaHostAllocMapped),
              "allocating host memory");
  host_ = new (memory) Host;
}

WaitWords::~WaitWords() { (void)cudaFreeHost(host_); }

void WaitWords::describe(DeviceGroup& group) const {
  auto& own = group.inbox[group.rank];
  own.epoch = counters_.get();
  own.entered = counters_.get() + apart;
  group.abort = own.epoch + 1;  // kernels read both at once
  group.host_abort = &host_->abort;
  group.report = &host_->report;
}

void WaitWords::retire(DeviceGroup& group) const { group.inbox[group.rank].epoch = counters_.get() + retired; }

void WaitWords::check(std::string_view backend, int rank) const {
  const volatile WaitReport& report = host_->report;
  if (report.valid == 0) return;
  protocol::WaitRecord record;
  record.site = report.site;
  record.epoch = report.epoch;
  record.what = {report.what.rank, report.what.stage, report.what.index};
  throw Error(protocol::text_of(backend, record, rank));
}

void WaitWords::abort() noexcept { *static_cast<volatile std::uint32_t*>(&host_->abort) = 1; }

}  // namespace specstep::comm
