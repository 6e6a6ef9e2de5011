#include "sim/host/generator.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "sim/host/kernels.h"

namespace specstep::host {

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::span<const float> row_of(const Matrix& m, Index row) { return {&m(row, 0), static_cast<std::size_t>(m.cols())}; }

constexpr std::uint32_t prompt_stream = 0x7FFFFFFE;  // no layer of a model, and not the coins

}  // namespace

TokenGenerator::TokenGenerator(const RunConfig& config, PassModel& target, PassModel* draft)
    : config_(config),
      target_(target),
      draft_(draft),
      runner_(config, target, draft),
      speculator_(config, runner_, draft) {}

std::vector<Text> TokenGenerator::prompts() const {
  const auto seed = static_cast<std::uint64_t>(config_.measure.host.seed);
  std::vector<Text> texts;
  for (std::uint32_t s = 0; s < static_cast<std::uint32_t>(config_.workload.batch); ++s) {
    Text text{{}, 0, Coins(seed, s)};
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(config_.workload.prompt_tokens); ++i) {
      const double u = unit(philox({i, s, 0, prompt_stream}, philox_key(seed)));
      text.tokens.push_back(static_cast<std::int32_t>(u * static_cast<double>(config_.stack.vocab)));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

bool TokenGenerator::finished(const Text& text) const {
  return static_cast<std::int64_t>(text.tokens.size()) >=
         config_.workload.prompt_tokens + config_.workload.output_tokens;
}

std::int32_t TokenGenerator::pick(Text& text, std::span<const float> logits) const {
  const double temperature = config_.measure.host.temperature;
  return temperature > 0 ? text.coins.draw(distribution_of(logits, temperature)) : argmax(logits);
}

Generation TokenGenerator::generate(bool speculative) {
  Generation out;
  std::vector<Text> texts = prompts();
  for (std::size_t s = 0; s < texts.size(); ++s) {
    target_.clear(s);
    if (draft_) draft_->clear(s);
  }
  auto begin = Clock::now();
  double aside = runner_.aside();
  prefill(texts, out, speculative);
  out.first_token = since(begin) - (runner_.aside() - aside);
  begin = Clock::now();
  aside = runner_.aside();
  while (!std::all_of(texts.begin(), texts.end(), [this](const Text& t) { return finished(t); })) {
    if (speculative)
      cycle(texts, out);
    else
      decode(texts, out);
  }
  out.rest = since(begin) - (runner_.aside() - aside);
  for (const Text& text : texts) {
    const auto first = text.tokens.begin() + config_.workload.prompt_tokens;
    out.tokens.emplace_back(first, first + config_.workload.output_tokens);
  }
  return out;
}

void TokenGenerator::prefill(std::vector<Text>& texts, Generation& out, bool speculative) {
  const std::int64_t prompt = config_.workload.prompt_tokens;
  PassInput in;
  for (const Text& text : texts)
    in.sequences.push_back({chain_nodes(0, static_cast<std::size_t>(prompt)), text.tokens});
  const PassOutput pass = runner_.target(PassKind::prefill, prompt, in, &out);
  std::vector<int> all(static_cast<std::size_t>(prompt));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t s = 0; s < texts.size(); ++s) {
    texts[s].tokens.push_back(pick(texts[s], row_of(pass.logits, static_cast<Index>(s))));
    target_.keep(s, 0, all);
  }
  if (speculative) speculator_.prefill(texts, pass, out);
  for (Text& text : texts) text.cached = prompt;
}

void TokenGenerator::decode(std::vector<Text>& texts, Generation& out) {
  PassInput in;
  for (const Text& text : texts) in.sequences.push_back({chain_nodes(text.cached, 1), {text.tokens.back()}});
  const PassOutput pass = runner_.target(PassKind::decode, 1, in, &out);
  for (std::size_t s = 0; s < texts.size(); ++s) {
    target_.keep(s, texts[s].cached++, {0});
    texts[s].tokens.push_back(pick(texts[s], row_of(pass.logits, static_cast<Index>(s))));
  }
}

void TokenGenerator::cycle(std::vector<Text>& texts, Generation& out) {
  const std::vector<DraftTree> trees = speculator_.propose(texts, out);
  PassInput in;
  for (std::size_t s = 0; s < texts.size(); ++s)
    in.sequences.push_back({{texts[s].cached, trees[s].parents, 0}, trees[s].tokens});
  const auto width = static_cast<std::int64_t>(trees.front().tokens.size());
  const PassOutput pass = runner_.target(PassKind::verify, width, in, &out);
  std::vector<Verdict> verdicts;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    Text& text = texts[s];
    const bool counted = !finished(text);
    const std::size_t before = text.tokens.size();
    verdicts.push_back(accept(trees[s], text, pass.logits, static_cast<Index>(s) * width));
    const Verdict& verdict = verdicts.back();
    for (std::size_t i = 1; i < verdict.nodes.size(); ++i)
      text.tokens.push_back(trees[s].tokens[static_cast<std::size_t>(verdict.nodes[i])]);
    text.tokens.push_back(verdict.bonus);
    target_.keep(s, text.cached, verdict.nodes);
    if (!counted) continue;  // it only waits for the others of the batch
    count(trees[s], verdict, out.acceptance);
    out.acceptance.emitted += static_cast<std::int64_t>(text.tokens.size() - before);
  }
  speculator_.extend(texts, trees, verdicts, pass, out);
  for (std::size_t s = 0; s < texts.size(); ++s) texts[s].cached += static_cast<std::int64_t>(verdicts[s].nodes.size());
}

Verdict TokenGenerator::accept(const DraftTree& tree, Text& text, const Matrix& logits, Index first_row) const {
  const HostSpec& host = config_.measure.host;
  const auto row = [&](int node) { return row_of(logits, first_row + node); };
  if (host.temperature == 0) return accept_greedy(tree, [&](int node) { return argmax(row(node)); });
  const TargetAt target = [&](int node) { return distribution_of(row(node), host.temperature); };
  // Drafts that were not drawn at random have no chance of their own to divide by.
  const bool drawn = tree.drawn_from.size() > 1 && !tree.drawn_from[1].empty();
  return drawn ? accept_rejection(tree, target, text.coins) : accept_target_only(tree, target, text.coins);
}

void TokenGenerator::count(const DraftTree& tree, const Verdict& verdict, AcceptanceCounts& counts) const {
  ++counts.verifies;
  counts.drafted += static_cast<std::int64_t>(tree.tokens.size()) - 1;
  counts.accepted_at.resize(static_cast<std::size_t>(config_.speculation.depth()));
  for (std::size_t i = 0; i < verdict.accepted(); ++i) ++counts.accepted_at[i];
}

}  // namespace specstep::host
