// Fair sharing against SimGrid's solver: 200 random topologies and sets of flows, each flow's end to 1e-6.
#include <gtest/gtest.h>

#include <random>
#include <simgrid/s4u.hpp>

#include "comm/fair_share.h"

namespace specstep::comm {
namespace {

namespace sg = simgrid::s4u;

struct Scenario {
  std::vector<double> capacity;
  std::vector<Flow> flows;
  std::vector<double> simulated;  // when SimGrid says that each flow ended
};

Scenario random_scenario(std::mt19937& random) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  Scenario s;
  const int links = pick(1, 10);
  for (int l = 0; l < links; ++l) s.capacity.push_back(1e6 * pick(1, 1000));
  const int flows = pick(1, 16);
  for (int f = 0; f < flows; ++f) {
    Flow flow{{}, 1e6 * pick(1, 5000)};
    for (int l = 0; l < links; ++l)
      if (pick(0, 2) == 0) flow.uses.push_back({l, 1});
    if (flow.uses.empty()) flow.uses.push_back({pick(0, links - 1), 1});
    s.flows.push_back(std::move(flow));
  }
  s.simulated.resize(s.flows.size());
  return s;
}

/// A zone with the scenario's links, and two hosts and one route for each flow.
void build(Scenario& s, sg::NetZone* root, const std::string& name) {
  auto* zone = sg::create_full_zone(name);
  zone->set_parent(root);
  std::vector<sg::Link*> links;
  for (std::size_t l = 0; l < s.capacity.size(); ++l)
    links.push_back(zone->create_link(name + "l" + std::to_string(l), s.capacity[l])->set_latency(0)->seal());
  for (std::size_t f = 0; f < s.flows.size(); ++f) {
    const std::string flow = name + "f" + std::to_string(f);
    auto* from = zone->create_host(flow + "a", 1e9)->seal();
    auto* to = zone->create_host(flow + "b", 1e9)->seal();
    std::vector<sg::LinkInRoute> route;
    for (const Use& use : s.flows[f].uses) route.emplace_back(links[static_cast<std::size_t>(use.resource)]);
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
    sg::Actor::create(flow, from, [from, to, bytes = s.flows[f].bytes, end = &s.simulated[f]] {
      sg::Comm::sendto(from, to, static_cast<std::uint64_t>(bytes));
      *end = sg::Engine::get_clock();
    });
  }
  zone->seal();
}

TEST(FairShare, AgreesWithSimGrid) {
  int argc = 1;
  char program[] = "fair_share_simgrid_test";
  char* argv[] = {program, nullptr};
  sg::Engine engine(&argc, argv);
  for (const char* setting : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
                              "maxmin/precision:1e-12", "surf/precision:1e-12", "contexts/stack-size:64"})
    sg::Engine::set_config(setting);
  auto* root = sg::create_full_zone("root");
  std::mt19937 random(11);
  std::vector<Scenario> scenarios;
  for (int i = 0; i < 200; ++i) scenarios.push_back(random_scenario(random));
  for (std::size_t i = 0; i < scenarios.size(); ++i) build(scenarios[i], root, "z" + std::to_string(i));
  root->seal();
  engine.run();
  for (const Scenario& s : scenarios) {
    std::vector<double> ends;
    finish_all(s.capacity, s.flows, &ends);
    for (std::size_t f = 0; f < ends.size(); ++f) {
      ASSERT_GT(s.simulated[f], 0);
      EXPECT_NEAR(ends[f] / s.simulated[f], 1, 1e-6);
    }
  }
}

}  // namespace
}  // namespace specstep::comm
