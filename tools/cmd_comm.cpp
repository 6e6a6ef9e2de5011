// specstep comm: one collective over sizes and backends, priced or from measured tables.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/backend.h"
#include "comm/report/comm_table.h"
#include "comm/report/sizes.h"
#include "model/base/formatted.h"
#include "sim/number_list.h"
#include "tools/cli.h"
#include "tools/comm_devices.h"
#include "tools/fabric_argument.h"

namespace specstep {

namespace {

struct CommCommand {
  CommonOptions common;
  std::string config;
  std::string ranks;
  std::string bytes = "1K:1M:x2";
  std::vector<std::string> backends;
  std::vector<std::string> tables;
  std::string collective = "all_reduce";
  std::string dtype = "bf16";
  bool eager = false;
  std::int64_t hidden = 0;
  std::int64_t value_bytes = 2;
  double uncertainty = 0.05;
  DeviceOptions devices;
};

template <class E>
E value_of(const std::string& name) {
  const auto names = EnumNames<E>::names();
  return static_cast<E>(std::find(names.begin(), names.end(), name) - names.begin());
}

comm::Call call_of(const CommCommand& options, int ranks) {
  return {value_of<comm::Collective>(options.collective), ranks, 0, value_of<DType>(options.dtype), !options.eager};
}

/// Numbers of ranks, one table or measurement for each; none: the default.
std::vector<int> ranks_of(const CommCommand& options) {
  std::vector<int> out;
  if (options.ranks.empty()) return out;
  for (const std::int64_t n : parse_number_list("--ranks", options.ranks, {.min = 1, .max = 1024}))
    out.push_back(static_cast<int>(n));
  return out;
}

std::vector<std::string> backends_of(const CommCommand& options) {
  std::vector<std::string> backends;
  for (const std::string& id : options.backends) backends.push_back(CLI::detail::trim_copy(id));
  return backends;
}

/// A table for each number of ranks.
std::vector<comm::CommTable> priced(const CommCommand& options, const ConfigLibrary& library) {
  const NamedFabric named = fabric_argument(options.config, options.common, library);
  check_outputs(options.common);
  comm::Pricer pricer(comm::build_topology(named.spec));
  const int all = comm::gpu_count(pricer.topology());
  std::vector<int> numbers = ranks_of(options);
  if (numbers.empty()) numbers.push_back(named.ranks);
  std::vector<comm::CommTable> tables;
  for (const int ranks : numbers) {
    if (ranks > all)
      throw InputError(Issue{{},
                             "--ranks",
                             formatted("is {}", ranks),
                             formatted("at most the {} GPU{} of {}", all, all == 1 ? "" : "s", named.name)});
    comm::Call call = call_of(options, ranks);
    call.own = options.devices.own.empty() ? named.own : options.devices.own_settings();
    tables.push_back(comm::comm_table(pricer, {call, comm::parse_sizes(options.bytes), backends_of(options)}));
    if (!named.spec.nccl.protocol.empty())
      tables.back().notes.push_back("nccl keeps to the protocol of comm.nccl: " + named.spec.nccl.protocol);
  }
  return tables;
}

/// Tables and prices side by side: said where they were launched differently, or may have been.
void note_other_launch(std::vector<comm::CommTable>& tables) {
  comm::CommTable& priced = tables.back();
  bool unknown = false;
  bool other = false;
  for (const comm::CommTable& table : tables) {
    unknown = unknown || !table.mode_known;
    other = other || (table.mode_known && table.call.captured != priced.call.captured);
  }
  const std::string here = priced.call.captured ? "in a CUDA graph" : "launched eagerly";
  if (other)
    priced.notes.push_back("priced " + here + ", measured otherwise: their crossovers are not the same question");
  if (unknown) priced.notes.push_back("priced " + here + "; a table that was launched otherwise crosses elsewhere");
}

void measure(const CommCommand& options, const ConfigLibrary& library) {
  const auto refuse = [](const char* option, const char* allowed) {
    throw InputError(Issue{{option}, "", "has no part in a measurement on devices", allowed});
  };
  if (!options.tables.empty()) refuse("--table", "a comparison of its own");
  if (options.eager) refuse("--eager", "--conditions eager");
  if (options.collective != "all_reduce") refuse("--collective", "all_reduce");
  if (options.config.empty() && !options.common.sets.empty()) refuse("--set", "a config whose keys it sets");
  std::optional<comm::Pricer> model;
  NamedFabric named;
  if (!options.config.empty()) {
    named = fabric_argument(options.config, options.common, library);
    model.emplace(comm::build_topology(named.spec));
  }
  for (const std::string& id : backends_of(options)) comm::backend(id);  // names that do not exist
  const DeviceQuery query{ranks_of(options),
                          comm::parse_sizes(options.bytes),
                          backends_of(options),
                          value_of<DType>(options.dtype),
                          model ? &*model : nullptr,
                          named.own,
                          named.nccl};
  check_outputs(options.common);
  run_on_devices(options.devices, query, options.common);
}

void run_comm(const CommCommand& options, const CLI::App& command) {
  const ConfigLibrary library = ConfigLibrary::installed();
  if (options.devices.measures()) return measure(options, library);
  refuse_without_measurement(command);
  if (options.config.empty() && options.tables.empty())
    throw InputError(Issue{{"specstep comm"}, "", "nothing to price", "a config, --table FILE, or both"});
  if (options.config.empty() && !options.devices.own.empty())
    throw InputError(Issue{{"--own"}, "", "has no part in a measured table", "a config whose fabric is priced"});
  for (const std::string& file : options.tables) options.common.inputs->emplace_back(file);
  check_outputs(options.common);
  std::vector<comm::CommTable> tables;
  const std::vector<int> ranks = ranks_of(options);
  if (!options.tables.empty() && ranks.size() > 1)
    throw InputError(Issue{{"--ranks"}, "", "several numbers beside a measured table", "that of the table"});
  for (const std::string& file : options.tables) {
    const auto measured = comm::measured_table(comm::CsvTable::load(file), {options.hidden, options.value_bytes});
    tables.push_back(
        comm::measured_comm_table(measured, call_of(options, ranks.empty() ? 0 : ranks.front()), options.uncertainty));
  }
  if (!options.config.empty()) {
    for (comm::CommTable& table : priced(options, library)) tables.push_back(std::move(table));
    if (!options.tables.empty()) note_other_launch(tables);
  }
  std::string text;
  for (const comm::CommTable& table : tables) text += (text.empty() ? "" : "\n") + comm::comm_text(table);
  deliver(options.common, {text, [&] { return comm::comm_json(tables); }, [&] { return comm::comm_csv(tables); }});
}

void add_table_options(CLI::App& command, CommCommand& o) {
  CLI::Option* table = command.add_option("--table", o.tables, "measured table (CSV: bytes, NAME_us, ...); repeatable")
                           ->take_all()
                           ->expected(1);
  command.add_option("--hidden", o.hidden, "hidden size, for tables whose sizes are rows")
      ->check(CLI::Range(1, 1 << 24))
      ->needs(table);
  command.add_option("--value-bytes", o.value_bytes, "bytes of a value, for tables whose sizes are rows or elements")
      ->check(CLI::Range(1, 8))
      ->needs(table)
      ->capture_default_str();
  bounded(
      command.add_option("--uncertainty", o.uncertainty, "relative error of a measured value, for the crossover band"),
      0, 0.9)
      ->needs(table)
      ->capture_default_str();
}

}  // namespace

void add_comm(CLI::App& app) {
  auto options = std::make_shared<CommCommand>();
  CLI::App* command =
      app.add_subcommand("comm", "one allreduce over sizes and backends; which is best from which size");
  command->add_option("config", options->config, "a run, machine or fabric file, or the name of an installed one");
  command->add_option("--ranks", options->ranks,
                      "GPUs that take part, as in 8 or 2,4,8; default: those of the run, else all of the machine");
  command->add_option("--bytes", options->bytes, "message sizes: a,b,c or a:b:x2 or a:b:step")->capture_default_str();
  command->add_option("--backends", options->backends, "these backends only, separated by commas")->delimiter(',');
  command->add_option("--collective", options->collective, "all_reduce, all_gather, reduce_scatter or all_to_all")
      ->check(CLI::IsMember(EnumNames<comm::Collective>::names()))
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "type of a value")
      ->check(CLI::IsMember(EnumNames<DType>::names()))
      ->capture_default_str();
  command->add_flag("--eager", options->eager, "launched one by one instead of in a CUDA graph");
  add_table_options(*command, *options);
  add_device_options(*command, options->devices, options->common);
  add_common(*command, options->common,
             "specstep comm asus_dual_turin_collapse --bytes 14336,43008 --backends nccl,pull1,island");
  command->callback([options, command] { run_comm(*options, *command); });
}

}  // namespace specstep
