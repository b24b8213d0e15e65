/* layer_norm_isa.c - the loops of layer normalisation, compiled once per instruction set. */
#include "device/cpu/kernels/layer_norm.h"

#include "device/cpu/isa.h"
#include "device/cpu/run.h"

enum { LANES = 32 };

#define T        float
#define FN(name) name##_f32
#include "device/cpu/kernels/layer_norm_type.h"

#define T        double
#define FN(name) name##_f64
#include "device/cpu/kernels/layer_norm_type.h"

#define LOOPS(type) {sum_##type, deviations_##type, apply_##type, grad_sums_##type, grad_##type}

const weir_layer_norm_loops WEIR_ISA_NAME(weir_layer_norm_loops)[2] = {
    [WEIR_F32] = LOOPS(f32),
    [WEIR_F64] = LOOPS(f64),
};
