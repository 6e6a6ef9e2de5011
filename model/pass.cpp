// Reading of parallel layouts.
#include "model/pass.h"

#include "model/base/formatted.h"

namespace specstep {

void describe(Fields& f, ParallelLayout& p) {
  constexpr Range ranks{.min = 1, .max = 4096};
  f.required("tensor", p.tensor, "ranks that share each matrix (tensor parallel)", ranks);
  f.optional("expert", p.expert, "of these, groups that hold whole experts (expert parallel)", ranks);
  f.optional("attention_data", p.attention_data, "of these, groups that hold whole sequences in attention", ranks);
  f.optional("context", p.context,
             "of these, ranks that split the tokens of a cache among them (decode context parallel)", ranks);
  f.optional("draft_tensor", p.draft_tensor, "ranks that share the draft model; 0 = tensor", {.min = 0, .max = 4096});
}

void check(const ParallelLayout& p, Checker& c) {
  const auto divides = [&](const char* key, std::int64_t value) {
    if (p.tensor % value != 0) c.fail(key, formatted("is {}", value), formatted("a divisor of tensor ({})", p.tensor));
  };
  divides("expert", p.expert);
  divides("attention_data", p.attention_data);
  if (p.attention_data > 0 && p.attention_tensor() % p.context != 0)
    c.fail("context", formatted("is {}", p.context),
           formatted("a divisor of the {} ranks that share a sequence's attention", p.attention_tensor()));
  if (p.draft_tensor != 0 && p.draft_tensor != p.tensor && p.draft_tensor != 1)
    c.fail("draft_tensor", formatted("is {}", p.draft_tensor), formatted("0, 1 or tensor ({})", p.tensor));
}

}  // namespace specstep
