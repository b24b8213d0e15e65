/* gemm_plan.h - the plan of a matrix product: what runs it, its blocks and scratch. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_PLAN_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_PLAN_H

#include "core/thread.h"
#include "device/cpu/gemm/gemm_kernel.h"
#include "device/cpu/gemm/gemm_shape.h"

typedef struct weir_gemm {
    weir_gemm_shape shape;
    void (*run)(const struct weir_gemm *g, const void *a, const void *b, void *c, bool add,
                void *work, weir_threads *t);
    const void *with;       /* weir_gemm_kernel or weir_openblas */
    size_t      size, work; /* bytes of an element as computed; bytes of scratch */
    size_t      size_a, size_b, size_c; /* ... as stored; other than `size` only for halves */
    weir_gemm_read read_a, read_b, read_bias;
    const weir_gemm_kernel *wide; /* own, of halves: packs the bias in f32 */
    /* Rounds sums to C of halves; NULL if C has the type of the sums. */
    void (*narrow)(int64_t n, void *restrict to, const void *restrict from);
    const char *impl;       /* static, or owned by the library: "own avx512", "openblas SkylakeX" */
    int64_t     depth;      /* own: k, in steps of the kernel */
    int64_t     mb, nb, kb; /* own: rows, columns and depth packed at a time */
    int64_t     mr;         /* rows of a panel */
    bool        panels;     /* own: panels of A are packed; else its rows are read in place */
    bool        depth_first; /* own: all columns of a depth before the next depth */
    bool        serial;     /* own: too small for a second worker */
    int64_t     tm, tn;     /* a task's tile: panels x strips */
} weir_gemm;

#endif
