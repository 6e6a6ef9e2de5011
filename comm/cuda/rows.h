// The backends that have a device version; one function and one row of device_comm.cpp each.
#pragma once

#include <memory>

#include "comm/cuda/device_comm.h"

namespace specstep::comm {

/// Each opens this rank's end; see open_comm.
std::unique_ptr<DeviceComm> open_nccl(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_nccl_sym(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_nccl_dev(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_null(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_delay(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_push1(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_pull1(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_rsag(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_island(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_hostbc(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_ring(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_ce(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_q8(const CommRequest& request, Bootstrap& group);
std::unique_ptr<DeviceComm> open_nvls(const CommRequest& request, Bootstrap& group);

}  // namespace specstep::comm
