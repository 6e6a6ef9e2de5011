// Words of this room.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "model/draft.h"
#include "model/stack.h"

namespace specstep::host {

/// [rows, columns], a row contiguous.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Index = Eigen::Index;

/// What a target and a draft have in common, as the ranks need it.
struct ModelView {
  bool draft = false;
  AttentionSpec attention;
  MlpSpec mlp;
  std::vector<LayerKind> pattern{LayerKind{}};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;           // rows of the output matrix
  std::int64_t embedding_rows = 0;  // rows of the embedding
  DType kv = DType::bf16;
  bool tied = false;                  // the output matrix is the embedding
  bool own_embedding = true;          // a draft may read the target's
  bool own_head = true;               //
  std::vector<std::int64_t> taps;     // layers whose incoming residual stream is handed out as features
  bool last_hidden_features = false;  // hand out the final residual stream instead

  const LayerKind& layer(std::int64_t i) const { return pattern[static_cast<std::size_t>(i) % pattern.size()]; }
};

/// A target hands out the features that `draft` reads: eagle3 taps evenly spread over the layers (tap t of n enters
/// layer (t + 1) layers / (n + 1)), nextn the final stream.
ModelView view_of(const StackSpec& stack, const DraftSpec* draft);
ModelView view_of(const DraftSpec& draft);

}  // namespace specstep::host
