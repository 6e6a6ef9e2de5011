// Runs a study row by row.
#include "sim/study.h"

#include "model/base/formatted.h"
#include "sim/engine/benchmark.h"

namespace specstep {

StudyResult run_study(const StudyConfig& study) {
  StudyResult out{study.name, study.source, {}};
  for (std::size_t i = 0; i < study.runs.size(); ++i) {
    const StudyRun& row = study.runs[i];
    try {
      out.rows.push_back(
          {row.name, row.reported, row.cause_not_modelled, run_benchmark(row.run, *make_executor(row.run))});
    } catch (const InputError& e) {  // its keys are those of the run
      Issues issues = e.issues();
      for (Issue& issue : issues) issue.key = formatted("runs[{}].run.{}", i, issue.key);
      throw InputError(issues);
    }
  }
  return out;
}

}  // namespace specstep
