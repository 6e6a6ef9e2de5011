// A fabric named on the command line: a run, machine or fabric file, or the name of an installed one.
#pragma once

#include <string>

#include "comm/fabric.h"
#include "tools/cli.h"

namespace specstep {

struct NamedFabric {
  comm::FabricSpec spec;
  int ranks = 0;  // tensor parallel size of a run; 0 when the file is no run
};

/// Names are looked up among fabrics, then machines, then runs. Throws InputError that lists the fabrics.
NamedFabric fabric_argument(const std::string& text, const CommonOptions& options, const ConfigLibrary& library);

}  // namespace specstep
