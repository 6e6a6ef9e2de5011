// A model is the same on any number of ranks, and in passes of any width.
#include "sim/host/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "model/build_plan.h"
#include "sim/host/philox.h"
#include "sim/host/test_runs.h"

namespace specstep::host {
namespace {

constexpr std::size_t prompt = 9;

struct Outputs {
  PassOutput prefill, verify;
};

/// A prompt and a verify pass of four tokens, for each text of the batch.
Outputs target_passes(Rig& rig) {
  PassInput first, second;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(rig.config.workload.batch); ++s) {
    first.sequences.push_back({chain_nodes(0, prompt), some_tokens(prompt, 100, 3 + s)});
    second.sequences.push_back({chain_nodes(prompt, 4), some_tokens(4, 100, 50 + s)});
  }
  Outputs out;
  out.prefill = rig.runner.target(PassKind::prefill, prompt, first, nullptr);
  for (std::size_t s = 0; s < first.sequences.size(); ++s) rig.target.keep(s, 0, first_nodes(prompt));
  out.verify = rig.runner.target(PassKind::verify, 4, second, nullptr);
  return out;
}

/// The same of the draft, fed with features from a counter, then a draft step behind it.
Outputs draft_passes(Rig& rig) {
  const auto counted = [](Index rows, Index cols) {
    Matrix m(rows, cols);
    for (Index i = 0; i < m.size(); ++i)
      m.data()[i] = 1.7F * signed_unit(philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {9, 9})[0]);
    return m;
  };
  const bool eagle = rig.config.draft->method == DraftMethod::eagle3;
  PassInput in{{{chain_nodes(0, prompt), some_tokens(prompt, 100)}}, counted(prompt, eagle ? 3 * 64 : 64)};
  Outputs out;
  out.prefill = rig.runner.draft(PassKind::prefill, prompt, in, nullptr);
  rig.draft.keep(0, 0, first_nodes(prompt));
  PassInput next{{{chain_nodes(prompt, 1), {11}}}, counted(1, 64)};
  out.verify = rig.runner.draft(PassKind::draft, 1, next, nullptr);
  return out;
}

void expect_same(const Outputs& a, const Outputs& b, double limit, const std::string& what) {
  EXPECT_LT(nmse(a.prefill.logits, b.prefill.logits), limit) << what;
  EXPECT_LT(nmse(a.verify.logits, b.verify.logits), limit) << what;
  EXPECT_LT(nmse(a.verify.hidden, b.verify.hidden), limit) << what;
  for (Index r = 0; limit < 1e-9 && r < b.verify.logits.rows(); ++r) {
    Index x = 0, y = 0;
    a.verify.logits.row(r).maxCoeff(&x);
    b.verify.logits.row(r).maxCoeff(&y);
    EXPECT_EQ(x, y) << what << ", the token of row " << r;
  }
}

struct Case {
  const char* name;
  const std::string& stack;
  const std::string& draft;
  bool of_draft;
  bool in_bf16;
};

class AnyLayout : public testing::TestWithParam<Case> {};

// Rounding to bf16 changes a value by up to 2^-8 of itself, (2^-7)^2 / 12 / 2 = 2.5e-6 in the mean square; two layouts
// round independently, so each rounding on the way adds 5e-6. Two layers have about a dozen that count in full. A
// sparse layer is left out: a rounding may select other tokens, which is another model.
TEST_P(AnyLayout, IsTheSameModel) {
  const Case& c = GetParam();
  const auto passes = [&](Rig& rig) { return c.of_draft ? draft_passes(rig) : target_passes(rig); };
  for (const char* precision : {"f32", "bf16"}) {
    if (precision == std::string("bf16") && !c.in_bf16) continue;
    const std::vector<std::string> more{std::string("measure.host={precision: ") + precision + "}"};
    Rig one(small_run(c.stack, c.draft, 1, more));
    const Outputs expected = passes(one);
    EXPECT_GT(expected.verify.logits.squaredNorm() / static_cast<float>(expected.verify.logits.size()), 0.3);
    EXPECT_LT(expected.verify.logits.squaredNorm() / static_cast<float>(expected.verify.logits.size()), 3);
    for (const std::int64_t ranks : {2, 4, 8}) {
      Rig many(small_run(c.stack, c.draft, ranks, more));
      expect_same(passes(many), expected, precision == std::string("f32") ? 1e-10 : 1e-4,
                  fmt::format("{} ranks, {}", ranks, precision));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stacks, AnyLayout,
                         testing::Values(Case{"dense", dense_stack, eagle_draft, false, true},
                                         Case{"mla_moe", mla_stack, eagle_draft, false, true},
                                         Case{"hybrid", hybrid_stack, eagle_draft, false, false},
                                         Case{"eagle3", dense_stack, eagle_draft, true, true},
                                         Case{"nextn", mla_stack, nextn_draft, true, true}),
                         [](const auto& given) { return given.param.name; });

TEST(Layouts, ExpertAndAttentionGroupsAreTheSameModel) {
  const std::vector<std::string> batch{"workload.batch=3"};  // one attention group lacks a text
  Rig one(small_run(mla_stack, eagle_draft, 1, batch));
  const Outputs expected = target_passes(one);
  for (const char* layout :
       {"{tensor: 4, expert: 4}", "{tensor: 4, expert: 2}", "{tensor: 2, expert: 1, attention_data: 2}",
        "{tensor: 4, expert: 4, attention_data: 2}", "{tensor: 4, expert: 1, attention_data: 2}",
        "{tensor: 2, expert: 2, attention_data: 2}"}) {
    std::vector<std::string> more = batch;
    more.push_back(std::string("parallel=") + layout);
    Rig many(small_run(mla_stack, eagle_draft, 1, more));
    expect_same(target_passes(many), expected, 1e-10, layout);
  }
}

TEST(Layouts, LogitsLeftInPartsAreTheSame) {
  Rig one(small_run(dense_stack, eagle_draft, 1));
  Rig parts(small_run(dense_stack, eagle_draft, 4, {"comm.logits_gather=false"}));
  expect_same(target_passes(parts), target_passes(one), 1e-10, "parts");
}

class AnyWidth : public testing::TestWithParam<Case> {};

// Also after some of the nodes were dropped again, and along both branches of a tree. Bit by bit.
TEST_P(AnyWidth, VerifyingIsDecodingStepByStep) {
  for (const std::int64_t ranks : {1, 2})
    for (const char* precision : {"f32", "bf16"}) {
      const RunConfig config = small_run(GetParam().stack, GetParam().draft, ranks,
                                         {std::string("measure.host={precision: ") + precision + "}"});
      Rig wide(config);
      Rig narrow(config);
      const auto decode = [&](std::int64_t base, std::int32_t token) {
        const PassInput in{{{chain_nodes(base, 1), {token}}}, {}};
        Matrix logits = narrow.runner.target(PassKind::decode, 1, in, nullptr).logits;
        narrow.target.keep(0, base, {0});
        return logits;
      };
      const PassInput text{{{chain_nodes(0, prompt), some_tokens(prompt, 100)}}, {}};
      for (Rig* rig : {&wide, &narrow}) {
        rig->runner.target(PassKind::prefill, prompt, text, nullptr);
        rig->target.keep(0, 0, first_nodes(prompt));
      }
      // Nodes 0-1-3-4 and 0-2.
      const PassInput tree{{{{prompt, {-1, 0, 0, 1, 3}, 0}, {5, 6, 7, 8, 9}}}, {}};
      const Matrix verified = wide.runner.target(PassKind::verify, 5, tree, nullptr).logits;
      wide.target.keep(0, prompt, {0, 1, 3});
      const std::vector<std::pair<std::int32_t, Index>> path{{5, 0}, {6, 1}, {8, 3}};
      std::int64_t base = prompt;
      for (const auto& [token, node] : path) EXPECT_EQ(decode(base++, token), verified.row(node)) << node;
      // Node 4 was dropped; go on with another token.
      const PassInput next{{{chain_nodes(base, 2), {42, 43}}}, {}};
      const Matrix after = wide.runner.target(PassKind::verify, 2, next, nullptr).logits;
      EXPECT_EQ(decode(base, 42), after.row(0));
      EXPECT_EQ(decode(base + 1, 43), after.row(1));
    }
}

INSTANTIATE_TEST_SUITE_P(Stacks, AnyWidth,
                         testing::Values(Case{"dense", dense_stack, eagle_draft, false, true},
                                         Case{"mla_moe", mla_stack, eagle_draft, false, true},
                                         Case{"hybrid", hybrid_stack, eagle_draft, false, true}),
                         [](const auto& given) { return given.param.name; });

/// A dense gqa stack once more, in double, from its definition.
class Reference {
 public:
  explicit Reference(const RunConfig& config)
      : s_(config.stack), plan_(build_plan(s_, {}, {PassKind::decode})), view_(view_of(s_, nullptr)) {}

  Eigen::VectorXd last_logits(const std::vector<std::int32_t>& tokens) {
    std::vector<Eigen::VectorXd> stream;
    for (const std::int32_t t : tokens) stream.emplace_back(at(-1, StepKind::embed).row(t).transpose());
    for (std::int32_t layer = 0; layer < s_.layers; ++layer) {
      std::vector<Eigen::VectorXd> qkv;
      for (const auto& x : stream) qkv.push_back(at(layer, StepKind::qkv) * normed(x, layer, StepKind::attention_norm));
      for (std::size_t t = 0; t < stream.size(); ++t) prepare_heads(qkv[t], layer, static_cast<double>(t));
      for (std::size_t t = 0; t < stream.size(); ++t) {
        stream[t] += at(layer, StepKind::o_proj) * attended(qkv, t);
        const Eigen::VectorXd both = at(layer, StepKind::gate_up) * normed(stream[t], layer, StepKind::mlp_norm);
        const Eigen::Index half = both.size() / 2;
        Eigen::VectorXd active(half);
        for (Eigen::Index i = 0; i < half; ++i) active(i) = both(i) / (1 + std::exp(-both(i))) * both(half + i);
        stream[t] += at(layer, StepKind::down) * active;
      }
    }
    return at(-1, StepKind::lm_head) * normed(stream.back(), -1, StepKind::final_norm);
  }

 private:
  Eigen::MatrixXd at(std::int32_t layer, StepKind kind) const {
    for (const Weight& w : plan_.weights)
      if (w.layer == layer && w.step == kind) return make_weight(plan_, w, 0, view_, 1).front().cast<double>();
    throw std::logic_error("no such weight");
  }
  Eigen::VectorXd normed(const Eigen::VectorXd& x, std::int32_t layer, StepKind kind) const {
    const double rms = std::sqrt(x.squaredNorm() / static_cast<double>(x.size()) + 1e-6);
    return (x / rms).cwiseProduct(at(layer, kind).col(0));
  }
  /// Norm of each head of q and k, then the rotation as a complex product.
  void prepare_heads(Eigen::VectorXd& row, std::int32_t layer, double position) const {
    const Eigen::Index dim = s_.attention.head_dim;
    for (Eigen::Index h = 0; h < s_.attention.heads + s_.attention.kv_heads; ++h) {
      Eigen::VectorXd head = normed(row.segment(h * dim, dim), layer, StepKind::qk_norm);
      for (Eigen::Index i = 0; i < dim / 2; ++i) {
        const double angle = position / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const std::complex<double> turned = std::complex<double>(head(i), head(i + dim / 2)) * std::polar(1.0, angle);
        head(i) = turned.real();
        head(i + dim / 2) = turned.imag();
      }
      row.segment(h * dim, dim) = head;
    }
  }
  Eigen::VectorXd attended(const std::vector<Eigen::VectorXd>& qkv, std::size_t query) const {
    const AttentionSpec& a = s_.attention;
    Eigen::VectorXd out = Eigen::VectorXd::Zero(a.heads * a.head_dim);
    for (Eigen::Index h = 0; h < a.heads; ++h) {
      const Eigen::Index kv = h / (a.heads / a.kv_heads);
      double sum = 0;
      for (std::size_t t = 0; t <= query; ++t) {
        const auto key = qkv[t].segment((a.heads + kv) * a.head_dim, a.head_dim);
        const auto value = qkv[t].segment((a.heads + a.kv_heads + kv) * a.head_dim, a.head_dim);
        const double weight = std::exp(qkv[query].segment(h * a.head_dim, a.head_dim).dot(key) / std::sqrt(a.head_dim));
        out.segment(h * a.head_dim, a.head_dim) += weight * value;
        sum += weight;
      }
      out.segment(h * a.head_dim, a.head_dim) /= sum;
    }
    return out;
  }

  StackSpec s_;
  Plan plan_;
  ModelView view_;
};

TEST(Model, ComputesTheTransformerOfItsDefinition) {
  Rig rig(small_run(dense_stack, eagle_draft, 1));
  const std::vector<std::int32_t> text = some_tokens(prompt, 100);
  const Matrix logits =
      rig.runner.target(PassKind::prefill, prompt, {{{chain_nodes(0, prompt), text}}, {}}, nullptr).logits;
  const Eigen::VectorXd expected = Reference(rig.config).last_logits(text);
  EXPECT_LT((logits.row(0).transpose().cast<double>() - expected).squaredNorm() / expected.squaredNorm(), 1e-11);
}

// Products with the latent absorbed equal attention over keys and values made from it: q (W c) = (q W) c.
TEST(Model, AnMlaLayerLooksBackThroughItsLatents) {
  Rig rig(small_run(mla_stack, eagle_draft, 1));
  const auto logits_behind = [&](std::int32_t first) {
    std::vector<std::int32_t> text = some_tokens(prompt, 100);
    text.front() = first;
    rig.target.clear(0);
    return rig.runner.target(PassKind::prefill, prompt, {{{chain_nodes(0, prompt), text}}, {}}, nullptr).logits;
  };
  EXPECT_GT(nmse(logits_behind(1), logits_behind(2)), 1e-3);  // the first token matters to the last
}

TEST(Model, AWindowForgetsWhatLiesBeforeIt) {
  const std::string stack =
      "stack={name: w, source: test, layers: 1, hidden: 64, vocab: 100, attention: {kind: gqa, heads: 8, kv_heads: 8, "
      "head_dim: 8}, pattern: [{attention: window, window: 4}], mlp: {kind: dense, intermediate: 64}, weights: {rest: "
      "bf16}}";
  Rig rig(small_run(stack, eagle_draft, 1));
  const auto logits_with = [&](std::size_t place, std::int32_t token) {
    std::vector<std::int32_t> text = some_tokens(prompt, 100);
    text[place] = token;
    rig.target.clear(0);
    return rig.runner.target(PassKind::prefill, prompt, {{{chain_nodes(0, prompt), text}}, {}}, nullptr).logits;
  };
  EXPECT_EQ(logits_with(prompt - 5, 1), logits_with(prompt - 5, 2));
  EXPECT_NE(logits_with(prompt - 4, 1), logits_with(prompt - 4, 2));
}

}  // namespace
}  // namespace specstep::host
