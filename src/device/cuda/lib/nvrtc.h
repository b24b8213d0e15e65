/* nvrtc.h - generated kernels compiled by NVRTC, without a need of a card. */
#ifndef WEIR_DEVICE_CUDA_LIB_NVRTC_H
#define WEIR_DEVICE_CUDA_LIB_NVRTC_H

#include "core/text.h"
#include "weir/base.h"

/* What to compile for: "sm_90", the code of a card of capability 90, or where NVRTC is older than
 * the card "compute_86", the latest PTX, which the driver finishes. */
enum { WEIR_NVRTC_TARGET = 24 };
weir_status weir_nvrtc_target(int capability, char target[WEIR_NVRTC_TARGET]);

/* What all kernels' texts begin with: n bytes, which no 0 ends. */
typedef struct weir_nvrtc_begin {
    const char *text;
    size_t      n;
} weir_nvrtc_begin;

/* All that a compiled kernel depends on beside its own text: NVRTC's version, the target, the
 * options and a hash of the beginning of the text. */
weir_status weir_nvrtc_about(const weir_nvrtc_begin *begin, const char *target, weir_string *about);

/* *image, of *bytes, yours to free: the beginning and `text`, compiled. ERR_DEVICE where the
 * compiler refuses, with what it said; names: of the rows, for that. */
weir_status weir_nvrtc_compile(const weir_nvrtc_begin *begin, const char *text, const char *names,
                               const char *target, char **image, size_t *bytes);

#endif
