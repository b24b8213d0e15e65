/* openblas.h - the two functions that we use of OpenBLAS, loaded when first needed. */
#ifndef WEIR_DEVICE_CPU_GEMM_OPENBLAS_H
#define WEIR_DEVICE_CPU_GEMM_OPENBLAS_H

#include "core/text.h"
#include "core/thread.h"
#include "weir/device.h"

/* Constants of the CBLAS interface, the same in every implementation. */
enum { WEIR_CBLAS_ROW_MAJOR = 101, WEIR_CBLAS_PLAIN = 111, WEIR_CBLAS_TRANSPOSED = 112 };

typedef struct weir_openblas {
    void *lib; /* NULL: not found or not usable; `why` says which */
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                  int lda, const double *b, int ldb, double beta, double *c, int ldc);
    void (*set_threads)(int n);
    int (*get_threads)(void);
    char        impl[40];    /* "openblas SkylakeX" */
    char        config[160]; /* its description of its build */
    bool        openmp;      /* it shares our OpenMP team instead of starting its own threads */
    bool        alone;       /* a call in a task of ours starts no threads and has its buffer */
    const char *why;         /* why lib is NULL: static, or config */
} weir_openblas;

/* The device's library, loaded at the first call. *out is NULL if it cannot or should not be used,
 * which is no failure. Fails only if memory runs out. */
weir_status weir_cpu_blas(weir_device *d, const weir_openblas **out);

/* The number of threads to set in the library for calls with `t`: one in a library that would start
 * its own beside ours. */
static inline int weir_openblas_threads(const weir_openblas *b, const weir_threads *t)
{
    return b->alone && !b->openmp ? 1 : weir_threads_count(t);
}

/* Why weir_cpu_blas gives NULL: part of a sentence, valid until the device closes. */
const char *weir_cpu_blas_why(weir_device *d);

/* Frees the device's library state; NULL is fine. */
void weir_cpu_blas_close(void *blas);

/* Adds one line, newline included: the library, its version, the core type it chose. */
void weir_cpu_blas_info(weir_string *s);

#endif
