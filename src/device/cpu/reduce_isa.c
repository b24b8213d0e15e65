/* reduce_isa.c - the loops of sums and maxima, compiled once per instruction set. */
#include "device/cpu/reduce.h"

#include <math.h>

#include "device/cpu/isa.h"

#define ADD(a, b)       ((a) + (b))
#define MAX_INT(a, b)   ((b) > (a) ? (b) : (a))
#define MAX_FLOAT(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))      /* NaN stays */

#define T        float
#define L        float
#define A        double
#define OP       ADD
#define START    0
#define FN(name) name##_sum_f32
#include "device/cpu/reduce_type.h"

#define T        double
#define L        double
#define A        double
#define OP       ADD
#define START    0
#define FN(name) name##_sum_f64
#include "device/cpu/reduce_type.h"

/* Integer sums wrap around: unsigned lanes. */
#define T        int32_t
#define L        uint64_t
#define A        uint64_t
#define OP       ADD
#define START    0
#define FN(name) name##_sum_i32
#include "device/cpu/reduce_type.h"

#define T        int64_t
#define L        uint64_t
#define A        uint64_t
#define OP       ADD
#define START    0
#define FN(name) name##_sum_i64
#include "device/cpu/reduce_type.h"

#define T        float
#define L        float
#define A        double
#define OP       MAX_FLOAT
#define START    (-INFINITY)
#define FN(name) name##_max_f32
#include "device/cpu/reduce_type.h"

#define T        double
#define L        double
#define A        double
#define OP       MAX_FLOAT
#define START    ((double)-INFINITY)
#define FN(name) name##_max_f64
#include "device/cpu/reduce_type.h"

#define T        int32_t
#define L        int32_t
#define A        int64_t
#define OP       MAX_INT
#define START    INT32_MIN
#define FN(name) name##_max_i32
#include "device/cpu/reduce_type.h"

#define T        int64_t
#define L        int64_t
#define A        int64_t
#define OP       MAX_INT
#define START    INT64_MIN
#define FN(name) name##_max_i64
#include "device/cpu/reduce_type.h"

const weir_reduce_loops WEIR_ISA_NAME(weir_reduce_loops)[WEIR_REDUCE_OPS][4] = {
    [WEIR_REDUCE_SUM] = {{columns_sum_f32, line_sum_f32},
                         {columns_sum_f64, line_sum_f64},
                         {columns_sum_i32, line_sum_i32},
                         {columns_sum_i64, line_sum_i64}},
    [WEIR_REDUCE_MAX] = {{columns_max_f32, line_max_f32},
                         {columns_max_f64, line_max_f64},
                         {columns_max_i32, line_max_i32},
                         {columns_max_i64, line_max_i64}},
};
