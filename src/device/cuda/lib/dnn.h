/* dnn.h - convolutions by cuDNN: its graph API in the C ("backend") form.
 *
 * A convolution becomes descriptors of three tensors, of an operation on them, and of a graph of
 * that one operation, or of two: a bias is added before the result is rounded. Heuristics name
 * engines for the graph, best first; the first that the rules allow becomes an execution plan, and
 * that alone is kept. Images and weights are channels-last, as ours are. */
#ifndef WEIR_DEVICE_CUDA_LIB_DNN_H
#define WEIR_DEVICE_CUDA_LIB_DNN_H

#include "device/common/conv_geometry.h"
#include "device/cuda/runtime/context.h"
#include "device/cuda/runtime/libs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which engines may be taken. */
typedef struct weir_dnn_rules {
    bool   tf32;                /* f32 on tensor cores, which round operands to 10 bits */
    bool   nondeterministic;    /* other bits in every run */
    bool   transforms;          /* Winograd's, Fourier's: errors grow with the tile */
    size_t work;                /* most bytes of a workspace */
} weir_dnn_rules;

#define WEIR_DNN_WORK ((size_t)256 << 20)

/* From what the environment says (each may be NULL): WEIR_CUDNN_NONDETERMINISTIC and WEIR_WINOGRAD
 * are on if "1", WEIR_CUDNN_WORKSPACE is a number of bytes. */
weir_dnn_rules weir_dnn_rules_of(bool tf32, const char *nondeterministic, const char *winograd,
                                 const char *work);

/* May an engine with these notes compute on such elements? */
bool weir_dnn_allows(const weir_dnn_rules *r, weir_dtype t,
                     const cudnnBackendNumericalNote_t *note, int64_t notes);

/* What dumps call an engine that is allowed. */
const char *weir_dnn_impl(weir_dtype t, const cudnnBackendNumericalNote_t *note, int64_t notes);

/* Padding behind an axis of `size` cells that makes `places` windows of `reach` cells fit, given
 * what is before: as much as before where that does, since few engines take anything else. */
int64_t weir_dnn_pad_end(int64_t size, int64_t reach, int64_t stride, int64_t before,
                         int64_t places);

/* A device's cuDNN. */
typedef struct weir_cuda_dnn {
    const weir_cuda_lib_dnn *lib;       /* NULL: it was not found */
    cudnnHandle_t            handle;
    /* In place of a handle: the description of a card, for which plans can be made, not run. */
    cudnnBackendDescriptor_t card;
    weir_dnn_rules           rules;
} weir_cuda_dnn;

weir_status weir_cuda_dnn_of(weir_device *d, const weir_call *c, weir_cuda_dnn **out);
void        weir_cuda_dnn_close(weir_cuda_context *u);

typedef struct weir_dnn_plan {
    const weir_cuda_dnn     *dnn;
    cudnnBackendDescriptor_t plan, config;      /* owned */
    bool                     bias;
    size_t                   work;
    const char              *impl;
} weir_dnn_plan;

enum { WEIR_DNN_ALIGN = 16 };       /* of tensors that plans are made for */

/* Plans for a convolution, the one to be preferred first, at most `most`; *found is 0 where the
 * library has none. bias: FORWARD adds one. */
weir_status weir_dnn_plans(const weir_cuda_dnn *d, const weir_call *c, const weir_conv *g,
                           weir_conv_pass pass, bool bias, int most, weir_dnn_plan *plan,
                           int *found);
void        weir_dnn_plan_drop(weir_dnn_plan *p);

/* Images, weights, outputs, or the gradients in their place; the bias of a plan with one. */
typedef struct weir_dnn_operands {
    void *x, *w, *y, *bias, *work;
} weir_dnn_operands;

/* Queues it. */
weir_status weir_dnn_run(const weir_dnn_plan *p, const weir_call *c, cudaStream_t stream,
                         const weir_dnn_operands *o);

#ifdef __cplusplus
}
#endif

#endif
