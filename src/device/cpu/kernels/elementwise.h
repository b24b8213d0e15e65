/* elementwise.h - shared by the tile engine and the row functions of its instruction sets. */
#ifndef WEIR_DEVICE_CPU_KERNELS_ELEMENTWISE_H
#define WEIR_DEVICE_CPU_KERNELS_ELEMENTWISE_H

#include "core/dtype.h"
#include "device/device.h"

/* What a row needs besides its operands. first: position of element 0 in the output's dense order;
 * counter: Philox block of output element 0. */
typedef struct weir_row_args {
    double   s, t;
    uint64_t seed, counter;
    int64_t  first;
} weir_row_args;

/* out[i] = row(in[0][i], in[1][i], ...), all contiguous. out may start where an input starts. */
typedef void (*weir_row_fn)(int64_t n, void *out, const void *const *in, const weir_row_args *r);

/* Columns of the table, indexed by dtype. */
#define WEIR_ROW_TYPES WEIR_DTYPES

typedef struct weir_row_entry {
    weir_row_fn fn[WEIR_ROW_TYPES];     /* NULL: the row has no such type */
} weir_row_entry;

/* [WEIR_OP_COUNT]; all NULL for ops that are not rows. */
extern const weir_row_entry weir_rows_base[], weir_rows_avx2[], weir_rows_avx512[];

/* Convert n halves to f32, exactly, or back, rounded once; `to` and `from` do not overlap. */
typedef void (*weir_half_fn)(int64_t n, void *restrict to, const void *restrict from);

typedef struct weir_half_entry {
    weir_half_fn widen, narrow;
    void       (*round)(int64_t n, float *x);   /* to what narrow and widen would make of it */
} weir_half_entry;

/* [WEIR_ROW_TYPES]; NULL for types other than halves. */
extern const weir_half_entry weir_halves_base[], weir_halves_avx2[], weir_halves_avx512[];

/* The functions that widen a type to f32 and narrow f32 to it; NULL for types other than halves. */
weir_half_fn weir_cpu_widen(weir_dtype t);
weir_half_fn weir_cpu_narrow(weir_dtype t);

/* Serves every row of elementwise.def. */
weir_status weir_cpu_elementwise(weir_device *d, const weir_call *c, weir_kernel *out);

#endif
