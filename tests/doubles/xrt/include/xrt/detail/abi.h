// Emulated XRT. The version that a program was compiled with, as its inline functions pass it on.
#ifndef XRT_DOUBLE_DETAIL_ABI_H
#define XRT_DOUBLE_DETAIL_ABI_H

#ifndef DISABLE_ABI_CHECK
#include "xrt/detail/version-slim.h"
#endif

namespace xrt {
namespace detail {

struct abi {
#ifndef DISABLE_ABI_CHECK
  const unsigned int major{XRT_MAJOR(XRT_VERSION_CODE)};
  const unsigned int minor{XRT_MINOR(XRT_VERSION_CODE)};
  const unsigned int code{XRT_VERSION_CODE};
#else
  const unsigned int major{0};
  const unsigned int minor{0};
  const unsigned int code{0};
#endif
};

} // namespace detail
} // namespace xrt

#endif
