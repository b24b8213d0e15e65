/* softmax_isa.c - the loops of softmax and its gradient, compiled once per instruction set. */
#include "device/cpu/kernels/softmax.h"

#include <math.h>
#include <string.h>

#include "device/cpu/isa.h"
#include "core/maths.h"
#include "device/cpu/run.h"

#define T        float
#define M_exp    weir_exp_f32
#define M_log    weir_log_f32
#define FN(name) name##_f32
#include "device/cpu/kernels/softmax_type.h"

#define T        double
#define M_exp    weir_exp_f64
#define M_log    weir_log_f64
#define FN(name) name##_f64
#include "device/cpu/kernels/softmax_type.h"

const weir_softmax_loops WEIR_ISA_NAME(weir_softmax_loops)[2] = {
    {lines_f32, lines_grad_f32, columns_f32, columns_grad_f32},
    {lines_f64, lines_grad_f64, columns_f64, columns_grad_f64},
};
