// Choosing the fabric that an import takes its numbers from.
#include "comm/import/likeness.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

const LinkType* nvlink_of(const FabricSpec& spec) {
  for (const auto& [name, type] : spec.link_types)
    if (type.kind == LinkKind::nvlink) return &type;
  return nullptr;
}

int number_of(const std::string& text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::max(value, 0);
}

}  // namespace

GpuFacts facts_of(const SmiMatrix& matrix) {
  GpuFacts facts{matrix.full_nvlink()};
  for (std::size_t g = 0; g < matrix.gpus.size(); ++g) facts.nvlinks = std::max(facts.nvlinks, matrix.nvlinks_of(g));
  facts.some_nvlink = facts.nvlinks > 0;
  // Through a switch each pair is shown with all links of a GPU.
  if (facts.full_nvlink && facts.nvlinks > most_nvlinks) facts.nvlinks = matrix.cells[0][1].nvlinks;
  return facts;
}

GpuFacts facts_of(const XmlElement& system) {
  GpuFacts facts;
  std::vector<std::set<std::string>> targets;  // by GPU
  std::set<std::string> gpus;
  const std::function<void(const XmlElement&)> visit = [&](const XmlElement& e) {
    for (const XmlElement& inner : e.children) {
      if (inner.name == "gpu") {
        gpus.insert(e.text("busid"));
        targets.emplace_back();
        int links = 0;
        for (const XmlElement& link : inner.children) {
          if (link.name != "nvlink") continue;
          targets.back().insert(link.text("target"));
          links += number_of(link.text("count"));
        }
        facts.nvlinks = std::max(facts.nvlinks, links);
        const int sm = number_of(inner.text("sm"));
        if (sm > 0) facts.compute_capability = facts.compute_capability ? std::min(facts.compute_capability, sm) : sm;
      }
      visit(inner);
    }
  };
  visit(system);
  facts.some_nvlink = facts.nvlinks > 0;
  facts.full_nvlink = targets.size() > 1;
  for (const auto& of_gpu : targets) {
    const bool switched = std::any_of(of_gpu.begin(), of_gpu.end(), [&](const auto& to) { return !gpus.contains(to); });
    if (!switched && of_gpu.size() + 1 < targets.size()) facts.full_nvlink = false;
  }
  return facts;
}

GpuFacts facts_of(const P2pMatrix& matrix) {
  GpuFacts facts{matrix.size() > 1};
  for (int a = 0; a < matrix.size(); ++a)
    for (int b = 0; b < a; ++b) {
      const bool fast = matrix.rate(a, b) > pcie_limit_gb_s;
      facts.full_nvlink = facts.full_nvlink && fast;
      facts.some_nvlink = facts.some_nvlink || fast;
    }
  return facts;
}

Likeness likeness(const GpuFacts& facts) {
  if (facts.full_nvlink) return {"h200_nvswitch8", "NVLink between all pairs"};
  const int sm = facts.compute_capability;
  const std::string named = formatted("no NVLink between all pairs, GPUs of sm_{}", sm);
  if (sm >= 100 || sm == 90) return {"switch_4p4_microchip", named};
  if (sm >= 89) return {"l40s_dual_root", named};
  if (sm >= 80) return {"a800_2x4_islands", named};
  if (sm > 0) return {"v100_plx4", named};
  return {"switch_4p4_microchip", "no NVLink between all pairs, and no word of the GPU"};
}

void note_likeness(Imported& imported, const GpuFacts& facts, const Likeness& from, const FabricSpec& like) {
  auto& assumed = imported.assumed;
  const std::string taken =
      formatted("latencies, GPU ends, NCCL part and rates that the file does not give are those of {}", from.fabric);
  if (from.reason.empty())
    imported.notes.push_back(taken);
  else
    assumed.push_back(formatted("{}, chosen for: {}; --like names another", taken, from.reason));
  const LinkType* nvlink = nvlink_of(like);
  if (facts.some_nvlink && !nvlink)
    assumed.push_back("the rate of NVLink is that of NVLink 4 where the file gives none: there is none in " +
                      from.fabric);
  if (facts.full_nvlink && !nvlink)
    assumed.push_back(
        formatted("GPU ends and NCCL's channels are those of {}, without NVLink: its NCCL prices do not fit a "
                  "machine with NVLink between all pairs; --like {} does",
                  from.fabric, likeness(facts).fabric));
  if (facts.some_nvlink && !facts.full_nvlink)
    assumed.push_back("NVLink between some pairs only: NCCL's channels are those of " + from.fabric +
                      " and none of them keeps to NVLink");
  if (nvlink && facts.nvlinks > 0 && nvlink->width > 0 && facts.nvlinks != nvlink->width)
    assumed.push_back(
        formatted("{} NVLinks of a GPU, {} in {}: if they are of another generation, set their rate and "
                  "nccl.compute_capability",
                  facts.nvlinks, nvlink->width, from.fabric));
  if (facts.compute_capability == 0) return;
  imported.spec.nccl.compute_capability = facts.compute_capability;
  if (facts.compute_capability != like.nccl.compute_capability)
    assumed.push_back(
        formatted("the file says sm_{}; {} is of sm_{}, and its launch intervals and limits of reads are "
                  "taken over all the same",
                  facts.compute_capability, from.fabric, like.nccl.compute_capability));
}

}  // namespace specstep::comm
