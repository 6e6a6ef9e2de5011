// Every variant of a study's runs: a row's keys, then those of a hypothesis, then each combination of the inputs.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "sim/study_config.h"

namespace specstep {

namespace {

using Sets = std::vector<std::string>;  // key=value

Sets sets_of(const std::map<std::string, std::string>& keys) {
  Sets out;
  for (const auto& [key, value] : keys) out.push_back(key + "=" + value);
  return out;
}

Sets joined(Sets first, const Sets& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// Whether two keys touch the same values: one is the other or holds it.
bool touches(const std::string& a, const std::string& b) {
  const auto holds = [](const std::string& outer, const std::string& inner) {
    return inner == outer || (inner.starts_with(outer) && (inner[outer.size()] == '.' || inner[outer.size()] == '['));
  };
  return holds(a, b) || holds(b, a);
}

/// As a shell takes it.
std::string quoted(const std::string& set) {
  return set.find_first_of(" {}[]*?\"$&|;<>()#'") == std::string::npos ? set : "'" + set + "'";
}

std::string command_of(const std::string& run, const Sets& sets) {
  if (run.empty()) return "";
  std::string out = "specstep run " + run;
  for (const std::string& set : sets) out += " --set " + quoted(set);
  return out;
}

/// A run that keys can be laid over, time and again.
class SettableRun {
 public:
  SettableRun(const RunConfig& run, const ConfigLibrary* library, std::vector<std::filesystem::path>* files)
      : tree_(yaml::parse(to_yaml(dump_config(run)), "a run of a study")), library_(library), files_(files) {}
  RunConfig with(const Sets& sets) const {
    ReadOptions options;
    options.library = library_;
    options.files = files_;
    for (const std::string& set : sets) options.overrides.push_back(parse_override(set));
    return read_config<RunConfig>(tree_, options);
  }

 private:
  yaml::Node tree_;
  const ConfigLibrary* library_;
  std::vector<std::filesystem::path>* files_;
};

class StudyReader {
 public:
  StudyReader(const yaml::Node& root, const ReadOptions& options, Sources& sources)
      : root_(root), library_(options.library), files_(options.files), sources_(sources) {}

  ReadStudy read(StudyConfig config) {
    ReadStudy out{std::move(config), {}};
    for (std::size_t i = 0; i < out.config.runs.size(); ++i) {
      names_.push_back(name_of_run(i));
      bases_.emplace_back(out.config.runs[i].run, library_, files_);
    }
    for (std::size_t i = 0; i < out.config.runs.size(); ++i) out.rows.push_back(row(out.config, i));
    throw_if_any(issues_);
    return out;
  }

 private:
  /// The run as the file names it; empty for an inline map, or when --set put another one there.
  std::string name_of_run(std::size_t i) const {
    const yaml::Node* runs = root_.find("runs");
    if (!runs || i >= runs->items.size()) return "";
    const yaml::Node* run = runs->items[i].find("run");
    const auto place = sources_.find(formatted("runs[{}].run", i));
    const bool replaced = place == sources_.end() || place->second.line == 0;
    return run && run->kind == yaml::Node::Kind::scalar && !replaced ? run->text : "";
  }

  ReadRow row(const StudyConfig& config, std::size_t i) {
    const StudyRun& r = config.runs[i];
    const std::string where = formatted("runs[{}]", i);
    ReadRow out;
    out.variant = variant(bases_[i], names_[i], sets_of(r.set), r.inputs, where);
    for (std::size_t h = 0; h < r.hypotheses.size(); ++h)
      out.hypotheses.push_back(hypothesis(config, i, r.hypotheses[h], formatted("{}.hypotheses[{}]", where, h)));
    return out;
  }

  ReadHypothesis hypothesis(const StudyConfig& config, std::size_t i, const StudyHypothesis& h,
                            const std::string& where) {
    const StudyRun& r = config.runs[i];
    ReadHypothesis out;
    const Sets own = sets_of(h.set);
    if (h.run.empty()) {
      out.variant = variant(bases_[i], names_[i], joined(sets_of(r.set), own), inputs_of(r, h), where);
    } else {
      reporting(where + ".run", [&] {
        const SettableRun base(run_named(h.run, where + ".run"), library_, files_);
        out.variant = variant(base, h.run, {}, inputs_of(r, h), where);
      });
    }
    for (const std::string& name : h.also)
      for (std::size_t k = 0; k < config.runs.size(); ++k)
        if (config.runs[k].name == name)
          out.also.push_back(variant(bases_[k], names_[k], joined(sets_of(config.runs[k].set), own),
                                     inputs_of(config.runs[k], h, false), where));
    return out;
  }

  RunConfig run_named(const std::string& text, const std::string& key) const {
    const Location& at = place_of(key, sources_, root_.at);
    if (!library_) throw InputError(Issue{at, key, "names a run", "no installed configs here"});
    ReadOptions options;
    options.library = library_;
    options.files = files_;
    Issues faults;
    const auto path = library_->find(text, "runs", at.line > 0 ? at.file : "", at, key);
    const yaml::Node run = load_with_base(path, &faults, files_);
    if (is_study(run)) throw InputError(Issue{at, key, formatted("'{}' is a study, of many runs", text), "a run"});
    return read_config<RunConfig>(run, options, nullptr, std::move(faults));
  }

  /// Inputs of a row under a hypothesis: its own come first, and what it sets itself is certain.
  static std::vector<StudyInput> inputs_of(const StudyRun& r, const StudyHypothesis& h, bool with_own = true) {
    std::vector<StudyInput> out;
    if (with_own) out = h.inputs;
    for (const StudyInput& input : r.inputs) {
      const auto same = [&](const StudyInput& other) { return touches(other.key, input.key); };
      const auto set = [&](const auto& entry) { return touches(entry.first, input.key); };
      if (std::none_of(out.begin(), out.end(), same) && std::none_of(h.set.begin(), h.set.end(), set))
        out.push_back(input);
    }
    return out;
  }

  StudyVariant variant(const SettableRun& base, const std::string& name, const Sets& sets,
                       const std::vector<StudyInput>& inputs, const std::string& where) {
    StudyVariant out;
    out.command = command_of(name, sets);
    reporting(where, [&] {
      out.run = base.with(sets);
      std::vector<Sets> corners{sets};
      for (const StudyInput& input : inputs) {
        const std::size_t before = corners.size();
        for (const std::string& value : input.values)
          for (std::size_t c = 0; c < before; ++c) corners.push_back(joined(corners[c], {input.key + "=" + value}));
      }
      for (std::size_t c = 1; c < corners.size(); ++c) out.span.push_back(base.with(corners[c]));
    });
    return out;
  }

  /// Faults of a variant get the place of the key that brought them.
  template <class F>
  void reporting(const std::string& where, F&& work) {
    try {
      work();
    } catch (const InputError& e) {
      for (const Issue& issue : e.issues()) {
        const std::string key = set_key(issue.at.file);
        const Location& at = place_of(key.empty() ? where : where + ".set." + key, sources_, root_.at);
        issues_.push_back(
            {at, where, issue.key.empty() || issue.key.starts_with(where) ? issue.what : issue.key + ": " + issue.what,
             issue.allowed});
      }
    }
  }

  /// "a.b" of "--set a.b=1", else nothing.
  static std::string set_key(const std::string& origin) {
    const std::string front = "--set ";
    return origin.starts_with(front) ? origin.substr(front.size(), origin.find('=') - front.size()) : "";
  }

  const yaml::Node& root_;
  const ConfigLibrary* library_;
  std::vector<std::filesystem::path>* files_;  // gets what is read
  Sources& sources_;
  Issues issues_;
  std::vector<std::string> names_;
  std::vector<SettableRun> bases_;
};

}  // namespace

ReadStudy read_study(const yaml::Node& root, const ReadOptions& options, Sources* sources, Issues issues) {
  Sources places;
  ReadOptions of_runs = options;
  of_runs.refuses_part = [](const yaml::Node& file, std::string_view folder) -> std::string {
    return folder == "runs" && is_study(file) ? "is a study, of many runs" : "";
  };
  auto config = read_config<StudyConfig>(root, of_runs, &places, std::move(issues));
  ReadStudy out = StudyReader(root, options, places).read(std::move(config));
  if (sources) *sources = std::move(places);
  return out;
}

}  // namespace specstep
