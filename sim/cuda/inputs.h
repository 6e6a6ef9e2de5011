// What a pass is given, on its way to the device: one copy from page-locked memory for all of it.
#pragma once

#include "sim/cuda/buffers.h"
#include "sim/cuda/caches.h"
#include "sim/host/pass_io.h"

namespace specstep::cuda {

/// The part of a pass's input that one rank works on.
class PassInputs {
 public:
  /// `first`: of the sequences of this rank's attention group. `tree_nodes`: see Holding.
  PassInputs(const Plan& plan, const host::ModelView& model, const RankCaches& caches, std::int64_t first,
             std::int64_t tree_nodes, Real real);

  /// Takes the input and puts its copy on the stream; the copy before must be done.
  void upload(const host::PassInput& input, cudaStream_t stream);

  const PassMeta& meta() const { return meta_; }
  /// [tokens]: what linear attention continues from, see LinearCall::parent; places behind the tokens of the pass are
  /// kept states of earlier nodes.
  const std::int32_t* parents() const { return at<std::int32_t>(parents_); }
  /// [sequences]: row of each sequence's last token.
  const std::int32_t* last_rows() const { return at<std::int32_t>(last_rows_); }
  /// Of all sequences of the pass, for the acceptance walk.
  const std::int32_t* walk_tokens() const { return at<std::int32_t>(walk_tokens_); }
  const std::int32_t* walk_parents() const { return at<std::int32_t>(walk_parents_); }
  /// A draft's second input, [tokens][given_cols] of Real.
  const std::byte* given() const { return device_.data() + given_; }
  std::int64_t given_cols() const { return given_cols_; }
  /// First sequence of this rank.
  std::int64_t first() const { return first_; }

 private:
  template <class T>
  const T* at(std::int64_t offset) const {
    return reinterpret_cast<const T*>(device_.data() + offset);
  }
  template <class T>
  T* staged(std::int64_t offset) const {
    return reinterpret_cast<T*>(staging_.data() + offset);
  }
  void place(const Plan& plan);
  void put(const host::SequenceInput& sequence, std::int64_t local);
  void put_given(const host::Matrix& given);
  void put_walk(const host::PassInput& input);

  const RankCaches& caches_;
  PassMeta meta_;
  std::int64_t first_;
  std::int64_t all_ = 0;  // sequences of the pass
  Real real_;
  std::int64_t given_cols_ = 0;
  std::int64_t tokens_ = 0, positions_ = 0, slots_ = 0, base_ = 0, mask_ = 0, parents_ = 0, last_rows_ = 0,
               walk_tokens_ = 0, walk_parents_ = 0, given_ = 0;  // offsets
  PinnedBuffer staging_;
  DeviceBuffer device_;
};

}  // namespace specstep::cuda
