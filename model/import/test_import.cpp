// Changes to inputs of testdata.
#include "model/import/test_import.h"

#include <nlohmann/json.hpp>

#include "model/base/yaml.h"

namespace specstep {

HfImport import_changed(const std::string& name, const std::string& patch) {
  auto json = nlohmann::ordered_json::parse(yaml::read_text(testdata / (name + ".json")));
  json.merge_patch(nlohmann::ordered_json::parse(patch));
  return import_hf_config(parse_json_file(json.dump(1), "config.json"));
}

}  // namespace specstep
