// A fabric from the bandwidths of pairs. The matrix is of single flows: it tells what a pair gets, and not what pairs
// share, so each layout that is made of it is an assumption and says so.
//   all pairs faster than PCIe    NVLink: a switch where one GPU would need more links than it has, else pair by pair
//   some of them                  NVLink for these, a PCIe switch for the others
//   two or more groups of GPUs    a switch for each group, and an uplink that gives what pairs across get
//   anything else                 one switch
#include <algorithm>
#include <numeric>

#include "comm/import/builder.h"
#include "comm/import/imported.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

constexpr double slow_share = 0.8;            // of what the slower GPU of a pair gets at best
constexpr double most_of_direct_links = 450;  // GB/s of one GPU: 18 NVLinks of 25 GB/s

class P2pImport {
 public:
  P2pImport(const P2pMatrix& m, const FabricSpec& like)
      : m_(m), build_(like, formatted("{} GPUs, imported from a bandwidth matrix of pairs", m.size())) {}

  Imported run() {
    for (int g = 0; g < m_.size(); ++g) build_.node(gpu(g), NodeKind::gpu);
    name_slow_gpus();
    int fast = 0;
    for_pairs([&](int a, int b) { fast += nvlink(a, b) ? 1 : 0; });
    const int pairs = m_.size() * (m_.size() - 1) / 2;
    if (fast == pairs && pairs > 0)
      over_nvlink();
    else if (fast > 0)
      partly_nvlink();
    else
      over_pcie();
    paths();
    notes_.push_back("the diagonal is on-device bandwidth and no link: left out");
    notes_.insert(notes_.end(), m_.notes.begin(), m_.notes.end());
    return {build_.take(), std::move(notes_), std::move(assumed_)};
  }

 private:
  static std::string gpu(int g) { return "gpu" + std::to_string(g); }
  template <class F>
  void for_pairs(F&& f) const {
    for (int a = 0; a < m_.size(); ++a)
      for (int b = a + 1; b < m_.size(); ++b) f(a, b);
  }
  bool nvlink(int a, int b) const { return m_.rate(a, b) > pcie_limit_gb_s; }
  bool slow(int a, int b) const { return m_.rate(a, b) < slow_share * std::min(m_.best_of(a), m_.best_of(b)); }
  Quantity best(int g) const { return {m_.best_of(g), "best pair of this GPU in the imported matrix", false}; }

  void name_slow_gpus() {
    double fastest = 0;
    for (int g = 0; g < m_.size(); ++g) fastest = std::max(fastest, m_.best_of(g));
    for (int g = 0; g < m_.size(); ++g)
      if (m_.best_of(g) < 0.95 * fastest)
        notes_.push_back(formatted("{} is slow in all its pairs: {:.2f} GB/s at best, others up to {:.2f}", gpu(g),
                                   m_.best_of(g), fastest));
  }

  void over_nvlink() {
    const std::string why =
        formatted("more than the {:.0f} GB/s of PCIe between all pairs: NVLink taken", pcie_limit_gb_s);
    if (m_.size() > 2 && m_.best_of(0) * (m_.size() - 1) > most_of_direct_links) {
      build_.node("nvswitch", NodeKind::nvswitch);
      for (int g = 0; g < m_.size(); ++g) build_.measured_link({gpu(g), "nvswitch", {}, {}}, LinkKind::nvlink, best(g));
      assumed_.push_back(why + ", through an NVSwitch, since one GPU has not so many links for each of the others");
      name_slow_pairs();
      return;
    }
    assumed_.push_back(why + ", from GPU to GPU");
    for_pairs([&](int a, int b) { pair_link(a, b); });
  }

  void pair_link(int a, int b) {
    build_.measured_link({gpu(a), gpu(b), "of_" + gpu(a) + "_" + gpu(b), {}}, LinkKind::nvlink,
                         {m_.rate(a, b), "this pair in the imported matrix", false});
  }

  void partly_nvlink() {
    build_.node("switch0", NodeKind::pcie_switch);
    for (int g = 0; g < m_.size(); ++g) {
      double rest = 0;
      for (int other = 0; other < m_.size(); ++other)
        if (other != g && !nvlink(g, other)) rest = std::max(rest, m_.rate(g, other));
      if (rest > 0)
        build_.measured_link({gpu(g), "switch0", {}, {}}, LinkKind::pcie,
                             {rest, "best pair of this GPU without NVLink in the imported matrix", false});
    }
    for_pairs([&](int a, int b) {
      if (nvlink(a, b)) pair_link(a, b);
    });
    assumed_.push_back(
        formatted("more than the {:.0f} GB/s of PCIe between some pairs: NVLink taken for these, one PCIe "
                  "switch for the others",
                  pcie_limit_gb_s));
  }

  /// Groups whose members are fast among themselves and slow to all others; one group when there is no such division.
  std::vector<std::vector<int>> groups() const {
    std::vector<std::vector<int>> found;
    for (int g = 0; g < m_.size(); ++g) {
      const auto mine = std::find_if(found.begin(), found.end(), [&](const auto& group) { return !slow(group[0], g); });
      if (mine == found.end())
        found.push_back({g});
      else
        mine->push_back(g);
    }
    bool clean = true;
    for (const auto& one : found)
      for (const auto& other : found)
        for (int a : one)
          for (int b : other)
            if (a != b) clean = clean && slow(a, b) == (&one != &other);
    if (clean) return found;
    std::vector<int> all(static_cast<std::size_t>(m_.size()));
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }

  void over_pcie() {
    const auto parts = groups();
    if (parts.size() > 1) build_.node("top", NodeKind::pcie_switch);
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const std::string id = "switch" + std::to_string(s);
      build_.node(id, NodeKind::pcie_switch);
      for (int g : parts[s]) build_.measured_link({gpu(g), id, {}, {}}, LinkKind::pcie, best(g));
      if (parts.size() > 1) uplink(parts[s], id);
    }
    if (parts.size() > 1) return;
    assumed_.push_back(
        "the layout is not in the matrix: one switch assumed, so nothing is shared between flows of different GPUs");
    name_slow_pairs();
  }

  void uplink(const std::vector<int>& members, const std::string& id) {
    double across = 0;
    double least = 0;
    for (int a : members)
      for (int b = 0; b < m_.size(); ++b) {
        if (std::find(members.begin(), members.end(), b) != members.end()) continue;
        across = std::max(across, m_.rate(a, b));
        least = least > 0 ? std::min(least, m_.rate(a, b)) : m_.rate(a, b);
      }
    build_.measured_link({id, "top", {}, {}}, LinkKind::pcie,
                         {across, "best pair out of this group in the imported matrix", false});
    std::string names;
    for (int a : members) names += (names.empty() ? "" : ",") + std::to_string(a);
    assumed_.push_back(
        formatted("pairs from GPUs {} to the others get {:.1f} to {:.1f} GB/s where pairs among them get up "
                  "to {:.1f}: an uplink of {:.1f} GB/s inferred that all flows share; measure several flows "
                  "at once",
                  names, least, across, m_.best_of(members[0]), across));
  }

  void name_slow_pairs() {
    std::string names;
    int count = 0;
    for_pairs([&](int a, int b) {
      if (slow(a, b) && ++count <= 4)
        names += formatted("{}{}-{} {:.1f} GB/s", names.empty() ? "" : ", ", gpu(a), gpu(b), m_.rate(a, b));
    });
    if (count > 0)
      assumed_.push_back(
          formatted("{} pair{} slower than the layout that is taken gives them, which is priced at the full "
                    "rate: {}{}",
                    count, count == 1 ? " is" : "s are", names, count > 4 ? ", ..." : ""));
  }

  void paths() {
    if (m_.reach.empty()) {
      assumed_.push_back("whether pairs have peer access is not in the matrix: all are taken to have it");
      return;
    }
    const auto reaches = [&](int a, int b) {
      return m_.reach[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
    };
    int without = 0;
    for_pairs([&](int a, int b) {
      if (reaches(a, b) && reaches(b, a)) return;
      build_.path(gpu(a), gpu(b), PathClass::none);
      ++without;
    });
    notes_.push_back(formatted("peer access as the matrix of zeros and ones says: {} pair{} without", without,
                               without == 1 ? "" : "s"));
  }

  const P2pMatrix& m_;
  FabricBuilder build_;
  std::vector<std::string> notes_;
  std::vector<std::string> assumed_;
};

}  // namespace

Imported fabric_from_p2p(const P2pMatrix& matrix, const FabricSpec& like) { return P2pImport(matrix, like).run(); }

}  // namespace specstep::comm
