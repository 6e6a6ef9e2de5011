// Runs a study row by row.
#include "sim/study.h"

#include "sim/engine/benchmark.h"

namespace specstep {

StudyResult run_study(const StudyConfig& study) {
  StudyResult out{study.name, study.source, {}};
  for (const StudyRun& row : study.runs)
    out.rows.push_back(
        {row.name, row.reported, row.cause_not_modelled, run_benchmark(row.run, *make_executor(row.run))});
  return out;
}

}  // namespace specstep
