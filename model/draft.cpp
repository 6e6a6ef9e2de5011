// Reading of draft models.
#include "model/draft.h"

namespace specstep {

void describe(Fields& f, DraftSpec& d) {
  f.required("name", d.name, "name of the draft");
  f.optional("source", d.source, "where the numbers come from");
  f.required("method", d.method, "how tokens are proposed");
  f.optional("layers", d.layers, "decoder layers of the draft", {.min = 1, .max = 64});
  f.optional("hidden", d.hidden, "width of the draft's residual stream", {.min = 0, .max = 1e7});
  f.optional("target_hidden", d.target_hidden, "width of the target; 0 = the same as hidden", {.min = 0, .max = 1e7});
  f.optional("fusion_taps", d.fusion_taps, "eagle3: target layers whose features are fused into one",
             {.min = 1, .max = 64});
  f.optional("vocab", d.vocab, "rows of the draft's output matrix (draft_vocab_size)", {.min = 0, .max = 1e7});
  f.optional("embedding_rows", d.embedding_rows, "rows of the embedding; 0 = vocab", {.min = 0, .max = 1e7});
  f.optional("own_embedding", d.own_embedding, "false when the draft reads the target's embedding");
  f.optional("own_head", d.own_head, "false when the draft reads the target's output matrix");
  f.optional("attention", d.attention, "projections of the draft's attention");
  f.optional("mlp", d.mlp, "feed-forward part of the draft");
  f.optional("weights", d.weights, "formats of stored weights");
  f.optional("kv", d.kv, "type of the draft's cached keys and values");
}

void check(const DraftSpec& d, Checker& c) {
  if (!d.has_model()) return;
  const auto need = [&](const char* key, std::int64_t value) {
    if (value <= 0) c.fail(key, "missing", name_of(d.method) + " needs it, at least 1");
  };
  need("hidden", d.hidden);
  need("vocab", d.vocab);
  need("attention.heads", d.attention.heads);
  if (d.mlp.kind == MlpKind::dense) need("mlp.intermediate", d.mlp.intermediate);
}

}  // namespace specstep
