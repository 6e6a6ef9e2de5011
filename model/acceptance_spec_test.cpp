// Acceptance as files tell it, against published lengths and recorded counts.
#include "model/acceptance_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/base/config_io.h"

namespace specstep {
namespace {

AcceptanceSpec read(const std::string& yaml) { return read_config<AcceptanceSpec>(yaml::parse(yaml, "a.yaml")); }

/// What check_acceptance says of it at a draft length; empty when nothing.
std::string faults_of(const AcceptanceSpec& a, std::int64_t drafts) {
  Issues issues;
  const Sources sources;
  Checker c("", sources, {}, issues);
  check_acceptance(a, drafts, c, "acceptance");
  std::string out;
  for (const Issue& issue : issues) out += issue.key + ": " + issue.what + "; " + issue.allowed + "\n";
  return out;
}

std::string refusal(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(AcceptanceSpec, EachWayGivesItsLength) {
  EXPECT_NEAR(accept_length(read("conditional: [0.65, 0.60]"), 2), 1 + 0.65 + 0.65 * 0.60, 1e-12);
  EXPECT_NEAR(accept_length(read("survival: [0.645, 0.393, 0.24]"), 3), 2.278, 1e-12);
  EXPECT_NEAR(accept_length(read("rate: 0.5"), 3), 1.875, 1e-12);
  EXPECT_NEAR(accept_length(read("length: 2.5"), 3), 2.5, 1e-9);
  EXPECT_NEAR(accept_length(read("draft_acceptance_rate: 0.5"), 3), 2.5, 1e-9);
  EXPECT_NEAR(accept_length(read("decay: {first: 0.8, ratio: 0.5}"), 2), 1 + 0.8 + 0.8 * 0.4, 1e-12);
  EXPECT_NEAR(accept_length(read("simulated: {method: synthetic, rate: 0.5}"), 4), 3, 1e-9);
}

TEST(AcceptanceSpec, OneWayOnly) {
  EXPECT_THAT(refusal("{}"), testing::HasSubstr("is empty"));
  EXPECT_THAT(refusal("{decay: {first: 0.5, ratio: 1}, conditional: [0.5]}"), testing::HasSubstr("told in 2 ways"));
  EXPECT_THAT(refusal("{length: 2.1, rate: 0.5}"), testing::HasSubstr("draft_acceptance_rate"));
  EXPECT_THAT(refusal("survival: [0.5, 0.6]"), testing::HasSubstr("grows"));
  EXPECT_THAT(refusal("rate: 56.0"), testing::HasSubstr("at most 1"));
  EXPECT_THAT(refusal("{length: 3.24, survival: [0.763, 0.623, 0.459, 0.396]}"), testing::HasSubstr("accepted"));
}

// A chain follows the best guess; a full tree of two guesses and two steps accepts whatever one of the two is right.
TEST(AcceptanceSpec, RanksMakeTreesDiffer) {
  const AcceptanceSpec a = read("ranks: [0.6, 0.2, 0.1]");
  EXPECT_NEAR(accept_length(a, 3), 1 + 0.6 + 0.36 + 0.216, 1e-12);
  const auto length = [&](std::int64_t steps, std::int64_t topk, std::int64_t tokens) {
    return acceptance_of(a, steps, DraftTree{steps, topk, tokens}).length();
  };
  EXPECT_NEAR(length(1, 3, 4), 1 + 0.9, 1e-12);
  EXPECT_NEAR(length(2, 2, 7), 1 + 0.8 + 0.64, 1e-12);
  // Four nodes of that tree, by hand: 0.6, 0.36 below it, 0.2, and one of the two of 0.12.
  EXPECT_NEAR(length(2, 2, 5), 1 + (0.6 + 0.2) + (0.36 + 0.12), 1e-12);
  EXPECT_NEAR(length(3, 1, 4), accept_length(a, 3), 1e-12);
  EXPECT_THAT(refusal("ranks: [0.6, 0.5]"), testing::HasSubstr("1 at most in all"));
  EXPECT_THAT(refusal("ranks: [0.2, 0.5]"), testing::HasSubstr("in order"));
}

struct Golden {
  std::int64_t drafts;
  double length, rate_percent;
};

// AL = 1 + K x AR in every row of Qwen3.8-27B's golden table (SemiAnalysisAI/InferenceX#3304).
TEST(AcceptanceSpec, GoldenRowsAgree) {
  const Golden rows[]{{1, 1.9, 90.04},  {2, 2.68, 83.78}, {3, 3.28, 75.96}, {4, 3.79, 69.85},
                      {1, 1.73, 72.67}, {2, 2.21, 60.5},  {3, 2.52, 50.7},  {4, 2.72, 43.07}};
  for (const Golden& row : rows) {
    AcceptanceSpec a;
    a.length = row.length;
    a.draft_acceptance_rate = row.rate_percent / 100;
    EXPECT_EQ(faults_of(a, row.drafts), "") << row.length;
    EXPECT_NEAR(acceptance_of(a, row.drafts).length(), row.length, 1e-9);
    EXPECT_NEAR(acceptance_of(a, row.drafts).rate(), row.rate_percent / 100, 0.01);
  }
}

// vllm-project/vllm#41044: positions of one log line beside its length; #48892: MTP with eight drafts.
TEST(AcceptanceSpec, PositionsAgreeWithTheirLength) {
  AcceptanceSpec log = read("{length: 3.24, survival: [0.763, 0.623, 0.459, 0.396]}");
  EXPECT_EQ(faults_of(log, 4), "");
  EXPECT_NEAR(acceptance_of(log, 4).rate(), 0.560, 0.0005);  // the log's mean of the positions
  const AcceptanceSpec mtp8 =
      read("{length: 4.4, survival: [0.7568, 0.6011, 0.4976, 0.4113, 0.3538, 0.298, 0.2608, 0.2229]}");
  EXPECT_EQ(faults_of(mtp8, 8), "");
  EXPECT_NEAR(acceptance_of(mtp8, 8).length(), 4.402, 0.0005);
}

TEST(AcceptanceSpec, FiguresThatDisagreeAreRefusedWithTheNumbers) {
  AcceptanceSpec broken = read("{length: 3.24, draft_acceptance_rate: 0.7}");
  const std::string said = faults_of(broken, 4);
  EXPECT_THAT(said, testing::HasSubstr("draft_acceptance_rate, 1 + 4 x 0.7 = 3.8, but length 3.24 = 3.24"));
  // 0.02 is the limit, to both sides.
  for (const auto& [length, fault] : {std::pair{1.519, false}, {1.521, true}, {1.481, false}, {1.479, true}}) {
    broken.length = length;
    broken.draft_acceptance_rate = 0.5;
    EXPECT_EQ(!faults_of(broken, 1).empty(), fault) << length;
  }
}

// Counts of accepted lengths at every position, 1,410 requests of Llama-3.1-8B on H100 (SpecDecode-Bench/simulator
// data/llama3.1-8B, 2026-04-01; figures only): set, positions, mean without limit, counts of 1 to 9.
TEST(AcceptanceSpec, HistogramsKeepTheirShape) {
  const AcceptanceSpec ngram =
      read("histogram: {counts: [67867, 6604, 4582, 3358, 2551, 1998, 1592, 1283, 1035], total: 96856, of: position}");
  const AcceptanceSpec eagle = read(
      "histogram: {counts: [29648, 22373, 14975, 9402, 5872, 3729, 2670, 2300, 1987], total: 96644, of: position}");
  EXPECT_NEAR(acceptance_of(ngram, 8).distribution()[0], 0.701, 0.0005);
  EXPECT_NEAR(acceptance_of(eagle, 8).distribution()[0], 0.307, 0.0005);
  // Cut at K + 1, the lengths add up to the sum of min(length, K + 1) over the record.
  EXPECT_NEAR(acceptance_of(ngram, 2).length(), (67867.0 + 2 * 6604 + 3 * (96856 - 67867 - 6604)) / 96856, 1e-9);
  EXPECT_LT(acceptance_of(ngram, 8).length(), 2.633);
  // One rate of the same mean misses the shape: 44 % instead of 70 % of the verify passes emit one token.
  const double mean = acceptance_of(ngram, 8).length();
  EXPECT_LT(Acceptance::of_length(mean, 8).distribution()[0], 0.5);
  EXPECT_EQ(faults_of(ngram, 9), "");
  EXPECT_THAT(faults_of(ngram, 10), testing::HasSubstr("tells lengths above 9 not apart"));
}

TEST(AcceptanceSpec, OneRateForNgramsIsNotSilent) {
  const auto notes = [](const AcceptanceSpec& a, bool ngram) { return acceptance_notes(a, 8, ngram).size(); };
  EXPECT_EQ(notes(read("length: 2.63"), true), 1u);
  EXPECT_EQ(notes(read("rate: 0.6"), true), 1u);
  EXPECT_EQ(notes(read("length: 2.63"), false), 0u);
  EXPECT_EQ(notes(read("histogram: {counts: [7, 2, 1]}"), true), 0u);
  EXPECT_THAT(acceptance_notes(read("length: 2.63"), 8, true)[0], testing::HasSubstr("histogram or a trace"));
}

TEST(AcceptanceSpec, ATraceShorterThanItsTextIsNoted) {
  const AcceptanceSpec a = read("trace: {lengths: [1, 7, 1, 2, 4], tokens: 439, of: position}");
  const std::vector<std::string> notes = acceptance_notes(a, 3, false);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], testing::HasSubstr("5 lengths for 439 generated tokens"));
  EXPECT_THAT(notes[0], testing::HasSubstr("5 tokens in 2 verify passes"));  // 1, then min(7, 4)
  EXPECT_NEAR(acceptance_of(a, 3).length(), 2.5, 1e-12);
  EXPECT_TRUE(acceptance_notes(read("trace: {lengths: [1, 4, 1, 1, 1], tokens: 5, of: position}"), 3, false).empty());
}

// round(Normal(mean, 1)) clamped to [1, K + 1], drawn; one draw for the batch.
TEST(AcceptanceSpec, MultinomialIsAClampedRoundedNormal) {
  const Acceptance a = acceptance_of(read("simulated: {method: multinomial, length: 2.4}"), 3);
  std::mt19937_64 generator(5);
  std::normal_distribution<double> normal(2.4, 1);
  std::vector<double> seen(4);
  constexpr int draws = 400000;
  for (int i = 0; i < draws; ++i)
    seen[static_cast<std::size_t>(std::clamp(std::round(normal(generator)), 1.0, 4.0)) - 1] += 1.0 / draws;
  for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(a.distribution()[j], seen[j], 0.004) << j;
  EXPECT_TRUE(a.one_draw());
}

TEST(AcceptanceSpec, MatchExpectedIsFloorOrCeiling) {
  const Acceptance a = acceptance_of(read("simulated: {method: match-expected, length: 2.3}"), 3);
  EXPECT_THAT(a.distribution(), testing::ElementsAre(testing::DoubleNear(0, 1e-12), testing::DoubleNear(0.7, 1e-12),
                                                     testing::DoubleNear(0.3, 1e-12), testing::DoubleNear(0, 1e-12)));
  EXPECT_NEAR(acceptance_of(read("simulated: {method: match-expected, length: 4}"), 3).length(), 4, 1e-12);
}

/// Every shipped data set.
std::vector<AcceptanceDataset> datasets() {
  std::vector<AcceptanceDataset> out;
  const std::filesystem::path folder = std::filesystem::path(SPECSTEP_SOURCE_DIR) / "configs" / "acceptance";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out.push_back(load_config<AcceptanceDataset>(entry.path()));
  return out;
}

// Chances p1 r^(i - 1) against the published lengths of chains of 3, 5 and 7; a survival is its lengths' differences.
TEST(AcceptanceDatasets, TheirFitsGiveTheirLengths) {
  int fits = 0;
  for (const AcceptanceDataset& d : datasets()) {
    AcceptanceSpec a;
    a.dataset = d;
    double squares = 0;
    for (const LengthAt& l : d.lengths) {
      const double error = accept_length(a, l.drafts) - l.length;
      EXPECT_NEAR(error, 0, 0.05) << d.name << " at " << l.drafts;
      squares += error * error / static_cast<double>(d.lengths.size());
    }
    if (!d.decay) continue;
    ++fits;
    EXPECT_TRUE(d.decay->fitted) << d.name;
    EXPECT_LE(std::sqrt(squares), 0.03) << d.name;
  }
  EXPECT_GE(fits, 20);
}

TEST(AcceptanceDatasets, ALengthAloneSaysThatItAssumesOneRate) {
  AcceptanceSpec a;
  a.dataset = AcceptanceDataset{.name = "a card", .lengths = {{3, 2.5}}};
  EXPECT_NEAR(accept_length(a, 3), 2.5, 1e-9);
  EXPECT_THAT(acceptance_notes(a, 3, false), testing::ElementsAre(testing::HasSubstr("one rate is assumed")));
  EXPECT_THAT(acceptance_notes(a, 5, false), testing::ElementsAre(testing::HasSubstr("also at 5")));
}

}  // namespace
}  // namespace specstep
