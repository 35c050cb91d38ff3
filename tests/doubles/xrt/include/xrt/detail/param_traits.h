// Emulated XRT. What type a query gives.
#ifndef XRT_DOUBLE_DETAIL_PARAM_TRAITS_H
#define XRT_DOUBLE_DETAIL_PARAM_TRAITS_H

namespace xrt {
namespace info {

template <typename T, T Param> struct param_traits {};

#define XRT_INFO_PARAM_TRAITS(VALUE, RETURN_TYPE)                                                                      \
  template <> struct param_traits<decltype(VALUE), VALUE> {                                                            \
    using return_type = RETURN_TYPE;                                                                                   \
  };

} // namespace info
} // namespace xrt

#endif
