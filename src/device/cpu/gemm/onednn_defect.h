/* onednn_defect.h - calls that oneDNN's own code does wrong, so that they are not left to it. */
#ifndef WEIR_DEVICE_CPU_GEMM_ONEDNN_DEFECT_H
#define WEIR_DEVICE_CPU_GEMM_ONEDNN_DEFECT_H

#include "device/common/conv_geometry.h"

/* Whether the library's implementation of that name (dnnl_query_impl_info_str) is known to write
 * outside its scratchpad, or to let its threads overwrite each other's part of it, in this pass. A
 * function of the geometry and the name alone: one call has one answer, whatever the number of
 * threads. */
bool weir_onednn_defect(const weir_conv *c, weir_conv_pass pass, const char *impl);

#endif
