/* rows.h - the same element-wise calls on the CPU and on the emulated card. */
#ifndef WEIR_TEST_DEVICE_CUDA_ROWS_H
#define WEIR_TEST_DEVICE_CUDA_ROWS_H

#include "check.h"
#include "core/attr.h"
#include "core/fused.h"
#include "device/device.h"

enum { ROWS_SEED = 77, ROWS_RNG = 1000 };

typedef struct rows_row {
    weir_op     op;
    int         nin;
    const char *name, *types;       /* "FLOATS", "NUMBERS", "ORDERED" */
} rows_row;

extern const rows_row rows_table[];     /* ends with a name of NULL */

bool rows_takes(const rows_row *r, weir_dtype t);

/* A call with its inputs' elements. */
typedef struct rows_call {
    weir_call   call;
    weir_layout in[WEIR_EW_MAX_IN], out[WEIR_EW_MAX_OUT];
    int64_t     at_in[WEIR_EW_MAX_IN];  /* first element: not 0 for views at any address */
    int64_t     at_out;
    bool        in_place;               /* output 0 takes over input 0's memory */
    bool        drawn;                  /* seed and position are in device memory */
} rows_call;

/* A dense layout; a layout with given strides, in elements. */
weir_layout rows_dense(weir_dtype type, int ndim, const int64_t *dim);
weir_layout rows_strided(weir_dtype type, int ndim, const int64_t *dim, const int64_t *stride);

/* Runs on both; every byte of the outputs' memory must be equal, except for the bits of NaNs. */
void rows_compare(weir_device *cpu, weir_device *card, rows_call *c, const char *what);

/* Opens the two devices of a case; false (and reported) if one cannot be opened. */
bool rows_open(weir_device **cpu, weir_device **card);

#endif
