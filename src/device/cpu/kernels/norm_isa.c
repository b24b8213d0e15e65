/* norm_isa.c - the loops of batch normalisation's reductions, compiled once per instruction set.
 *
 * Statistics of pieces are combined, and each is corrected, as by Chan, Golub and LeVeque (1979,
 * 1983), so that no difference of large sums is taken. */
#include "device/cpu/kernels/norm.h"

#include "core/half.h"
#include "device/cpu/isa.h"

enum { LINE = 64 };     /* bytes of a cache line */

static void join(int64_t cols, int64_t done, double *restrict mean, double *restrict m2, int64_t n,
                 const double *restrict mean_n, const double *restrict m2_n)
{
    const double part = (double)n / (double)(done + n), both = part * (double)done;
    for (int64_t c = 0; c < cols; c++) {
        const double d = mean_n[c] - mean[c];
        mean[c] += d * part;
        m2[c] += m2_n[c] + d * d * both;
    }
}

/* Of an element's type: how it is stored, how it is read, in which type it is summed. */
#define STORED_f64  double
#define STORED_f32  float
#define STORED_bf16 uint16_t
#define STORED_f16  uint16_t
#define READ_f64(v) (v)
#define READ_f32(v) (v)
#define READ_bf16   weir_from_bf16
#define READ_f16    weir_from_f16
#define SUM_f64     double
#define SUM_f32     float
#define SUM_bf16    float
#define SUM_f16     float

#define STATS
#define X_TYPE  f64
#define DY_TYPE f64
#include "device/cpu/kernels/norm_type.h"

#define STATS
#define X_TYPE  f32
#define DY_TYPE f32
#include "device/cpu/kernels/norm_type.h"

#define X_TYPE  f32
#define DY_TYPE bf16
#include "device/cpu/kernels/norm_type.h"

#define X_TYPE  f32
#define DY_TYPE f16
#include "device/cpu/kernels/norm_type.h"

#define STATS
#define X_TYPE  bf16
#define DY_TYPE bf16
#include "device/cpu/kernels/norm_type.h"

#define X_TYPE  bf16
#define DY_TYPE f32
#include "device/cpu/kernels/norm_type.h"

#define X_TYPE  bf16
#define DY_TYPE f16
#include "device/cpu/kernels/norm_type.h"

#define STATS
#define X_TYPE  f16
#define DY_TYPE f16
#include "device/cpu/kernels/norm_type.h"

#define X_TYPE  f16
#define DY_TYPE f32
#include "device/cpu/kernels/norm_type.h"

#define X_TYPE  f16
#define DY_TYPE bf16
#include "device/cpu/kernels/norm_type.h"

#define GRADS(x) {[WEIR_F32] = grads_##x##_f32, [WEIR_BF16] = grads_##x##_bf16,                    \
                  [WEIR_F16] = grads_##x##_f16}

const weir_norm_loops WEIR_ISA_NAME(weir_norm_loops)[WEIR_NORM_TYPES] = {
    [WEIR_F32] = {stats_f32, GRADS(f32), join},
    [WEIR_F64] = {stats_f64, {[WEIR_F64] = grads_f64_f64}, join},
    [WEIR_BF16] = {stats_bf16, GRADS(bf16), join},
    [WEIR_F16] = {stats_f16, GRADS(f16), join},
};
