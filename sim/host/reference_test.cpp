// The model against a second implementation in double, written from the definitions: keys and values per head instead
// of absorbed latents, one token at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "model/build_plan.h"
#include "sim/host/test_runs.h"

namespace specstep::host {
namespace {

using Vector = Eigen::VectorXd;

class Reference {
 public:
  explicit Reference(const RunConfig& config)
      : s_(config.stack),
        a_(s_.attention),
        plan_(build_plan(s_, {}, {PassKind::decode})),
        view_(view_of(s_, nullptr)) {}

  Vector last_logits(const std::vector<std::int32_t>& tokens) {
    std::vector<Vector> stream;
    for (const std::int32_t t : tokens) stream.emplace_back(at(-1, StepKind::embed).row(t).transpose());
    for (std::int32_t layer = 0; layer < s_.layers; ++layer) {
      std::vector<Token> seen;
      for (Vector& x : stream) {
        const Vector in = normed(x, layer, StepKind::attention_norm);
        const auto position = static_cast<double>(seen.size());
        seen.push_back(a_.kind == AttentionKind::mla ? mla(in, layer, position) : gqa(in, layer, position));
        x += at(layer, StepKind::o_proj) * attended(seen);
        x += s_.is_moe(layer)
                 ? experts(normed(x, layer, StepKind::mlp_norm), layer)
                 : gated(normed(x, layer, StepKind::mlp_norm), at(layer, StepKind::gate_up), at(layer, StepKind::down));
      }
    }
    return at(-1, StepKind::lm_head) * normed(stream.back(), -1, StepKind::final_norm);
  }

 private:
  /// Query, key and value of each head.
  struct Token {
    std::vector<Vector> q, k, v;
  };

  Eigen::MatrixXd at(std::int32_t layer, StepKind kind, std::size_t which = 0) const {
    for (const Weight& w : plan_.weights)
      if (w.layer == layer && w.step == kind) return make_weight(plan_, w, 0, view_, 1)[which].cast<double>();
    throw std::logic_error("no such weight");
  }
  Vector normed(const Vector& x, std::int32_t layer, StepKind kind) const {
    const double rms = std::sqrt(x.squaredNorm() / static_cast<double>(x.size()) + 1e-6);
    return (x / rms).cwiseProduct(at(layer, kind).col(0));
  }
  /// The rotation as a complex product.
  static Vector turned(Vector head, double position) {
    const Eigen::Index half = head.size() / 2;
    for (Eigen::Index i = 0; i < half; ++i) {
      const double angle = position / std::pow(10000.0, static_cast<double>(i) / static_cast<double>(half));
      const std::complex<double> z = std::complex<double>(head(i), head(i + half)) * std::polar(1.0, angle);
      head(i) = z.real();
      head(i + half) = z.imag();
    }
    return head;
  }
  static Vector joined(const Vector& a, const Vector& b) {
    Vector out(a.size() + b.size());
    out << a, b;
    return out;
  }
  static Vector gated(const Vector& in, const Eigen::MatrixXd& up, const Eigen::MatrixXd& down) {
    const Vector both = up * in;
    const Eigen::Index half = both.size() / 2;
    Vector active(half);
    for (Eigen::Index i = 0; i < half; ++i) active(i) = both(i) / (1 + std::exp(-both(i))) * both(half + i);
    return down * active;
  }
  Token gqa(const Vector& in, std::int32_t layer, double position) const {
    const Vector qkv = at(layer, StepKind::qkv) * in;
    const auto head = [&](Eigen::Index h) { return Vector(qkv.segment(h * a_.head_dim, a_.head_dim)); };
    Token out;
    for (Eigen::Index h = 0; h < a_.heads; ++h) {
      const Eigen::Index kv = h / (a_.heads / a_.kv_heads);
      out.q.push_back(turned(normed(head(h), layer, StepKind::qk_norm), position));
      out.k.push_back(turned(normed(head(a_.heads + kv), layer, StepKind::qk_norm), position));
      out.v.push_back(head(a_.heads + a_.kv_heads + kv));
    }
    return out;
  }
  /// q (W c) = (W^T q) c: the program multiplies the query, this one the latent.
  Token mla(const Vector& in, std::int32_t layer, double position) const {
    const Vector latent = at(layer, StepKind::qkv_a) * in;
    const Vector q_all = at(layer, StepKind::q_b) * normed(latent.head(a_.q_rank), layer, StepKind::q_a_norm);
    const Vector c = normed(latent.segment(a_.q_rank, a_.kv_rank), layer, StepKind::kv_a_norm);
    const Vector k_rope = turned(latent.tail(a_.rope_dim), position);
    Token out;
    for (Eigen::Index h = 0; h < a_.heads; ++h) {
      const Vector q = q_all.segment(h * (a_.nope_dim + a_.rope_dim), a_.nope_dim + a_.rope_dim);
      const auto which = static_cast<std::size_t>(h);
      out.q.push_back(joined(q.head(a_.nope_dim), turned(q.tail(a_.rope_dim), position)));
      out.k.push_back(joined(at(layer, StepKind::absorb_q, which).transpose() * c, k_rope));
      out.v.push_back(at(layer, StepKind::absorb_v, which) * c);
    }
    return out;
  }
  /// What the last token sees.
  static Vector attended(const std::vector<Token>& seen) {
    Vector out;
    for (std::size_t h = 0; h < seen.back().q.size(); ++h) {
      const Vector& q = seen.back().q[h];
      Vector sum = Vector::Zero(seen.back().v[h].size());
      double weights = 0;
      for (const Token& t : seen) {
        const double weight = std::exp(q.dot(t.k[h]) / std::sqrt(static_cast<double>(q.size())));
        sum += weight * t.v[h];
        weights += weight;
      }
      out = joined(out, sum / weights);
    }
    return out;
  }
  Vector experts(const Vector& in, std::int32_t layer) const {
    const Vector scores = at(layer, StepKind::router) * in;
    std::vector<Eigen::Index> order(static_cast<std::size_t>(scores.size()));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](auto x, auto y) { return scores(x) > scores(y); });
    order.resize(static_cast<std::size_t>(s_.mlp.top_k));
    double weights = 0;
    for (const auto e : order) weights += std::exp(scores(e));
    Vector out = gated(in, at(layer, StepKind::shared_gate_up), at(layer, StepKind::shared_down));
    for (const auto e : order)
      out += std::exp(scores(e)) / weights *
             gated(in, at(layer, StepKind::expert_gate_up, static_cast<std::size_t>(e)),
                   at(layer, StepKind::expert_down, static_cast<std::size_t>(e)));
    return out;
  }

  StackSpec s_;
  AttentionSpec a_;
  Plan plan_;
  ModelView view_;
};

void expect_the_definition(const std::string& stack) {
  Rig rig(small_run(stack, eagle_draft, 2));
  const std::vector<std::int32_t> text = some_tokens(9, 100);
  const Matrix logits = rig.runner.target(PassKind::prefill, 9, {{{chain_nodes(0, 9), text}}, {}}, nullptr).logits;
  const Vector expected = Reference(rig.config).last_logits(text);
  EXPECT_LT((logits.row(0).transpose().cast<double>() - expected).squaredNorm() / expected.squaredNorm(), 1e-11);
}

TEST(Reference, DenseWithGroupedQueries) { expect_the_definition(dense_stack); }
TEST(Reference, LatentAttentionWithExperts) { expect_the_definition(mla_stack); }

}  // namespace
}  // namespace specstep::host
