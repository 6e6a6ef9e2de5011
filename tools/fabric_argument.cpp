// Finding the fabric of what a user names.
#include "tools/fabric_argument.h"

#include "comm/topology.h"
#include "sim/config.h"

namespace specstep {

namespace fs = std::filesystem;

namespace {

fs::path find(const std::string& text, const ConfigLibrary& library) {
  std::error_code failed;
  if (fs::exists(text, failed) && !fs::is_directory(text, failed)) return text;
  for (const char* folder : {"fabrics", "machines", "runs"}) {
    const fs::path named = library.root() / folder / (text + ".yaml");
    if (!text.empty() && fs::exists(named, failed)) return named;
  }
  const auto names = library.names("fabrics");
  throw InputError(Issue{{text},
                         "",
                         fs::is_directory(text, failed) ? "is a directory" : "no such file" + did_you_mean(text, names),
                         "a run, machine or fabric: " + library.choice("fabrics")});
}

NamedFabric of_machine(const MachineSpec& machine, std::int64_t ranks) {
  return {comm::first_gpus(machine.fabric, static_cast<int>(machine.count)), static_cast<int>(ranks), machine.name};
}

}  // namespace

NamedFabric fabric_argument(const std::string& text, const CommonOptions& options, const ConfigLibrary& library) {
  const fs::path path = find(text, library);
  const ReadOptions how = read_options(options, library);
  const yaml::Node root = load_with_base(path, nullptr, options.inputs.get());
  if (root.find("links")) {
    auto spec = read_config<comm::FabricSpec>(root, how);
    const int all = comm::gpu_count(comm::build_topology(spec));
    return {std::move(spec), all, path.stem().string()};
  }
  if (root.find("stack")) {
    const auto run = read_config<RunConfig>(root, how);
    NamedFabric out = of_machine(run.machine, run.parallel.tensor);
    out.own = run.comm.own;
    out.nccl = run.comm.nccl;
    if (run.comm.nccl) out.spec.nccl.protocol = run.comm.nccl->protocol;
    return out;
  }
  if (root.find("gpu") && root.find("fabric")) {
    const auto machine = read_config<MachineSpec>(root, how);
    return of_machine(machine, machine.count);
  }
  throw InputError(Issue{root.at, "", "no fabric in this file", "a run, a machine or a fabric"});
}

}  // namespace specstep
