// What serving engines pick for an allreduce: their rules as rows, with source and date.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/pricing.h"

namespace specstep::comm {

/// What a rule asks of the GPUs.
enum class LinkWish { any, full_nvlink, not_full_nvlink };

/// The first rule of an engine that fits decides. `backend` empty: the code has no branch for it and launches nothing.
struct DispatchRule {
  std::string engine;
  int least_ranks = 2;
  int most_ranks = 8;
  LinkWish links = LinkWish::any;
  int from_capability = 0;       // compute capability, at least
  std::int64_t below_bytes = 0;  // 0: any size
  bool even_ranks = false;       // 2, 4, 6, 8 only
  bool packs = false;            // whole 16-byte packs only
  std::string backend;
  std::string note;
  std::string source;
};

const std::vector<DispatchRule>& dispatch_rules();
std::vector<std::string> dispatch_engines();

struct DispatchQuery {
  std::string engine;
  int ranks = 2;
  bool full_nvlink = false;
  int compute_capability = 90;
  std::int64_t bytes = 0;
};

/// The deciding rule. InputError for an engine that is not in the table.
const DispatchRule& dispatch(const DispatchQuery& query);

/// The backend that an engine picks for a call on this fabric; collectives other than all_reduce go to nccl. Throws
/// InputError that explains itself where the engine's code would launch nothing.
std::string engine_default(const std::string& engine, const Topology& topology, const Call& call);

/// A request for a backend and what became of it.
struct Choice {
  std::string requested;
  std::string used;
  std::string reason;
};

/// `requested`: an id, `engine-default`, or `auto`, the cheapest backend that gives the exact sum and is not refused.
/// Only `auto` chooses: an id that cannot serve is an InputError with the reason.
Choice choose(const std::string& requested, const std::string& engine, Pricer& pricer, const Call& call);

/// Does a backend give the sum, up to the order of additions? Not so: null, delay, q8.
bool gives_sum(const std::string& id);

}  // namespace specstep::comm
