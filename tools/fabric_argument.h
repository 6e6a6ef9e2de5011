// A fabric named on the command line: a run, machine or fabric file, or the name of an installed one.
#pragma once

#include <optional>
#include <string>

#include "comm/fabric.h"
#include "comm/nccl_settings.h"
#include "comm/own_settings.h"
#include "tools/cli.h"

namespace specstep {

struct NamedFabric {
  comm::FabricSpec spec;  // with the GPUs that the machine has
  int ranks = 0;          // how many take part by default: the tensor parallel size of a run, else all GPUs
  std::string name;       // of the machine or the fabric, for messages
  std::optional<comm::OwnSettings> own{};    // comm.own of a run
  std::optional<comm::NcclSettings> nccl{};  // comm.nccl of a run; of it prices read the protocol
};

/// Names are looked up among fabrics, then machines, then runs. Throws InputError that lists the fabrics.
NamedFabric fabric_argument(const std::string& text, const CommonOptions& options, const ConfigLibrary& library);

}  // namespace specstep
