// Softmax attention over long contexts, several sequences at once, against sums in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/cuda/kernels/attention.h"
#include "sim/cuda/kernels/test_scene.h"

namespace specstep::cuda {
namespace {

using host::Index;
using host::Matrix;

constexpr std::int64_t heads = 8;

/// One key/value head or a latent cache.
struct Sizes {
  bool mla = false;
  std::int64_t value_dim = 0, rope_dim = 0, nope_dim = 0;

  std::int64_t width() const { return mla ? value_dim + rope_dim : 2 * value_dim; }
  std::int64_t rotated() const { return mla ? nope_dim + rope_dim : 0; }
};

/// Sequences whose page tables lead to the same few pages over and over: a cache of any length in little memory.
class Repeated {
 public:
  static constexpr std::int64_t distinct = 12;

  Repeated(const Sizes& sizes, std::vector<std::int64_t> contexts, std::int64_t queries)
      : sizes_(sizes),
        contexts_(std::move(contexts)),
        queries_(queries),
        rows_(random_matrix(distinct * page_tokens, sizes.width(), DType::bf16, random_)),
        query_(random_matrix(tokens(), heads * sizes.value_dim, DType::bf16, random_) * 4),
        rotated_(random_matrix(tokens(), heads * sizes.rotated(), DType::bf16, random_) * 4) {
    op_.kind = sizes.mla ? AttentionKind::mla : AttentionKind::gqa;
    op_.sequences = sequences();
    op_.queries = queries;
    op_.context = *std::max_element(contexts_.begin(), contexts_.end());
    op_.heads = heads;
    op_.score_dim = sizes.value_dim + sizes.rope_dim;
    op_.value_dim = sizes.value_dim;
    op_.cached_values = sizes.width();
    pages_each_ = (op_.context + queries) / page_tokens + 1;
    for (std::int64_t s = 0; s < sequences(); ++s)
      for (std::int64_t i = 0; i < pages_each_; ++i)
        pages_.push_back(static_cast<std::int32_t>((5 * i + s) % distinct));
  }

  Matrix device() const {
    std::vector<std::int32_t> slots, base;
    for (const std::int64_t context : contexts_) {
      base.push_back(static_cast<std::int32_t>(context));
      for (std::int64_t q = 0; q < queries_; ++q) slots.push_back(static_cast<std::int32_t>(context + q));
    }
    const OnDevice<std::int32_t> slot(slots), committed(base), page(pages_);
    const OnDevice<std::uint8_t> cache(packed(rows_, DType::bf16)), query(packed(query_, DType::bf16)),
        rotated(packed(rotated_, DType::bf16)), out(static_cast<std::size_t>(tokens() * op_.heads * op_.value_dim) * 2);
    PassMeta meta;
    meta.sequences = sequences();
    meta.tokens_each = queries_;
    meta.positions = meta.slots = slot.get();
    meta.base = committed.get();
    meta.pages = page.get();
    meta.pages_each = pages_each_;
    const auto workspace = make_workspace(attention_workspace(op_));
    AttentionCall call;
    call.op = op_;
    call.query = query.get();
    call.rotated = rotated.get();
    call.nope_dim = sizes_.nope_dim;
    call.rope_dim = sizes_.rope_dim;
    call.out = out.get();
    call.scale = scale;
    call.workspace = workspace->get();
    for (int i = 0; i < 2; ++i) attend(call, {cache.get(), DType::bf16, sizes_.width()}, meta, Real::bf16, nullptr);
    return unpacked(out.read(), tokens(), op_.heads * op_.value_dim, DType::bf16);
  }

  /// Each distinct row once, times how often the token sees it.
  Matrix expected() const {
    Matrix out(tokens(), op_.heads * op_.value_dim);
    for (std::int64_t t = 0; t < tokens(); ++t) {
      const std::vector<double> seen = times_seen(t / queries_, t % queries_);
      for (std::int64_t h = 0; h < op_.heads; ++h) {
        std::vector<double> sum(static_cast<std::size_t>(op_.value_dim));
        double total = 0;
        for (Index row = 0; row < rows_.rows(); ++row) {
          const double weight = seen[static_cast<std::size_t>(row)] * std::exp(scale * score(t, h, row));
          total += weight;
          const Index first = sizes_.mla ? 0 : sizes_.value_dim;
          for (Index i = 0; i < op_.value_dim; ++i) sum[static_cast<std::size_t>(i)] += weight * rows_(row, first + i);
        }
        for (Index i = 0; i < op_.value_dim; ++i)
          out(t, h * op_.value_dim + i) = static_cast<float>(sum[static_cast<std::size_t>(i)] / total);
      }
    }
    return out;
  }

 private:
  static constexpr float scale = 1.0F / 16;

  std::int64_t sequences() const { return static_cast<std::int64_t>(contexts_.size()); }
  std::int64_t tokens() const { return sequences() * queries_; }

  std::vector<double> times_seen(std::int64_t sequence, std::int64_t query) const {
    std::vector<double> out(static_cast<std::size_t>(rows_.rows()));
    for (std::int64_t slot = 0; slot <= contexts_[static_cast<std::size_t>(sequence)] + query; ++slot) {
      const std::int32_t page = pages_[static_cast<std::size_t>(sequence * pages_each_ + slot / page_tokens)];
      out[static_cast<std::size_t>(page * page_tokens + slot % page_tokens)] += 1;
    }
    return out;
  }
  double score(Index token, Index head, Index row) const {
    const Index each = sizes_.value_dim;
    double sum = 0;
    for (Index i = 0; i < each; ++i) sum += query_(token, head * each + i) * rows_(row, i);
    const Index first = head * sizes_.rotated() + sizes_.nope_dim;
    for (Index i = 0; i < sizes_.rope_dim; ++i) sum += rotated_(token, first + i) * rows_(row, each + i);
    return sum;
  }

  Sizes sizes_;
  std::vector<std::int64_t> contexts_;
  std::int64_t queries_;
  std::mt19937 random_{3};
  Matrix rows_, query_, rotated_;
  Attention op_;
  std::int64_t pages_each_ = 0;
  std::vector<std::int32_t> pages_;
};

class AttendsFar : public OnGpu {};

TEST_F(AttendsFar, LongContextsInABatch) {
  std::vector<std::int64_t> contexts(8, 131072);
  contexts[2] = 40000;
  contexts[5] = 70;
  for (const Sizes& sizes : {Sizes{false, 128, 0, 0}, Sizes{true, 512, 64, 128}})
    for (const std::int64_t queries : {1, 3, 4}) {
      SCOPED_TRACE(testing::Message() << (sizes.mla ? "mla" : "gqa") << ", queries " << queries);
      const Repeated run(sizes, contexts, queries);
      EXPECT_TRUE(close(run.device(), run.expected(), limit_of(Real::bf16)));
    }
}

}  // namespace
}  // namespace specstep::cuda
