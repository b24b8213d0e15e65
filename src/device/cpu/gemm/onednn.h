/* onednn.h - convolutions and products by oneDNN: prepared once, run many times, in our memory.
 *
 * Only onednn.c calls the library, through the C interface (v2 or v3) that it was built with. In a
 * build without it (no WEIR_ONEDNN) nothing can be prepared. Operands of a call have one type;
 * activations and weights have our dense layouts. */
#ifndef WEIR_DEVICE_CPU_GEMM_ONEDNN_H
#define WEIR_DEVICE_CPU_GEMM_ONEDNN_H

#include "device/common/conv_geometry.h"
#include "device/cpu/gemm/gemm_shape.h"
#include "device/device.h"

/* A prepared call. */
typedef struct weir_onednn weir_onednn;

/* True if the library is part of this build. */
bool weir_onednn_present(void);

/* Prepare a call. *out, which the caller frees, is NULL if the library has no good implementation,
 * or would emulate the type (bf16 without AVX512_BF16, f16 without AVX512_FP16), which takes longer
 * than f32; that is no failure. Operands of a run:
 *     forward   src x, w [, bias]   dst y
 *     grad_x    src dy, w           dst dx
 *     grad_w    src x, dy           dst dw [, db]
 *     matmul    src a, b [, bias]   dst c */
weir_status weir_onednn_conv(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                             weir_onednn **out);
weir_status weir_onednn_matmul(weir_device *d, const weir_gemm_shape *s, bool bias,
                               weir_onednn **out);

/* Bytes of scratch, including reordered weights. */
size_t weir_onednn_work(const weir_onednn *p);

/* "onednn jit:avx512_core"; lives as long as p. */
const char *weir_onednn_impl(const weir_onednn *p);

void weir_onednn_free(void *p);

weir_status weir_onednn_run(weir_onednn *p, void *const *src, void *const *dst, void *work,
                            weir_threads *t);

/* The kernel that runs the prepared call on the operands as given, and owns it. */
weir_kernel weir_onednn_kernel(weir_onednn *p);

/* Frees the device's library objects; NULL is fine. */
void weir_cpu_onednn_close(void *onednn);

/* True if the library multiplies this type by instructions of the processor. */
bool weir_onednn_multiplies(weir_dtype t);

/* Adds a line, newline included: the library, its version, the instruction set it chose. */
void weir_cpu_onednn_info(weir_string *s);

#endif
