// Capture lists against the counts that engines log, phases against their tables.
#include "sim/engine/graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/engine/phases.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

CaptureQuery query(EnginePreset preset, std::int64_t verify_tokens = 1) {
  CaptureQuery q;
  q.preset = preset;
  q.speculative = verify_tokens > 1;
  q.verify_tokens = verify_tokens;
  return q;
}

GraphSpec up_to(std::int64_t batch) {
  GraphSpec g;
  g.max_batch = batch;
  return g;
}

// SGLang server_args, early 2026; 52 graphs at 512 and 36 at 256 appear in its logs.
TEST(Graphs, SglangCounts) {
  const std::tuple<std::int64_t, std::size_t, std::size_t> counts[]{{8, 4, 8},     {16, 6, 12},   {32, 8, 20},
                                                                    {64, 12, 27},  {80, 14, 29},  {128, 20, 35},
                                                                    {160, 24, 39}, {256, 36, 51}, {512, 52, 67}};
  for (const auto& [most, plain, speculative] : counts) {
    EXPECT_EQ(capture_list(up_to(most), query(EnginePreset::sglang)).sizes.size(), plain) << most;
    EXPECT_EQ(capture_list(up_to(most), query(EnginePreset::sglang, 4)).sizes.size(), speculative) << most;
  }
}

// A log of sgl-project/sglang#33483, 2026-08: cuda_graph_max_bs 32.
TEST(Graphs, SglangListOfALog) {
  EXPECT_EQ(capture_list(up_to(32), query(EnginePreset::sglang)).sizes,
            (std::vector<std::int64_t>{1, 2, 4, 8, 12, 16, 24, 32}));
}

// Mid 2025: [1,2,4,8] + 16..160 step 8, up to 256 on GPUs above 96 GiB; the largest is appended.
TEST(Graphs, SglangOfMid2025) {
  CaptureQuery q = query(EnginePreset::sglang);
  q.version = "0.4.7";
  q.gpu_gib = 80;
  EXPECT_EQ(capture_list({}, q).sizes.size(), 4u + 19u);
  EXPECT_EQ(capture_list(up_to(32), q).sizes, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 32}));
  EXPECT_EQ(capture_list(up_to(30), q).sizes, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 24, 30}));
  q.gpu_gib = 141;
  EXPECT_EQ(capture_list({}, q).largest(), 256);
  q.speculative = true;
  q.gpu_gib = 80;
  EXPECT_EQ(capture_list({}, q).sizes.size(), 8u + 12u + 8u);
}

TEST(Graphs, SglangLargestByGpu) {
  const std::tuple<double, std::int64_t, std::int64_t> rows[]{{16, 1, 8},    {24, 1, 24},   {24, 4, 80},  {48, 2, 32},
                                                              {48, 8, 160},  {80, 2, 256},  {80, 8, 512}, {96, 8, 512},
                                                              {141, 1, 256}, {180, 1, 512}, {0, 8, 160}};
  for (const auto& [gib, ranks, most] : rows) {
    CaptureQuery q = query(EnginePreset::sglang);
    q.gpu_gib = gib;
    q.ranks = ranks;
    EXPECT_EQ(capture_list({}, q).largest(), most / 8 * 8) << gib << " GiB, " << ranks;
  }
}

// vLLM counts tokens: 51 sizes up to 512; whole verify passes of K = 3 leave 49; K = 5 leaves holes: 30 runs at 36.
TEST(Graphs, VllmSizes) {
  EXPECT_EQ(capture_list({}, query(EnginePreset::vllm)).sizes.size(), 51u);
  EXPECT_EQ(capture_list({}, query(EnginePreset::vllm, 4)).sizes.size(), 49u);
  const CaptureList five = capture_list({}, query(EnginePreset::vllm, 6));
  EXPECT_TRUE(five.in_tokens);
  EXPECT_EQ(five.fit(30), 36);
  for (const std::int64_t size : five.sizes) EXPECT_EQ(size % 6, 0) << size;
  EXPECT_LE(five.largest(), 512);
  CaptureQuery pieces = query(EnginePreset::vllm, 4);
  pieces.whole_verify = false;
  EXPECT_EQ(capture_list({}, pieces).sizes.size(), 51u);
  GraphSpec piecewise;
  piecewise.mode = GraphMode::piecewise;
  EXPECT_EQ(capture_list(piecewise, query(EnginePreset::vllm, 4)).sizes.size(), 51u);
  CaptureQuery few = query(EnginePreset::vllm, 4);
  few.max_sequences = 16;  // 2 x 16 x 4 tokens
  EXPECT_EQ(capture_list({}, few).largest(), 128);
}

TEST(Graphs, TensorRtSizes) {
  GraphSpec padded = up_to(300);
  padded.padding = true;
  const CaptureList list = capture_list(padded, query(EnginePreset::trtllm));
  EXPECT_EQ(list.sizes.size(), 3u + 16u + 2u);  // 1 2 4, 8..128, 256, 300
  EXPECT_EQ(list.fit(129), 256);
  const CaptureList exact = capture_list({}, query(EnginePreset::trtllm));
  EXPECT_EQ(exact.sizes.size(), 32u + 2u);
  EXPECT_EQ(exact.fit(33), std::nullopt) << "nothing is padded unless it is asked for";
  EXPECT_EQ(exact.fit(31), 31);
}

TEST(Graphs, ListsOfOnesOwnAndNone) {
  GraphSpec mine;
  mine.sizes = std::vector<std::int64_t>{3, 7};
  EXPECT_EQ(capture_list(mine, query(EnginePreset::sglang)).fit(4), 7);
  EXPECT_EQ(capture_list(mine, query(EnginePreset::sglang)).fit(8), std::nullopt);
  mine.mode = GraphMode::none;
  EXPECT_TRUE(capture_list(mine, query(EnginePreset::sglang)).sizes.empty());
  GraphSpec unpadded = up_to(20);
  unpadded.padding = false;
  EXPECT_EQ(capture_list(unpadded, query(EnginePreset::sglang)).sizes.size(), 20u);
}

Launch launch(EnginePreset preset, const std::string& backend, GraphMode mode, PassKind kind,
              const std::string& version = "") {
  return engine_launch({preset, version, backend, mode, kind}).launch;
}

// engine.md 1.3: the extend of a draft was captured for two attention backends, later for all.
TEST(Phases, SglangExtend) {
  const auto extend = [](const std::string& backend, const std::string& version) {
    return launch(EnginePreset::sglang, backend, GraphMode::full_decode_only, PassKind::extend, version);
  };
  EXPECT_EQ(extend("triton", "0.5.9"), Launch::captured);
  EXPECT_EQ(extend("trtllm_mla", "0.5.9"), Launch::captured);
  EXPECT_EQ(extend("flashinfer", "0.5.9"), Launch::eager);
  EXPECT_EQ(extend("", "0.5.9"), Launch::eager);
  EXPECT_EQ(extend("flashinfer", "0.5.10"), Launch::captured) << "versions are numbers, not text";
  EXPECT_EQ(extend("flashinfer", ""), Launch::captured);
}

TEST(Phases, VllmModes) {
  using enum GraphMode;
  const auto of = [](GraphMode mode, PassKind kind, const std::string& backend) {
    return launch(EnginePreset::vllm, backend, mode, kind);
  };
  EXPECT_EQ(of(full_and_piecewise, PassKind::verify, "flashmla"), Launch::captured);
  EXPECT_EQ(of(full_and_piecewise, PassKind::verify, "flashinfer"), Launch::piecewise) << "no uniform batches";
  EXPECT_EQ(of(full_and_piecewise, PassKind::decode, "flashinfer"), Launch::captured);
  EXPECT_EQ(of(full_and_piecewise, PassKind::decode, "triton_mla"), Launch::piecewise);
  EXPECT_EQ(of(full_and_piecewise, PassKind::draft, "flashmla"), Launch::piecewise) << "the drafter";
  EXPECT_EQ(of(full_decode_only, PassKind::prefill, "flashmla"), Launch::eager);
  EXPECT_EQ(of(full_decode_only, PassKind::draft, "flashmla"), Launch::eager);
  EXPECT_EQ(of(full, PassKind::prefill, "flash_attn_3"), Launch::captured);
  EXPECT_EQ(of(full, PassKind::prefill, "flashmla"), Launch::piecewise);
  EXPECT_EQ(of(piecewise, PassKind::verify, "flashmla"), Launch::piecewise);
  EXPECT_EQ(of(none, PassKind::decode, "flash_attn_3"), Launch::eager);
}

// Each engine's own spelling of a backend is the same backend: case, - for _, endings.
TEST(AttentionBackends, SpellingsOfTheEngines) {
  using enum EnginePreset;
  for (const char* spelled : {"triton_mla", "TRITON_MLA", "triton-mla", "Triton_MLA_VLLM_V1"}) {
    EXPECT_EQ(attention_backend(vllm, spelled), "triton_mla") << spelled;
    EXPECT_EQ(support_of(spelled), GraphSupport::never) << spelled;
    EXPECT_EQ(launch(vllm, spelled, GraphMode::full_and_piecewise, PassKind::decode), Launch::piecewise) << spelled;
  }
  EXPECT_EQ(support_of("TRITON_ATTN"), GraphSupport::always);
  EXPECT_EQ(support_of("FLASHMLA"), GraphSupport::uniform_batch);
  EXPECT_EQ(support_of("FLEX_ATTENTION"), GraphSupport::never) << "not in vLLM's table";
  EXPECT_EQ(attention_backend(sglang, "TRTLLM-MLA"), "trtllm_mla");
  EXPECT_EQ(launch(sglang, "TRTLLM-MLA", GraphMode::full_decode_only, PassKind::extend, "0.5.9"), Launch::captured);
  EXPECT_EQ(attention_backend(trtllm, "VANILLA"), "vanilla");
  for (const auto& [preset, wrong] : {std::pair{vllm, "foo"}, {vllm, "fa4"}, {sglang, "xformers"}, {trtllm, "fa3"}})
    EXPECT_EQ(attention_backend(preset, wrong), std::nullopt) << wrong;
}

TEST(AttentionBackends, UnknownNamesAreRefused) {
  const auto told = [](const std::string& engine) {
    return refusal_of([&] { load_run("kimi-k2.6/mtp3", {"engine=" + engine}); });
  };
  EXPECT_THAT(told("{preset: vllm, attention_backend: triton_mal}"),
              testing::HasSubstr("engine.attention_backend: vllm has no 'triton_mal', did you mean 'triton_mla'?; "));
  EXPECT_THAT(told("{preset: vllm, attention_backend: foo}"), testing::HasSubstr("flash_attn, "));
  EXPECT_THAT(told("{preset: sglang, attention_backend: xformers}"), testing::HasSubstr("sglang has no 'xformers'"));
  EXPECT_EQ(told("{preset: vllm, memory: {fraction: 0.95}, attention_backend: TRITON_MLA}"), "accepted");
}

TEST(Phases, EveryRowHasItsSource) {
  for (const PhaseRow& row : phase_rows()) EXPECT_NE(row.source.find("202"), std::string::npos) << row.source;
  for (const AttentionRow& row : attention_rows()) EXPECT_NE(row.source.find("202"), std::string::npos) << row.source;
}

TEST(Versions, AreNumbers) {
  EXPECT_TRUE(is_since("0.5.10", "0.5.9"));
  EXPECT_FALSE(is_since("0.4.10", "0.5"));
  EXPECT_TRUE(is_since("1", "0.21"));
  EXPECT_TRUE(is_since("", "99"));
  for (const char* wrong : {"", ".", "1.", "v1", "0..5", "latest"}) EXPECT_FALSE(is_version(wrong)) << wrong;
  EXPECT_TRUE(is_version("0.21"));
}

}  // namespace
}  // namespace specstep
