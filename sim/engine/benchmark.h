// A request as a client times it: prefill, then decode or draft-verify-extend cycles.
#pragma once

#include "sim/engine/passes.h"

namespace specstep {

/// Runs the benchmark of a config with an executor.
///
///   TTFT        prefill of the prompts (and of the draft's cache)
///   plain       (output_tokens - 1) decode steps, the context growing by one each
///   speculative (output_tokens - 1) / L cycles of (K - 1) draft steps + verify + extend; L the acceptance length.
///               The first draft of a cycle comes out of the extend pass before it, so a chain of K drafts needs
///               K - 1 draft steps (SGLang eagle_worker, vLLM's drafter counts the same).
///
/// An executor whose times differ from call to call carries out each pass measure.warmup + measure.runs times: sample i
/// of a metric is made of the i-th counted run of every pass, its value is the median, low and high the range. The
/// breakdown comes from a traced run of its own, scaled to the median.
///
/// Each pass is padded and captured as the engine does it. An executor that generates real tokens is measured instead:
/// see run_measured. Throws what the executor throws.
RunResult run_benchmark(const RunConfig& config, Executor& executor, const Progress& progress = {});

/// The steady state alone, priced: decode step and, with speculation, the cycle; phases and metrics of these as
/// run_benchmark gives them. No prefill, no request, no memory. `passes` carries out what is asked for and may answer
/// from memory, so that many questions of one run are cheap. Throws what it throws.
RunResult run_steps(const RunConfig& config, PassSource& passes);

}  // namespace specstep
