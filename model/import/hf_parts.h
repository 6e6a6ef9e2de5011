// The parts of an import: each reads its fields and says what it cannot know.
#pragma once

#include "model/import/hf_fields.h"
#include "model/stack.h"

namespace specstep {

/// Number of layers: the field, else the length of a list that has an entry for each layer.
std::int64_t hf_layers(HfFields& f);

/// Projections of softmax attention; mla when kv_lora_rank is given.
AttentionSpec hf_attention(HfFields& f, std::int64_t hidden);

/// What each layer looks at, as the shortest list that repeats to it.
std::vector<LayerKind> hf_pattern(HfFields& f, std::int64_t layers);

/// Feed-forward part: dense, or experts after some leading dense layers.
MlpSpec hf_mlp(HfFields& f, std::int64_t hidden, std::int64_t layers);

/// torch_dtype or dtype, where bf16 stands for a missing one.
DType hf_dtype(HfFields& f);

/// Formats of stored weights from quantization_config. Faults name what is not known.
struct HfFormats {
  WeightFormats weights;
  std::optional<DType> kv;  // when the checkpoint asks for one
};
HfFormats hf_formats(HfFields& f, const StackSpec& stack);

}  // namespace specstep
