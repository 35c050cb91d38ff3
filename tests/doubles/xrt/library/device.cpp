// Devices, their buffers and their hardware contexts.
#include "internal.h"

#include <cstdlib>
#include <cstring>

using xrtd::driver;

namespace {

std::mutex open_mutex;
bool is_open = false;

std::shared_ptr<xrt_core::device> open_device(unsigned int index) {
  if (index > 0 || driver().setting("DEVICE") == "none")
    throw xrt_core::error(ENODEV, "No such device with index '" + std::to_string(index) + "'");
  return std::make_shared<xrt_core::device>();
}

std::shared_ptr<xrt::bo_impl> make_bo(const xrt::device &device, size_t size, xrt::bo::flags flags,
                                      xrt::memory_group group) {
  return std::make_shared<xrt::bo_impl>(device.get_handle(), size, flags, group);
}

constexpr size_t page = 4096;

} // namespace

namespace xrt_core {

device::device() {
  driver().attempt("device");
  std::lock_guard<std::mutex> lock(open_mutex);
  if (is_open)
    throw system_error(ENODEV, "failed to open the device: it is open already");
  driver().set_up("devices", 11);
  const auto model = driver().setting("DEVICE", "npu2");
  generation = model == "npu1" ? 1 : 2;
  name = driver().setting("NAME", generation == 1 ? "NPU Phoenix" : "NPU Strix");
  driver().add("devices_live");
  is_open = true;
}

device::~device() {
  driver().add("devices_live", -1);
  std::lock_guard<std::mutex> lock(open_mutex);
  is_open = false;
}

uint64_t device::most_contexts() const { return driver().number("CONTEXTS", generation == 1 ? 6 : 16); }

} // namespace xrt_core

namespace xrt {

device::device(unsigned int index) : handle(open_device(index)) {}

device::device(const std::string &) : device(0u) {}

device::~device() { xrtd::released(handle, "the device"); }

std::any device::get_info_std(info::device param, const detail::abi &) const {
  if (!handle)
    throw std::runtime_error("an uninitialized handle was used");
  switch (param) {
  case info::device::name: return handle->name;
  case info::device::bdf: return std::string("0000:c5:00.1");
  default: throw xrt_core::error(ENOTSUP, "this query is not emulated");
  }
}

uuid device::register_xclbin(const xrt::xclbin &xclbin) {
  driver().attempt("register_xclbin");
  auto uuid = xclbin.get_uuid();
  std::lock_guard<std::mutex> lock(handle->mutex);
  driver().set_up("registered", 0.1);
  handle->registered[uuid.to_string()] = xclbin;
  return uuid;
}

// Buffers

bo_impl::bo_impl(std::shared_ptr<xrt_core::device> on, size_t size_, bo::flags flags_, memory_group group_)
    : device(std::move(on)), size(size_), flags(flags_), group(group_) {
  driver().attempt("bo");
  if (!size)
    throw xrt_core::error(EINVAL, "Invalid buffer size '0'");
  const uint64_t limit = driver().number("MEMORY", UINT64_MAX);
  if (driver().count("bo_bytes") + size > limit)
    throw xrt_core::system_error(ENOMEM, "failed to allocate a buffer of " + std::to_string(size) + " bytes");
  const size_t rounded = (size + page - 1) / page * page;
  host = static_cast<uint8_t *>(std::aligned_alloc(page, rounded));
  if (!host)
    throw std::bad_alloc();
  std::memset(host, 0, rounded);
  // Nobody has brought anything to the device yet.
  copy.assign(size, 0xcd);
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    address = device->next_address;
    device->next_address += rounded;
  }
  driver().set_up("bos", static_cast<double>(size) / (4 << 20));
  driver().add("bos_live");
  driver().add("bo_bytes", static_cast<int64_t>(size));
}

bo_impl::~bo_impl() {
  driver().add("bos_live", -1);
  driver().add("bo_bytes", -static_cast<int64_t>(size));
  std::free(host);
}

bo::bo(const xrt::device &device, size_t size, bo::flags flags, memory_group group)
    : handle(make_bo(device, size, flags, group)) {}

bo::bo(const xrt::device &device, size_t size, memory_group group)
    : handle(make_bo(device, size, bo::flags::normal, group)) {}

bo::~bo() { xrtd::released(handle, "a buffer"); }

size_t bo::size() const { return handle->size; }

uint64_t bo::address() const { return handle->address; }

memory_group bo::get_memory_group() const { return handle->group; }

bo::flags bo::get_flags() const { return handle->flags; }

void *bo::map() { return handle->host; }

const void *bo::map() const { return handle->host; }

void bo::sync(xclBOSyncDirection direction, size_t size, size_t offset) {
  driver().attempt("sync");
  if (!size)
    throw xrt_core::system_error(EINVAL, "size must be a positive number");
  if (offset > handle->size || size > handle->size - offset)
    throw xrt_core::system_error(EINVAL, "offset exceeds buffer size");
  uint8_t *on_host = handle->host + offset;
  uint8_t *on_device = handle->copy.data() + offset;
  switch (direction) {
  case XCL_BO_SYNC_BO_TO_DEVICE:
    std::memcpy(on_device, on_host, size);
    driver().add("syncs_in");
    driver().add("bytes_in", static_cast<int64_t>(size));
    return;
  case XCL_BO_SYNC_BO_FROM_DEVICE:
    std::memcpy(on_host, on_device, size);
    driver().add("syncs_out");
    driver().add("bytes_out", static_cast<int64_t>(size));
    return;
  default: throw xrt_core::error(EINVAL, "this direction is not for an NPU");
  }
}

ext::bo::bo(const xrt::device &device, size_t size) : xrt::bo(make_bo(device, size, xrt::bo::flags::host_only, 0)) {}

// Hardware contexts

void hw_context_impl::take_slot(uint32_t columns) {
  driver().attempt("context");
  if (columns > device->columns())
    throw xrt_core::system_error(EINVAL, "DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL failed (err=-22): it asks for " +
                                             std::to_string(columns) + " columns");
  std::lock_guard<std::mutex> lock(device->mutex);
  const uint64_t most = device->most_contexts();
  for (slot = 0; slot < most && (device->slots >> slot & 1);)
    ++slot;
  if (slot >= most)
    throw xrt_core::system_error(EINVAL, "DRM_IOCTL_AMDXDNA_CREATE_HWCTX IOCTL failed (err=-22)");
  driver().set_up("contexts", 35);
  device->slots |= uint64_t{1} << slot;
  driver().add("contexts_live");
}

hw_context_impl::hw_context_impl(const xrt::device &on, const xrt::elf &elf_) : device(on.get_handle()), elf(elf_) {
  if (device->generation == 1)
    throw xrt_core::system_error(ENOTSUP, "this device does not support hardware contexts of an ELF");
  take_slot(elf.get_partition_size());
}

hw_context_impl::hw_context_impl(const xrt::device &on, const xrt::uuid &uuid) : device(on.get_handle()) {
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    auto found = device->registered.find(uuid.to_string());
    if (found == device->registered.end())
      throw xrt_core::error("No xclbin with uuid '" + uuid.to_string() + "' is registered");
    xclbin = found->second;
  }
  const auto columns = xrtd_xclbin_columns(xclbin.get_handle()->xclbin);
  if (!columns)
    throw xrt_core::error(ENOTSUP, "load_axlf: Operation not supported");
  take_slot(columns);
}

hw_context_impl::~hw_context_impl() {
  std::lock_guard<std::mutex> lock(device->mutex);
  device->slots &= ~(uint64_t{1} << slot);
  driver().add("contexts_live", -1);
}

hw_context::hw_context(const xrt::device &device, const xrt::elf &elf)
    : hw_context(std::make_shared<hw_context_impl>(device, elf)) {}

hw_context::hw_context(const xrt::device &device, const xrt::uuid &uuid, access_mode)
    : hw_context(std::make_shared<hw_context_impl>(device, uuid)) {}

hw_context::~hw_context() { xrtd::released(handle, "a hardware context"); }

xrt::device hw_context::get_device() const { return xrt::device(handle->device.get()); }

} // namespace xrt
