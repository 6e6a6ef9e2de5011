// How many experts the tokens of a pass meet.
#pragma once

#include <cstdint>
#include <vector>

namespace specstep {

/// How tokens are routed. Texts are independent of each other; consecutive tokens of one text are not.
struct Routing {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;  // experts a token goes to
  double overlap = 0;      // share of a token's experts that the token before it in its text used too
  double popularity = 0;   // s of Zipf's law: the expert of rank r is drawn with weight r^-s; 0: all alike
};

/// Chance of each expert, most popular first, to be among the top_k of a token. Sums to top_k. Experts are drawn
/// without replacement by weight: the first top_k of independent exponential clocks of rate r^-s, so the chance of one
/// is 1 - exp(-r^-s t) with t such that the sum is top_k (Rosen, Ann. Math. Stat. 43, 1972; exact for s = 0).
std::vector<double> expert_chances(const Routing& routing);

/// Expected distinct experts that `sequences` texts of `tokens_each` consecutive tokens meet. Each token repeats a
/// share `overlap` of its predecessor's experts, so q of them count as 1 + (q - 1)(1 - overlap) independent ones. With
/// m independent tokens in all, an expert of chance c is met with 1 - (1 - c)^m. Without overlap and popularity this is
/// E(1 - (1 - top_k/E)^M) over all M tokens. `padded`: tokens that are all alike fill the pass up and meet the experts
/// of one more independent token.
double expected_experts(const Routing& routing, std::int64_t sequences, std::int64_t tokens_each, bool padded = false);

/// Expected number of `met` distinct experts that the rank with the most of them holds, when `experts` lie on `ranks`
/// ranks, the same number on each, at random: the met ones fall on ranks as balls drawn without replacement
/// (multivariate hypergeometric), P(no rank holds more than x) being exact for whole numbers of met experts and the
/// mean of its neighbours between them. Popular experts that lie together on purpose would crowd more.
double fullest_rank(std::int64_t experts, std::int64_t ranks, double met);

}  // namespace specstep
