// The MPI module.
#include "sim/module.h"

#include <mpi.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/executor.h"
#include "sim/mpi/bootstrap.h"

namespace {

void versions(std::vector<std::pair<std::string, std::string>>& out) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);  // allowed before MPI_Init
  const std::string all(text, static_cast<std::size_t>(length));
  out.push_back({"mpi", all.substr(0, std::min(all.find_first_of(",\n"), all.size()))});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const specstep::ModuleTable specstep_module{
    specstep::module_abi, versions, nullptr, specstep::mpi::mpi_bootstrap, nullptr};
