/* gemm_kernel.h - the register-tiled kernels of our own matrix products, and their packing, built
 * from gemm_isa.c for each instruction set. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_KERNEL_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* How packing reads an operand: as it is; a half widened to f32; f32 rounded to a half. */
typedef enum weir_gemm_read {
    WEIR_GEMM_AS_IS,
    WEIR_GEMM_BF16,
    WEIR_GEMM_F16,
    WEIR_GEMM_TO_BF16,
    WEIR_GEMM_TO_F16,
    WEIR_GEMM_READS
} weir_gemm_read;

/* dst[p*width + j] = src(j, p), j < count, p < k, zeros for count <= j < width; src(j, p) is
 * src[j*ld + p] if along (k is contiguous), else src[p*ld + j]. Packs panels and strips alike. For
 * kernels of pairs dst[p*width + j] is the pair of src(j, 2*p) and src(j, 2*p + 1), zero where
 * that is not < k. */
typedef void (*weir_gemm_pack_fn)(void *dst, int width, int count, int64_t k, const void *src,
                                  int64_t ld, bool along);

/* The kernels of one element type and instruction set. Strip:
 * nr columns of op(B), k x nr, row by row, padded with zeros to nr columns. Panel: up to mr rows of
 * op(A), column by column, without padding. An element of A or B has k_step neighbours in depth, in
 * which its strides and k are counted: one number, or a pair of halves, which takes the place of a
 * float. */
typedef struct weir_gemm_kernel {
    int mr, nr, k_step;
    /* C[rows][cols] (+)= A B for rows <= mr, cols <= nr. Element (i,p) of A is a[i*rs + p*cs];
     * row p of B is b + p*ldb, nr readable elements. add: adds to C instead of overwriting it. */
    void (*direct)(int rows, int cols, int64_t k, const void *a, int64_t rs, int64_t cs,
                   const void *b, int64_t ldb, void *c, int64_t ldc, bool add);
    /* The same for a packed panel (rs = 1, cs = rows) and a packed strip (ldb = nr). bias: cols
     * elements that are added to each row last; or NULL. */
    void (*packed)(int rows, int cols, int64_t k, const void *a, const void *b, void *c,
                   int64_t ldc, bool add, const void *bias);
    /* The same for rows of A as stored (rs = lda, cs = 1) and a packed strip. */
    void (*rows)(int rows, int cols, int64_t k, const void *a, int64_t lda, const void *b, void *c,
                 int64_t ldc, bool add, const void *bias);
    weir_gemm_pack_fn pack[WEIR_GEMM_READS]; /* f64: WEIR_GEMM_AS_IS alone */
    /* Rounds a tile of sums to halves; NULL where the caller does so. */
    void (*narrow)(int rows, int cols, const float *sums, int64_t ld, void *c, int64_t ldc);
} weir_gemm_kernel;

typedef struct weir_gemm_kernels {
    weir_gemm_kernel f32, f64;
} weir_gemm_kernels;

extern const weir_gemm_kernels weir_gemm_kernels_base, weir_gemm_kernels_avx2,
    weir_gemm_kernels_avx512;

#endif
