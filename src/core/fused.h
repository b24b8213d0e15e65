/* fused.h - a chain of element-wise rows as data: built by fusion, run by one kernel. */
#ifndef WEIR_CORE_FUSED_H
#define WEIR_CORE_FUSED_H

#include "core/op.h"

/* Attributes of a recorded element-wise call. */
typedef struct weir_ew_attr {
    double s, t;
} weir_ew_attr;

#define WEIR_EW_MAX_IN    16
#define WEIR_EW_MAX_STEPS 24
#define WEIR_EW_MAX_OUT   4

/* One row applied. src[k] is input src[k] of the program if < nin, else the result of step
 * src[k] - nin. */
typedef struct weir_ew_step {
    int64_t  op;                    /* weir_op of a row */
    int64_t  src[WEIR_MAX_IN];
    double   s, t;
    uint64_t rng;                   /* random position, relative to the instruction's */
    int64_t  rounds;                /* weir_dtype: the half to which f32 results are rounded; f32 */
} weir_ew_step;

/* Attributes of WEIR_OP_FUSED. All steps and operands have one type, f32 or f64; with f32 steps,
 * operands may also be f16 or bf16: inputs are widened when read, outputs rounded when written, as
 * CAST does, and steps that stand for rows of halves round their results. All outputs have one
 * shape and are dense; inputs broadcast to it. Output o is the result of step out[o]. */
typedef struct weir_ew_program {
    int64_t      type;              /* weir_dtype of the steps */
    int64_t      nin, nstep, nout;
    int64_t      out[WEIR_EW_MAX_OUT];
    weir_ew_step step[WEIR_EW_MAX_STEPS];
} weir_ew_program;

/* Number of inputs of a row; whether it draws random numbers. */
int  weir_row_nin(weir_op row);
bool weir_row_draws(weir_op row);

#endif
