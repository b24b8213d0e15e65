/* dnn.h - convolutions by cuDNN: its graph API in the C ("backend") form.
 *
 * A convolution becomes descriptors of three tensors, of an operation on them, and of a graph of
 * that operation (or of two: a bias is added before the result is rounded). Heuristics name engines
 * for the graph, best first; the first that the rules allow becomes an execution plan, the only
 * thing kept. Images and weights are channels-last. */
#ifndef WEIR_DEVICE_CUDA_LIB_DNN_H
#define WEIR_DEVICE_CUDA_LIB_DNN_H

#include "device/common/conv_geometry.h"
#include "device/cuda/runtime/context.h"
#include "device/cuda/runtime/libs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which engines may be used. */
typedef struct weir_dnn_rules {
    bool   tf32;                /* f32 on tensor cores, which round operands to 10 fraction bits */
    bool   nondeterministic;    /* engines whose bits differ from run to run */
    bool   transforms;          /* Winograd and Fourier, whose errors grow with the tile */
    size_t work;                /* most bytes of a workspace */
} weir_dnn_rules;

#define WEIR_DNN_WORK ((size_t)256 << 20)

/* The rules that the environment sets (each value may be NULL): WEIR_CUDNN_NONDETERMINISTIC and
 * WEIR_WINOGRAD are on if "1", WEIR_CUDNN_WORKSPACE is a number of bytes. */
weir_dnn_rules weir_dnn_rules_of(bool tf32, const char *nondeterministic, const char *winograd,
                                 const char *work);

/* True if an engine with these notes may be used for the element type. */
bool weir_dnn_allows(const weir_dnn_rules *r, weir_dtype t,
                     const cudnnBackendNumericalNote_t *note, int64_t notes);

/* The name of an allowed engine in dumps. */
const char *weir_dnn_impl(weir_dtype t, const cudnnBackendNumericalNote_t *note, int64_t notes);

/* Padding after an axis of `size` cells that gives `places` windows of `reach` cells, for the given
 * padding before: equal to that if possible, since few engines support anything else. */
int64_t weir_dnn_pad_end(int64_t size, int64_t reach, int64_t stride, int64_t before,
                         int64_t places);

/* The cuDNN state of a device. */
typedef struct weir_cuda_dnn {
    const weir_cuda_lib_dnn *lib;       /* NULL: not found */
    cudnnHandle_t            handle;
    /* Instead of a handle: a description of a card, for which plans can be made but not run. */
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

enum { WEIR_DNN_ALIGN = 16 };       /* bytes; alignment that plans assume */

/* Makes at most `most` plans for a convolution, best first; *found is 0 if the library refuses it.
 * Fails if there is no plan because of an error of the library. bias: FORWARD adds one, in plans of
 * their own where the library can. */
weir_status weir_dnn_plans(const weir_cuda_dnn *d, const weir_call *c, const weir_conv *g,
                           weir_conv_pass pass, bool bias, int most, weir_dnn_plan *plan,
                           int *found);
void        weir_dnn_plan_drop(weir_dnn_plan *p);

/* Images, weights and outputs, or the gradients in their place; the bias if the plan has one. */
typedef struct weir_dnn_operands {
    void *x, *w, *y, *bias, *work;
} weir_dnn_operands;

/* Queues a run of the plan. */
weir_status weir_dnn_run(const weir_dnn_plan *p, const weir_call *c, cudaStream_t stream,
                         const weir_dnn_operands *o);

#ifdef __cplusplus
}
#endif

#endif
