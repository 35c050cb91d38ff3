// Emulated XRT; see the README of this crate.
#ifndef XRT_DOUBLE_DETAIL_CONFIG_H
#define XRT_DOUBLE_DETAIL_CONFIG_H

#ifdef XRT_API_SOURCE
#define XRT_API_EXPORT __attribute__((visibility("default")))
#else
#define XRT_API_EXPORT
#endif
#define XCL_DRIVER_DLLESPEC __attribute__((visibility("default")))

#endif
