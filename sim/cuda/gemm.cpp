#include "sim/cuda/gemm.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "model/base/error.h"
#include "model/base/formatted.h"
#include "sim/cuda/kernels/cluster_order.h"

namespace specstep::cuda {

namespace {

constexpr int most_candidates = 12;
// Of a weight to time with. Small ones are not worth as many: their time is that of a launch.
constexpr std::int64_t most_copies = 256, copies_of_small = 16, small_weight = 512 << 10;
// A graph that times a product takes about so long at most. Where one product takes longer than the second, its order
// is not looked for, since other ranks wait.
constexpr double longest_graph = 20e-3, longest_with_orders = 1e-3;
// Products are timed behind 1, 2, ... clusters, of which more than a GPU has GPCs; the fastest also behind launches
// that set their order, which count if they gain a hundredth: timings of one product differ by less.
constexpr int most_gpcs = 8;
constexpr std::int64_t orders = 12;
constexpr std::size_t most_behind_clusters = 2;
constexpr double least_gain = 0.01;

using Desc = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, comm::Destroy<cublasLtMatmulDescDestroy>>;
using Matrix =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, comm::Destroy<cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, comm::Destroy<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t type_of(Real real) { return real == Real::f32 ? CUDA_R_32F : CUDA_R_16BF; }

/// cublasLt counts columns first: a row-major [rows, cols] with a stride is its column-major [cols, rows].
Matrix matrix(cudaDataType_t type, std::int64_t rows, std::int64_t cols, std::int64_t stride, std::int64_t batches,
              std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(cols), static_cast<std::uint64_t>(rows),
                                   stride),
        "layout of a matrix");
  Matrix out(made);
  const auto count = static_cast<std::int32_t>(batches);
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "batches");
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch, sizeof batch),
        "batch stride");
  return out;
}

std::string text_of(const GemmShape& s) {
  return formatted("gemm m{} n{} k{}{} {}", s.m, s.n, s.k, s.batches > 1 ? formatted(" x{}", s.batches) : "",
                   s.real == Real::f32 ? "f32" : "bf16");
}

std::int64_t weight_bytes(const GemmShape& s) { return s.batches * s.n * s.k * bytes_of(s.real); }
std::int64_t out_bytes(const GemmShape& s) {
  return (s.m * s.out_stride + s.batches * s.out_batch) * (s.f32_out ? 4 : bytes_of(s.real));
}

std::int64_t cache_bytes() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "the current device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "size of the cache");
  return bytes;
}

}  // namespace

/// Descriptions of the matrices and how to launch it.
struct Products::Product {
  Desc desc;
  Matrix weight, in, out;
  Choice choice;

  explicit Product(const GemmShape& s)
      : weight(matrix(type_of(s.real), s.n, s.k, s.k, s.batches, s.n * s.k)),
        in(matrix(type_of(s.real), s.m, s.k, s.in_stride, s.batches, s.in_batch)),
        out(matrix(s.f32_out ? CUDA_R_32F : type_of(s.real), s.m, s.n, s.out_stride, s.batches, s.out_batch)) {
    cublasLtMatmulDesc_t made = nullptr;
    const cublasComputeType_t compute = s.real == Real::f32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F), "description of a product");
    desc.reset(made);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
          "description of a product");
  }
};

Products::Products(comm::Bootstrap& group) : group_(group), workspace_(workspace_bytes, "workspace of cublasLt") {
  cublasLtHandle_t made = nullptr;
  check(cublasLtCreate(&made), "starting cublasLt");
  handle_.reset(made);
}

Products::~Products() = default;

std::int64_t Products::tuning_bytes(const GemmShape& shape, std::int64_t l2_bytes) {
  const std::int64_t one = std::max<std::int64_t>(weight_bytes(shape), 1);
  return one * std::clamp<std::int64_t>((2 * l2_bytes + one - 1) / one, 2,
                                        one < small_weight ? copies_of_small : most_copies);
}

void Products::prepare(const GemmShape& shape, cudaStream_t stream) {
  if (products_.contains(shape)) return;
  auto product = std::make_unique<Product>(shape);
  const bool with_others = shape.everyone && group_.ranks() > 1;
  if (!with_others || group_.rank() == 0) choose(shape, *product, stream);
  if (with_others) {
    product->choice = choices_of_all(shape, product->choice).front();
    const int first = first_on_this_gpu();
    if (first == group_.rank() && first != 0) choose_order(shape, *product, stream);
    product->choice = choices_of_all(shape, product->choice)[static_cast<std::size_t>(first)];
  }
  products_[shape] = std::move(product);
}

std::vector<Products::Choice> Products::choices_of_all(const GemmShape& shape, const Choice& mine) {
  std::string bytes(sizeof mine, '\0');
  std::memcpy(bytes.data(), &mine, bytes.size());
  std::vector<Choice> out;
  for (const std::string& one : group_.all_gather(bytes, "algorithm of " + text_of(shape)))
    std::memcpy(&out.emplace_back(), one.data(), std::min(one.size(), sizeof mine));
  return out;
}

int Products::first_on_this_gpu() {
  if (!first_on_this_gpu_) {
    int device = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&device), "the current device");
    check(cudaGetDeviceProperties(&properties, device), "properties of a device");
    const std::string mine(properties.uuid.bytes, sizeof properties.uuid.bytes);
    const std::vector<std::string> all = group_.all_gather(mine, "who shares a GPU");
    first_on_this_gpu_ = static_cast<int>(std::find(all.begin(), all.end(), mine) - all.begin());
  }
  return *first_on_this_gpu_;
}

/// What cublasLt's heuristic proposes, its own first.
std::vector<cublasLtMatmulAlgo_t> Products::proposed(const GemmShape& shape, const Product& product) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "preference of a product");
  const Preference preference(made);
  const std::size_t most = workspace_bytes;
  check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
        "preference of a product");
  std::vector<cublasLtMatmulHeuristicResult_t> found(most_candidates);
  int count = 0;
  check(
      cublasLtMatmulAlgoGetHeuristic(handle_.get(), product.desc.get(), product.weight.get(), product.in.get(),
                                     product.out.get(), product.out.get(), made, most_candidates, found.data(), &count),
      "algorithms of " + text_of(shape));
  if (count == 0) throw Error("cublasLt has no algorithm for " + text_of(shape));
  std::vector<cublasLtMatmulAlgo_t> out;
  for (int i = 0; i < count; ++i) out.push_back(found[static_cast<std::size_t>(i)].algo);
  return out;
}

/// Memory to time in, if there is enough, and how many products a graph times: over all copies and orders, unless that
/// would take too long. Other ranks wait meanwhile.
bool Products::make_room(const GemmShape& shape, const Product& product,
                         const std::vector<cublasLtMatmulAlgo_t>& candidates, cudaStream_t stream) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "free memory");
  const std::int64_t bytes = tuning_bytes(shape, cache_bytes());
  const std::int64_t in_bytes = (shape.m * shape.in_stride + shape.batches * shape.in_batch) * bytes_of(shape.real);
  if (bytes + in_bytes + out_bytes(shape) > static_cast<std::int64_t>(free) / 2) return false;
  tuning_ = std::make_unique<Tuning>(Tuning{DeviceBuffer(bytes, "weights to time products with"),
                                            DeviceBuffer(in_bytes, "input to time products with"),
                                            DeviceBuffer(out_bytes(shape), "output to time products with"),
                                            bytes / std::max<std::int64_t>(weight_bytes(shape), 1)});
  empty_clusters(1, stream);  // loads its kernel, which a capture does not allow
  for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
    const double one = seconds(shape, product, {.algorithm = algorithm}, stream);
    if (one == std::numeric_limits<double>::infinity()) continue;
    tuning_->count = std::clamp<std::int64_t>(static_cast<std::int64_t>(longest_graph / std::max(one, 1e-9)), 1,
                                              std::max(tuning_->copies, orders));
    break;
  }
  return true;
}

/// Takes the fastest of what is proposed; the heuristic's own first where there is no memory to time in.
void Products::choose(const GemmShape& shape, Product& product, cudaStream_t stream) {
  const std::vector<cublasLtMatmulAlgo_t> candidates = proposed(shape, product);
  product.choice.algorithm = candidates.front();
  if (!make_room(shape, product, candidates, stream)) return;
  std::vector<Choice> plain;
  for (const cublasLtMatmulAlgo_t& algorithm : candidates) {
    Choice choice{.algorithm = algorithm, .timed = true};
    choice.seconds = choice.plain_seconds = seconds(shape, product, choice, stream);
    if (choice.seconds < std::numeric_limits<double>::infinity()) plain.push_back(choice);
  }
  std::stable_sort(plain.begin(), plain.end(), [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  if (!plain.empty()) product.choice = plain.front();
  product.choice.timed = !plain.empty();
  for (std::size_t i = 0; i < std::min(plain.size(), most_behind_clusters); ++i)
    try_orders(shape, product, plain[i], stream);
  tuning_.reset();
}

/// For an algorithm that another GPU has chosen.
void Products::choose_order(const GemmShape& shape, Product& product, cudaStream_t stream) {
  Choice& choice = product.choice = {.algorithm = product.choice.algorithm, .timed = product.choice.timed};
  if (!make_room(shape, product, {choice.algorithm}, stream)) return;
  choice.seconds = choice.plain_seconds = seconds(shape, product, choice, stream);
  try_orders(shape, product, choice, stream);
  tuning_.reset();
}

/// Behind empty clusters: of all places or all but one, which mostly leaves one order whatever was before, and of some
/// more, which turn that to another.
void Products::try_orders(const GemmShape& shape, Product& product, Choice choice, cudaStream_t stream) {
  const double plain = product.choice.plain_seconds;
  const int places = pairs_of_multiprocessors();
  if (places < 2 || plain > longest_with_orders) return;
  for (const int all : {places, places - 1})
    for (int more = 0; more <= most_gpcs; ++more) {
      choice.clusters[0] = all;
      choice.clusters[1] = more;
      choice.plain_seconds = plain;
      choice.seconds = seconds(shape, product, choice, stream);
      if (choice.seconds < std::min(product.choice.seconds, (1 - least_gain) * plain)) product.choice = choice;
    }
}

/// One product, with what is put before it, in a graph that walks over all copies of the weight and over what kernels
/// before may leave of the order of clusters; infinity when the algorithm does not run.
double Products::seconds(const GemmShape& shape, const Product& product, const Choice& choice, cudaStream_t stream) {
  const std::int64_t count = tuning_->count;
  try {
    const comm::GraphExec graph = comm::capture(stream, [&] {
      for (std::int64_t i = 0; i < count; ++i) {
        empty_clusters(static_cast<int>(i % orders + 1), stream);
        launch(product, choice, tuning_->in.data(), tuning_->weights.data() + i % tuning_->copies * weight_bytes(shape),
               tuning_->out.data(), stream);
      }
    });
    const comm::Event begin = comm::make_event();
    const comm::Event end = comm::make_event();
    double best = std::numeric_limits<double>::infinity();
    check(cudaGraphLaunch(graph.get(), stream), "timing a product");
    for (int run = 0; run < 2; ++run) {
      check(cudaEventRecord(begin.get(), stream), "timing a product");
      check(cudaGraphLaunch(graph.get(), stream), "timing a product");
      check(cudaEventRecord(end.get(), stream), "timing a product");
      check(cudaEventSynchronize(end.get()), "timing a product");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "timing a product");
      best = std::min(best, static_cast<double>(ms));
    }
    return best * 1e-3 / static_cast<double>(count);
  } catch (const Error&) {
    if (cudaStreamSynchronize(stream) != cudaSuccess) throw;  // the device itself failed
    return std::numeric_limits<double>::infinity();
  }
}

void Products::launch(const Product& product, const Choice& choice, const void* in, const void* weight, void* out,
                      cudaStream_t stream) {
  for (const int clusters : choice.clusters)
    if (clusters > 0) empty_clusters(clusters, stream);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle_.get(), product.desc.get(), &one, weight, product.weight.get(), in, product.in.get(),
                       &zero, out, product.out.get(), out, product.out.get(), &choice.algorithm, workspace_.data(),
                       static_cast<std::size_t>(workspace_bytes), stream),
        "a product");
}

void Products::run(const GemmShape& shape, const void* in, const void* weight, void* out, cudaStream_t stream) {
  const auto found = products_.find(shape);
  if (found == products_.end()) throw std::logic_error(text_of(shape) + " was not prepared");
  launch(*found->second, found->second->choice, in, weight, out, stream);
}

std::vector<std::string> Products::notes() const {
  std::vector<std::string> out;
  for (const auto& [shape, product] : products_) {
    const Choice& choice = product->choice;
    if (!choice.timed)
      out.push_back(formatted("{}: algorithms were not timed, for want of memory; cublasLt's first", text_of(shape)));
    if (choice.clusters[0] > 0)
      out.push_back(formatted(
          "{}: behind {} + {} empty clusters, which set the order of its own: {:.1f} us when timed "
          "so, {:.1f} without; both with a small kernel before",
          text_of(shape), choice.clusters[0], choice.clusters[1], choice.seconds * 1e6, choice.plain_seconds * 1e6));
  }
  return out;
}

}  // namespace specstep::cuda
