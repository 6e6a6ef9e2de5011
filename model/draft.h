// Draft models: what proposes the tokens that a verify pass checks.
#pragma once

#include "model/stack.h"

namespace specstep {

/// eagle3: one decoder layer on the fused features of three target layers. nextn (MTP): the target's own extra layer.
/// ngram: proposals come from the text itself, no model runs. none: no speculation.
enum class DraftMethod { none, eagle3, nextn, ngram };

template <>
struct EnumNames<DraftMethod> {
  static std::vector<std::string> names() { return {"none", "eagle3", "nextn", "ngram"}; }
};

struct DraftSpec {
  std::string name;
  std::string source;
  DraftMethod method = DraftMethod::eagle3;
  std::int64_t layers = 1;
  std::int64_t hidden = 0;
  std::int64_t target_hidden = 0;  // 0 = hidden
  std::int64_t fusion_taps = 3;    // eagle3: target layers whose features are fused
  std::int64_t vocab = 0;          // rows of the draft's output matrix
  std::int64_t embedding_rows =
      0;                      // rows of the embedding; 0 = vocab (a reduced draft vocabulary keeps the full table)
  bool own_embedding = true;  // false: reads the target's
  bool own_head = true;       // false: reads the target's
  AttentionSpec attention;
  MlpSpec mlp;
  WeightFormats weights;
  DType kv = DType::bf16;

  bool has_model() const { return method == DraftMethod::eagle3 || method == DraftMethod::nextn; }
};

void describe(Fields& f, DraftSpec& d);
void check(const DraftSpec& d, Checker& c);

}  // namespace specstep
