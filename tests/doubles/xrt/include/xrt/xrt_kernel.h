// Emulated XRT. Kernels and runs.
#ifndef XRT_DOUBLE_KERNEL_H
#define XRT_DOUBLE_KERNEL_H

#include "xrt/detail/config.h"
#include "xrt/xrt_bo.h"
#include "xrt/xrt_device.h"
#include "xrt/xrt_uuid.h"

#include "xrt/deprecated/xrt.h"
#include "xrt/detail/ert.h"

#include "xrt/experimental/xrt_exception.h"
#include "xrt/experimental/xrt_hw_context.h"
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace xrt {

class kernel;

class run_impl;
class run {
public:
  class command_error_impl;
  class command_error : public detail::pimpl<command_error_impl>, public std::exception {
  public:
    XRT_API_EXPORT command_error(ert_cmd_state state, const std::string &what);
    XRT_API_EXPORT command_error(const xrt::run &run, const std::string &what);
    XRT_API_EXPORT ert_cmd_state get_command_state() const;
    XRT_API_EXPORT const char *what() const noexcept override;

  private:
    std::shared_ptr<command_error_impl> m_impl;
  };

  class aie_error : public command_error {
  public:
    XRT_API_EXPORT aie_error(const xrt::run &run, const std::string &what);
  };

  run() = default;
  XRT_API_EXPORT explicit run(const kernel &krnl);
  run(const run &) = default;
  run(run &&) = default;
  XRT_API_EXPORT ~run();
  run &operator=(const run &) = default;
  run &operator=(run &&) = default;

  XRT_API_EXPORT void start();
  XRT_API_EXPORT ert_cmd_state wait(const std::chrono::milliseconds &timeout = std::chrono::milliseconds{0}) const;
  ert_cmd_state wait(unsigned int timeout_ms) const { return wait(timeout_ms * std::chrono::milliseconds{1}); }
  XRT_API_EXPORT std::cv_status wait2(const std::chrono::milliseconds &timeout) const;
  void wait2() const { wait2(std::chrono::milliseconds{0}); }
  XRT_API_EXPORT ert_cmd_state state() const;

  explicit operator bool() const { return handle != nullptr; }
  bool operator<(const xrt::run &rhs) const { return handle < rhs.handle; }

  template <typename ArgType>
  std::enable_if_t<!std::is_base_of_v<xrt::bo, std::decay_t<ArgType>>> set_arg(int index, ArgType &&arg) {
    set_arg_at_index(index, &arg, sizeof(arg));
  }
  template <typename ArgType>
  std::enable_if_t<std::is_base_of_v<xrt::bo, std::decay_t<ArgType>>> set_arg(int index, ArgType &&boh) {
    set_arg_at_index(index, static_cast<const xrt::bo &>(boh));
  }
  void set_arg(int index, xrt::bo &boh) { set_arg_at_index(index, boh); }
  void set_arg(int index, const xrt::bo &boh) { set_arg_at_index(index, boh); }
  void set_arg(int index, xrt::bo &&boh) { set_arg_at_index(index, boh); }

  template <typename... Args> void operator()(Args &&...args) {
    set_arg(0, std::forward<Args>(args)...);
    start();
  }

  const std::shared_ptr<run_impl> &get_handle() const { return handle; }
  explicit run(std::shared_ptr<run_impl> impl) : handle(std::move(impl)) {}

private:
  std::shared_ptr<run_impl> handle;

  XRT_API_EXPORT void set_arg_at_index(int index, const void *value, size_t bytes);
  XRT_API_EXPORT void set_arg_at_index(int index, const xrt::bo &);

  template <typename ArgType, typename... Args> void set_arg(int argno, ArgType &&arg, Args &&...args) {
    set_arg(argno, std::forward<ArgType>(arg));
    set_arg(++argno, std::forward<Args>(args)...);
  }
};

class kernel_impl;
class kernel {
public:
  kernel() = default;
  XRT_API_EXPORT kernel(const xrt::hw_context &ctx, const std::string &name);
  kernel(const kernel &) = default;
  kernel(kernel &&) = default;
  XRT_API_EXPORT ~kernel();
  kernel &operator=(const kernel &) = default;
  kernel &operator=(kernel &&) = default;

  template <typename... Args> run operator()(Args &&...args) {
    run r(*this);
    r(std::forward<Args>(args)...);
    return r;
  }

  XRT_API_EXPORT int group_id(int argno) const;
  XRT_API_EXPORT uint32_t offset(int argno) const;
  XRT_API_EXPORT std::string get_name() const;

  bool operator<(const xrt::kernel &rhs) const { return handle < rhs.handle; }
  const std::shared_ptr<kernel_impl> &get_handle() const { return handle; }
  kernel(std::shared_ptr<kernel_impl> impl) : handle(std::move(impl)) {}

private:
  std::shared_ptr<kernel_impl> handle;
};

} // namespace xrt

#endif
