// Rates of patterns, by the same fair sharing that prices schedules.
#include "comm/report/patterns.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "comm/schedule_price.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

void add_both(std::vector<Pattern>& patterns, const std::string& name, const std::vector<std::pair<int, int>>& pairs) {
  if (pairs.empty()) return;
  for (const Operation operation : {Operation::write, Operation::read}) {
    Pattern pattern{name, {}};
    for (const auto& [from, to] : pairs) pattern.flows.push_back({from, to, operation});
    patterns.push_back(std::move(pattern));
  }
}

std::string distance_name(NcclLevel level) {
  return level == NcclLevel::nvl   ? "over NVLink"
         : level == NcclLevel::pix ? "inside a switch"
         : level == NcclLevel::pxb ? "over several switches"
         : level == NcclLevel::phb ? "through a CPU"
                                   : "between sockets";
}

std::vector<std::vector<int>> by_switch(const Topology& t) {
  std::map<int, std::vector<int>> groups;
  for (int r = 0; r < gpu_count(t); ++r) groups[t.switch_of(r)].push_back(r);
  std::vector<std::vector<int>> found;
  found.reserve(groups.size());
  for (auto& [node, members] : groups) found.push_back(std::move(members));
  return found;
}

/// Two GPUs of the first switch with company, to other switches: to one root, and to two.
void add_uplink_patterns(const Topology& t, std::vector<Pattern>& patterns) {
  const auto groups = by_switch(t);
  const auto source = std::find_if(groups.begin(), groups.end(), [](const auto& g) { return g.size() > 1; });
  if (source == groups.end()) return;
  const std::vector<int>& from = *source;
  std::map<int, std::vector<int>> targets;  // by root or switch, furthest kind of distance only
  NcclLevel furthest = NcclLevel::loc;
  for (int r = 0; r < gpu_count(t); ++r) furthest = std::max(furthest, t.distance(from[0], r));
  for (int r = 0; r < gpu_count(t); ++r)
    if (t.distance(from[0], r) == furthest && t.switch_of(r) != t.switch_of(from[0]))
      targets[t.root_of(r)].push_back(r);
  if (targets.empty()) return;
  const std::vector<int>& first = targets.begin()->second;
  add_both(patterns, "two of a switch to one root", {{from[0], first[0]}, {from[1], first[first.size() > 1 ? 1 : 0]}});
  if (targets.size() < 2) return;
  add_both(patterns, "two of a switch to two roots",
           {{from[0], first[0]}, {from[1], std::next(targets.begin())->second[0]}});
}

std::vector<std::pair<int, int>> every_pair(int ranks) {
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < ranks; ++b)
      if (a != b) pairs.emplace_back(a, b);
  return pairs;
}

std::vector<std::pair<int, int>> half_to_half(int ranks) {
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < ranks / 2; ++a)
    for (int b = ranks / 2; b < ranks; ++b) pairs.emplace_back(a, b);
  return pairs;
}

std::vector<std::pair<int, int>> partners(int ranks, bool both_ways) {
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < ranks / 2; ++a) {
    pairs.emplace_back(a, a + ranks / 2);
    if (both_ways) pairs.emplace_back(a + ranks / 2, a);
  }
  return pairs;
}

std::vector<int> rank_list(const std::string& text, const Topology& t, const Location& place) {
  std::vector<int> ranks;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int rank = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), rank);
    if (error != std::errc() || end != part.data() + part.size() || rank < 0 || rank >= gpu_count(t))
      throw InputError(
          {place, "pattern", "'" + part + "' is not a GPU of this fabric", formatted("0 to {}", gpu_count(t) - 1)});
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

PatternRate rate_of(const Topology& t, const Pattern& pattern, bool copies) {
  PatternRate rate{pattern.name, static_cast<int>(pattern.flows.size())};
  if (pattern.flows.empty()) return rate;
  rate.operation = pattern.flows.front().operation;
  Schedule schedule{"pattern", Collective::all_to_all, gpu_count(t), {}, {}, false};
  Phase phase{"flows", Sync::none, {}};
  for (const PeerFlow& flow : pattern.flows)
    phase.transfers.push_back({flow.source_rank, flow.target_rank, {}, {}, Effect::copy, flow.operation});
  const PhaseFlows flows = phase_flows(schedule, phase, t, {.copy_engine = copies});
  std::vector<int> limits;
  const std::vector<double> rates = fair_rates(flows.capacity, flows.flows, &limits);
  const std::size_t slowest = static_cast<std::size_t>(std::min_element(rates.begin(), rates.end()) - rates.begin());
  rate.total = static_cast<double>(pattern.flows.size()) / finish_all(flows.capacity, flows.flows).seconds;
  rate.least = rates[slowest];
  const int limit = limits[slowest];
  const int links = static_cast<int>(t.links().size());
  if (limit >= 0)
    rate.limit = limit < links ? "link " + t.link_name(limit) : flows.names[static_cast<std::size_t>(limit - links)];
  return rate;
}

std::vector<Pattern> standard_patterns(const Topology& t) {
  std::vector<Pattern> patterns;
  std::set<NcclLevel> seen;
  for (const auto& [a, b] : every_pair(gpu_count(t)))
    if (seen.insert(t.distance(a, b)).second)
      add_both(patterns, formatted("one flow {}, {}>{}", distance_name(t.distance(a, b)), a, b), {{a, b}});
  add_uplink_patterns(t, patterns);
  if (gpu_count(t) > 3) add_both(patterns, "all of one half to all of the other", half_to_half(gpu_count(t)));
  if (gpu_count(t) > 1) add_both(patterns, "all to all", every_pair(gpu_count(t)));
  return patterns;
}

Pattern parse_pattern(const std::string& text, Operation operation, const Topology& t, const Location& place) {
  Pattern pattern{text, {}};
  const auto add = [&](const std::vector<std::pair<int, int>>& pairs) {
    for (const auto& [from, to] : pairs) pattern.flows.push_back({from, to, operation});
  };
  if (text == "all to all") {
    add(every_pair(gpu_count(t)));
  } else if (text == "all A to B" || text == "cross") {
    add(half_to_half(gpu_count(t)));
  } else if (text == "1:1 pairs") {
    add(partners(gpu_count(t), false));
  } else if (text == "all pairs both ways") {
    add(partners(gpu_count(t), true));
  } else {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const std::size_t arrow = word.find('>');
      if (arrow == std::string::npos)
        throw InputError({place, "pattern", "'" + text + "' is not a pattern", "0>4 1>6, all to all, or all A to B"});
      for (int from : rank_list(word.substr(0, arrow), t, place))
        for (int to : rank_list(word.substr(arrow + 1), t, place)) {
          if (from == to) throw InputError({place, "pattern", "a flow from a GPU to itself", "two different GPUs"});
          add({{from, to}});
        }
    }
  }
  if (pattern.flows.empty()) throw InputError({place, "pattern", "no flows", "0>4 1>6, all to all, or all A to B"});
  return pattern;
}

}  // namespace specstep::comm
