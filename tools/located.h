// Faults that show only while working on a config, put at the place of their key.
#pragma once

#include "model/base/describe.h"

namespace specstep {

/// Calls `work`. Faults of the config that show only then get the place of their key, as those of reading have.
template <class F>
auto located(const Sources& sources, const Location& file, F&& work) {
  try {
    return work();
  } catch (const InputError& e) {
    Issues issues = e.issues();
    for (Issue& issue : issues)
      if (issue.at.file.empty()) issue.at = place_of(issue.key, sources, file);
    throw InputError(issues);
  }
}

}  // namespace specstep
