// Emulated XRT. Extensions: buffers without a memory group, kernels of full ELFs.
#ifndef XRT_DOUBLE_EXT_H
#define XRT_DOUBLE_EXT_H

#include "xrt/detail/config.h"
#include "xrt/experimental/xrt_module.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_hw_context.h"
#include "xrt/xrt_kernel.h"

#include <cstdint>

namespace xrt::ext {

class bo : public xrt::bo {
public:
  XRT_API_EXPORT bo(const xrt::device &device, size_t sz);
};

class kernel : public xrt::kernel {
public:
  XRT_API_EXPORT kernel(const xrt::hw_context &ctx, const std::string &name);
};

} // namespace xrt::ext

#endif
