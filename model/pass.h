// What one forward pass carries, and over how many ranks it is split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/describe.h"

namespace specstep {

/// prefill: a prompt. decode: one token of each sequence. verify: root and drafts of each sequence.
/// draft: one step of the draft model. extend: the draft catches up over the verified tokens.
enum class PassKind { prefill, decode, verify, draft, extend };

template <>
struct EnumNames<PassKind> {
  static std::vector<std::string> names() { return {"prefill", "decode", "verify", "draft", "extend"}; }
};

struct PassShape {
  PassKind kind = PassKind::decode;
  std::int64_t sequences = 1;    // padding included
  std::int64_t tokens_each = 1;  // new tokens of each sequence
  std::int64_t context = 0;      // tokens of each sequence already in the cache
  /// Attention kernels differ: true reads a sequence's cache once for all its queries, false once per query.
  bool queries_share_kv = true;
  /// Of the sequences, those that only fill a captured CUDA graph. Their rows go through every matrix and collective,
  /// but they have no cache to read or to append to (SGLang's graph runner gives them length 1 and the spare slot 0,
  /// vLLM length 0 and slot -1), and their tokens are taken to be alike, so that all meet the experts of one.
  std::int64_t padding = 0;

  std::int64_t tokens() const { return sequences * tokens_each; }
  std::int64_t real_sequences() const { return sequences - padding; }
  bool operator==(const PassShape&) const = default;
};

/// How a pass is split. tensor: ranks that share each matrix. expert: of these, groups that hold whole experts.
/// attention_data: of these, groups that hold whole sequences in attention. context: ranks that would hold the same
/// cached heads and split a sequence's tokens among them instead, token i on rank i mod context of its group.
struct ParallelLayout {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  std::int64_t attention_data = 1;
  std::int64_t context = 1;
  std::int64_t draft_tensor = 0;  // ranks that share the draft model; 0 = tensor

  std::int64_t attention_tensor() const { return tensor / attention_data; }
  std::int64_t expert_tensor() const { return tensor / expert; }
  bool operator==(const ParallelLayout&) const = default;
};

void describe(Fields& f, ParallelLayout& p);
void check(const ParallelLayout& p, Checker& c);

}  // namespace specstep
