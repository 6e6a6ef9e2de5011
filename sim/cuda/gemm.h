// Dense products by cublasLt, the algorithm of each shape chosen once by timing.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/bootstrap.h"
#include "sim/cuda/buffers.h"
#include "sim/cuda/check.h"
#include "sim/cuda/kernels/stored.h"

namespace specstep::cuda {

/// out[m, n] = in[m, k] weight[n, k]^T, `batches` times. Row r of the input begins at r in_stride values, batch b of it
/// in_batch values further; the output likewise. Weights lie one behind the other.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0, batches = 1;
  std::int64_t in_stride = 0, in_batch = 0;
  std::int64_t out_stride = 0, out_batch = 0;
  Real real = Real::bf16;  // of inputs and weights
  bool f32_out = false;
  bool everyone = false;  // all ranks of the group prepare it, in the same order
  auto operator<=>(const GemmShape&) const = default;
};

/// Products of one device. Sums in fp32: bf16 on tensor cores, f32 without tf32.
class Products {
 public:
  /// `group` may be one rank. Its first rank chooses algorithms for all, so that what ranks compute twice is the same;
  /// what is put before them the first rank of each GPU.
  explicit Products(comm::Bootstrap& group);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Chooses the algorithm of a shape, of one for everyone that of the first rank. Times what cublasLt proposes with
  /// weights that are not in the cache, in a graph, each behind a small kernel, as in a pass: one that overlaps with
  /// its like gains nothing. Each as clusters are dealt out behind other kernels, and the fastest behind
  /// empty_clusters() too, which is put before the product where the two together are faster. Does nothing for a shape
  /// it knows.
  void prepare(const GemmShape& shape, cudaStream_t stream);
  /// The shape must be prepared. `out` is written whole.
  void run(const GemmShape& shape, const void* in, const void* weight, void* out, cudaStream_t stream);
  /// Which products run behind empty_clusters(), and what that was worth when they were timed; which were not timed.
  std::vector<std::string> notes() const;

  static constexpr std::int64_t workspace_bytes = 32LL << 20;
  /// Memory that choosing takes for a while: copies of the weight, larger than twice the cache in all but of small
  /// ones.
  static std::int64_t tuning_bytes(const GemmShape& shape, std::int64_t l2_bytes);

 private:
  /// How a product is launched. Plain bytes: ranks send it to each other.
  struct Choice {
    cublasLtMatmulAlgo_t algorithm{};
    bool timed = false;        // the algorithm was the fastest of several
    int clusters[2] = {};      // of empty launches before it, 0 where there is none
    double seconds = 0;        // when timed so, and
    double plain_seconds = 0;  // what the fastest takes without them; zero where nothing was timed
  };
  struct Product;
  std::vector<cublasLtMatmulAlgo_t> proposed(const GemmShape& shape, const Product& product) const;
  void choose(const GemmShape& shape, Product& product, cudaStream_t stream);
  void choose_order(const GemmShape& shape, Product& product, cudaStream_t stream);
  void try_orders(const GemmShape& shape, Product& product, Choice choice, cudaStream_t stream);
  bool make_room(const GemmShape& shape, const Product& product, const std::vector<cublasLtMatmulAlgo_t>& candidates,
                 cudaStream_t stream);
  std::vector<Choice> choices_of_all(const GemmShape& shape, const Choice& mine);
  int first_on_this_gpu();
  double seconds(const GemmShape& shape, const Product& product, const Choice& choice, cudaStream_t stream);
  void launch(const Product& product, const Choice& choice, const void* in, const void* weight, void* out,
              cudaStream_t stream);

  comm::Bootstrap& group_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, comm::Destroy<cublasLtDestroy>> handle_;
  DeviceBuffer workspace_;
  struct Tuning {
    DeviceBuffer weights, in, out;
    std::int64_t copies = 1;
    std::int64_t count = 1;  // products in a graph
  };
  std::unique_ptr<Tuning> tuning_;
  std::map<GemmShape, std::unique_ptr<Product>> products_;
  std::optional<int> first_on_this_gpu_;
};

}  // namespace specstep::cuda
