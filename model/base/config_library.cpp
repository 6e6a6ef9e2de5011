// Where configs are found by name.

#include <algorithm>
#include <cstdlib>

#include "model/base/config_io.h"
#include "model/base/formatted.h"

namespace specstep {

namespace fs = std::filesystem;

ConfigLibrary ConfigLibrary::installed() {
  if (const char* chosen = std::getenv("SPECSTEP_CONFIGS")) return ConfigLibrary(chosen);
  std::error_code failed;
  const fs::path bin = fs::read_symlink("/proc/self/exe", failed).parent_path();
  // Installed: bin/../share/specstep/configs. Build tree: build/<preset>/bin, three levels below the repository.
  for (const fs::path& root : {bin / "../share/specstep/configs", bin / "../../../configs"})
    if (fs::is_directory(root, failed)) return ConfigLibrary(fs::weakly_canonical(root));
  return ConfigLibrary(bin / "../share/specstep/configs");
}

std::vector<std::string> ConfigLibrary::names(const std::string& folder) const {
  std::vector<std::string> out;
  std::error_code failed;
  const fs::path top = root_ / folder;
  for (const auto& entry : fs::recursive_directory_iterator(top, failed))
    if (entry.is_regular_file() && entry.path().extension() == ".yaml")
      out.push_back(fs::relative(entry.path(), top).replace_extension().generic_string());
  std::sort(out.begin(), out.end());
  return out;
}

fs::path ConfigLibrary::find(const std::string& text, const std::string& folder, const fs::path& from,
                             const Location& at, const std::string& key) const {
  const bool is_path =
      text.starts_with('.') || text.starts_with('/') || text.ends_with(".yaml") || text.ends_with(".yml");
  std::error_code failed;
  if (is_path) {
    const fs::path file = from.parent_path() / text;
    if (fs::exists(file, failed)) return file;
    throw InputError(Issue{at, key, formatted("no such file '{}'", text), "a path relative to this file"});
  }
  const fs::path file = root_ / folder / (text + ".yaml");
  if (fs::exists(file, failed)) return file;
  const std::vector<std::string> known = names(folder);
  if (known.empty())
    throw InputError(Issue{at, key, formatted("no '{}' among the installed configs", text),
                           formatted("none found in {}; set SPECSTEP_CONFIGS", (root_ / folder).string())});
  throw InputError(Issue{at, key, formatted("no '{}' in configs/{}{}", text, folder, did_you_mean(text, known)),
                         one_of(known) + ", or a path"});
}

}  // namespace specstep
