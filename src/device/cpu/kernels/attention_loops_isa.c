/* attention_loops_isa.c - the loops of attention over blocks of scores, for an instruction set.
 *
 * The softmax is computed block by block (Milakov and Gimelshein, "Online normalizer calculation
 * for softmax", 2018): sums made with an old maximum are rescaled to the new one. */
#include "device/cpu/kernels/attention_loops.h"

#include <math.h>

#include "device/cpu/isa.h"
#include "core/maths.h"
#include "core/rng.h"

enum { LANES = 16 };

/* The words of n elements, rounded up to whole blocks; `first` is the Philox block of the first. */
static void draw(uint64_t key, uint64_t first, int64_t n, uint32_t word[WEIR_ATTENTION_SIDE])
{
    for (int64_t i = 0; 4 * i < n; i++)
        weir_philox(key, first + (uint64_t)i, &word[4 * i]);
}

#define T        float
#define EXP      weir_exp_f32
#define LOG      weir_log_f32
#define FN(name) name##_f32
#include "device/cpu/kernels/attention_loops_type.h"

#define T        double
#define EXP      weir_exp_f64
#define LOG      weir_log_f64
#define FN(name) name##_f64
#include "device/cpu/kernels/attention_loops_type.h"

const weir_attention_loops WEIR_ISA_NAME(weir_attention_loops)[2] = {
    {mask_f32, soften_f32, finish_f32, delta_f32, back_f32, drop_f32, times_f32,
     mask_sum_f32, finite_f32, zero_nonfinite_f32, add_nonfinite_f32},
    {mask_f64, soften_f64, finish_f64, delta_f64, back_f64, drop_f64, times_f64,
     mask_sum_f64, finite_f64, zero_nonfinite_f64, add_nonfinite_f64},
};
