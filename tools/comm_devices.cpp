#include "tools/comm_devices.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "comm/host_measure.h"
#include "comm/report/device_report.h"
#include "comm/selector.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/comm_bench.h"
#include "sim/environment.h"
#include "tools/progress_line.h"

namespace specstep {

namespace {

constexpr const char* measured_options = "Options of --executor cuda and host";

/// KEY=VALUE pairs as the struct that they are keys of.
template <class T>
T settings_of(const char* option, const char* example, const std::vector<std::string>& pairs) {
  ReadOptions how;
  for (const std::string& pair : pairs)
    how.overrides.push_back(parse_override(pair, option, std::string("write key=value, as in ") + example));
  return read_config<T>(yaml::parse("{}", option), how);
}

comm::CommFault fault_of(const std::string& text) {
  const auto wrong = [&] {
    return InputError(
        Issue{{"--fault"}, "", "is '" + text + "'", "rank=R,call=C or rank=R,call=C,ranks=N, whole numbers from 0"});
  };
  std::map<std::string, int> given;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::size_t equals = part.find('=');
    int value = -1;
    if (equals == std::string::npos) throw wrong();
    const char* last = part.data() + part.size();
    const auto [end, failed] = std::from_chars(part.data() + equals + 1, last, value);
    if (failed != std::errc() || end != last || value < 0) throw wrong();
    if (!given.emplace(part.substr(0, equals), value).second) throw wrong();
  }
  const std::size_t known = given.count("rank") + given.count("call") + given.count("ranks");
  if (known != given.size() || !given.contains("rank") || !given.contains("call")) throw wrong();
  return {given["rank"], given["call"], given.contains("ranks") ? given["ranks"] : 0};
}

comm::MeasureRequest request_of(const DeviceOptions& options, const DeviceQuery& query) {
  comm::MeasureRequest request;
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
  request.own = options.own.empty() ? query.own.value_or(comm::OwnSettings{}) : *options.own_settings();
  request.nccl = options.nccl.empty() ? query.nccl.value_or(comm::NcclSettings{})
                                      : settings_of<comm::NcclSettings>("--nccl", "protocol=LL", options.nccl);
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

/// What only GPUs have has no part in a measurement on threads.
void refuse_on_host(const DeviceOptions& options) {
  const auto refuse = [](const char* option) {
    throw InputError(
        Issue{{option}, "", "is for GPUs; --executor host runs the protocols on threads", "--executor cuda"});
  };
  if (!options.devices.empty()) refuse("--devices");
  if (!options.own.empty()) refuse("--own");
  if (!options.nccl.empty()) refuse("--nccl");
  if (options.conditions != DeviceOptions{}.conditions) refuse("--conditions");
}

/// A fault that no measurement would meet is a mistake.
void check_fault(const comm::MeasureRequest& request, const std::vector<int>& ranks) {
  if (!request.fault || ranks.empty()) return;
  const comm::CommFault& fault = *request.fault;
  const bool met = std::any_of(ranks.begin(), ranks.end(),
                               [&](int n) { return (fault.ranks == 0 || fault.ranks == n) && fault.rank < n; });
  if (!met)
    throw InputError(
        Issue{{"--fault"}, "", "no measurement of --ranks has that rank", "a rank below a number of ranks"});
}

/// One number of ranks; 0 is as many as there are devices.
CommBenchmark measure(const DeviceOptions& options, comm::MeasureRequest request, int ranks) {
  request.ranks = ranks;
  if (request.fault && request.fault->ranks != 0 && request.fault->ranks != ranks) request.fault.reset();
  if (options.executor == "cuda") return measure_comm(request);
  CommBenchmark out;
  out.measured = comm::measure_on_host(request);
  return out;
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
  command
      .add_option("--executor", o.executor,
                  "cost prices, cuda measures on the GPUs here, host runs the protocols on threads: do calls end, are "
                  "sums right")
      ->check(CLI::IsMember({"cost", "cuda", "host"}))
      ->capture_default_str();
  command
      .add_option("--own", o.own,
                  "KEY=VALUE of comm.own, as in transfer=push (repeatable): how our own kernels run; given, they are "
                  "what is priced, instead of those of serving engines")
      ->take_all()
      ->expected(1);
  const auto group = [](CLI::Option* option) { return option->group(measured_options); };
  group(command.add_option("--devices", o.devices, "device of each rank of this host; one given twice is shared")
            ->delimiter(',')
            ->check(CLI::Range(0, 1023)));
  group(command
            .add_option(
                "--conditions", o.conditions,
                "on GPUs: graph (caches warm), cold (caches swept before each call), eager (launched one by one), "
                "norm (residual sum and norm behind, in one kernel and as two)")
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
  group(command.add_option("--nccl", o.nccl, "KEY=VALUE of comm.nccl (repeatable), on GPUs")->take_all()->expected(1));
  group(command.add_option(
      "--fault", o.fault,
      "rank=R,call=C[,ranks=N]: that rank makes no call from C on (among N ranks), to see what is said"));
  group(command.add_option("--save-table", common.saved_table,
                           "on GPUs: write which backend is fastest at which size, for comm.table_file of a run"));
  group(command.add_option("--format", o.format, "table, or the columns of nccl-tests")
            ->check(CLI::IsMember({"table", "nccl-tests"}))
            ->capture_default_str());
}

std::optional<comm::OwnSettings> DeviceOptions::own_settings() const {
  if (own.empty()) return std::nullopt;
  return settings_of<comm::OwnSettings>("--own", "transfer=push", own);
}

void refuse_without_measurement(const CLI::App& command) {
  static constexpr std::array<std::string_view, 4> of_gpus{"--devices", "--conditions", "--nccl", "--save-table"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != measured_options || option->count() == 0) continue;
    const bool gpus = std::find(of_gpus.begin(), of_gpus.end(), option->get_name()) != of_gpus.end();
    throw InputError(Issue{{option->get_name()},
                           "",
                           gpus ? "is read by --executor cuda" : "is read by executors that measure",
                           gpus ? "--executor cuda" : "--executor cuda or host"});
  }
}

namespace {

/// What was found for one number of ranks.
struct Found {
  CommBenchmark benchmark;
  comm::DeviceReport report;
  comm::Selection selection;
};

std::string text_of(const DeviceOptions& options, const Found& found) {
  const bool table = options.format == "table";
  std::string text = table ? comm::device_text(found.report) : comm::device_text_as_nccl_tests(found.report);
  const bool threads = options.executor == "host";
  if (threads) return text + "note: times of threads on this CPU; they say nothing of a GPU\n";
  for (const std::string& line : CLI::detail::split(comm::text_of(found.selection), '\n'))
    if (!line.empty()) text += formatted("{}{}\n", table ? "" : "# ", line);
  return text;
}

nlohmann::ordered_json json_of(const DeviceOptions& options, const std::vector<Found>& all) {
  nlohmann::ordered_json out = json_of(all.front().report, all.front().selection, all.front().benchmark);
  out["executor"] = options.executor;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const nlohmann::ordered_json more = comm::device_json(all[i].report);
    for (const char* list : {"rows", "crossovers", "backends"})
      for (const auto& one : more[list]) out[list].push_back(one);
  }
  return out;
}

std::vector<Found> measure_all(const DeviceOptions& options, const DeviceQuery& query, bool quiet) {
  comm::MeasureRequest request = request_of(options, query);
  check_fault(request, query.ranks);
  const ProgressLine line(quiet);
  request.progress = [&](const std::string& text) { line.show(text); };
  std::vector<Found> all;
  for (const int ranks : query.ranks.empty() ? std::vector<int>{0} : query.ranks) {
    Found found{measure(options, request, ranks), {}, {}};
    const std::string where = options.executor == "host" ? "threads of this CPU" : where_of(found.benchmark);
    found.report = comm::device_report(found.benchmark.measured, where, query.model);
    found.selection = comm::select(comm::curves_to_select(found.benchmark.measured));
    all.push_back(std::move(found));
  }
  return all;
}

bool all_refused(const Found& found) {
  const auto& backends = found.benchmark.measured.backends;
  return std::all_of(backends.begin(), backends.end(), [](const auto& b) {
    return !b.refusal.empty() ||
           std::all_of(b.sizes.begin(), b.sizes.end(), [](const auto& size) { return !size.refusal.empty(); });
  });
}

}  // namespace

void run_on_devices(const DeviceOptions& options, const DeviceQuery& query, const CommonOptions& common) {
  if (options.executor == "host") {
    refuse_on_host(options);
    if (query.ranks.empty())
      throw InputError(
          Issue{{"--ranks"},
                "",
                "missing",
                "how many threads, as in 2,4,8: --executor host counts neither devices nor a config's ranks"});
  }
  if (common.saved_table && (query.ranks.size() > 1 || options.executor == "host"))
    throw InputError(Issue{{"--save-table"}, "", "is for one number of ranks on GPUs", "--executor cuda --ranks N"});
  const std::vector<Found> all = measure_all(options, query, common.quiet);
  if (!all.front().benchmark.reports) return;
  std::string text;
  std::vector<comm::CommTable> tables;
  for (const Found& found : all) {
    text += (text.empty() ? "" : "\n") + text_of(options, found);
    tables.insert(tables.end(), found.report.tables.begin(), found.report.tables.end());
  }
  deliver(common, {text, [&] { return json_of(options, all); }, [&] { return comm::comm_csv(tables); },
                   [&] { return saved(all.front().selection, all.front().benchmark); }});
  if (std::any_of(all.begin(), all.end(), [](const Found& f) { return comm::any_failed(f.benchmark.measured); }))
    throw Error("a backend failed, see above");
  if (std::all_of(all.begin(), all.end(), all_refused)) throw Unsupported("no backend can run here, see above");
}

}  // namespace specstep
