// Emulated XRT.
#ifndef XRT_DOUBLE_DETAIL_ANY_H
#define XRT_DOUBLE_DETAIL_ANY_H

#include <any>

#endif
