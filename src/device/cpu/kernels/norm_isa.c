/* norm_isa.c - the loops of batch normalisation's reductions, compiled once per instruction set.
 *
 * Statistics of pieces are combined, and each is corrected, as by Chan, Golub and LeVeque (1979,
 * 1983), so that no difference of large sums is taken. */
#include "device/cpu/kernels/norm.h"

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

#define T        float
#define FN(name) name##_f32
#include "device/cpu/kernels/norm_type.h"

#define T        double
#define FN(name) name##_f64
#include "device/cpu/kernels/norm_type.h"

const weir_norm_loops WEIR_ISA_NAME(weir_norm_loops)[2] = {
    {stats_f32, grads_f32, join},
    {stats_f64, grads_f64, join},
};
