/* loss_isa.c - the loops of softmax cross-entropy, compiled once per instruction set. */
#include "device/cpu/kernels/loss.h"

#include <math.h>

#include "device/cpu/isa.h"
#include "core/maths.h"

#define T        float
#define M_exp    weir_exp_f32
#define M_log    weir_log_f32
#define FN(name) name##_f32
#include "device/cpu/kernels/loss_type.h"

#define T        double
#define M_exp    weir_exp_f64
#define M_log    weir_log_f64
#define FN(name) name##_f64
#include "device/cpu/kernels/loss_type.h"

const weir_loss_loops WEIR_ISA_NAME(weir_loss_loops)[2] = {
    {lse_f32, against_f32, total_f32, grad_f32},
    {lse_f64, against_f64, total_f64, grad_f64},
};
