// config.json files of public reports, and what must become of them.
#include "model/import/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/build_plan.h"
#include "model/import/test_import.h"

namespace specstep {
namespace {

using Kind = ImportNote::Kind;
using testing::HasSubstr;
using testing::Not;

std::int64_t layer_allreduces(const StackSpec& stack) {
  const Plan plan = build_plan(stack, {.tensor = 2}, {.kind = PassKind::decode, .context = 100});
  for (const CollectiveCount& c : count_collectives(plan))
    if (c.what == "allreduce in layers") return c.count;
  return 0;
}

double kv_bytes(const StackSpec& stack) { return kv_footprint(stack, {.tensor = 1}).bytes_per_token; }

TEST(HfConfig, ChatGlmHasOtherNames) {
  const StackSpec s = import_stack("chatglm3");
  EXPECT_EQ(s.layers, 28);
  EXPECT_EQ(s.attention.kv_heads, 2);
  EXPECT_EQ(s.attention.head_dim, 128);
  EXPECT_EQ(s.mlp.intermediate, 13696);
  EXPECT_EQ(s.vocab, 65024);
  EXPECT_EQ(s.kv, DType::f16);
  EXPECT_EQ(layer_allreduces(s), 56);
  EXPECT_DOUBLE_EQ(kv_bytes(s), 28672);
}

TEST(HfConfig, OnlyEveryFourthLayerOfAHybridHasACache) {
  const StackSpec s = import_stack("qwen38-27b");
  std::int64_t full = 0;
  for (std::int64_t i = 0; i < s.layers; ++i) full += s.layer(i).attention == Span::full;
  EXPECT_EQ(full, 16);
  EXPECT_EQ(s.layer(3).attention, Span::full);
  EXPECT_DOUBLE_EQ(kv_bytes(s), 65536);
  EXPECT_EQ(layer_allreduces(s), 128);
}

TEST(HfConfig, TheNestedTextModelIsRead) {
  EXPECT_EQ(import_stack("omni").layers, 28);
  EXPECT_EQ(import_stack("omni").hidden, 3584);
  EXPECT_EQ(layer_allreduces(import_stack("omni")), 56);
  const HfImport decoy = import_file("decoy");
  EXPECT_EQ(std::get<StackSpec>(decoy.spec).layers, 40);
  EXPECT_EQ(std::get<StackSpec>(decoy.spec).hidden, 2048);  // not the 1152 of the vision part
  EXPECT_THAT(notes_of(decoy, Kind::ignored), HasSubstr("vision_config: not read"));
  EXPECT_EQ(notes_of(decoy, Kind::conflict), "");
}

TEST(HfConfig, AConflictIsReportedAndTheNestedValueWins) {
  const HfImport both = import_file("both_levels");
  EXPECT_EQ(std::get<StackSpec>(both.spec).layers, 28);
  EXPECT_EQ(std::get<StackSpec>(both.spec).hidden, 3584);
  EXPECT_THAT(notes_of(both, Kind::conflict), HasSubstr("hidden_size: is 4096, but text_config.hidden_size is 3584"));
  EXPECT_THAT(notes_of(both, Kind::conflict), HasSubstr("num_hidden_layers: is 32"));
}

TEST(HfConfig, AFileWithoutANameGivesItsOwnOrItsFoldersName) {
  const auto name = [](const std::string& file) {
    JsonFile json = load_json_file(testdata / "qwen25.json");
    HfFields::Json values = *json.root;
    values.erase("_name_or_path");
    values["architectures"] = {"Qwen2ForCausalLM"};
    json.root = std::make_shared<const HfFields::Json>(std::move(values));
    json.name = file;
    return std::get<StackSpec>(import_hf_config(json).spec).name;
  };
  EXPECT_EQ(name("/models/Some-Model-7B/config.json"), "Some-Model-7B");
  EXPECT_EQ(name("/models/some-model.json"), "some-model");
  EXPECT_EQ(name("/dev/stdin"), "Qwen2ForCausalLM");
}

TEST(HfConfig, HeadSizes) {
  EXPECT_EQ(import_stack("qwen25").attention.head_dim, 64);
  EXPECT_TRUE(import_stack("qwen25").tied_embeddings);
  EXPECT_EQ(import_stack("qwen3").attention.head_dim, 128);
  EXPECT_EQ(import_stack("null_head").attention.head_dim, 128);
  EXPECT_THAT(refusal_of([] { import_changed("qwen25", R"({"num_attention_heads": 13})"); }),
              HasSubstr("head_dim: missing; it does not follow from hidden 896 and 13 heads"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"global_head_dim": 512})"); }),
              HasSubstr("global_head_dim: is 512 where head_dim is 128"));
}

TEST(HfConfig, ListsByLayerAreRefusedUnlessAllAreEqual) {
  const std::string differ = refusal_of([] { import_file("openelm"); });
  EXPECT_THAT(differ, HasSubstr("num_query_heads: differs by layer: [16,16,20,32]"));
  EXPECT_THAT(differ, HasSubstr("ffn_multipliers: differs by layer"));
  EXPECT_THAT(refusal_of([] { import_file("openelm_short"); }),
              HasSubstr("num_query_heads: has 3 entries; one for each of 4 layers"));
  const StackSpec equal =
      changed_stack("openelm", R"({"num_query_heads": [16, 16, 16, 16], "num_kv_heads": [4, 4, 4, 4],
      "ffn_multipliers": [1.55, 1.55, 1.55, 1.55], "vocab_size": 32000})");
  EXPECT_EQ(equal.attention.heads, 16);
  EXPECT_EQ(equal.mlp.intermediate, 3072);  // 3174.4 to the nearest multiple of 256
}

TEST(HfConfig, LayersOfANemotronAreCountedAndRefused) {
  EXPECT_THAT(refusal_of([] { import_file("nemotron"); }),
              HasSubstr("nemotron.json:3:2: layers_block_type: counts 5 layers: 1 attention, 2 mamba, 2 mlp"));
  EXPECT_THAT(refusal_of([] {
                import_changed("nemotron", R"({"layers_block_type": null, "hybrid_override_pattern": "M-M*-"})");
              }),
              HasSubstr("hybrid_override_pattern: counts 5 layers: 1 attention, 2 mamba, 2 mlp"));
}

// Cache of the draft's layers, bytes a token, and head sizes: as worked out from the files by hand.
TEST(HfConfig, HeadsOfEagle3BecomeDrafts) {
  const std::pair<const char*, double> expected[]{{"kimi_k25_eagle3", 32768},    {"kimi_k25_eagle3_mla", 1152},
                                                  {"minimax_m25_eagle3", 24576}, {"deepseek_v3_eagle3", 4096},
                                                  {"gpt_oss_120b_eagle3", 2048}, {"llama3_70b_eagle3", 4096}};
  for (const auto& [name, bytes] : expected) {
    const DraftSpec d = import_draft(name);
    EXPECT_EQ(d.method, DraftMethod::eagle3) << name;
    EXPECT_EQ(d.fusion_taps, 3) << name;
    EXPECT_DOUBLE_EQ(kv_footprint(d, {.tensor = 1}).bytes_per_token, bytes) << name;
  }
  EXPECT_EQ(import_draft("deepseek_v3_eagle3").attention.head_dim, 128);
  EXPECT_EQ(import_draft("deepseek_v3_eagle3").vocab, 32000);
  EXPECT_EQ(import_draft("deepseek_v3_eagle3").embedding_rows, 129280);
  EXPECT_EQ(import_draft("gpt_oss_120b_eagle3").attention.head_dim, 64);
  EXPECT_EQ(import_draft("kimi_k25_eagle3").vocab, 163840);
  EXPECT_THAT(refusal_of([] { import_file("kimi_k3_dspark"); }), HasSubstr("architectures: has DSparkDraftModel"));
}

TEST(HfConfig, WindowsAndMixedLayers) {
  EXPECT_EQ(changed_stack("qwen3-32b", R"({"sliding_window": 4096})").pattern.front().attention, Span::full);
  const StackSpec upper =
      changed_stack("qwen3-32b", R"({"sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 48})");
  EXPECT_EQ(upper.layer(47).attention, Span::full);
  EXPECT_EQ(upper.layer(48).attention, Span::window);
  const StackSpec gemma = changed_stack("qwen3-32b", R"({"sliding_window": 512, "use_sliding_window": null,
      "sliding_window_pattern": 6})");
  EXPECT_EQ(gemma.pattern.size(), 6u);
  EXPECT_EQ(gemma.layer(4).window, 512);
  EXPECT_EQ(gemma.layer(5).attention, Span::full);
  EXPECT_EQ(changed_stack("qwen3-32b", R"({"sliding_window": 512, "sliding_window_pattern": "LLLG"})").pattern.size(),
            4u);
  EXPECT_THAT(refusal_of([] { import_changed("gpt-oss-120b", R"({"layer_types": ["full_attention"]})"); }),
              HasSubstr("layer_types: has 1 entries; one for each of 36 layers"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3-32b", R"({"num_hidden_layers": 1, "layer_types": ["mamba"]})"); }),
              HasSubstr("layer_types: has 'mamba'"));
  EXPECT_THAT(
      refusal_of([] { import_changed("minimax-m2.5", R"({"num_hidden_layers": 2, "attn_type_list": [0, 1]})"); }),
      HasSubstr("attn_type_list: has layers of lightning attention"));
}

TEST(HfConfig, LinearLayersHaveAStateOfFixedSize) {
  const HfImport qwen = import_file("qwen3.5-397b-a17b");
  const StackSpec& s = std::get<StackSpec>(qwen.spec);
  ASSERT_TRUE(s.layer(0).linear);
  EXPECT_EQ(s.layer(0).linear->value_heads, 64);
  EXPECT_EQ(s.layer(0).linear->state_bytes, 64 * 128 * 128 * 4 + (2 * 16 * 128 + 64 * 128) * 3 * 2);
  EXPECT_EQ(s.mlp.shared_experts, 1);
  EXPECT_EQ(s.mlp.shared_intermediate, 0);  // as wide as an expert
  EXPECT_EQ(layer_allreduces(s), 120);
  EXPECT_THAT(notes_of(qwen, Kind::approximate), HasSubstr("attn_output_gate"));
}

TEST(HfConfig, DenseLayersComeFirstOrNotAtAll) {
  const auto leading = [](const char* patch) {
    return changed_stack("qwen3-235b-a22b", patch).mlp.leading_dense_layers;
  };
  EXPECT_EQ(leading(R"({"mlp_only_layers": [0, 1]})"), 2);
  EXPECT_EQ(leading(R"({"first_k_dense_replace": 5})"), 5);
  EXPECT_EQ(changed_stack("qwen3-235b-a22b", R"({"mlp_only_layers": [0]})").mlp.intermediate, 12288);
  EXPECT_EQ(
      changed_stack("qwen3-235b-a22b", R"({"num_hidden_layers": 3, "mlp_layer_types": ["dense", "sparse", "sparse"]})")
          .mlp.leading_dense_layers,
      1);
  EXPECT_EQ(leading(R"({"num_hidden_layers": 3, "moe_layer_freq": [0, 0, 1]})"), 2);
  const auto refusal = [](const char* patch) { return refusal_of([&] { import_changed("qwen3-235b-a22b", patch); }); };
  EXPECT_THAT(refusal(R"({"decoder_sparse_step": 2})"), HasSubstr("decoder_sparse_step: puts dense layers between"));
  EXPECT_THAT(refusal(R"({"moe_layer_freq": 2})"), HasSubstr("moe_layer_freq: puts dense layers between"));
  EXPECT_THAT(refusal(R"({"mlp_only_layers": [5]})"), HasSubstr("mlp_only_layers: puts dense layers between"));
  EXPECT_EQ(changed_stack("qwen3-235b-a22b", R"({"num_experts": 0})").mlp.kind, MlpKind::dense);
}

TEST(HfConfig, SharedExpertsHaveTheirOwnWidth) {
  const MlpSpec m =
      changed_stack("qwen3.5-397b-a17b", R"({"text_config": {"shared_expert_intermediate_size": 512}})").mlp;
  EXPECT_EQ(m.shared_experts, 1);
  EXPECT_EQ(m.shared_intermediate, 512);
}

TEST(HfConfig, WrongTypesAreNamedWithTheirPlace) {
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"hidden_size": "5120"})"); }),
              HasSubstr("config.json:2:2: hidden_size: is \"5120\"; a whole number of at least 1"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"num_hidden_layers": 64.5})"); }),
              HasSubstr("num_hidden_layers: is 64.5"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"num_hidden_layers": -1})"); }), HasSubstr("is -1"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"num_hidden_layers": 0})"); }),
              testing::Not(HasSubstr("missing")));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"tie_word_embeddings": 0})"); }), HasSubstr("true or false"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"num_key_value_heads": 7})"); }),
              HasSubstr("num_key_value_heads: is 7; a divisor of 64 heads"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"hidden_size": null})"); }),
              HasSubstr("hidden_size: missing"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"hidden_act": "relu2"})"); }),
              HasSubstr("hidden_act: is relu2"));
  EXPECT_THAT(refusal_of([] { import_changed("glm-5", R"({"index_topk": null})"); }), HasSubstr("index_topk: missing"));
}

TEST(HfConfig, NumbersBeyondAllModelsAreRefusedAtOnce) {
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"num_hidden_layers": 9000000})"); }),
              HasSubstr("at most 4096"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen3", R"({"vocab_size": 1e30})"); }), HasSubstr("at most 10000000"));
  EXPECT_THAT(refusal_of([] { import_changed("qwen38-27b", R"({"linear_key_head_dim": 1000000})"); }),
              HasSubstr("at most 65536"));
  EXPECT_THAT(refusal_of([] {
                import_changed("deepseek-v3",
                               R"({"quantization_config": {"weight_block_size": [4000000000, 4000000000]}})");
              }),
              HasSubstr("weights.attention.group"));
}

TEST(HfConfig, WhatIsNotKnownIsSaid) {
  const HfImport odd =
      import_changed("qwen3-32b", R"({"engram_layers": [3], "model_type": "novel", "torch_dtype": "auto"})");
  EXPECT_THAT(notes_of(odd, Kind::ignored), HasSubstr("not known to this importer: engram_layers"));
  EXPECT_THAT(notes_of(odd, Kind::assumed), HasSubstr("model_type: not a family this importer knows"));
  EXPECT_THAT(notes_of(odd, Kind::assumed), HasSubstr("torch_dtype: is 'auto'; bf16"));
  EXPECT_EQ(import_file("qwen3-32b").notes.size(), 0u);  // nothing left to say
}

}  // namespace
}  // namespace specstep
