// Max-min fair sharing of capacities among flows.
#pragma once

#include <vector>

namespace specstep::comm {

/// A flow takes `weight` times its rate from a resource.
struct Use {
  int resource = 0;
  double weight = 1;
};

struct Flow {
  std::vector<Use> uses;
  double bytes = 0;
};

/// Rate of each flow, in the unit of the capacities; flows that use nothing get infinity.
/// `limits`, where given, receives the resource that holds each flow back (-1 for none).
std::vector<double> fair_rates(const std::vector<double>& capacity, const std::vector<Flow>& flows,
                               std::vector<int>* limits = nullptr);

/// What a set of flows that start together needs.
struct Completion {
  double seconds = 0;
  int limit = -1;  // resource that held back the flow that ended last
};

/// Runs the flows to their ends: rates are shared anew each time one ends. `ends`, where given, receives when each did.
Completion finish_all(const std::vector<double>& capacity, const std::vector<Flow>& flows,
                      std::vector<double>* ends = nullptr);

}  // namespace specstep::comm
