// null and delay: no exchange at all, for what-if runs. Their results are not sums.
#include "comm/backend.h"

namespace specstep::comm {
namespace {

const std::vector<Collective> every_kind{Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                         Collective::all_to_all};

}  // namespace

BackendRow null_row() {
  return {"null",
          "no exchange: what free communication would give",
          every_kind,
          {},
          1 << 20,
          nullptr,
          [](const Topology&, const Call&) -> Prepared {
            return [](const Call&) { return CommPrice{0, "none", "nothing", Provenance::datasheet, false}; };
          }};
}

/// On a device, delay waits for a given time; alone it stands for NCCL on this fabric and so has NCCL's price.
BackendRow delay_row() {
  return {"delay",
          "a wait of the priced time, so that one GPU plays many: stands for nccl",
          every_kind,
          {},
          1 << 20,
          nullptr,
          [](const Topology& t, const Call& call) -> Prepared {
            return [nccl = nccl_row().prepare(t, call)](const Call& now) {
              CommPrice price = nccl(now);
              price.algorithm = "wait for " + price.algorithm;
              return price;
            };
          },
          nccl_row().refuses,
          0.25};
}

}  // namespace specstep::comm
