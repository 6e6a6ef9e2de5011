// Acceptance: the rules keep the target's distribution.
#include "sim/host/accept.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sim/host/grower.h"

namespace specstep::host {
namespace {

constexpr std::int32_t vocab = 6;

/// A text model by formula: the distribution behind a prefix of tokens.
Distribution model(const std::vector<std::int32_t>& prefix, double sharpness) {
  Distribution out;
  double state = 0.37;
  for (const std::int32_t t : prefix) state = std::fmod(state * 3.1 + 0.23 * t + 0.11, 1.0);
  for (int t = 0; t < vocab; ++t) out.push_back(std::exp(sharpness * std::sin(6.28 * (state + 0.31 * t))));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& p : out) p /= sum;
  return out;
}

std::vector<std::int32_t> prefix_of(const DraftTree& tree, int node) {
  std::vector<std::int32_t> out;
  for (int at = node; at >= 0; at = tree.parents[static_cast<std::size_t>(at)])
    out.insert(out.begin(), tree.tokens[static_cast<std::size_t>(at)]);
  return out;
}

std::vector<std::int32_t> emitted(const DraftTree& tree, const Verdict& v) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 1; i < v.nodes.size(); ++i) out.push_back(tree.tokens[static_cast<std::size_t>(v.nodes[i])]);
  out.push_back(v.bonus);
  return out;
}

/// Chi-square of counted pairs of tokens against the target's chance of each; 35 degrees of freedom.
double chi_square_of_pairs(const std::function<std::vector<std::int32_t>(Coins&)>& verify, int draws) {
  std::vector<double> counts(vocab * vocab, 0);
  Coins coins(7, 0);
  for (int i = 0; i < draws; ++i) {
    std::vector<std::int32_t> text = verify(coins);
    if (text.size() == 1) text.push_back(coins.draw(model({0, text[0]}, 1)));  // the next cycle's root decides
    ++counts[static_cast<std::size_t>(text[0] * vocab + text[1])];
  }
  double chi = 0;
  for (std::int32_t a = 0; a < vocab; ++a)
    for (std::int32_t b = 0; b < vocab; ++b) {
      const double expected =
          draws * model({0}, 1)[static_cast<std::size_t>(a)] * model({0, a}, 1)[static_cast<std::size_t>(b)];
      const double difference = counts[static_cast<std::size_t>(a * vocab + b)] - expected;
      chi += difference * difference / expected;
    }
  return chi;
}

constexpr double chi_limit = 66.6;  // 35 degrees of freedom: exceeded once in a thousand
constexpr int draws = 100000;

TEST(Accept, TargetOnlyChainGivesTheTargetsDistribution) {
  const DraftTree chain{{0, 2, 4}, {-1, 0, 1}, {}};
  const double chi = chi_square_of_pairs(
      [&](Coins& coins) {
        return emitted(chain, accept_target_only(
                                  chain, [&](int n) { return model(prefix_of(chain, n), 1); }, coins));
      },
      draws);
  EXPECT_LT(chi, chi_limit);
}

TEST(Accept, TargetOnlyTreeGivesTheTargetsDistribution) {
  const DraftTree tree{{0, 2, 4, 1, 3, 2}, {-1, 0, 0, 1, 1, 2}, {}};
  const double chi = chi_square_of_pairs(
      [&](Coins& coins) {
        return emitted(tree, accept_target_only(
                                 tree, [&](int n) { return model(prefix_of(tree, n), 1); }, coins));
      },
      draws);
  EXPECT_LT(chi, chi_limit);
}

/// A chain of two drafts drawn from another model.
DraftTree drawn_chain(Coins& coins) {
  DraftTree chain{{0}, {-1}, {{}}};
  for (int i = 0; i < 2; ++i) {
    const Distribution q = model(prefix_of(chain, i), 2.5);
    chain.tokens.push_back(coins.draw(q));
    chain.parents.push_back(i);
    chain.drawn_from.push_back(q);
  }
  return chain;
}

TEST(Accept, RejectionGivesTheTargetsDistribution) {
  const double chi = chi_square_of_pairs(
      [&](Coins& coins) {
        const DraftTree chain = drawn_chain(coins);
        return emitted(chain, accept_rejection(
                                  chain, [&](int n) { return model(prefix_of(chain, n), 1); }, coins));
      },
      draws);
  EXPECT_LT(chi, chi_limit);
}

// The test can fail: taking every draft as it comes gives the draft's distribution.
TEST(Accept, TakingEveryDraftDoesNot) {
  const double chi = chi_square_of_pairs(
      [&](Coins& coins) {
        return emitted(drawn_chain(coins), {{0, 1, 2}, 0});
      },
      draws);
  EXPECT_GT(chi, 10 * chi_limit);
}

// Leviathan et al. 2023: a draft survives with chance sum min(p, q).
TEST(Accept, RejectionAcceptsWithTheOverlapOfTheDistributions) {
  Coins coins(3, 1);
  const Distribution p = model({0}, 1);
  const Distribution q = model({0}, 2.5);
  double overlap = 0;
  for (std::size_t i = 0; i < p.size(); ++i) overlap += std::min(p[i], q[i]);
  double accepted = 0;
  for (int i = 0; i < draws; ++i) {
    const DraftTree chain = drawn_chain(coins);
    const Verdict v = accept_rejection(
        chain, [&](int n) { return model(prefix_of(chain, n), 1); }, coins);
    accepted += v.accepted() > 0 ? 1 : 0;
  }
  EXPECT_NEAR(accepted / draws, overlap, 4 * std::sqrt(overlap * (1 - overlap) / draws));
}

TEST(Accept, GreedyFollowsTheTargetsBest) {
  const DraftTree tree{{9, 1, 2, 3, 4}, {-1, 0, 0, 2, 3}, {}};
  const std::vector<std::int32_t> best{2, 7, 3, 5, 8};
  const Verdict v = accept_greedy(tree, [&](int node) { return best[static_cast<std::size_t>(node)]; });
  EXPECT_EQ(v.nodes, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(v.bonus, 5);
}

TEST(Grower, AChainIsATreeOfWidthOne) {
  Grower g(1, 4);
  g.start(9);
  const std::vector<std::int32_t> names{0, 1, 2};
  for (const std::vector<float>& row : {std::vector<float>{0, 5, 1}, {3, 0, 1}, {0, 1, 2}}) {
    const std::vector<std::span<const float>> rows{row};
    g.grow(rows, names);
  }
  const DraftTree t = g.finish();
  EXPECT_EQ(t.tokens, (std::vector<std::int32_t>{9, 1, 0, 2}));
  EXPECT_EQ(t.parents, (std::vector<int>{-1, 0, 1, 2}));
}

// Two steps of width two by hand. Chances behind the root 0.6, 0.3, 0.1; behind token 0: 0.5, 0.3, 0.2; behind token
// 1: 0.9, 0.05, 0.05. Accumulated: 0 -> 0.6, 1 -> 0.3, 00 -> 0.30, 01 -> 0.18, 10 -> 0.27, 11 -> 0.015.
TEST(Grower, KeepsTheBestByAccumulatedChance) {
  const auto logs = [](std::vector<double> p) {
    std::vector<float> out;
    for (const double x : p) out.push_back(static_cast<float>(std::log(x)));
    return out;
  };
  const std::vector<float> root = logs({0.6, 0.3, 0.1});
  const std::vector<float> behind_0 = logs({0.51, 0.3, 0.19});
  const std::vector<float> behind_1 = logs({0.9, 0.06, 0.04});
  const std::vector<std::int32_t> names{10, 11, 12};
  Grower g(2, 5);
  g.start(9);
  g.grow(std::vector<std::span<const float>>{root}, names);
  g.grow(std::vector<std::span<const float>>{behind_0, behind_1}, names);
  const DraftTree t = g.finish();
  EXPECT_EQ(t.tokens, (std::vector<std::int32_t>{9, 10, 11, 10, 10}));
  EXPECT_EQ(t.parents, (std::vector<int>{-1, 0, 0, 1, 2}));
  EXPECT_EQ(g.frontier().size(), 2U);
}

}  // namespace
}  // namespace specstep::host
