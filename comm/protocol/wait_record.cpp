#include "comm/protocol/wait_record.h"

#include "model/base/formatted.h"

namespace specstep::comm::protocol {

namespace {

std::string text_of(const Awaited& what) {
  switch (what.stage) {
    case Stage::data:
      return formatted("the data of pack {}", what.index);
    case Stage::partial:
      return formatted("its part of pack {}", what.index);
    case Stage::result:
      return formatted("the sum of pack {}", what.index);
    case Stage::crossing:
      return formatted("its island's part of pack {}", what.index);
    case Stage::hop:
      return formatted("the sum of pack {} as far as it", what.index);
    case Stage::start:
      return formatted("its start flag of block {}", what.index);
    case Stage::middle:
      return formatted("its middle flag of block {}", what.index);
    case Stage::end:
      return formatted("its end flag of block {}", what.index);
  }
  return "";
}

}  // namespace

std::string text_of(std::string_view name, const WaitRecord& record, int rank) {
  return formatted("allreduce {}, site {}, epoch {}: rank {} waited in vain for rank {}: {}", name, record.site,
                   record.epoch, rank, record.what.rank, text_of(record.what));
}

}  // namespace specstep::comm::protocol
