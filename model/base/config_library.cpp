// Where configs are found by name.

#include <algorithm>
#include <cstdlib>

#include "model/base/config_io.h"
#include "model/base/formatted.h"

namespace specstep {

namespace fs = std::filesystem;

fs::path one_spelling(const fs::path& path) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed);  // a path that does not exist would stay relative otherwise
  const fs::path canonical = fs::weakly_canonical(failed ? path : absolute, failed);
  return failed || canonical.empty() ? path.lexically_normal() : canonical;
}

fs::path folder_of(const fs::path& file) {
  std::error_code failed;
  const std::string folder = file.parent_path().string();
  const bool open_file = folder == "/dev" || folder == "/dev/fd" || folder.starts_with("/proc/");
  return open_file || fs::is_fifo(file, failed) ? fs::path() : file.parent_path();
}

ConfigLibrary ConfigLibrary::installed() {
  if (const char* chosen = std::getenv("SPECSTEP_CONFIGS")) return ConfigLibrary(chosen);
  std::error_code failed;
  const fs::path bin = fs::read_symlink("/proc/self/exe", failed).parent_path();
  // Installed: bin/../share/specstep/configs. Build tree: build/<preset>/bin, three levels below the repository.
  for (const fs::path& root : {bin / "../share/specstep/configs", bin / "../../../configs"})
    if (fs::is_directory(root, failed)) return ConfigLibrary(one_spelling(root));
  return ConfigLibrary(bin / "../share/specstep/configs");
}

std::vector<std::string> ConfigLibrary::names(const std::string& folder) const {
  std::vector<std::string> out;
  std::error_code failed;
  const fs::path top = root_ / folder;
  const auto readable = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(top, readable, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code unknown;
    if (at->is_regular_file(unknown) && at->path().extension() == ".yaml")
      out.push_back(at->path().lexically_relative(top).replace_extension().generic_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string ConfigLibrary::choice(const std::string& folder) const {
  const std::vector<std::string> known = names(folder);
  const std::string where = (root_ / folder).string();
  if (known.empty()) return formatted("a path; no configs are installed in {}: set SPECSTEP_CONFIGS", where);
  return formatted("a path, or one of {} in {}", one_of(known), where);
}

fs::path ConfigLibrary::find(const std::string& text, const std::string& folder, const fs::path& from,
                             const Location& at, const std::string& key) const {
  const bool is_path =
      text.starts_with('.') || text.starts_with('/') || text.ends_with(".yaml") || text.ends_with(".yml");
  std::error_code failed;
  if (is_path) {
    const fs::path file = folder_of(from) / text;
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
