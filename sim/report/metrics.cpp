// What each metric is. Reports, comparison and documentation read this table.
#include "sim/report/metrics.h"

#include <algorithm>

namespace specstep {

const std::vector<MetricRow>& metric_rows() {
  using enum Better;
  static const std::vector<MetricRow> rows{
      {"benchmark.tok_s", "tok/s", higher,
       "output tokens of the batch / (time to first token + decode time), as client scripts print it; with speculation "
       "if the run has it"},
      {"benchmark.tok_s_per_user", "tok/s", higher, "benchmark.tok_s / batch"},
      {"benchmark.seconds", "s", lower, "time to first token + decode time: wall time of one request of the batch"},
      {"prefill.pass_ms", "ms", lower, "one pass over the prompts of the batch"},
      {"ttft_ms", "ms", lower, "time to first token: the prefill, with the draft's own prefill where there is a draft"},
      {"decode.tok_s", "tok/s", higher, "batch / mean decode step, without speculation and without the prefill"},
      {"decode.tok_s_per_user", "tok/s", higher, "1 / mean decode step"},
      {"decode.step_ms", "ms", lower, "mean plain decode step over the generated tokens, the context growing"},
      {"speculative.tok_s", "tok/s", higher, "batch x acceptance length / cycle, without the prefill"},
      {"speculative.tok_s_per_user", "tok/s", higher, "acceptance length / cycle"},
      {"speculative.speedup", "x", higher, "speculative.tok_s / decode.tok_s"},
      {"speculative.accept_length", "tokens", higher,
       "tokens emitted per verify: 1 + accepted drafts (SGLang's accept length, vLLM's mean acceptance length)"},
      {"speculative.acceptance_rate", "%", higher,
       "accepted drafts / proposed drafts: (acceptance length - 1) / K (vLLM's acceptance rate, newer SGLang's accept "
       "rate)"},
      {"speculative.accepted_share", "of 1", higher,
       "tokens emitted per verify / tokens verified, counted (older SGLang's accept rate)"},
      {"speculative.break_even_accept_length", "tokens", lower,
       "cycle / decode step: the acceptance length at which speculation neither gains nor loses"},
      {"speculative.cycle_ms", "ms", lower,
       "draft steps + verify + extend: the gap between two chunks that a client receives (ITL of a chunk), not the "
       "time "
       "of a token"},
      {"speculative.tpot_ms", "ms", lower, "cycle / acceptance length: time of one token"},
      {"verify.pass_ms", "ms", lower,
       "one verify pass of K + 1 tokens a sequence, host work in front of it and waits for late ranks included"},
      {"draft.pass_ms", "ms", lower, "one step of the draft model"},
      {"allreduce.isolated_us", "us", lower,
       "one in-layer allreduce of the pass that decides the run (verify with speculation, else decode): ranks aligned, "
       "back to back"},
      {"allreduce.in_situ_us", "us", lower,
       "one in-layer allreduce inside the pass that decides the run: the wait for the last rank and the transfer"},
      {"allreduce.wait_us", "us", lower, "of allreduce.in_situ_us, the wait for the last rank to arrive (skew)"},
      {"allreduce.wait_share", "of 1", lower, "allreduce.wait_us / allreduce.in_situ_us"},
      {"allreduce.rest_of_pass_ms", "ms", lower,
       "the pass that decides the run without its allreduces: pass - allreduces x allreduce.in_situ_us"},
      {"memory.predicted_gib", "GiB", lower, "device memory of the run on one GPU as counted before it was allocated"},
      {"memory.used_gib", "GiB", lower, "device memory of the run on one GPU as the driver reports it"},
      {"memory.weights_gib", "GiB", lower, "stored weights of one GPU, draft included"},
      {"memory.kv_gib", "GiB", higher, "what the engine's rule leaves for the KV pool of one GPU"},
      {"memory.kv_tokens", "tokens", higher, "tokens of all sequences that the KV pool holds, in whole pages"},
      {"memory.comm_gib", "GiB", lower, "buffers of NCCL and of other allreduces on one GPU"},
      {"memory.graph_gib", "GiB", lower, "CUDA graphs of one GPU, those of the draft included"},
      {"graph.count", "graphs", lower, "sizes captured for the target"},
      {"graph.padded_batch", "sequences", lower,
       "captured batch size that this batch runs at; the batch itself when it runs eagerly"},
      {"graph.capture_s", "s", lower, "time to capture all graphs when the engine starts"},
  };
  return rows;
}

const MetricRow* find_metric(std::string_view name) {
  const auto& rows = metric_rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const MetricRow& r) { return r.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace specstep
