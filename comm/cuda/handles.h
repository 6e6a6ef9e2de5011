// Streams, events and graphs that end with their scope.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "comm/cuda/check.h"

namespace specstep::comm {

/// Calls a CUDA function of destruction; what it answers is of no use by then.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const noexcept {
    (void)destroy(handle);
  }
};

using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy<cudaStreamDestroy>>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy<cudaEventDestroy>>;
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy<cudaGraphDestroy>>;
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy<cudaGraphExecDestroy>>;

/// A stream that does not wait for the default one.
Stream make_stream();
/// An event with a time.
Event make_event();
/// What `launches` puts on the stream, as a graph. Other threads may go on with what they do (thread-local capture).
template <class F>
Graph captured(cudaStream_t stream, F&& launches);
template <class F>
GraphExec capture(cudaStream_t stream, F&& launches);
/// Kernels that would begin while the one before them ends (programmatic dependent launch) begin behind its end.
void begin_behind_ends(const Graph& graph);
/// Ends a capture; the graph that it holds, if it is still valid.
Graph end_capture(cudaStream_t stream);
GraphExec instantiate(const Graph& graph);

template <class F>
Graph captured(cudaStream_t stream, F&& launches) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  try {
    launches();
  } catch (...) {
    cudaGraph_t broken = nullptr;
    (void)cudaStreamEndCapture(stream, &broken);
    const Graph dropped(broken);
    (void)cudaGetLastError();
    throw;
  }
  return end_capture(stream);
}

template <class F>
GraphExec capture(cudaStream_t stream, F&& launches) {
  return instantiate(captured(stream, launches));
}

}  // namespace specstep::comm
