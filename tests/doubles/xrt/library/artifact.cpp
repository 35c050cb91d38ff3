// xclbins and ELFs.
#include "internal.h"

#include <fstream>
#include <iterator>

using xrtd::driver;

namespace {

std::string content(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error(path + " is not found or is not a valid file");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::shared_ptr<xrt::elf_impl> make_elf(const std::string_view &data) {
  return std::make_shared<xrt::elf_impl>(data.data(), data.size());
}

} // namespace

namespace xrt {

class xclbin::kernel_impl {
public:
  std::shared_ptr<xclbin_impl> xclbin;
  size_t index;
};

xclbin_impl::xclbin_impl(const void *data, size_t size) {
  driver().attempt("xclbin");
  const char *refusal = nullptr;
  xclbin = xrtd_xclbin_open(data, size, &refusal);
  if (!xclbin)
    throw std::runtime_error(refusal);
  driver().set_up("xclbins", 0.1);
}

xclbin::xclbin(const std::string &path) : xclbin(std::string_view(content(path))) {}

xclbin::xclbin(const std::vector<char> &data) : xclbin(std::string_view(data.data(), data.size())) {}

xclbin::xclbin(const std::string_view &data)
    : detail::pimpl<xclbin_impl>(std::make_shared<xclbin_impl>(data.data(), data.size())) {}

std::vector<xclbin::kernel> xclbin::get_kernels() const {
  std::vector<kernel> kernels;
  for (size_t i = 0; xrtd_xclbin_kernel(handle->xclbin, i); ++i)
    kernels.emplace_back(std::make_shared<kernel_impl>(kernel_impl{handle, i}));
  return kernels;
}

xclbin::kernel xclbin::get_kernel(const std::string &name) const {
  for (auto &kernel : get_kernels())
    if (kernel.get_name() == name)
      return kernel;
  return {};
}

uuid xclbin::get_uuid() const { return {xrtd_xclbin_uuid(handle->xclbin)}; }

std::string xclbin::kernel::get_name() const { return xrtd_xclbin_kernel(handle->xclbin->xclbin, handle->index); }

size_t xclbin::kernel::get_num_args() const {
  xrtd_argument argument;
  size_t count = 0;
  while (xrtd_xclbin_argument(handle->xclbin->xclbin, handle->index, count, &argument))
    ++count;
  return count;
}

elf_impl::elf_impl(const void *data, size_t size) {
  driver().attempt("elf");
  const char *refusal = nullptr;
  elf = xrtd_elf_open(data, size, &refusal);
  if (!elf)
    throw std::runtime_error(refusal);
  driver().set_up("elfs", 0.1);
}

elf::elf(const std::string &path) : detail::pimpl<elf_impl>(make_elf(content(path))) {}

elf::elf(const std::string_view &data) : detail::pimpl<elf_impl>(make_elf(data)) {}

elf::elf(std::istream &stream)
    : detail::pimpl<elf_impl>(
          make_elf(std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()))) {}

elf::elf(const void *data, size_t size)
    : detail::pimpl<elf_impl>(make_elf(std::string_view(static_cast<const char *>(data), size))) {}

bool elf::is_full_elf() const { return handle != nullptr; }

uint32_t elf::get_partition_size() const {
  if (!handle)
    throw std::runtime_error("xrt::elf object is not initialized");
  return xrtd_elf_columns(handle->elf);
}

} // namespace xrt
