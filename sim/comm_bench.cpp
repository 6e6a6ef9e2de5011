#include "sim/comm_bench.h"

#include "sim/module.h"

namespace specstep {

CommBenchmark measure_comm(const comm::MeasureRequest& request) {
  try {
    const ModuleTable& module = open_module("cuda");
    if (!module.measure_comm) throw Unsupported("its module measures no collectives");
    return module.measure_comm(request);
  } catch (const Unsupported& e) {
    throw Unsupported(std::string("executor 'cuda': ") + e.what() + "; usable here: cost, host");
  }
}

}  // namespace specstep
