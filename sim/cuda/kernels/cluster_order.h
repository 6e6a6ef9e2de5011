// The order in which a GPU finds places for clusters of blocks.
//
// Clusters are dealt out over a GPU in an order that depends on the launch of clusters before, however long ago that
// ended; kernels without clusters neither see nor change it. A product by persistent clusters with more tiles than
// places gives its second tiles to the clusters that came first, and takes up to a sixth longer in a bad order; why one
// is better than another is not known. An empty launch of nearly as many clusters as the GPU has places mostly leaves
// one order whatever was before; which number leaves a good one differs between GPUs of one kind. Seen on three H200 by
// the multiprocessor of each block and by the time of products (docs/performance.md, "Order of clusters").
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace specstep::cuda {

/// Places for clusters of two blocks that fill a multiprocessor each; 0 where the current device has no clusters.
int pairs_of_multiprocessors();
/// An empty launch of so many clusters of two blocks; on a device without clusters, of one block.
void empty_clusters(int clusters, cudaStream_t stream);
/// Shows the order, for tests: a launch of a cluster of two blocks for every pair of multiprocessors, whose blocks
/// write where they are: to[b] is the multiprocessor of block b.
void places_of_clusters(std::int32_t* to, cudaStream_t stream);

}  // namespace specstep::cuda
