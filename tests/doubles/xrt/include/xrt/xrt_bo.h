// Emulated XRT. Buffer objects.
#ifndef XRT_DOUBLE_BO_H
#define XRT_DOUBLE_BO_H

#include "xrt/deprecated/xrt.h"
#include "xrt/detail/pimpl.h"
#include "xrt/detail/xrt_mem.h"

#include <memory>
#include <type_traits>

typedef uint32_t xrtMemoryGroup;

namespace xrt {

using memory_group = xrtMemoryGroup;

class device;
class hw_context;
class bo_impl;

class bo {
public:
  enum class flags : uint32_t {
    normal = 0,
    cacheable = XRT_BO_FLAGS_CACHEABLE,
    device_only = XRT_BO_FLAGS_DEV_ONLY,
    host_only = XRT_BO_FLAGS_HOST_ONLY,
    p2p = XRT_BO_FLAGS_P2P,
    svm = XRT_BO_FLAGS_SVM,
    carveout = XRT_BO_FLAGS_CARVEOUT,
  };

  bo() {}
  XCL_DRIVER_DLLESPEC bo(const xrt::device &device, size_t sz, bo::flags flags, memory_group grp);
  XCL_DRIVER_DLLESPEC bo(const xrt::device &device, size_t sz, memory_group grp);
  bo(const bo &rhs) = default;
  bo &operator=(const bo &rhs) = default;
  bo(bo &&rhs) = default;
  bo &operator=(bo &&rhs) = default;
  bool operator==(const bo &rhs) const { return handle == rhs.handle; }
  explicit operator bool() const { return handle != nullptr; }

  XCL_DRIVER_DLLESPEC size_t size() const;
  XCL_DRIVER_DLLESPEC uint64_t address() const;
  XCL_DRIVER_DLLESPEC memory_group get_memory_group() const;
  XCL_DRIVER_DLLESPEC flags get_flags() const;

  XCL_DRIVER_DLLESPEC void sync(xclBOSyncDirection dir, size_t sz, size_t offset);
  void sync(xclBOSyncDirection dir) { sync(dir, size(), 0); }

  XCL_DRIVER_DLLESPEC void *map();
  XCL_DRIVER_DLLESPEC const void *map() const;
  template <typename MapType> MapType map() { return reinterpret_cast<MapType>(map()); }
  template <typename MapType> MapType map() const {
    static_assert(std::is_pointer<MapType>::value && std::is_const<std::remove_pointer_t<MapType>>::value,
                  "a const buffer is mapped as a pointer to const");
    return reinterpret_cast<MapType>(map());
  }

  XCL_DRIVER_DLLESPEC ~bo();

  bool operator<(const xrt::bo &rhs) const { return handle < rhs.handle; }
  const std::shared_ptr<bo_impl> &get_handle() const { return handle; }
  bo(std::shared_ptr<bo_impl> impl) : handle(std::move(impl)) {}

private:
  std::shared_ptr<bo_impl> handle;
};

} // namespace xrt

#endif
