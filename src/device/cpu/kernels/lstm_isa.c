/* lstm_isa.c - the element-wise part of an LSTM step and of its gradient, compiled per instruction
 * set. */
#include "device/cpu/kernels/lstm.h"

#include <stddef.h>

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

const weir_lstm_loops WEIR_ISA_NAME(weir_lstm_loops)[2] = {
    {cell_f32, back_f32},
    {cell_f64, back_f64},
};
