/* reduce_isa.c - the loops of reductions of one input, compiled once per instruction set. */
#include "device/cpu/kernels/reduce.h"

#include <math.h>

#include "core/half.h"
#include "device/cpu/isa.h"

#define ADD(a, b)       ((a) + (b))
#define MUL(a, b)       ((a) * (b))
#define MAX_INT(a, b)   ((b) > (a) ? (b) : (a))
#define MAX_FLOAT(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))      /* keeps NaN */
#define MIN_INT(a, b)   ((b) < (a) ? (b) : (a))
#define MIN_FLOAT(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

#define T        float
#define L        float
#define A        double
#define OP       ADD
#define START    0
#define FN(name) name##_sum_f32
#include "device/cpu/kernels/reduce_type.h"

#define T        double
#define L        double
#define A        double
#define OP       ADD
#define START    0
#define FN(name) name##_sum_f64
#include "device/cpu/kernels/reduce_type.h"

/* Integer sums wrap, so their lanes are unsigned. */
#define T        int32_t
#define L        uint64_t
#define A        uint64_t
#define OP       ADD
#define START    0
#define FN(name) name##_sum_i32
#include "device/cpu/kernels/reduce_type.h"

#define T        int64_t
#define L        uint64_t
#define A        uint64_t
#define OP       ADD
#define START    0
#define FN(name) name##_sum_i64
#include "device/cpu/kernels/reduce_type.h"

#define T        uint8_t
#define L        uint64_t
#define A        uint64_t
#define OP       ADD
#define START    0
#define FN(name) name##_sum_u8
#include "device/cpu/kernels/reduce_type.h"

#define T        float
#define L        float
#define A        double
#define OP       MAX_FLOAT
#define START    (-INFINITY)
#define FN(name) name##_max_f32
#include "device/cpu/kernels/reduce_type.h"

#define T        double
#define L        double
#define A        double
#define OP       MAX_FLOAT
#define START    ((double)-INFINITY)
#define FN(name) name##_max_f64
#include "device/cpu/kernels/reduce_type.h"

#define T        int32_t
#define L        int32_t
#define A        int64_t
#define OP       MAX_INT
#define START    INT32_MIN
#define FN(name) name##_max_i32
#include "device/cpu/kernels/reduce_type.h"

#define T        int64_t
#define L        int64_t
#define A        int64_t
#define OP       MAX_INT
#define START    INT64_MIN
#define FN(name) name##_max_i64
#include "device/cpu/kernels/reduce_type.h"

#define T        uint8_t
#define L        uint8_t
#define A        int64_t
#define OP       MAX_INT
#define START    0
#define FN(name) name##_max_u8
#include "device/cpu/kernels/reduce_type.h"

#define T        float
#define L        float
#define A        double
#define OP       MIN_FLOAT
#define START    INFINITY
#define FN(name) name##_min_f32
#include "device/cpu/kernels/reduce_type.h"

#define T        double
#define L        double
#define A        double
#define OP       MIN_FLOAT
#define START    ((double)INFINITY)
#define FN(name) name##_min_f64
#include "device/cpu/kernels/reduce_type.h"

#define T        int32_t
#define L        int32_t
#define A        int64_t
#define OP       MIN_INT
#define START    INT32_MAX
#define FN(name) name##_min_i32
#include "device/cpu/kernels/reduce_type.h"

#define T        int64_t
#define L        int64_t
#define A        int64_t
#define OP       MIN_INT
#define START    INT64_MAX
#define FN(name) name##_min_i64
#include "device/cpu/kernels/reduce_type.h"

#define T        uint8_t
#define L        uint8_t
#define A        int64_t
#define OP       MIN_INT
#define START    UINT8_MAX
#define FN(name) name##_min_u8
#include "device/cpu/kernels/reduce_type.h"

/* Products accumulate in f64, since a part may overflow where the whole does not. Integers wrap. */
#define T        float
#define L        double
#define A        double
#define OP       MUL
#define START    1
#define FN(name) name##_prod_f32
#include "device/cpu/kernels/reduce_type.h"

#define T        double
#define L        double
#define A        double
#define OP       MUL
#define START    1
#define FN(name) name##_prod_f64
#include "device/cpu/kernels/reduce_type.h"

#define T        int32_t
#define L        uint64_t
#define A        uint64_t
#define OP       MUL
#define START    1
#define FN(name) name##_prod_i32
#include "device/cpu/kernels/reduce_type.h"

#define T        int64_t
#define L        uint64_t
#define A        uint64_t
#define OP       MUL
#define START    1
#define FN(name) name##_prod_i64
#include "device/cpu/kernels/reduce_type.h"

#define T        uint8_t
#define L        uint64_t
#define A        uint64_t
#define OP       MUL
#define START    1
#define FN(name) name##_prod_u8
#include "device/cpu/kernels/reduce_type.h"

/* ---- halves: in the lanes of f32 ---- */

#define T        uint16_t
#define READ     weir_from_bf16
#define L        float
#define A        double
#define OP       ADD
#define START    0
#define FN(name) name##_sum_bf16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_f16
#define L        float
#define A        double
#define OP       ADD
#define START    0
#define FN(name) name##_sum_f16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_bf16
#define L        float
#define A        double
#define OP       MAX_FLOAT
#define START    (-INFINITY)
#define FN(name) name##_max_bf16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_f16
#define L        float
#define A        double
#define OP       MAX_FLOAT
#define START    (-INFINITY)
#define FN(name) name##_max_f16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_bf16
#define L        float
#define A        double
#define OP       MIN_FLOAT
#define START    INFINITY
#define FN(name) name##_min_bf16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_f16
#define L        float
#define A        double
#define OP       MIN_FLOAT
#define START    INFINITY
#define FN(name) name##_min_f16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_bf16
#define L        double
#define A        double
#define OP       MUL
#define START    1
#define FN(name) name##_prod_bf16
#include "device/cpu/kernels/reduce_type.h"

#define T        uint16_t
#define READ     weir_from_f16
#define L        double
#define A        double
#define OP       MUL
#define START    1
#define FN(name) name##_prod_f16
#include "device/cpu/kernels/reduce_type.h"

#define LOOPS(op)                                                                                  \
    {                                                                                              \
        [WEIR_F32] = {columns_##op##_f32, line_##op##_f32},                                        \
        [WEIR_F64] = {columns_##op##_f64, line_##op##_f64},                                        \
        [WEIR_I32] = {columns_##op##_i32, line_##op##_i32},                                        \
        [WEIR_I64] = {columns_##op##_i64, line_##op##_i64},                                        \
        [WEIR_U8] = {columns_##op##_u8, line_##op##_u8},                                           \
        [WEIR_BF16] = {columns_##op##_bf16, line_##op##_bf16},                                     \
        [WEIR_F16] = {columns_##op##_f16, line_##op##_f16},                                        \
    }

const weir_reduce_loops WEIR_ISA_NAME(weir_reduce_loops)[WEIR_REDUCE_OPS][WEIR_REDUCE_TYPES] = {
    [WEIR_REDUCE_SUM] = LOOPS(sum),
    [WEIR_REDUCE_MAX] = LOOPS(max),
    [WEIR_REDUCE_MIN] = LOOPS(min),
    [WEIR_REDUCE_PROD] = LOOPS(prod),
};
