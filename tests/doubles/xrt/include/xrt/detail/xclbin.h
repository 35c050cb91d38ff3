// Emulated XRT. The xclbin container's top structure stays unknown here.
#ifndef XRT_DOUBLE_DETAIL_XCLBIN_H
#define XRT_DOUBLE_DETAIL_XCLBIN_H

struct axlf;

#endif
