#include "comm/cuda/handles.h"

#include <vector>

namespace specstep::comm {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  return Event(event);
}

Graph end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  return Graph(graph);
}

namespace {

// Functions of edges with their data: CUDA 13 gave them the names of those without, before that they end in _v2.
template <class G>
cudaError_t get_edges(G graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                      std::size_t* count) {
  if constexpr (requires { cudaGraphGetEdges(graph, from, to, data, count); })
    return cudaGraphGetEdges(graph, from, to, data, count);
  else
    return cudaGraphGetEdges_v2(graph, from, to, data, count);
}
template <class G>
cudaError_t remove_edge(G graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                        const cudaGraphEdgeData* data) {
  if constexpr (requires { cudaGraphRemoveDependencies(graph, from, to, data, std::size_t{1}); })
    return cudaGraphRemoveDependencies(graph, from, to, data, 1);
  else
    return cudaGraphRemoveDependencies_v2(graph, from, to, data, 1);
}
template <class G>
cudaError_t add_edge(G graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData* data) {
  if constexpr (requires { cudaGraphAddDependencies(graph, from, to, data, std::size_t{1}); })
    return cudaGraphAddDependencies(graph, from, to, data, 1);
  else
    return cudaGraphAddDependencies_v2(graph, from, to, data, 1);
}

}  // namespace

void begin_behind_ends(const Graph& graph) {
  std::size_t edges = 0;
  check(get_edges(graph.get(), nullptr, nullptr, nullptr, &edges), "counting edges of a graph");
  std::vector<cudaGraphNode_t> from(edges), to(edges);
  std::vector<cudaGraphEdgeData> data(edges);
  check(get_edges(graph.get(), from.data(), to.data(), data.data(), &edges), "reading edges of a graph");
  for (std::size_t i = 0; i < edges; ++i) {
    if (data[i].type != cudaGraphDependencyTypeProgrammatic) continue;
    check(remove_edge(graph.get(), &from[i], &to[i], &data[i]), "changing an edge of a graph");
    check(add_edge(graph.get(), &from[i], &to[i], nullptr), "changing an edge of a graph");
  }
}

GraphExec instantiate(const Graph& graph) {
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "instantiating a graph");
  return GraphExec(exec);
}

}  // namespace specstep::comm
