#include "sim/host/weights.h"

#include <algorithm>
#include <cmath>

#include "sim/host/formats.h"
#include "sim/host/philox.h"

namespace specstep::host {

namespace {

/// Names of streams: a draft has its own unless it reads the target's matrix.
std::uint32_t stream_of(const Weight& w, const ModelView& m) {
  StepKind kind = w.step;
  if (kind == StepKind::lm_head && m.tied) kind = StepKind::embed;
  const bool of_target =
      (w.step == StepKind::embed && !m.own_embedding) || (w.step == StepKind::lm_head && !m.own_head);
  const std::uint32_t model = m.draft && !of_target ? 1 : 0;
  return (model << 31) | (static_cast<std::uint32_t>(kind) << 20) | static_cast<std::uint32_t>(w.layer + 1);
}

class Maker {
 public:
  Maker(const Weight& weight, const Cut& cut, const ModelView& model, std::uint64_t seed)
      : weight_(weight), cut_(cut), key_(philox_key(seed)), source_(source_of(weight, cut, model)) {}

  Matrix matrix(std::int64_t which) {
    Matrix out = Matrix::Zero(weight_.rows, weight_.cols);
    for (std::int64_t r = 0; r < weight_.rows; ++r)
      if (cut_.rows[static_cast<std::size_t>(r)] >= 0) row(which, cut_.rows[static_cast<std::size_t>(r)], &out(r, 0));
    return out;
  }

 private:
  /// Scale groups are those of the whole row: a part that begins inside a group makes the group whole first.
  void row(std::int64_t which, std::int64_t whole_row, float* target) {
    const std::int64_t group = std::max<std::int64_t>(weight_.format.group, 1);
    const std::int64_t begin = cut_.first_col / group * group;
    const std::int64_t end = std::min((cut_.first_col + weight_.cols + group - 1) / group * group, cut_.whole_cols);
    values_.resize(static_cast<std::size_t>(end - begin));
    PhiloxCounter words{};
    for (std::int64_t c = begin; c < end; ++c) {
      if (c == begin || c % 4 == 0)
        words = philox({static_cast<std::uint32_t>(c / 4), static_cast<std::uint32_t>(whole_row),
                        static_cast<std::uint32_t>(which), source_.stream},
                       key_);
      const float u = signed_unit(words[static_cast<std::size_t>(c % 4)]);
      values_[static_cast<std::size_t>(c - begin)] = source_.gain ? 1 + 0.1F * u : source_.bound * u;
    }
    store(values_, weight_.format, source_.bound);
    std::copy_n(values_.begin() + (cut_.first_col - begin), weight_.cols, target);
  }

  const Weight& weight_;
  const Cut& cut_;
  PhiloxKey key_;
  WeightSource source_;
  std::vector<float> values_;
};

}  // namespace

WeightSource source_of(const Weight& weight, const Cut& cut, const ModelView& model) {
  const bool unit_variance = weight.step == StepKind::embed && !model.tied;
  const double sigma = unit_variance ? 1.0 : 1.0 / std::sqrt(static_cast<double>(cut.whole_cols));
  // A uniform's largest value is sqrt(3) sigma.
  return {stream_of(weight, model), static_cast<float>(std::sqrt(3.0) * sigma), weight.cols == 1};
}

StoredWeight make_weight(const Plan& plan, const Weight& weight, int rank, const ModelView& model, std::uint64_t seed) {
  const Cut cut = cut_of(plan, weight, rank, model);
  Maker maker(weight, cut, model, seed);
  StoredWeight out;
  for (const std::int64_t which : cut.matrices) out.push_back(maker.matrix(which));
  return out;
}

void RankWeights::add(const Plan& plan) {
  for (const Weight& w : plan.weights)
    if (!weights_.contains({w.layer, w.step})) weights_[{w.layer, w.step}] = make_weight(plan, w, rank_, model_, seed_);
}

}  // namespace specstep::host
