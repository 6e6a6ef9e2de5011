// dlopen with reasons.
#include "sim/module.h"

#include <dlfcn.h>

#include <filesystem>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep {

namespace fs = std::filesystem;

namespace {
fs::path module_file(const std::string& name) {
  std::error_code failed;
  const fs::path bin = fs::read_symlink("/proc/self/exe", failed).parent_path();
  return bin / "../lib/specstep" / (name + ".so");
}
}  // namespace

const ModuleTable& open_module(const std::string& name) {
  const fs::path file = module_file(name);
  std::error_code failed;
  if (!fs::exists(file, failed)) throw Unsupported(formatted("this build has no {} module", name));
  // Never closed: the libraries behind it keep threads and handlers that do not survive unloading.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw Unsupported(formatted("the {} module cannot be opened: {}", name, dlerror()));
  const auto* table = static_cast<const ModuleTable*>(dlsym(handle, "specstep_module"));
  if (!table || table->abi != module_abi) throw Unsupported(formatted("the {} module is of another version", name));
  return *table;
}

std::vector<std::pair<std::string, std::string>> module_versions(const std::string& name) {
  std::vector<std::pair<std::string, std::string>> out;
  try {
    open_module(name).versions(out);
  } catch (const Unsupported& e) {
    out.push_back({name, std::string("none (") + e.what() + ")"});
  }
  return out;
}

}  // namespace specstep
