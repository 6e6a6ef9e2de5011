// Formats of checkpoints by what their quantization_config says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/import/module_names.h"
#include "model/import/test_import.h"

namespace specstep {
namespace {

using testing::HasSubstr;

HfImport with(const std::string& model, const std::string& quantization) {
  return import_changed(model, R"({"quantization_config": )" + quantization + "}");
}
WeightFormats formats(const std::string& model, const std::string& quantization) {
  return std::get<StackSpec>(with(model, quantization).spec).weights;
}

const WeightFormat fp8_blocks{DType::fp8, 128 * 128, DType::f32};

TEST(Quantization, Fp8BlocksTakeEveryLinearLayer) {
  const WeightFormats w = import_stack("deepseek-v3").weights;
  EXPECT_EQ(w.attention, fp8_blocks);
  EXPECT_EQ(w.mlp, fp8_blocks);
  EXPECT_EQ(w.experts, fp8_blocks);
  EXPECT_EQ(w.shared_experts, fp8_blocks);
  EXPECT_FALSE(w.head || w.router || w.embedding);
}

TEST(Quantization, CompressedTensorsLeavesOutWhatItIgnores) {
  const WeightFormats w = import_stack("kimi-k2.5").weights;
  EXPECT_EQ(w.experts, (WeightFormat{DType::int4, 32, DType::bf16}));
  EXPECT_FALSE(w.attention || w.mlp || w.shared_experts || w.head);
}

TEST(Quantization, Mxfp4IsForExperts) {
  const WeightFormats w = import_stack("gpt-oss-120b").weights;
  EXPECT_EQ(w.experts, (WeightFormat{DType::mxfp4, 32, DType::fp8}));
  EXPECT_FALSE(w.attention || w.head);
}

TEST(Quantization, ModelOpt) {
  const WeightFormats w = formats("qwen3-32b", R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
      "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]})");
  EXPECT_EQ(w.mlp, (WeightFormat{DType::nvfp4, 16, DType::fp8}));
  EXPECT_FALSE(w.attention || w.head);
  const HfImport kv = with("qwen3-32b", R"({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
      "exclude_modules": ["lm_head"]}})");
  EXPECT_EQ(std::get<StackSpec>(kv.spec).kv, DType::fp8);
  EXPECT_EQ(std::get<StackSpec>(kv.spec).weights.attention, (WeightFormat{DType::fp8, 0, DType::f32}));
}

TEST(Quantization, CompressedTensorsInFp4AndByTargets) {
  const WeightFormats w = formats("qwen3-235b-a22b", R"({"quant_method": "compressed-tensors",
      "format": "nvfp4-pack-quantized", "ignore": ["lm_head"], "config_groups": {
        "a": {"targets": ["re:.*experts.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
        "b": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})");
  EXPECT_EQ(w.experts, (WeightFormat{DType::nvfp4, 16, DType::fp8}));
  EXPECT_EQ(w.attention->dtype, DType::fp8);
  EXPECT_FALSE(w.head);
}

TEST(Quantization, IntegersOfGptqAndAwq) {
  EXPECT_EQ(formats("qwen3-32b", R"({"quant_method": "gptq", "bits": 4, "group_size": 128})").mlp,
            (WeightFormat{DType::int4, 128, DType::bf16}));
  const HfImport awq = with("qwen3-32b", R"({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": true})");
  EXPECT_EQ(std::get<StackSpec>(awq.spec).weights.attention, (WeightFormat{DType::int4, 64, DType::bf16}));
  EXPECT_THAT(notes_of(awq, ImportNote::Kind::approximate), HasSubstr("zero points are not part of a format"));
}

TEST(Quantization, PartlyIgnoredPartsAreTold) {
  const HfImport some = with("qwen3-32b", R"({"quant_method": "fp8", "weight_block_size": [128, 128],
      "ignored_layers": ["model.layers.0.self_attn"]})");
  EXPECT_EQ(std::get<StackSpec>(some.spec).weights.attention, fp8_blocks);
  EXPECT_THAT(notes_of(some, ImportNote::Kind::approximate),
              HasSubstr("treats the attention in several ways (252 of 256 matrices alike)"));
}

TEST(Quantization, WhatIsNotKnownIsRefused) {
  const auto refusal = [](const char* q) { return refusal_of([&] { with("qwen3-32b", q); }); };
  EXPECT_THAT(refusal(R"({"quant_method": "bitsandbytes"})"), HasSubstr("quant_method: is 'bitsandbytes'; fp8, mxfp4"));
  EXPECT_THAT(refusal(R"({"quant_method": "gptq", "bits": 3})"), HasSubstr("quantization_config.bits: is 3; 4 or 8"));
  EXPECT_THAT(refusal(R"({"quant_method": "modelopt", "quant_algo": "MIXED"})"), HasSubstr("is 'MIXED'"));
  EXPECT_THAT(refusal(R"({"quant_method": "fp8", "modules_to_not_convert": ["re:("]})"),
              HasSubstr("has the pattern 're:('"));
  EXPECT_THAT(refusal(R"({"config_groups": {"g": {"weights": {"num_bits": 2, "type": "int"}}}})"),
              HasSubstr("has type 'int' of 2 bits"));
}

TEST(ModulePattern, NamesGlobsAndExpressions) {
  const std::string expert = "model.layers.3.mlp.experts.0.gate_proj";
  EXPECT_TRUE(ModulePattern("re:.*experts.*").matches(expert));
  EXPECT_FALSE(ModulePattern("re:experts").matches(expert));  // matched from the start
  EXPECT_TRUE(ModulePattern("model.layers.3.mlp").matches(expert));
  EXPECT_FALSE(ModulePattern("model.layers.3.ml").matches(expert));
  EXPECT_FALSE(ModulePattern("gate").matches(expert));  // gate is the router, gate_proj is not
  EXPECT_TRUE(ModulePattern("gate").matches("model.layers.3.mlp.gate"));
  EXPECT_TRUE(ModulePattern("model.layers.*.mlp*").matches(expert));
  EXPECT_TRUE(ModulePattern("*.mlp").matches(expert));  // the module that holds it
  EXPECT_FALSE(ModulePattern("*.ml").matches(expert));
}

TEST(ModulePattern, AHostileExpressionDoesNotHang) {
  EXPECT_FALSE(ModulePattern("re:(a*)*b").matches(std::string(60, 'a')));
}

}  // namespace
}  // namespace specstep
