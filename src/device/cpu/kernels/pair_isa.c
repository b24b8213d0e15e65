/* pair_isa.c - the loops of sums over two inputs, compiled once per instruction set. */
#include "device/cpu/kernels/reduce.h"

#include <math.h>

#include "device/cpu/isa.h"

#define T           float
#define VALUE(a, b) ((a) * (b))
#define FN(name)    name##_dot_f32
#include "device/cpu/kernels/pair_type.h"

#define T           double
#define VALUE(a, b) ((a) * (b))
#define FN(name)    name##_dot_f64
#include "device/cpu/kernels/pair_type.h"

#define T           float
#define VALUE(a, b) (((a) - (b)) * ((a) - (b)))
#define FN(name)    name##_dist_f32
#include "device/cpu/kernels/pair_type.h"

#define T           double
#define VALUE(a, b) (((a) - (b)) * ((a) - (b)))
#define FN(name)    name##_dist_f64
#include "device/cpu/kernels/pair_type.h"

/* Sums over one input: b is a again. */
#define T           float
#define VALUE(a, b) ((void)(b), fabs(a))
#define FN(name)    name##_abs_f32
#include "device/cpu/kernels/pair_type.h"

#define T           double
#define VALUE(a, b) ((void)(b), fabs(a))
#define FN(name)    name##_abs_f64
#include "device/cpu/kernels/pair_type.h"

const weir_pair_loops WEIR_ISA_NAME(weir_pair_loops)[WEIR_PAIR_OPS][2] = {
    [WEIR_PAIR_DOT] = {{columns_dot_f32, line_dot_f32}, {columns_dot_f64, line_dot_f64}},
    [WEIR_PAIR_DIST] = {{columns_dist_f32, line_dist_f32}, {columns_dist_f64, line_dist_f64}},
    [WEIR_PAIR_ABS] = {{columns_abs_f32, line_abs_f32}, {columns_abs_f64, line_abs_f64}},
};
