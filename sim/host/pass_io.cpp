#include "sim/host/pass_io.h"

#include "sim/host/philox.h"

namespace specstep::host {

PassInput lone_input(const Plan& plan, const ModelView& view) {
  const auto word = [](std::uint32_t i, std::uint32_t s) { return philox({i, s, 1, 0}, philox_key(0)); };
  PassInput in;
  for (std::uint32_t s = 0; s < static_cast<std::uint32_t>(plan.shape.sequences); ++s) {
    SequenceInput one{chain_nodes(plan.shape.context, static_cast<std::size_t>(plan.shape.tokens_each)), {}};
    for (std::uint32_t i = 0; i < one.nodes.parent.size(); ++i)
      one.tokens.push_back(static_cast<std::int32_t>(word(i, s)[0] % static_cast<std::uint64_t>(view.embedding_rows)));
    in.sequences.push_back(std::move(one));
  }
  if (!plan.draft) return in;
  std::int64_t width = view.hidden;
  for (const Buffer& b : plan.buffers)
    if (b.kind == BufferKind::features) width = b.cols;
  in.given.resize(plan.shape.tokens(), width);
  for (Index r = 0; r < in.given.rows(); ++r)
    for (Index c = 0; c < width; ++c)
      in.given(r, c) = signed_unit(word(static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(r))[1]);
  return in;
}

}  // namespace specstep::host
