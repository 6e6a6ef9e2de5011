// A request as a client times it: prefill, then decode or draft-verify-extend cycles.
#pragma once

#include "sim/engine/measured.h"

namespace specstep {

/// Runs the benchmark of a config with an executor.
///
///   TTFT        prefill of the prompts (and of the draft's cache)
///   plain       (output_tokens - 1) decode steps, the context growing by one each
///   speculative (output_tokens - 1) / L cycles of (K - 1) draft steps + verify + extend; L the acceptance length.
///               The first draft of a cycle comes out of the extend pass before it, so a chain of K drafts needs
///               K - 1 draft steps (SGLang eagle_worker, vLLM's drafter counts the same).
///
/// Each pass is padded and captured as the engine does it. An executor that generates real tokens is measured instead:
/// see run_measured. Throws what the executor throws.
RunResult run_benchmark(const RunConfig& config, Executor& executor, const Progress& progress = {});

}  // namespace specstep
