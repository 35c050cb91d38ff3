// What the parts of the emulated library share: the emulated driver with its settings, counters and
// faults, the implementations behind the handles, and the functions of the Rust part (src/device.rs).
#pragma once

#include "xrt/experimental/xrt_elf.h"
#include "xrt/experimental/xrt_ext.h"
#include "xrt/experimental/xrt_kernel.h"
#include "xrt/experimental/xrt_xclbin.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_hw_context.h"
#include "xrt/xrt_kernel.h"

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

extern "C" {

struct xrtd_elf;
struct xrtd_xclbin;

struct xrtd_kernel_view {
  const char *name;
  const char *instance;
  uint32_t arguments;
  uint64_t patched;
  const uint8_t *code;
  size_t code_size;
};

struct xrtd_argument {
  uint32_t offset;
  uint32_t size;
  int32_t bank;
};

struct xrtd_span {
  uint8_t *data;
  size_t size;
};

xrtd_elf *xrtd_elf_open(const void *data, size_t size, const char **refusal);
void xrtd_elf_close(xrtd_elf *elf);
uint32_t xrtd_elf_columns(const xrtd_elf *elf);
bool xrtd_elf_kernel(const xrtd_elf *elf, size_t index, xrtd_kernel_view *view);
xrtd_xclbin *xrtd_xclbin_open(const void *data, size_t size, const char **refusal);
void xrtd_xclbin_close(xrtd_xclbin *xclbin);
uint32_t xrtd_xclbin_columns(const xrtd_xclbin *xclbin);
const uint8_t *xrtd_xclbin_uuid(const xrtd_xclbin *xclbin);
const char *xrtd_xclbin_kernel(const xrtd_xclbin *xclbin, size_t index);
bool xrtd_xclbin_argument(const xrtd_xclbin *xclbin, size_t kernel, size_t index, xrtd_argument *argument);
int32_t xrtd_execute(const uint8_t *code, size_t code_size, uint32_t generation, const xrtd_span *spans, size_t count,
                     bool garbage);

} // extern "C"

namespace xrt_core {

// XRT's own exceptions; their headers are not public.
class system_error : public std::system_error {
public:
  explicit system_error(int code, const std::string &what) : std::system_error(code, std::system_category(), what) {}
};

class error : public std::system_error {
public:
  explicit error(int code, const std::string &what) : std::system_error(code, std::generic_category(), what) {}
  explicit error(const std::string &what) : error(EINVAL, what) {}
};

} // namespace xrt_core

namespace xrtd {

/// Settings, counters and faults of the process.
class Driver {
  mutable std::mutex mutex_;
  std::map<std::string, std::string> settings_;
  std::map<std::string, uint64_t> counters_;
  std::map<std::string, uint64_t> attempts_;

public:
  Driver(); // from XRT_DOUBLE_*
  void set(const std::string &name, const char *value);
  std::string setting(const std::string &name, const std::string &otherwise = "") const;
  bool is_set(const std::string &name) const { return !setting(name).empty(); }
  uint64_t number(const std::string &name, uint64_t otherwise) const;

  void add(const std::string &counter, int64_t n = 1);
  uint64_t count(const std::string &counter) const;

  /// Whether the next attempt at `point` is one that the setting names: `point@3`, `point@*`.
  bool is_chosen(const std::string &setting, const std::string &point);
  /// Throws if this attempt is to fail.
  void attempt(const std::string &point);
  /// A set-up call: counted, and slow if asked for.
  void set_up(const std::string &counter, double milliseconds);
  /// A use that the real library does not forgive.
  void misuse(const std::string &what);
};

Driver &driver();

/// Reports a handle that goes away before what was made from it. Its own children hold the object, too.
template <typename Impl> void released(const std::shared_ptr<Impl> &handle, const char *what) {
  if (handle && handle->children > 0 && handle.use_count() == 1 + handle->children)
    driver().misuse(std::string(what) + " was released before what was made from it");
}

/// A parent that is held by a child.
template <typename Impl> class Parent {
  std::shared_ptr<Impl> impl_;

public:
  explicit Parent(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {
    if (!impl_)
      throw std::runtime_error("an uninitialized handle was used");
    ++impl_->children;
  }
  ~Parent() { --impl_->children; }
  Parent(const Parent &) = delete;
  Parent &operator=(const Parent &) = delete;
  Impl *operator->() const { return impl_.get(); }
  Impl &operator*() const { return *impl_; }
  const std::shared_ptr<Impl> &get() const { return impl_; }
};

} // namespace xrtd

namespace xrt_core {

class device {
public:
  std::atomic<long> children{0};
  uint32_t generation = 2;
  std::string name;
  std::mutex mutex;
  uint64_t slots = 0; // a bit for each live context
  uint64_t next_address = 0x4000'0000;
  std::map<std::string, xrt::xclbin> registered; // by uuid

  device();
  ~device();
  uint32_t columns() const { return generation == 1 ? 4 : 8; }
  uint64_t most_contexts() const;
};

} // namespace xrt_core

namespace xrt {

class bo_impl {
public:
  xrtd::Parent<xrt_core::device> device;
  size_t size;
  bo::flags flags;
  memory_group group;
  uint64_t address;
  uint8_t *host; // mapped
  std::vector<uint8_t> copy; // the device's
  std::atomic<long> children{0};

  bo_impl(std::shared_ptr<xrt_core::device> device, size_t size, bo::flags flags, memory_group group);
  ~bo_impl();
  bo_impl(const bo_impl &) = delete;
  bo_impl &operator=(const bo_impl &) = delete;
  uint32_t bank() const { return group & 0xffffu; }
};

class elf_impl {
public:
  xrtd_elf *elf;
  elf_impl(const void *data, size_t size);
  ~elf_impl() { xrtd_elf_close(elf); }
  elf_impl(const elf_impl &) = delete;
  elf_impl &operator=(const elf_impl &) = delete;
};

class xclbin_impl {
public:
  xrtd_xclbin *xclbin;
  xclbin_impl(const void *data, size_t size);
  ~xclbin_impl() { xrtd_xclbin_close(xclbin); }
  xclbin_impl(const xclbin_impl &) = delete;
  xclbin_impl &operator=(const xclbin_impl &) = delete;
};

class hw_context_impl {
  void take_slot(uint32_t columns);

public:
  xrtd::Parent<xrt_core::device> device;
  xrt::elf elf;
  xrt::xclbin xclbin;
  uint32_t slot = 0;
  bool broken = false; // by a run that did not complete
  std::atomic<long> children{0};

  hw_context_impl(const xrt::device &device, const xrt::elf &elf);
  hw_context_impl(const xrt::device &device, const xrt::uuid &uuid);
  ~hw_context_impl();
};

class kernel_impl {
public:
  xrtd::Parent<hw_context_impl> context;
  std::string name;
  bool is_elf;
  std::vector<xrtd_argument> arguments;
  xrtd_kernel_view code{}; // of an ELF
  std::atomic<long> children{0};

  kernel_impl(std::shared_ptr<hw_context_impl> context, const std::string &name, bool is_elf);
  ~kernel_impl();
};

class run_impl {
  ert_cmd_state execute();
  ert_cmd_state execute_elf(const std::vector<xrtd_span> &spans);
  ert_cmd_state execute_xclbin(const std::vector<xrtd_span> &spans, bool garbage);

public:
  xrtd::Parent<kernel_impl> kernel;
  std::vector<std::weak_ptr<bo_impl>> buffers; // a run does not keep its buffers alive
  std::vector<uint64_t> scalars;
  std::vector<bool> bound;
  ert_cmd_state state = ERT_CMD_STATE_NEW;
  bool stuck = false;
  bool in_list = false;
  std::atomic<long> children{0};

  explicit run_impl(std::shared_ptr<kernel_impl> kernel);
  ~run_impl();
  size_t checked(int index) const;
  void submit(); // throws if arguments are missing
  void complete();
};

} // namespace xrt
