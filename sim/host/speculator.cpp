#include "sim/host/speculator.h"

#include <algorithm>
#include <numeric>

namespace specstep::host {

namespace {

std::span<const float> row_of(const Matrix& m, Index row) { return {&m(row, 0), static_cast<std::size_t>(m.cols())}; }

}  // namespace

Speculator::Speculator(const RunConfig& config, Runner& runner, PassModel* draft)
    : config_(config), runner_(runner), draft_(draft) {
  if (!draft) return;
  // A reduced draft vocabulary names tokens spread over the target's.
  const std::int64_t own = draft->view().vocab;
  for (std::int64_t i = 0; i < own; ++i)
    token_of_.push_back(
        static_cast<std::int32_t>(own < config.stack.vocab ? i * config.stack.vocab / own : i % config.stack.vocab));
}

void Speculator::prefill(const std::vector<Text>& texts, const PassOutput& target, Generation& time) {
  if (!draft_) return;
  PassInput in;
  in.given = target.features;
  for (const Text& text : texts)
    in.sequences.push_back({chain_nodes(0, text.tokens.size() - 1), {text.tokens.begin() + 1, text.tokens.end()}});
  const auto prompt = static_cast<std::int64_t>(texts.front().tokens.size()) - 1;
  PassOutput out = runner_.draft(PassKind::prefill, prompt, in, &time);
  head_logits_ = std::move(out.logits);
  head_hidden_.resize(static_cast<Index>(texts.size()), out.hidden.cols());
  std::vector<int> all(static_cast<std::size_t>(prompt));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t s = 0; s < texts.size(); ++s) {
    head_hidden_.row(static_cast<Index>(s)) = out.hidden.row(static_cast<Index>(s + 1) * prompt - 1);
    draft_->keep(s, 0, all);
  }
}

std::vector<DraftTree> Speculator::propose(std::vector<Text>& texts, Generation& time) {
  const SpeculationSpec& spec = config_.speculation;
  std::vector<Grower> growers(texts.size(), Grower(spec.draft_width(), spec.verify_tokens()));
  for (std::size_t s = 0; s < texts.size(); ++s) growers[s].start(texts[s].tokens.back());
  if (draft_)
    from_model(growers, texts, time);
  else
    for (std::size_t s = 0; s < texts.size(); ++s) from_text(growers[s], texts[s]);
  std::vector<DraftTree> out;
  out.reserve(growers.size());
  for (const Grower& g : growers) out.push_back(g.finish());
  return out;
}

void Speculator::from_model(std::vector<Grower>& growers, std::vector<Text>& texts, Generation& time) {
  const HostSpec& host = config_.measure.host;
  const bool random = host.temperature > 0 && host.accept == AcceptRule::rejection;
  const std::int64_t width = config_.speculation.draft_width();
  std::vector<Walk> walks(texts.size());
  Matrix logits = head_logits_;
  Matrix hidden = head_hidden_;
  PassInput step;
  for (std::int64_t depth = 0; depth < config_.speculation.depth(); ++depth) {
    if (depth > 0) {
      step = step_input(growers, texts, walks, hidden);
      PassOutput out = runner_.draft(PassKind::draft, width, step, &time);
      logits = std::move(out.logits);
      hidden = std::move(out.hidden);
    }
    mix_in_teacher(logits, depth > 0 ? &step : nullptr, texts, walks);
    const Index rows = depth == 0 ? 1 : width;
    for (std::size_t s = 0; s < texts.size(); ++s) {
      const Index begin = static_cast<Index>(s) * rows;
      if (random) {
        growers[s].draw(row_of(logits, begin), token_of_, host.temperature,
                        static_cast<std::size_t>(config_.stack.vocab), texts[s].coins);
        continue;
      }
      std::vector<std::span<const float>> own;
      for (Index r = 0; r < rows; ++r) own.push_back(row_of(logits, begin + r));
      growers[s].grow(own, token_of_);
    }
  }
}

/// The frontier of each text as a draft step. `hidden` holds the rows of the step before, or one a text at first.
PassInput Speculator::step_input(const std::vector<Grower>& growers, const std::vector<Text>& texts,
                                 std::vector<Walk>& walks, const Matrix& hidden) const {
  PassInput in;
  const Index width = config_.speculation.draft_width();
  in.given.resize(static_cast<Index>(texts.size()) * width, hidden.cols());
  const Index rows_each = hidden.rows() / static_cast<Index>(texts.size());
  for (std::size_t s = 0; s < texts.size(); ++s) {
    Walk& walk = walks[s];
    walk.run_of.resize(growers[s].nodes().size(), 0);
    SequenceInput one;
    one.nodes.first = walk.parents.size() - 1;
    Index row = static_cast<Index>(s) * width;
    for (const int candidate : growers[s].frontier()) {
      const Grower::Node& node = growers[s].nodes()[static_cast<std::size_t>(candidate)];
      const auto from = std::find(walk.frontier.begin(), walk.frontier.end(), node.parent) - walk.frontier.begin();
      in.given.row(row++) = hidden.row(static_cast<Index>(s) * rows_each + (node.parent < 0 ? 0 : from));
      walk.run_of[static_cast<std::size_t>(candidate)] = static_cast<int>(walk.parents.size());
      walk.parents.push_back(node.parent < 0 ? 0 : walk.run_of[static_cast<std::size_t>(node.parent)]);
      one.tokens.push_back(node.token);
    }
    walk.frontier = growers[s].frontier();
    one.nodes.base = texts[s].cached;
    for (std::size_t i = 1; i < walk.parents.size(); ++i) one.nodes.parent.push_back(walk.parents[i] - 1);
    in.sequences.push_back(std::move(one));
  }
  return in;
}

/// Makes the draft agree with its target to the degree asked for: the target computes the logits that the draft is to
/// guess, and a share of them goes into the draft's. No engine can do this; its time counts as aside.
void Speculator::mix_in_teacher(Matrix& logits, const PassInput* step, const std::vector<Text>& texts,
                                const std::vector<Walk>& walks) {
  const auto share = static_cast<float>(config_.measure.host.draft_agreement);
  if (share == 0) return;
  PassInput in;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    if (!step) {
      in.sequences.push_back({chain_nodes(texts[s].cached, 1), {texts[s].tokens.back()}});
      continue;
    }
    const SequenceInput& drafted = step->sequences[s];
    in.sequences.push_back({{texts[s].cached, walks[s].parents, drafted.nodes.first + 1}, drafted.tokens});
  }
  const auto width = static_cast<std::int64_t>(in.sequences.front().tokens.size());
  const PassOutput known = runner_.target(PassKind::verify, width, in, nullptr);
  for (Index r = 0; r < logits.rows(); ++r)
    for (Index c = 0; c < logits.cols(); ++c)
      logits(r, c) = (1 - share) * logits(r, c) + share * known.logits(r, token_of_[static_cast<std::size_t>(c)]);
}

/// ngram: what followed the last occurrence of the longest suffix (at most four tokens) that occurred before.
void Speculator::from_text(Grower& grower, const Text& text) const {
  constexpr std::ptrdiff_t longest = 4;
  const auto& tokens = text.tokens;
  const auto size = static_cast<std::ptrdiff_t>(tokens.size());
  std::ptrdiff_t next = size;
  for (std::ptrdiff_t length = std::min(longest, size - 1); length > 0 && next == size; --length) {
    const auto suffix = tokens.end() - length;
    const auto found = std::find_end(tokens.begin(), tokens.end() - 1, suffix, tokens.end());
    if (found != tokens.end() - 1) next = found - tokens.begin() + length;
  }
  // Without a match the slots of the verify pass still have to hold something.
  for (std::int64_t i = 0; i < config_.speculation.depth(); ++i, ++next)
    grower.append(next < size ? tokens[static_cast<std::size_t>(next)] : tokens.back());
}

void Speculator::extend(const std::vector<Text>& texts, const std::vector<DraftTree>& trees,
                        const std::vector<Verdict>& verdicts, const PassOutput& verified, Generation& time) {
  if (!draft_) return;
  const auto width = static_cast<Index>(trees.front().tokens.size());
  PassInput in;
  in.given = Matrix::Zero(static_cast<Index>(texts.size()) * width, verified.features.cols());
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const Verdict& verdict = verdicts[s];
    const Index begin = static_cast<Index>(s) * width;
    for (std::size_t i = 0; i < verdict.nodes.size(); ++i)
      in.given.row(begin + static_cast<Index>(i)) = verified.features.row(begin + verdict.nodes[i]);
    const auto count = static_cast<std::ptrdiff_t>(verdict.nodes.size());
    SequenceInput one{chain_nodes(texts[s].cached, static_cast<std::size_t>(width)),
                      {texts[s].tokens.end() - count, texts[s].tokens.end()}};
    one.tokens.resize(static_cast<std::size_t>(width), 0);  // the pass has a fixed width; the rest is not kept
    in.sequences.push_back(std::move(one));
  }
  const PassOutput out = runner_.draft(PassKind::extend, width, in, &time);
  head_logits_.resize(static_cast<Index>(texts.size()), out.logits.cols());
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const auto last = static_cast<Index>(verdicts[s].accepted());
    head_logits_.row(static_cast<Index>(s)) = out.logits.row(static_cast<Index>(s) * width + last);
    head_hidden_.row(static_cast<Index>(s)) = out.hidden.row(static_cast<Index>(s) * width + last);
    std::vector<int> kept(verdicts[s].nodes.size());
    std::iota(kept.begin(), kept.end(), 0);
    draft_->keep(s, texts[s].cached, kept);
  }
}

}  // namespace specstep::host
