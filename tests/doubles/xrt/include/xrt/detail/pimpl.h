// Emulated XRT. Handles: shared ownership of something that the library alone knows.
#ifndef XRT_DOUBLE_DETAIL_PIMPL_H
#define XRT_DOUBLE_DETAIL_PIMPL_H

#include <memory>

namespace xrt {
namespace detail {

template <typename ImplType> class pimpl {
protected:
  ~pimpl() = default;

public:
  pimpl() = default;
  explicit pimpl(std::shared_ptr<ImplType> handle) : handle(std::move(handle)) {}
  pimpl(const pimpl &) = default;
  pimpl(pimpl &&) = default;
  pimpl &operator=(const pimpl &) = default;
  pimpl &operator=(pimpl &&) = default;

  const std::shared_ptr<ImplType> &get_handle() const { return handle; }
  explicit operator bool() const { return handle != nullptr; }
  bool operator<(const pimpl &rhs) const { return handle < rhs.handle; }

protected:
  std::shared_ptr<ImplType> handle;
};

} // namespace detail
} // namespace xrt

#endif
