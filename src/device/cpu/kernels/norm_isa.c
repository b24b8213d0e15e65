/* norm_isa.c - the loops of batch normalisation's reductions, compiled once per instruction set.
 *
 * Statistics of pieces are combined, and each is corrected, as by Chan, Golub and LeVeque (1979,
 * 1983), so that no difference of large sums is taken. */
#include "device/cpu/kernels/norm.h"

#include "core/half.h"
#include "device/cpu/isa.h"

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

#define KEEP(v) (v)

#define STATS
#define T        double
#define X        double
#define D        double
#define LX       KEEP
#define LD       KEEP
#define FN(name) name##_f64
#include "device/cpu/kernels/norm_type.h"

#define STATS
#define T        float
#define X        float
#define D        float
#define LX       KEEP
#define LD       KEEP
#define FN(name) name##_f32
#include "device/cpu/kernels/norm_type.h"

#define T        float
#define X        float
#define D        uint16_t
#define LX       KEEP
#define LD       weir_from_bf16
#define FN(name) name##_f32_bf16
#include "device/cpu/kernels/norm_type.h"

#define T        float
#define X        float
#define D        uint16_t
#define LX       KEEP
#define LD       weir_from_f16
#define FN(name) name##_f32_f16
#include "device/cpu/kernels/norm_type.h"

#define STATS
#define T        float
#define X        uint16_t
#define D        uint16_t
#define LX       weir_from_bf16
#define LD       weir_from_bf16
#define FN(name) name##_bf16
#include "device/cpu/kernels/norm_type.h"

#define T        float
#define X        uint16_t
#define D        float
#define LX       weir_from_bf16
#define LD       KEEP
#define FN(name) name##_bf16_f32
#include "device/cpu/kernels/norm_type.h"

#define T        float
#define X        uint16_t
#define D        uint16_t
#define LX       weir_from_bf16
#define LD       weir_from_f16
#define FN(name) name##_bf16_f16
#include "device/cpu/kernels/norm_type.h"

#define STATS
#define T        float
#define X        uint16_t
#define D        uint16_t
#define LX       weir_from_f16
#define LD       weir_from_f16
#define FN(name) name##_f16
#include "device/cpu/kernels/norm_type.h"

#define T        float
#define X        uint16_t
#define D        float
#define LX       weir_from_f16
#define LD       KEEP
#define FN(name) name##_f16_f32
#include "device/cpu/kernels/norm_type.h"

#define T        float
#define X        uint16_t
#define D        uint16_t
#define LX       weir_from_f16
#define LD       weir_from_bf16
#define FN(name) name##_f16_bf16
#include "device/cpu/kernels/norm_type.h"

#define GRADS(f32, bf16, f16) {[WEIR_F32] = f32, [WEIR_BF16] = bf16, [WEIR_F16] = f16}

const weir_norm_loops WEIR_ISA_NAME(weir_norm_loops)[WEIR_NORM_TYPES] = {
    [WEIR_F32] = {stats_f32, GRADS(grads_f32, grads_f32_bf16, grads_f32_f16), join},
    [WEIR_F64] = {stats_f64, {[WEIR_F64] = grads_f64}, join},
    [WEIR_BF16] = {stats_bf16, GRADS(grads_bf16_f32, grads_bf16, grads_bf16_f16), join},
    [WEIR_F16] = {stats_f16, GRADS(grads_f16_f32, grads_f16_bf16, grads_f16), join},
};
