/* cpu_vs_gpu.h - one call on the CPU and on the emulated card: the NMSE must be within what the
 * element type allows, integers exact, and the card's bits the same in every run. */
#ifndef WEIR_TEST_DEVICE_CUDA_CPU_VS_GPU_H
#define WEIR_TEST_DEVICE_CUDA_CPU_VS_GPU_H

#include "check.h"
#include "core/attr.h"
#include "graph/ops/op.h"
#include "weir.h"

enum { CPU, GPU, DEVICES, INPUTS = 5, OUTPUTS = 3 };

typedef struct op_case {
    weir_op     op;
    const char *what;
    int         nin, nout;
    weir_desc   in[INPUTS];
    void       *data[INPUTS];           /* row-major */
    const int  *order;                  /* of input 0's axes, as the op sees them; NULL: as is */
    const void *attr;
    size_t      attr_bytes;
} op_case;

extern weir_device *device[DEVICES];

bool open_cpu_gpu(void);
void close_cpu_gpu(void);

int64_t   count_of(const weir_desc *d);
weir_desc three(weir_dtype t, int64_t a, int64_t b, int64_t c);

/* Writes element i of an array of a type. */
void   put(void *at, weir_dtype t, int64_t i, double v);
double get(const void *at, weir_dtype t, int64_t i);

/* Elements drawn from [lo, hi), freed by the caller. */
void *drawn(const weir_desc *d, double lo, double hi);

/* Results on one of the two devices, row-major; the caller frees out[i] in every case. */
bool run_on(const op_case *t, int on, weir_desc desc[OUTPUTS], void *out[OUTPUTS]);

/* Runs on both, and on the card again. slack: factor of the allowed error. */
void try_call_near(const op_case *t, double slack);
void try_call(const op_case *t);

#endif
