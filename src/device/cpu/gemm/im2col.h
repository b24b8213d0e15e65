/* im2col.h - convolutions as products of patch matrices, for the geometries of conv_geometry.h. */
#ifndef WEIR_DEVICE_CPU_GEMM_IM2COL_H
#define WEIR_DEVICE_CPU_GEMM_IM2COL_H

#include "core/thread.h"
#include "device/common/conv_geometry.h"
#include "device/cpu/gemm/gemm_shape.h"
#include "device/device.h"

struct weir_openblas;

/* Selects patch matrix and product (im2col) for a pass: works for every convolution whose weights
 * are not `turned`. blas may be NULL. */
weir_status weir_conv_by_gemm(const weir_conv *c, weir_conv_pass pass, bool bias,
                              const struct weir_openblas *blas, weir_gemm_want want,
                              weir_kernel *out);

/* The gradient of the bias: db = sums of dy over all pixels. work: weir_conv_bias_work bytes. */
size_t weir_conv_bias_work(const weir_conv *c);
void   weir_conv_bias_grad(const weir_conv *c, const void *dy, void *db, void *work,
                           weir_threads *t);

#endif
