// Emulated XRT. Devices.
#ifndef XRT_DOUBLE_DEVICE_H
#define XRT_DOUBLE_DEVICE_H

#include "xrt/deprecated/xrt.h"
#include "xrt/detail/config.h"
#include "xrt/experimental/xrt_exception.h"
#include "xrt/experimental/xrt_xclbin.h"
#include "xrt/xrt_uuid.h"

#include "xrt/detail/abi.h"
#include "xrt/detail/any.h"
#include "xrt/detail/param_traits.h"
#include <memory>
#include <stdexcept>

namespace xrt_core {
class device;
}

namespace xrt {

namespace info {

enum class device : unsigned int {
  bdf,
  interface_uuid,
  kdma,
  max_clock_frequency_mhz,
  m2m,
  name,
};

XRT_INFO_PARAM_TRAITS(device::bdf, std::string);
XRT_INFO_PARAM_TRAITS(device::name, std::string);

} // namespace info

class device {
public:
  device() = default;
  XCL_DRIVER_DLLESPEC ~device();
  XCL_DRIVER_DLLESPEC explicit device(unsigned int didx);
  XCL_DRIVER_DLLESPEC explicit device(const std::string &bdf);
  explicit device(int didx) : device(static_cast<unsigned int>(didx)) {}
  explicit device(std::shared_ptr<xrt_core::device> hdl) : handle(std::move(hdl)) {}
  device(const device &rhs) = default;
  device &operator=(const device &rhs) = default;
  device(device &&rhs) = default;
  device &operator=(device &&rhs) = default;

  template <info::device param> typename info::param_traits<info::device, param>::return_type get_info() const {
    return std::any_cast<typename info::param_traits<info::device, param>::return_type>(
        get_info_std(param, xrt::detail::abi{}));
  }

  XCL_DRIVER_DLLESPEC uuid register_xclbin(const xrt::xclbin &xclbin);

  std::shared_ptr<xrt_core::device> get_handle() const { return handle; }
  explicit operator bool() const { return handle != nullptr; }

private:
  XCL_DRIVER_DLLESPEC std::any get_info_std(info::device param, const xrt::detail::abi &) const;

  std::shared_ptr<xrt_core::device> handle;
};

} // namespace xrt

#endif
