// From what tools print to a fabric file: the layout from the tool, everything else from a fabric that is like it.
#pragma once

#include <string>
#include <vector>

#include "comm/import/nccl_xml.h"
#include "comm/import/p2p_matrix.h"
#include "comm/import/smi_topo.h"

namespace specstep::comm {

/// A fabric and what is to be known of it.
struct Imported {
  FabricSpec spec;
  std::vector<std::string> notes;         // what was read, and what was left out
  std::vector<std::string> assumed = {};  // what the source leaves open
};

/// `like`: an installed fabric of similar GPUs; its link types, GPU ends and NCCL part are taken over.
Imported fabric_from_smi(const SmiMatrix& matrix, const FabricSpec& like);
Imported fabric_from_nccl_xml(const XmlElement& system, const std::string& file, const FabricSpec& like);
Imported fabric_from_p2p(const P2pMatrix& matrix, const FabricSpec& like);

/// The YAML of an imported fabric, what is assumed and the notes as comments on top. Throws InputError when specstep
/// would not read it again.
std::string imported_yaml(const Imported& imported);

}  // namespace specstep::comm
