// Which installed fabric an imported one is like, and what that leaves open.
#pragma once

#include <optional>
#include <string>

#include "comm/import/imported.h"

namespace specstep::comm {

/// What a source tells of its GPUs.
struct GpuFacts {
  bool full_nvlink = false;    // NVLink from every GPU to every other
  bool some_nvlink = false;    // between some pairs at least
  int nvlinks = 0;             // most of one GPU; 0: not told
  int compute_capability = 0;  // smallest; 0: not told
};
GpuFacts facts_of(const SmiMatrix& matrix);
GpuFacts facts_of(const XmlElement& system);
GpuFacts facts_of(const P2pMatrix& matrix);

/// A fabric to take numbers over from, and why; no reason when the user named it.
struct Likeness {
  std::string fabric;
  std::string reason;
};
/// The installed fabric whose GPUs are closest.
Likeness likeness(const GpuFacts& facts);

/// Adds what was taken over from `like` and what of it does not fit; sets the compute capability that the source tells.
void note_likeness(Imported& imported, const GpuFacts& facts, const Likeness& from, const FabricSpec& like);

}  // namespace specstep::comm
