/* onednn_defect.h - calls that oneDNN computes wrongly and that we therefore do not give it. */
#ifndef WEIR_DEVICE_CPU_GEMM_ONEDNN_DEFECT_H
#define WEIR_DEVICE_CPU_GEMM_ONEDNN_DEFECT_H

#include "device/common/conv_geometry.h"

/* True if the pass is in a half and its shape is one at which an implementation was wrong. */
bool weir_onednn_half_defect(const weir_conv *c, weir_conv_pass pass);

/* True if the library's implementation of that name (dnnl_query_impl_info_str) is known to write
 * outside its scratchpad, or to let threads overwrite each other's part of it, in this pass.
 * Depends on geometry and name alone, so a call has the same answer for any number of threads. */
bool weir_onednn_defect(const weir_conv *c, weir_conv_pass pass, const char *impl);

#endif
