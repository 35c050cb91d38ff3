// Emulated XRT. What is left of the C API.
#ifndef XRT_DOUBLE_DEPRECATED_XRT_H
#define XRT_DOUBLE_DEPRECATED_XRT_H

#include <cstdint>
#include <cstdlib>

#include "xrt/detail/config.h"
#include "xrt/detail/xclbin.h"

typedef void *xclDeviceHandle;
typedef unsigned int xclBufferHandle;
typedef int32_t xclBufferExportHandle;

enum xclBOSyncDirection {
  XCL_BO_SYNC_BO_TO_DEVICE = 0,
  XCL_BO_SYNC_BO_FROM_DEVICE,
  XCL_BO_SYNC_BO_GMIO_TO_AIE,
  XCL_BO_SYNC_BO_AIE_TO_GMIO,
};

#endif
