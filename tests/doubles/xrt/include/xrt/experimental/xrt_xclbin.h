// Emulated XRT. xclbins: the part that a launcher for an NPU needs.
#ifndef XRT_DOUBLE_XCLBIN_H
#define XRT_DOUBLE_XCLBIN_H

#include "xrt/xrt_uuid.h"

#include "xrt/deprecated/xrt.h"
#include "xrt/detail/config.h"
#include "xrt/detail/pimpl.h"
#include "xrt/detail/xclbin.h"

#include <string>
#include <string_view>
#include <vector>

namespace xrt {

class xclbin_impl;
class xclbin : public detail::pimpl<xclbin_impl> {
public:
  class kernel_impl;
  class kernel : public detail::pimpl<kernel_impl> {
  public:
    kernel() = default;
    explicit kernel(std::shared_ptr<kernel_impl> handle) : detail::pimpl<kernel_impl>(std::move(handle)) {}

    XRT_API_EXPORT std::string get_name() const;
    XRT_API_EXPORT size_t get_num_args() const;
  };

public:
  xclbin() = default;
  explicit xclbin(std::shared_ptr<xclbin_impl> handle) : detail::pimpl<xclbin_impl>(handle) {}

  XRT_API_EXPORT explicit xclbin(const std::string &filename);
  XRT_API_EXPORT explicit xclbin(const std::vector<char> &data);
  XRT_API_EXPORT explicit xclbin(const std::string_view &data);

  XRT_API_EXPORT std::vector<kernel> get_kernels() const;
  XRT_API_EXPORT kernel get_kernel(const std::string &name) const;
  XRT_API_EXPORT uuid get_uuid() const;
};

} // namespace xrt

#endif
