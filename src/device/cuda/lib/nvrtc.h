/* nvrtc.h - compiles generated kernels by NVRTC, which needs no card. */
#ifndef WEIR_DEVICE_CUDA_LIB_NVRTC_H
#define WEIR_DEVICE_CUDA_LIB_NVRTC_H

#include "core/text.h"
#include "weir/base.h"

/* The target: "sm_90", code for a card of capability 9.0; or, if NVRTC is older than the card, the
 * latest PTX, such as "compute_86", which the driver compiles. */
enum { WEIR_NVRTC_TARGET = 24 };
weir_status weir_nvrtc_target(int capability, char target[WEIR_NVRTC_TARGET]);

/* The common beginning of all kernel texts: n bytes, not terminated. */
typedef struct weir_nvrtc_begin {
    const char *text;
    size_t      n;
} weir_nvrtc_begin;

/* Everything that a compiled kernel depends on besides its own text: NVRTC's version, the target,
 * the options and a hash of the common beginning. */
weir_status weir_nvrtc_about(const weir_nvrtc_begin *begin, const char *target, weir_string *about);

/* Compiles the beginning and `text` to *image of *bytes, which the caller frees. Fails with
 * ERR_DEVICE and the compiler's message; names: of the rows, for the sentence. */
weir_status weir_nvrtc_compile(const weir_nvrtc_begin *begin, const char *text, const char *names,
                               const char *target, char **image, size_t *bytes);

#endif
