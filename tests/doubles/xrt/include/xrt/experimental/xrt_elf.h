// Emulated XRT. ELFs.
#ifndef XRT_DOUBLE_ELF_H
#define XRT_DOUBLE_ELF_H

#include "xrt/detail/config.h"
#include "xrt/detail/pimpl.h"
#include "xrt/xrt_uuid.h"

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace xrt {

class elf_impl;
class elf : public detail::pimpl<elf_impl> {
public:
  elf() = default;
  XRT_API_EXPORT explicit elf(const std::string &fnm);
  XRT_API_EXPORT explicit elf(const std::string_view &data);
  explicit elf(const char *fnm) : elf(std::string(fnm)) {}
  XRT_API_EXPORT explicit elf(std::istream &stream);
  XRT_API_EXPORT elf(const void *data, size_t size);
  XRT_API_EXPORT explicit elf(std::shared_ptr<elf_impl> impl) : detail::pimpl<elf_impl>(std::move(impl)) {}

  XRT_API_EXPORT bool is_full_elf() const;
  XRT_API_EXPORT uint32_t get_partition_size() const;
};

} // namespace xrt

#endif
