// Emulated XRT.
#ifndef XRT_DOUBLE_EXCEPTION_H
#define XRT_DOUBLE_EXCEPTION_H

#include <exception>

namespace xrt {

class exception : public std::exception {};

} // namespace xrt

#endif
