/* gemm_isa.c - the register-tiled kernels of the matrix product, compiled once per instruction
 * set.
 *
 * Tiles fill the register file: 14 x 2 vectors of the 32 of AVX-512, 6 x 2 of the 16 of AVX2, 4
 * x 2 of the 16 of SSE2; the rest holds a row of B and one element of A. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/gemm/gemm_kernel.h"
#include "device/cpu/half_lanes.h"
#include "device/cpu/isa.h"

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define SHUFFLE  __builtin_shufflevector
#define ROWS4(X) X(1) X(2) X(3) X(4)
#define NV       2

#if defined(__AVX512F__)
#define BYTES            64
#define MR               14
#define ROWS(X)          ROWS4(X) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define SPLAT_F32(s)     _mm512_set1_ps(s)
#define SPLAT_F64(s)     _mm512_set1_pd(s)
#define FMA_F32(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_F64(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__FMA__)
#define BYTES            32
#define MR               6
#define ROWS(X)          ROWS4(X) X(5) X(6)
#define SPLAT_F32(s)     _mm256_set1_ps(s)
#define SPLAT_F64(s)     _mm256_set1_pd(s)
#define FMA_F32(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FMA_F64(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
#define BYTES            16
#define MR               4
#define ROWS(X)          ROWS4(X)
#define SPLAT_F32(s)     ((s) - (V){0})
#define SPLAT_F64(s)     ((s) - (V){0})
#define FMA_F32(a, b, c) ((a) * (b) + (c))
#define FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

typedef float  vec_f32 __attribute__((vector_size(BYTES), may_alias));
typedef float  unaligned_f32 __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(BYTES), may_alias));
typedef double unaligned_f64 __attribute__((vector_size(BYTES), aligned(8), may_alias));

#define T            float
#define V            vec_f32
#define U            unaligned_f32
#define VL           (BYTES / 4)
#define SPLAT(s)     SPLAT_F32(s)
#define FMA(a, b, c) FMA_F32(a, b, c)
#define NAME(fn)     fn##_f32
#include "device/cpu/gemm/gemm_micro.h"
#undef T
#undef V
#undef U
#undef VL
#undef SPLAT
#undef FMA
#undef NAME

#define T            double
#define V            vec_f64
#define U            unaligned_f64
#define VL           (BYTES / 8)
#define SPLAT(s)     SPLAT_F64(s)
#define FMA(a, b, c) FMA_F64(a, b, c)
#define NAME(fn)     fn##_f64
#include "device/cpu/gemm/gemm_micro.h"

#undef T
#undef V
#undef U
#undef VL
#undef SPLAT
#undef FMA
#undef NAME

/* ---- packing, by how an operand is read ---- */

/* Columns of a strip. */
#define STRIP_F32 (NV * BYTES / 4)
#define STRIP_F64 (NV * BYTES / 8)

#define T                float
#define S                float
#define STRIP            STRIP_F32
#define READ(dst, at, n) memcpy(dst, at, (size_t)(n) * sizeof(T))
#define READ_ONE(x)      (x)
#define NAME(fn)         fn##_f32_as_is
#include "device/cpu/gemm/gemm_pack.h"
#undef T
#undef S
#undef STRIP
#undef NAME

#define T        double
#define S        double
#define STRIP    STRIP_F64
#define NAME(fn) fn##_f64_as_is
#include "device/cpu/gemm/gemm_pack.h"
#undef T
#undef S
#undef READ
#undef READ_ONE
#undef STRIP
#undef NAME

#define T     float
#define STRIP STRIP_F32

#define S                uint16_t
#define READ(dst, at, n) ((n) == 8 ? weir_widen_lanes_bf16(dst, at) : weir_widen_four_bf16(dst, at))
#define READ_ONE(x)      weir_from_bf16(x)
#define NAME(fn)         fn##_bf16
#include "device/cpu/gemm/gemm_pack.h"
#undef READ
#undef READ_ONE
#undef NAME

#define READ(dst, at, n) ((n) == 8 ? weir_widen_lanes_f16(dst, at) : weir_widen_four_f16(dst, at))
#define READ_ONE(x)      weir_from_f16(x)
#define NAME(fn)         fn##_f16
#include "device/cpu/gemm/gemm_pack.h"
#undef S
#undef READ
#undef READ_ONE
#undef NAME

#define S                float
#define READ(dst, at, n) weir_round_some_bf16(dst, at, n)
#define READ_ONE(x)      weir_from_bf16(weir_to_bf16(x))
#define NAME(fn)         fn##_to_bf16
#include "device/cpu/gemm/gemm_pack.h"
#undef READ
#undef READ_ONE
#undef NAME

#define READ(dst, at, n) weir_round_some_f16(dst, at, n)
#define READ_ONE(x)      weir_from_f16(weir_to_f16(x))
#define NAME(fn)         fn##_to_f16
#include "device/cpu/gemm/gemm_pack.h"

const weir_gemm_kernels WEIR_ISA_NAME(weir_gemm_kernels) = {
    .f32 = {.mr = MR, .nr = nr_f32, .k_step = 1,
            .direct = direct_f32, .packed = packed_f32, .rows = rows_f32,
            .pack = {[WEIR_GEMM_AS_IS] = pack_f32_as_is,
                     [WEIR_GEMM_BF16] = pack_bf16,
                     [WEIR_GEMM_F16] = pack_f16,
                     [WEIR_GEMM_TO_BF16] = pack_to_bf16,
                     [WEIR_GEMM_TO_F16] = pack_to_f16}},
    .f64 = {.mr = MR, .nr = nr_f64, .k_step = 1,
            .direct = direct_f64, .packed = packed_f64, .rows = rows_f64,
            .pack = {[WEIR_GEMM_AS_IS] = pack_f64_as_is}},
};
