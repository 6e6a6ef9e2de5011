// Softmax attention against the host's attend(), over what host::Nodes says that a token sees.
#include "sim/cuda/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <ostream>

#include "sim/cuda/kernels/test_scene.h"
#include "sim/host/kernels.h"

namespace specstep::cuda {
namespace {

using host::Index;
using host::Matrix;

enum class Sees { all, window, selected };

struct Case {
  AttentionKind kind = AttentionKind::gqa;
  std::int64_t heads = 8, kv_heads = 1, head_dim = 128;       // gqa
  std::int64_t kv_rank = 512, rope_dim = 64, nope_dim = 128;  // mla
  std::vector<std::int64_t> contexts;
  std::int64_t queries = 1;
  bool tree = false;
  Sees sees = Sees::all;
  std::int64_t limit = 0;
  Real real = Real::bf16;
  bool fp8 = false;
  bool share = true;
  std::int64_t planned = -1;  // context of the operation; -1: the longest

  bool mla() const { return kind == AttentionKind::mla; }
  DType cached() const { return fp8 ? DType::fp8 : dtype_of(real); }
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  to << (c.mla() ? "mla" : "gqa") << (c.real == Real::f32 ? " f32" : " bf16") << (c.fp8 ? " fp8 cache" : "")
     << ", heads " << c.heads << "/" << c.kv_heads << ", dims "
     << (c.mla() ? std::to_string(c.kv_rank) + "+" + std::to_string(c.rope_dim) : std::to_string(c.head_dim))
     << ", queries " << c.queries << (c.tree ? " (tree)" : "") << (c.share ? "" : ", unshared") << ", limit " << c.limit
     << ", planned " << c.planned << ", contexts";
  for (const std::int64_t n : c.contexts) to << " " << n;
  return to;
}

/// What one case computes on both sides.
class Trial {
 public:
  explicit Trial(const Case& c)
      : c_(c), scene_(c.contexts, c.queries, c.tree), op_(operation()), cache_(scene_, op_.cached_values, c.cached()) {
    const DType type = dtype_of(c.real);
    const std::int64_t gqa_width = (c.heads + 2 * c.kv_heads) * c.head_dim;
    query_ = random_matrix(scene_.count(), c.mla() ? c.heads * c.kv_rank : gqa_width, type, scene_.random) * spread;
    rotated_ = random_matrix(scene_.count(), c.mla() ? c.heads * each() : 1, type, scene_.random) * spread;
    const std::int64_t score_width = c.mla() ? each() : c.head_dim;
    scale_ = static_cast<float>(1 / std::sqrt(static_cast<double>(score_width)));
    if (c.sees == Sees::selected) select();
  }

  Matrix device() const { return device(op_, 0); }
  /// Rows of op.sequences sequences from `first` on.
  Matrix device(const Attention& op, std::int64_t first) const {
    const DType type = dtype_of(c_.real);
    const PassMeta meta = scene_.meta(first, op.sequences);
    const auto skipped = static_cast<std::size_t>(first * c_.queries) * size_of(type);
    const OnDevice<std::uint8_t> query(packed(query_, type)), rotated(packed(rotated_, type));
    const OnDevice<std::int32_t> selected(selected_);
    const auto values = static_cast<std::size_t>(meta.count() * op.heads * op.value_dim);
    const OnDevice<std::uint8_t> out((values + guard) * size_of(type));
    const auto workspace = make_workspace(attention_workspace(op));
    AttentionCall call;
    call.op = op;
    call.query = query.get() + skipped * static_cast<std::size_t>(query_.cols());
    call.query_stride = query_.cols();
    call.rotated = c_.mla() ? rotated.get() + skipped * static_cast<std::size_t>(rotated_.cols()) : nullptr;
    call.nope_dim = c_.mla() ? c_.nope_dim : 0;
    call.rope_dim = c_.mla() ? c_.rope_dim : 0;
    call.selected = c_.sees == Sees::selected ? selected.get() + first * c_.queries * c_.limit : nullptr;
    call.out = out.get();
    call.scale = scale_;
    call.workspace = workspace->get();
    // Twice: the second finds the workspace as the first left it.
    for (int i = 0; i < 2; ++i) attend(call, cache_.cache(), meta, c_.real, nullptr);
    const Bytes bytes = out.read();
    for (std::size_t i = values * size_of(type); i < bytes.size(); ++i)
      EXPECT_EQ(bytes[i], 0xFF) << "written " << i - values * size_of(type) << " bytes behind the output";
    return unpacked(bytes, meta.count(), op.heads * op.value_dim, type);
  }

  Matrix expected() const {
    Matrix out = Matrix::Zero(scene_.count(), op_.heads * op_.value_dim);
    scene_.each_token([&](std::size_t s, std::size_t node, Index row) {
      const std::vector<std::int64_t> slots = slots_of(s, node, row);
      for (Index h = 0; h < c_.heads; ++h) {
        std::vector<float> query(static_cast<std::size_t>(op_.score_dim));
        const Index kv = h / (c_.heads / c_.kv_heads);
        host::HeadQuery head{query, scale_, 0, 0};
        if (c_.mla()) {
          std::copy_n(&query_(row, h * c_.kv_rank), c_.kv_rank, query.begin());
          std::copy_n(&rotated_(row, h * each() + c_.nope_dim), c_.rope_dim, query.begin() + c_.kv_rank);
        } else {
          std::copy_n(&query_(row, h * c_.head_dim), c_.head_dim, query.begin());
          head.key_col = kv * c_.head_dim;
          head.value_col = (c_.kv_heads + kv) * c_.head_dim;
        }
        const std::span<float> to{&out(row, h * op_.value_dim), static_cast<std::size_t>(op_.value_dim)};
        host::attend(head, cache_.sequences[s], slots, to);
      }
    });
    return out;
  }

  const Attention& op() const { return op_; }

 private:
  // Scores must differ enough that the softmax is no average. A power of two keeps the numbers' formats.
  static constexpr float spread = 8;
  static constexpr std::size_t guard = 64;

  std::int64_t each() const { return c_.nope_dim + c_.rope_dim; }

  Attention operation() const {
    Attention op;
    op.kind = c_.kind;
    op.sequences = static_cast<std::int64_t>(c_.contexts.size());
    op.queries = c_.queries;
    op.context = c_.planned >= 0 ? c_.planned : *std::max_element(c_.contexts.begin(), c_.contexts.end());
    op.limit = c_.limit;
    op.heads = c_.heads;
    op.score_dim = c_.mla() ? c_.kv_rank + c_.rope_dim : c_.head_dim;
    op.value_dim = c_.mla() ? c_.kv_rank : c_.head_dim;
    op.cached_values = c_.mla() ? op.score_dim : 2 * c_.kv_heads * c_.head_dim;
    op.kv = c_.cached();
    op.queries_share_kv = c_.share && c_.sees != Sees::selected;
    return op;
  }

  void select() {
    selected_.assign(static_cast<std::size_t>(scene_.count() * c_.limit), -1);
    scene_.each_token([&](std::size_t s, std::size_t node, Index row) {
      std::vector<std::int32_t> places(scene_.sequences[s].visible(node).size());
      std::iota(places.begin(), places.end(), 0);
      std::shuffle(places.begin(), places.end(), scene_.random);
      places.resize(std::min(places.size(), static_cast<std::size_t>(c_.limit)));
      std::sort(places.begin(), places.end());
      std::copy(places.begin(), places.end(), selected_.begin() + row * c_.limit);
    });
  }

  std::vector<std::int64_t> slots_of(std::size_t s, std::size_t node, Index row) const {
    std::vector<std::int64_t> slots = scene_.sequences[s].visible(node);
    if (c_.sees == Sees::window && static_cast<std::int64_t>(slots.size()) > c_.limit)
      slots.erase(slots.begin(), slots.end() - c_.limit);
    if (c_.sees != Sees::selected) return slots;
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < c_.limit; ++i)
      if (const std::int32_t place = selected_[static_cast<std::size_t>(row * c_.limit + i)]; place >= 0)
        chosen.push_back(slots[static_cast<std::size_t>(place)]);
    return chosen;
  }

  Case c_;
  Scene scene_;
  Attention op_;
  TestCache cache_;
  Matrix query_, rotated_;
  std::vector<std::int32_t> selected_;
  float scale_ = 1;
};

void expect_close(const Case& c) {
  SCOPED_TRACE(testing::Message() << c);
  const Trial run(c);
  const Matrix got = run.device();
  EXPECT_TRUE(close(got, run.expected(), limit_of(c.real)));
}

Case gqa(std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, std::vector<std::int64_t> contexts, Real real) {
  Case c;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = dim;
  c.contexts = std::move(contexts);
  c.real = real;
  return c;
}

Case mla(std::int64_t heads, std::vector<std::int64_t> contexts, Real real) {
  Case c;
  c.kind = AttentionKind::mla;
  c.heads = heads;
  c.contexts = std::move(contexts);
  c.real = real;
  return c;
}

const std::vector<std::int64_t> lengths{0, 1, 63, 64, 65, 1000, 5000};

class Attends : public OnGpu {};

TEST_F(Attends, GqaOfAllSharesAndHeadSizes) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const std::int64_t dim : {32, 64, 128})
      for (const std::int64_t share : {1, 2, 3, 5, 8}) {
        Case c = gqa(2 * share, 2, dim, {65, 0, 400}, real);
        c.queries = 1 + share % 4;
        expect_close(c);
      }
}

TEST_F(Attends, GqaOverContextsOfAllLengthsAtOnceAndAlone) {
  for (const Real real : {Real::f32, Real::bf16}) {
    Case c = gqa(8, 1, 128, lengths, real);
    c.queries = 4;
    expect_close(c);
    for (const std::int64_t n : lengths) {
      c.contexts = {n};
      expect_close(c);
    }
  }
}

TEST_F(Attends, MlaOverContextsOfAllLengths) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const std::int64_t queries : {1, 3, 4}) {
      Case c = mla(8, {0, 1, 63, 64, 65, 1000}, real);
      c.queries = queries;
      expect_close(c);
      c.contexts = {5000};
      expect_close(c);
    }
}

TEST_F(Attends, MlaWithManyHeadsAndWithSmallSizes) {
  for (const std::int64_t heads : {1, 16, 64, 128}) {
    Case c = mla(heads, {300, 1500}, Real::bf16);
    c.queries = 2;
    expect_close(c);
  }
  for (const Real real : {Real::f32, Real::bf16}) {
    Case c = mla(4, {0, 65, 700}, real);
    c.kv_rank = 32;
    c.rope_dim = 8;
    c.nope_dim = 16;
    c.queries = 5;
    expect_close(c);
  }
}

TEST_F(Attends, ChainsAndTreesOfAllSizes) {
  for (const bool tree : {false, true})
    for (const std::int64_t queries : {1, 2, 3, 5, 8, 33, 64}) {
      Case c = gqa(8, 2, 64, {0, 100, 1000}, Real::bf16);
      c.queries = queries;
      c.tree = tree;
      expect_close(c);
      c.real = Real::f32;
      expect_close(c);
    }
  Case c = mla(8, {70, 3000}, Real::bf16);
  c.tree = true;
  c.queries = 8;
  expect_close(c);
}

TEST_F(Attends, PromptsOfManyTokens) {
  for (const std::int64_t context : {0, 130}) {
    Case c = gqa(8, 2, 128, {context, 3}, Real::bf16);
    c.queries = 200;
    expect_close(c);
    c.real = Real::f32;
    expect_close(c);
    Case m = mla(8, {context}, Real::bf16);
    m.queries = 150;
    expect_close(m);
  }
}

TEST_F(Attends, WindowsEvenInsideATree) {
  for (const bool tree : {false, true})
    for (const std::int64_t limit : {1, 3, 64, 128})
      for (const Real real : {Real::f32, Real::bf16}) {
        Case c = gqa(8, 1, 64, {0, 2, 127, 128, 129, 1000}, real);
        c.queries = 8;
        c.tree = tree;
        c.sees = Sees::window;
        c.limit = limit;
        expect_close(c);
      }
}

TEST_F(Attends, SelectedPlacesOfEachQuery) {
  for (const bool tree : {false, true})
    for (const Real real : {Real::f32, Real::bf16}) {
      Case c = mla(8, {0, 20, 1000, 3000}, real);
      c.queries = 4;
      c.tree = tree;
      c.sees = Sees::selected;
      for (const std::int64_t limit : {16, 500}) {
        c.limit = limit;
        expect_close(c);
      }
      Case g = gqa(8, 2, 128, {0, 20, 1000}, real);
      g.queries = 3;
      g.tree = tree;
      g.sees = Sees::selected;
      g.limit = 70;
      expect_close(g);
    }
}

TEST_F(Attends, CachesOfEightBits) {
  for (const Real real : {Real::f32, Real::bf16}) {
    Case c = mla(8, {0, 65, 2000}, real);
    c.queries = 3;
    c.fp8 = true;
    expect_close(c);
    Case g = gqa(8, 1, 128, {0, 65, 2000}, real);
    g.queries = 3;
    g.fp8 = true;
    expect_close(g);
  }
}

TEST_F(Attends, QueriesThatDoNotShareTheirRead) {
  Case c = gqa(8, 2, 128, {0, 65, 2000}, Real::bf16);
  c.queries = 4;
  c.share = false;
  expect_close(c);
}

TEST_F(Attends, ContextsOtherThanPlanned) {
  for (const std::int64_t planned : {0, 100, 100000}) {
    Case c = mla(8, {0, 300, 5000}, Real::bf16);
    c.queries = 2;
    c.planned = planned;
    expect_close(c);
    Case g = gqa(4, 2, 32, {0, 300, 5000}, Real::f32);
    g.planned = planned;
    expect_close(g);
  }
}

TEST_F(Attends, DoesNotDependOnTheOtherSequencesNorOnTheRun) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const bool latent : {false, true}) {
      const std::vector<std::int64_t> contexts{5000, 20, 700};
      Case c = latent ? mla(8, contexts, real) : gqa(8, 1, 128, contexts, real);
      c.queries = 3;
      const Trial run(c);
      const Matrix all = run.device();
      EXPECT_EQ(all, run.device()) << c << ": two runs differ";
      Attention one = run.op();
      one.sequences = 1;
      for (std::int64_t s = 0; s < 3; ++s)
        EXPECT_EQ(all.middleRows(s * c.queries, c.queries), run.device(one, s)) << c << ": sequence " << s << " alone";
    }
}

TEST_F(Attends, RefusesWhatItHasNoKernelFor) {
  Case c = gqa(2, 1, 30, {5}, Real::f32);
  EXPECT_THROW(Trial(c).device(), std::exception);
  c = gqa(2, 1, 64, {5}, Real::f32);
  Attention op = Trial(c).op();
  op.queries = 2;
  EXPECT_THROW(Trial(c).device(op, 0), std::exception) << "an operation of other tokens than the pass";
}

}  // namespace
}  // namespace specstep::cuda
