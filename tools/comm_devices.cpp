#include "tools/comm_devices.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "comm/report/device_report.h"
#include "comm/selector.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/comm_bench.h"
#include "sim/environment.h"
#include "tools/progress_line.h"

namespace specstep {

namespace {

/// KEY=VALUE pairs as the struct that they are keys of.
template <class T>
T settings_of(const char* option, const std::vector<std::string>& pairs) {
  ReadOptions how;
  for (const std::string& pair : pairs) how.overrides.push_back(parse_override(pair));
  return read_config<T>(yaml::parse("{}", option), how);
}

comm::CommFault fault_of(const std::string& text) {
  const auto wrong = [&] {
    return InputError(Issue{{"--fault"}, "", "is '" + text + "'", "rank=R,call=C, whole numbers from 0"});
  };
  std::map<std::string, int> given;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::size_t equals = part.find('=');
    int value = -1;
    if (equals == std::string::npos) throw wrong();
    const char* last = part.data() + part.size();
    const auto [end, failed] = std::from_chars(part.data() + equals + 1, last, value);
    if (failed != std::errc() || end != last || value < 0) throw wrong();
    given[part.substr(0, equals)] = value;
  }
  if (given.size() != 2 || !given.contains("rank") || !given.contains("call")) throw wrong();
  return {given["rank"], given["call"]};
}

comm::MeasureRequest request_of(const DeviceOptions& options, const DeviceQuery& query) {
  comm::MeasureRequest request;
  request.ranks = query.ranks;
  request.devices = options.devices;
  request.backends = query.backends;
  request.sizes = query.sizes;
  request.dtype = query.dtype;
  request.calls = options.calls;
  request.replays = options.replays;
  request.seconds_each = options.seconds;
  const auto asked = [&](const char* name) {
    return std::find(options.conditions.begin(), options.conditions.end(), name) != options.conditions.end();
  };
  request.graph = asked("graph");
  request.cold = asked("cold");
  request.eager = asked("eager");
  request.norm = asked("norm");
  request.width = options.width;
  request.check_only = options.check;
  request.own = settings_of<comm::OwnSettings>("--own", options.own);
  request.nccl = settings_of<comm::NcclSettings>("--nccl", options.nccl);
  if (query.model) request.target = &query.model->topology();
  request.wait_limit_seconds = options.wait_limit;
  if (!options.fault.empty()) request.fault = fault_of(options.fault);
  if (query.dtype != DType::f32 && query.dtype != DType::f16 && query.dtype != DType::bf16)
    throw InputError(
        Issue{{"--dtype"}, "", name_of(query.dtype) + " values are not summed on devices", "f32, f16 or bf16"});
  const auto width = static_cast<std::int64_t>(bytes_of(query.dtype));
  for (const std::int64_t bytes : query.sizes)
    if (bytes % width != 0)
      throw InputError(Issue{{"--bytes"},
                             "",
                             formatted("{} bytes are no whole values of {}", bytes, name_of(query.dtype)),
                             formatted("multiples of {}", width)});
  return request;
}

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return formatted("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

/// "2 x NVIDIA H200".
std::string where_of(const CommBenchmark& found) {
  std::string text;
  std::map<std::string, int> names;
  for (const DeviceFacts& device : found.devices) ++names[device.name];
  for (const auto& [name, count] : names) text += formatted("{}{} x {}", text.empty() ? "" : ", ", count, name);
  return text;
}

/// The table, and what it was measured with.
std::string saved(const comm::Selection& selection, const CommBenchmark& found) {
  if (selection.rows.empty()) throw Error("--save-table: nothing was measured that a table could hold");
  std::vector<std::string> comments{formatted("allreduce of {} on {} ranks, {}", name_of(found.measured.dtype),
                                              found.measured.ranks, where_of(found)),
                                    formatted("measured by specstep {} on {}", program_version(), date_text())};
  std::string versions;
  for (const auto& [name, version] : library_versions())
    if (name == "cuda" || name == "cuda driver" || name == "nccl")
      versions += formatted("{}{} {}", versions.empty() ? "" : ", ", name, version);
  comments.push_back(versions);
  for (const comm::Crossover& x : selection.crossovers)
    comments.push_back(formatted("{} and {} cannot be told apart from {} to {}", x.below, x.above, bytes_text(x.low),
                                 bytes_text(x.high)));
  return comm::yaml_of(selection, comments);
}

nlohmann::ordered_json json_of(const comm::DeviceReport& report, const comm::Selection& selection,
                               const CommBenchmark& found) {
  nlohmann::ordered_json out = comm::device_json(report);
  out["executor"] = "cuda";
  out["environment"] = environment(found.devices);
  out["environment"]["libraries"] = nlohmann::ordered_json::object();
  for (const auto& [name, version] : library_versions()) out["environment"]["libraries"][name] = version;
  out["device_of_rank"] = found.device_of;
  out["table"] = nlohmann::ordered_json::array();
  for (const comm::SelectedRow& row : selection.rows) {
    out["table"].push_back({{"backend", row.backend}});
    if (row.up_to_bytes) out["table"].back()["up_to_bytes"] = *row.up_to_bytes;
  }
  return out;
}

}  // namespace

void add_device_options(CLI::App& command, DeviceOptions& o, CommonOptions& common) {
  command.add_option("--executor", o.executor, "cost prices, cuda measures on the GPUs here")
      ->check(CLI::IsMember({"cost", "cuda"}))
      ->capture_default_str();
  const auto group = [](CLI::Option* option) { return option->group("Options of --executor cuda"); };
  group(command.add_option("--devices", o.devices, "device of each rank of this host; one given twice is shared")
            ->delimiter(',')
            ->check(CLI::Range(0, 1023)));
  group(command
            .add_option("--conditions", o.conditions,
                        "graph (caches warm), cold (caches swept before each call), eager (launched one by one), norm "
                        "(residual sum and norm behind, in one kernel and as two)")
            ->delimiter(',')
            ->check(CLI::IsMember({"graph", "cold", "eager", "norm"})));
  group(command.add_option("--width", o.width, "values in a row, for the condition norm")
            ->check(CLI::Range(8, 65536))
            ->capture_default_str());
  group(command.add_flag("--check", o.check, "check sums only; without it they are checked before they are timed"));
  group(command.add_option("--calls", o.calls, "calls in a graph")->check(CLI::Range(1, 4096))->capture_default_str());
  group(command.add_option("--replays", o.replays, "replays of a graph at most")
            ->check(CLI::Range(1, 100000))
            ->capture_default_str());
  group(bounded(command.add_option("--seconds", o.seconds, "for the replays of one backend, size and condition"), 0, 60)
            ->capture_default_str());
  group(bounded(command.add_option("--wait-limit", o.wait_limit, "seconds after which a wait for a rank is given up"),
                0.1, 3600)
            ->capture_default_str());
  group(
      command.add_option("--own", o.own, "KEY=VALUE of comm.own, as in wire=ll (repeatable)")->take_all()->expected(1));
  group(command.add_option("--nccl", o.nccl, "KEY=VALUE of comm.nccl (repeatable)")->take_all()->expected(1));
  group(
      command.add_option("--fault", o.fault, "rank=R,call=C: that rank makes no call from C on, to see what is said"));
  group(command.add_option("--save-table", common.saved_table,
                           "write which backend is fastest at which size, for comm.table_file of a run"));
  group(command.add_option("--format", o.format, "table, or the columns of nccl-tests")
            ->check(CLI::IsMember({"table", "nccl-tests"}))
            ->capture_default_str());
}

void refuse_without_measurement(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_group() == "Options of --executor cuda" && option->count() > 0)
      throw InputError(Issue{{option->get_name()}, "", "is read by --executor cuda only", "--executor cuda"});
}

void run_on_devices(const DeviceOptions& options, const DeviceQuery& query, const CommonOptions& common) {
  comm::MeasureRequest request = request_of(options, query);
  const CommBenchmark found = [&] {
    const ProgressLine line(common.quiet);
    request.progress = [&](const std::string& text) { line.show(text); };
    return measure_comm(request);
  }();
  if (!found.reports) return;
  const comm::DeviceReport report = comm::device_report(found.measured, where_of(found), query.model);
  const comm::Selection selection = comm::select(comm::curves_to_select(found.measured));
  std::string text = options.format == "table" ? comm::device_text(report) : comm::device_text_as_nccl_tests(report);
  const std::string indent = options.format == "table" ? "" : "# ";
  for (const std::string& line : CLI::detail::split(comm::text_of(selection), '\n'))
    if (!line.empty()) text += formatted("{}{}\n", indent, line);
  deliver(common, {text, [&] { return json_of(report, selection, found); },
                   [&] { return comm::comm_csv(report.tables); }, [&] { return saved(selection, found); }});
  if (comm::any_failed(found.measured)) throw Error("a backend failed, see above");
  const auto& backends = found.measured.backends;
  if (std::all_of(backends.begin(), backends.end(), [](const auto& b) { return !b.refusal.empty(); }))
    throw Unsupported("no backend can run here, see above");
}

}  // namespace specstep
