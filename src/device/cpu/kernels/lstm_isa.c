/* lstm_isa.c - the element-wise part of an LSTM step and of its gradient, compiled per instruction
 * set. */
#include "device/cpu/kernels/lstm.h"

#include <stddef.h>

#include "device/cpu/half_lanes.h"
#include "device/cpu/isa.h"
#include "core/maths.h"
#include "device/cpu/run.h"

#define T        float
#define EXP      weir_exp_f32
#define TANH     weir_tanh_f32
#define FN(name) name##_f32
#include "device/cpu/kernels/lstm_type.h"

#define T        double
#define EXP      weir_exp_f64
#define TANH     weir_tanh_f64
#define FN(name) name##_f64
#include "device/cpu/kernels/lstm_type.h"

#define HALVES(id)                                                                                 \
    static void widen_##id(int64_t rows, int64_t cols, float *to, int64_t ldt,                     \
                           const uint16_t *from, int64_t ldf)                                      \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++, to += ldt, from += ldf) {                               \
            int64_t j = weir_widen_vectors_##id(cols, to, from);                                   \
            for (; j < cols; j++)                                                                  \
                to[j] = weir_from_##id(from[j]);                                                   \
        }                                                                                          \
    }                                                                                              \
    static void narrow_##id(int64_t rows, int64_t cols, uint16_t *to, int64_t ldt,                 \
                            const float *from, int64_t ldf)                                        \
    {                                                                                              \
        for (int64_t r = 0; r < rows; r++, to += ldt, from += ldf) {                               \
            int64_t j = weir_narrow_vectors_##id(cols, to, from);                                  \
            for (; j < cols; j++)                                                                  \
                to[j] = weir_to_##id(from[j]);                                                     \
        }                                                                                          \
    }
HALVES(f16)
HALVES(bf16)

const weir_lstm_halves WEIR_ISA_NAME(weir_lstm_halves)[2] = {
    {widen_f16, narrow_f16},
    {widen_bf16, narrow_bf16},
};

const weir_lstm_loops WEIR_ISA_NAME(weir_lstm_loops)[2] = {
    {cell_f32, back_f32},
    {cell_f64, back_f64},
};
