// Emulated XRT. Modules are not emulated.
#ifndef XRT_DOUBLE_MODULE_H
#define XRT_DOUBLE_MODULE_H

#include "xrt/detail/config.h"
#include "xrt/detail/pimpl.h"
#include "xrt/experimental/xrt_elf.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_hw_context.h"
#include "xrt/xrt_uuid.h"

#endif
