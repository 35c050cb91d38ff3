// Emulated XRT. XRT's own build generates this file.
#ifndef XRT_DOUBLE_DETAIL_VERSION_SLIM_H
#define XRT_DOUBLE_DETAIL_VERSION_SLIM_H

#define XRT_VERSION(major, minor) ((major << 16) + (minor))
#define XRT_VERSION_CODE XRT_VERSION(2, 26)
#define XRT_MAJOR(code) ((code >> 16))
#define XRT_MINOR(code) (code - ((code >> 16) << 16))

#endif
