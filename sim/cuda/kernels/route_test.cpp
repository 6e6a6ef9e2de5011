// Routing, exchange and sampling against the host's functions.
#include <limits>

#include "sim/cuda/kernels/device_test.h"
#include "sim/cuda/kernels/elementwise.h"
#include "sim/host/accept.h"
#include "sim/host/kernels.h"

namespace specstep::cuda {
namespace {

using Ints = std::vector<std::int32_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::string text(const std::string& op, std::initializer_list<std::int64_t> shape) {
  std::string out = op;
  for (const std::int64_t n : shape) out += " " + std::to_string(n);
  return out;
}

/// Pairs of each local expert, ascending.
struct Sorted {
  Ints pair_of, begin, spans;  // spans: only the rows that are defined
};
Sorted sorted(const Ints& expert, std::int64_t first, std::int64_t held) {
  Sorted out{{}, {}, {0, 0}};
  for (std::int32_t e = 0; e < held; ++e) {
    out.begin.push_back(static_cast<std::int32_t>(out.pair_of.size()));
    for (std::size_t p = 0; p < expert.size(); ++p)
      if (expert[p] == first + e) out.pair_of.push_back(static_cast<std::int32_t>(p));
    if (static_cast<std::int32_t>(out.pair_of.size()) == out.begin.back()) continue;
    ++out.spans[0];
    out.spans.insert(out.spans.end(), {e, out.begin.back()});
  }
  out.begin.push_back(static_cast<std::int32_t>(out.pair_of.size()));
  out.spans[1] = out.begin.back();
  return out;
}

/// Where a device sorts pairs to.
struct Places {
  Places(std::int64_t pairs, std::int64_t held)
      : pair_of(at(pairs)), begin(at(held + 1)), spans(at(2 * (held + 1))), met(1) {}
  Grouping grouping() const {
    Grouping out;
    out.pair_of = pair_of.get();
    out.begin = begin.get();
    out.spans = spans.get();
    return out;
  }
  void expect(const std::string& what, const Sorted& expected) const {
    expect_same(what + ": begin", begin.back(), expected.begin);
    Ints got = pair_of.back();
    for (std::size_t i = expected.pair_of.size(); i < got.size(); ++i)
      ASSERT_EQ(got[i], 0x7B7B7B7B) << what << ": wrote a pair of another rank at " << i;
    got.resize(expected.pair_of.size());
    expect_same(what + ": pair_of", got, expected.pair_of);
    got = spans.back();
    got.resize(expected.spans.size());
    expect_same(what + ": spans", got, expected.spans);
    EXPECT_EQ(met.back().at(0), expected.spans[0]) << what << ": experts met";
  }
  OnDevice<std::int32_t> pair_of, begin, spans, met;
};

struct RouteShape {
  std::int64_t tokens, experts, top_k, first, held;
};

/// Scores on a coarse grid, so that most have ties.
std::vector<float> scores_of(const RouteShape& s) {
  std::vector<float> out = numbers(Real::f32, s.tokens * s.experts, 20, 4);
  for (float& v : out) v = std::round(v * 16) / 16;
  return out;
}

void expect_route(const std::string& what, const RouteShape& s, const std::vector<float>& scores) {
  Ints ids;
  std::vector<double> weights;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const std::span<const float> row(&scores[at(t * s.experts)], at(s.experts));
    const std::vector<std::int64_t> best = host::largest(row, at(s.top_k));
    double sum = 0, most = -INFINITY;
    for (const std::int64_t e : best) most = std::max<double>(most, row[at(e)]);
    for (const std::int64_t e : best) sum += std::exp(static_cast<double>(row[at(e)]) - most);
    for (const std::int64_t e : best) {
      ids.push_back(static_cast<std::int32_t>(e));
      weights.push_back(std::exp(static_cast<double>(row[at(e)]) - most) / sum);
    }
  }
  const OnDevice<float> d_scores(scores), d_weights(weights.size());
  const OnDevice<std::int32_t> d_ids(ids.size());
  const Places places(s.tokens * s.top_k, s.held);
  RouteCall call{.scores = d_scores.get(), .tokens = s.tokens, .experts = s.experts, .top_k = s.top_k};
  call.first_expert = s.first, call.local_experts = s.held;
  call.ids = d_ids.get(), call.weights = d_weights.get();
  call.grouping = places.grouping(), call.met = places.met.get();
  route(call, nullptr);
  expect_same(what + ": ids", d_ids.back(), ids);
  expect_close(what + ": weights", Real::f32, d_weights.back(), weights);
  places.expect(what, sorted(ids, s.first, s.held));
}

class Routing : public DeviceTest {};

TEST_F(Routing, RouteOfAnyNumberOfTokensAndExperts) {
  const RouteShape shapes[] = {{1, 384, 8, 0, 384},   {4, 384, 8, 0, 384},    {32, 384, 8, 0, 384},
                               {33, 384, 8, 0, 384},  {4, 384, 8, 48, 48},    {32, 384, 8, 336, 48},
                               {300, 256, 8, 64, 32}, {1000, 128, 4, 0, 128}, {3, 5, 2, 0, 5},
                               {7, 5, 5, 2, 3},       {32, 33, 33, 1, 31},    {40, 33, 33, 1, 31},
                               {6, 1, 1, 0, 1},       {32, 1024, 9, 0, 1024}, {65, 1000, 6, 999, 1},
                               {16, 130, 40, 3, 127}, {2000, 384, 8, 0, 384}};
  for (const RouteShape& s : shapes)
    expect_route(text("route, tokens experts top_k first held:", {s.tokens, s.experts, s.top_k, s.first, s.held}), s,
                 scores_of(s));
}

TEST_F(Routing, RouteOfTiesOfZerosAndOfOneExpertForAll) {
  const RouteShape few{32, 200, 4, 0, 200};
  expect_route("route, all scores equal", few, std::vector<float>(32 * 200, 0.5F));
  std::vector<float> zeros(32 * 200);
  for (std::size_t i = 0; i < zeros.size(); i += 3) zeros[i] = -0.0F;
  expect_route("route, both zeros", few, zeros);
  const RouteShape many{100, 200, 4, 150, 50};  // none of the winners is held
  expect_route("route, no pair of this rank", many, std::vector<float>(100 * 200, -1.0F));
  std::vector<float> low(32 * 200, -INFINITY);
  for (std::size_t t = 0; t < 32; ++t) low[t * 200 + 199] = -3e38F, low[t * 200 + t] = -3.1e38F;
  expect_route("route, minus infinity", few, low);
}

TEST_F(Routing, ScoresThatAreNoNumbersComeLast) {
  std::vector<float> scores(40, std::numeric_limits<float>::quiet_NaN());
  scores[7] = -5, scores[33] = -6;
  const OnDevice<float> d_scores(scores), weights(3);
  const OnDevice<std::int32_t> ids(3);
  const Places places(3, 40);
  RouteCall call{.scores = d_scores.get(), .tokens = 1, .experts = 40, .top_k = 3, .local_experts = 40};
  call.ids = ids.get(), call.weights = weights.get(), call.grouping = places.grouping();
  route(call, nullptr);
  expect_same("ids", ids.back(), Ints{0, 7, 33});
}

TEST_F(Routing, RouteRefusesWhatItCannotDo) {
  RouteCall call{.tokens = 1, .experts = 1025, .top_k = 1, .local_experts = 1};
  EXPECT_THROW(route(call, nullptr), std::invalid_argument);
  call.experts = 8, call.top_k = 9;
  EXPECT_THROW(route(call, nullptr), std::invalid_argument);
  EXPECT_THROW(group_pairs(nullptr, 1, 0, 1025, {}, nullptr), std::invalid_argument);
}

TEST_F(Routing, GroupPairsThatCameFromOtherRanks) {
  for (const auto& [pairs, first, held] : {std::array<std::int64_t, 3>{1, 0, 1},
                                           {256, 48, 48},
                                           {1024, 0, 7},
                                           {1025, 5, 30},
                                           {5000, 0, 1024},
                                           {4096, 384, 384}}) {
    Ints expert;
    for (const float v : numbers(Real::f32, pairs, 21)) {  // some belong to nobody, some to others
      const auto near = static_cast<std::int64_t>((v + 0.5F) / 1.5F * static_cast<float>(held + 4));
      expert.push_back(v < -0.5F ? -1 : static_cast<std::int32_t>(first - 2 + near));
    }
    const OnDevice<std::int32_t> d_expert(expert);
    const Places places(pairs, held);
    group_pairs(d_expert.get(), pairs, first, held, places.grouping(), nullptr, places.met.get());
    places.expect(text("group_pairs", {pairs, first, held}), sorted(expert, first, held));
  }
  const Ints nobody(100, -1);
  const OnDevice<std::int32_t> d_nobody(nobody);
  const Places places(100, 4);
  group_pairs(d_nobody.get(), 100, 0, 4, places.grouping(), nullptr, places.met.get());
  places.expect("group_pairs, nobody's", sorted(nobody, 0, 4));
}

TEST_F(Routing, RowsGoToTheOwnersOfTheirExpertsAndComeBack) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const auto& [tokens, top_k, hidden] : {std::array<std::int64_t, 3>{4, 3, 7168}, {1, 1, 33}, {9, 2, 100}}) {
      const std::int64_t owners = 4, each = 6, pairs = tokens * top_k;
      const std::vector<float> rows = numbers(real, tokens * hidden, 22);
      Ints ids;
      for (std::int64_t p = 0; p < pairs; ++p) ids.push_back(static_cast<std::int32_t>((p * 7 + 3) % (owners * each)));
      const Values d_rows(real, rows), sent(real, at(owners * pairs * hidden)), back(real, at(pairs * hidden));
      const OnDevice<std::int32_t> d_ids(ids), sent_ids(at(owners * pairs));
      ExchangeRows call{.rows = d_rows.get(), .ids = d_ids.get(), .pairs = pairs, .top_k = top_k, .hidden = hidden};
      call.experts_each = each, call.owners = owners, call.out = sent.get(), call.out_ids = sent_ids.get();
      dispatch_rows(call, real, nullptr);
      std::vector<float> expected(at(owners * pairs * hidden), sent.poison()), returned;
      Ints expected_ids(at(owners * pairs), -1);
      for (std::int64_t p = 0; p < pairs; ++p) {
        const std::int64_t slot = ids[at(p)] / each * pairs + p;
        expected_ids[at(slot)] = ids[at(p)];
        const auto row = rows.begin() + p / top_k * hidden;
        std::copy(row, row + hidden, expected.begin() + slot * hidden);
        returned.insert(returned.end(), row, row + hidden);
      }
      const std::string what = text(name_of(real), {tokens, top_k, hidden});
      expect_same("dispatch_rows ids " + what, sent_ids.back(), expected_ids);
      expect_same("dispatch_rows " + what, sent.back(), expected);
      call.rows = sent.get(), call.out = back.get();
      gather_rows(call, real, nullptr);
      expect_same("gather_rows " + what, back.back(), returned);
    }
}

TEST_F(Routing, SideBySide) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const auto& [ranks, rows, cols] :
         {std::array<std::int64_t, 3>{8, 4, 20480}, {1, 1, 33}, {3, 1000, 100}, {2, 5, 7}}) {
      const std::vector<float> parts = numbers(real, ranks * rows * cols, 23);
      std::vector<float> expected;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const auto part = parts.begin() + (rank * rows + row) * cols;
          expected.insert(expected.end(), part, part + cols);
        }
      const Values d_parts(real, parts), out(real, parts.size());
      side_by_side(d_parts.get(), out.get(), ranks, rows, cols, real, nullptr);
      expect_same(text(std::string("side_by_side ") + name_of(real), {ranks, rows, cols}), out.back(), expected);
    }
}

void expect_argmax(const std::string& what, Real real, const std::vector<float>& logits, std::int64_t stride,
                   std::int64_t cols, const Ints& expected) {
  const auto rows = static_cast<std::int64_t>(expected.size());
  const Values d_logits(real, logits);
  const OnDevice<std::int32_t> alone(expected.size()), shared(expected.size());
  const OnDevice<std::uint8_t> workspace(at(argmax_workspace(rows)));
  argmax_rows(d_logits.get(), rows, stride, cols, alone.get(), real, nullptr);
  argmax_rows(d_logits.get(), rows, stride, cols, shared.get(), real, nullptr, workspace.get());
  expect_same(what + ", one block a row", alone.back(), expected);
  expect_same(what + ", many blocks a row", shared.back(), expected);
}

TEST_F(Routing, ArgmaxOfRowsWithTies) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const auto& [rows, stride, cols] : {std::array<std::int64_t, 3>{4, 163840, 163840},
                                             {1, 163840, 163835},
                                             {32, 20480, 20480},
                                             {3, 1001, 999},
                                             {1, 1, 1},
                                             {5, 40, 33},
                                             {1000, 512, 500}}) {
      std::vector<float> logits = numbers(real, rows * stride, 24, 8);  // in bf16 the best has ties by itself
      Ints expected;
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t best = (r * 7919 + cols / 3) % cols;
        logits[at(r * stride + best)] = 9;
        logits[at(r * stride + cols - 1)] = r % 2 ? 9.0F : 8.5F;  // a tie behind
        if (stride > cols) logits[at(r * stride + cols)] = 100;   // outside
        expected.push_back(host::argmax({&logits[at(r * stride)], at(cols)}));
      }
      expect_argmax(text(std::string("argmax ") + name_of(real), {rows, stride, cols}), real, logits, stride, cols,
                    expected);
    }
}

TEST_F(Routing, ArgmaxOfNegativeEqualAndMissingNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::int64_t cols = 5000;
  std::vector<float> logits;
  const auto row = [&](float all, std::initializer_list<std::pair<std::int64_t, float>> some) {
    const std::size_t begin = logits.size();
    logits.resize(begin + at(cols), all);
    for (const auto& [col, value] : some) logits[begin + at(col)] = value;
  };
  row(-7, {});
  row(-INFINITY, {});
  row(-INFINITY, {{4999, -3e38F}});
  row(nan, {{3000, -INFINITY}});
  row(1, {{0, nan}, {17, 2}, {18, nan}});
  row(-0.0F, {{4, 0.0F}});
  row(nan, {});
  row(0, {{2500, INFINITY}, {2499, nan}, {4000, INFINITY}});
  for (const Real real : {Real::f32, Real::bf16})
    expect_argmax(std::string("argmax of odd numbers ") + name_of(real), real, logits, cols, cols,
                  {0, 0, 4999, 3000, 17, 0, 0, 2500});
}

/// Trees with random shapes, and targets that often choose a drafted token.
TEST_F(Routing, WalkAgreesWithTheHost) {
  for (const auto& [sequences, nodes, branching] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 4, 1}, {40, 9, 3}, {16, 33, 4}, {8, 200, 6}, {5, 70, 70}}) {
    Ints choice, tokens, parents, kept, accepted, last;
    const std::vector<float> random = numbers(Real::f32, 3 * sequences * nodes, 25);
    const auto pick = [&](std::int64_t i, std::int64_t n) {
      return static_cast<std::int32_t>((random[at(i)] + 1) / 2 * static_cast<float>(n));
    };
    std::size_t deepest = 0;
    for (std::int64_t s = 0; s < sequences; ++s) {
      host::DraftTree tree;
      Ints chosen;
      for (std::int64_t n = 0; n < nodes; ++n) {
        const std::int64_t i = 3 * (s * nodes + n);
        tree.parents.push_back(n == 0           ? -1
                               : branching == 1 ? static_cast<int>(n - 1)
                                                : pick(i, std::min(n, branching)));
        tree.tokens.push_back(pick(i + 1, 3));
        chosen.push_back(pick(i + 2, 3));
      }
      const host::Verdict verdict = host::accept_greedy(tree, [&](int node) { return chosen[at(node)]; });
      for (std::int64_t n = 0; n < nodes; ++n) kept.push_back(at(n) < verdict.nodes.size() ? verdict.nodes[at(n)] : -1);
      accepted.push_back(static_cast<std::int32_t>(verdict.accepted()));
      last.push_back(verdict.bonus);
      deepest = std::max(deepest, verdict.accepted());
      choice.insert(choice.end(), chosen.begin(), chosen.end());
      tokens.insert(tokens.end(), tree.tokens.begin(), tree.tokens.end());
      parents.insert(parents.end(), tree.parents.begin(), tree.parents.end());
    }
    const OnDevice<std::int32_t> d_choice(choice), d_tokens(tokens), d_parents(parents);
    const OnDevice<std::int32_t> d_kept(kept.size()), d_accepted(accepted.size()), d_last(last.size());
    walk({d_choice.get(), d_tokens.get(), d_parents.get(), sequences, nodes, d_kept.get(), d_accepted.get(),
          d_last.get()},
         nullptr);
    const std::string what = text("walk", {sequences, nodes, branching});
    expect_same(what + ": kept", d_kept.back(), kept);
    expect_same(what + ": accepted", d_accepted.back(), accepted);
    expect_same(what + ": last", d_last.back(), last);
    EXPECT_TRUE(deepest > 0 || nodes == 1 || sequences < 8) << what << ": no sequence keeps a node";
  }
}

}  // namespace
}  // namespace specstep::cuda
