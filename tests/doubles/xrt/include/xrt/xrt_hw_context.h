// Emulated XRT. Hardware contexts.
#ifndef XRT_DOUBLE_HW_CONTEXT_H
#define XRT_DOUBLE_HW_CONTEXT_H

#include "xrt/detail/config.h"
#include "xrt/detail/pimpl.h"

#include "xrt/xrt_device.h"
#include "xrt/xrt_uuid.h"

#include "xrt/experimental/xrt_elf.h"

#include <map>

namespace xrt {

class hw_context_impl;
class hw_context : public detail::pimpl<hw_context_impl> {
public:
  using cfg_param_type = std::map<std::string, uint32_t>;

  enum class access_mode : uint8_t { exclusive = 0, shared = 1 };

  hw_context() = default;
  XRT_API_EXPORT hw_context(const xrt::device &device, const xrt::elf &elf);
  XRT_API_EXPORT hw_context(const xrt::device &device, const xrt::uuid &xclbin_id, access_mode mode);
  hw_context(const xrt::device &device, const xrt::uuid &xclbin_id)
      : hw_context{device, xclbin_id, access_mode::shared} {}
  hw_context(std::shared_ptr<hw_context_impl> impl) : detail::pimpl<hw_context_impl>(std::move(impl)) {}
  hw_context(const hw_context &) = default;
  hw_context(hw_context &&) = default;
  XRT_API_EXPORT ~hw_context();
  hw_context &operator=(const hw_context &) = default;
  hw_context &operator=(hw_context &&) = default;

  XRT_API_EXPORT xrt::device get_device() const;
};

} // namespace xrt

#endif
