// Emulated XRT. The older name of a header.
#ifndef XRT_DOUBLE_EXPERIMENTAL_HW_CONTEXT_H
#define XRT_DOUBLE_EXPERIMENTAL_HW_CONTEXT_H

#include "xrt/xrt_hw_context.h"

#endif
