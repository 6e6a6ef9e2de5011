// What a fabric file holds: the parts of one machine that carry traffic between its GPUs, and how they misbehave.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/fabric_kinds.h"
#include "comm/own_kernels.h"
#include "model/base/describe.h"
#include "model/base/quantity.h"

namespace specstep::comm {

struct NodeSpec {
  std::string id;
  NodeKind kind = NodeKind::gpu;
  bool acs_redirect = false;  // of a switch: peer traffic is sent up to the root complex and back
};

/// A class of links; `latency` is the time a small packet needs to pass it.
struct LinkType {
  LinkKind kind = LinkKind::pcie;
  Quantity bandwidth_gb_s;
  std::optional<Quantity> back_gb_s;  // from b to a, where it differs
  Quantity latency_us;
  int generation = 0;
  int width = 0;
};

struct LinkSpec {
  std::string a;
  std::string b;
  std::string type;
  std::optional<int> width;  // lanes that trained, when fewer than the type has
};

/// A pair of GPUs whose path differs from the default, in both directions.
struct PathSpec {
  std::string a;
  std::string b;
  PathClass path = PathClass::p2p;
};

/// The GPU as an end of the fabric.
struct EndpointSpec {
  Quantity flag_us;             // fixed part of a one-way flag: store, visibility, poll
  Quantity read_us;             // fixed part of a dependent remote read
  Quantity arrival_us;          // lateness scale of one rank; see schedule_price.cpp
  Quantity stage_us;            // between stages of a kernel that a barrier parts: block sync, fence, next addresses
  Quantity graph_node_us;       // one kernel node of a replayed CUDA graph
  Quantity eager_launch_us;     // shortest interval between two eager launches of a small kernel
  Quantity copy_operation_us;   // one copy-engine operation
  Quantity read_tags;           // PCIe reads in flight
  Quantity read_request_bytes;  // of one of them
  Quantity blocks;              // thread blocks of a communication kernel
  Quantity threads;             // threads of a block; each has one 16-byte load per peer in flight
  Quantity reduce_gb_s;         // local bytes per second while summing
  std::optional<OwnKernels> own_kernels;  // steps of our own kernels, where they were measured
};

/// Peer traffic staged through system memory: what a GPU gets then, or all GPUs together.
struct StagingSpec {
  Quantity bandwidth_gb_s;
  bool shared = false;  // all GPUs together
  Quantity latency_us;
};

/// A slowdown that flows cause together. It applies when, in one direction, at least `switches` switches each have at
/// least `sources` sending GPUs with at least `destinations` destinations among the flows of this operation that
/// pass a link of kind `across`. Those flows then share `bandwidth_gb_s` within each pool.
/// Flows have one direction when the first link of that kind on their way is the same.
struct SlowdownSpec {
  std::string name;
  Operation operation = Operation::write;
  LinkKind across = LinkKind::socket;
  int sources = 1;
  int destinations = 2;
  Ends counted = Ends::root;  // destinations are counted by root complex or by GPU
  int switches = 1;
  bool both_ways = false;  // the opposite direction triggers too
  Pool pool = Pool::direction;
  Quantity bandwidth_gb_s;
  std::string remedy;
};

/// What NCCL makes of this fabric: the channel graph of its search, by number of ranks.
struct NcclGraph {
  int ranks = 0;  // up to this many
  int channels = 2;
  Quantity channel_gb_s;
  std::string note;
};

/// What an algorithm of NCCL takes beside its hops and bytes on this host, where that was measured. It enters the price
/// and not the choice: NCCL does not know it.
struct NcclBases {
  std::optional<Quantity> ring_ll_us;      // ring LL
  std::optional<Quantity> agxll_r_us;      // symmetric windows: all-gather in LL, reduced locally
  std::optional<Quantity> rsxld_agxst_us;  // symmetric windows: reduce-scatter by loads, all-gather by stores
};

struct NcclSpec {
  std::string version = "2.28.9";
  int compute_capability = 90;           // smallest of the GPUs, 120 for sm_120
  NcclLevel p2p_level = NcclLevel::pxb;  // pairs further apart than this talk through shared host memory
  Quantity eager_us;                     // shortest interval between two eager calls
  Quantity shm_hop_us;                   // per-step latency through shared host memory (LL)
  Quantity shm_bus_gb_s;                 // bus bandwidth of a ring through it
  NcclBases measured_base;
  bool nvls = false;  // NVLink multicast allowed
  std::vector<NcclGraph> graphs;
  std::string protocol;  // NCCL_PROTO of a run; not part of a file, empty: NCCL's own choice
};

/// A fabric file. GPUs in file order are ranks 0..n-1.
struct FabricSpec {
  std::string summary;
  std::string source;
  std::vector<NodeSpec> nodes;
  std::map<std::string, LinkType> link_types;
  std::vector<LinkSpec> links;
  EndpointSpec gpu;
  PathClass default_path = PathClass::p2p;
  std::vector<PathSpec> paths;
  std::optional<StagingSpec> staging;
  std::vector<SlowdownSpec> slowdowns;
  bool multicast = false;  // the switch can reduce and broadcast
  NcclSpec nccl;
};

/// The same fabric with its first `count` GPUs only; switches and memories stay. More than there are: unchanged.
FabricSpec first_gpus(FabricSpec spec, int count);

/// "2.28.9" or "2.28" as numbers; nothing for other texts.
std::optional<std::array<int, 3>> nccl_version(const std::string& text);
/// Every number that prices are made of.
std::vector<const Quantity*> quantities_of(const FabricSpec& spec);

void describe(Fields& f, NodeSpec& n);
void describe(Fields& f, LinkType& l);
void describe(Fields& f, LinkSpec& l);
void describe(Fields& f, PathSpec& p);
void describe(Fields& f, EndpointSpec& e);
void describe(Fields& f, StagingSpec& s);
void describe(Fields& f, SlowdownSpec& s);
void describe(Fields& f, NcclGraph& g);
void describe(Fields& f, NcclSpec& n);
void describe(Fields& f, FabricSpec& s);
void check(const LinkType& l, Checker& c);
void check(const EndpointSpec& e, Checker& c);
void check(const StagingSpec& s, Checker& c);
void check(const SlowdownSpec& s, Checker& c);
void check(const NcclSpec& n, Checker& c);
void check(const FabricSpec& s, Checker& c);

}  // namespace specstep::comm
