/* cpu_vs_gpu.h - one call on the CPU and on the emulated card, results compared: NMSE within what
 * the element type allows, integers exact, and the card's bits the same from run to run. */
#ifndef WEIR_TEST_DEVICE_CUDA_CPU_VS_GPU_H
#define WEIR_TEST_DEVICE_CUDA_CPU_VS_GPU_H

#include "check.h"
#include "core/attr.h"
#include "graph/ops/op.h"
#include "weir.h"

enum { CPU, GPU, DEVICES, INPUTS = 4, OUTPUTS = 3 };

typedef struct op_case {
    weir_op     op;
    const char *what;
    int         nin, nout;
    weir_desc   in[INPUTS];
    void       *data[INPUTS];           /* row-major */
    const int  *order;                  /* of axes of input 0, as the op sees it; NULL: as it is */
    const void *attr;
    size_t      attr_bytes;
} op_case;

extern weir_device *device[DEVICES];

bool open_cpu_gpu(void);
void close_cpu_gpu(void);

int64_t   count_of(const weir_desc *d);
weir_desc three(weir_dtype t, int64_t a, int64_t b, int64_t c);

/* Element i of an array of a type. */
void   put(void *at, weir_dtype t, int64_t i, double v);
double get(const void *at, weir_dtype t, int64_t i);

/* Elements from [lo, hi), to be freed. */
void *drawn(const weir_desc *d, double lo, double hi);

/* Results on one of the two in row-major order; out[i] must be freed, whatever is returned. */
bool run_on(const op_case *t, int on, weir_desc desc[OUTPUTS], void *out[OUTPUTS]);

/* On both, and on the card again. slack: times what is allowed. */
void try_call_near(const op_case *t, double slack);
void try_call(const op_case *t);

#endif
