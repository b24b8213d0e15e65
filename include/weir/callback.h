/* callback.h - an operation of a program's own: C functions on host data, recorded like any other.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CALLBACK_PUBLIC_H
#define WEIR_CALLBACK_PUBLIC_H

#include "weir/base.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of one operand on the host, row-major in the order of the dims, whatever the tensor's
 * physical layout. data may be NULL for an operand without elements. */
typedef struct weir_host_in {
    weir_desc   desc;           /* shape and dtype */
    const void *data;           /* borrowed during the call */
} weir_host_in;

/* The same of a result: its elements are to be written. */
typedef struct weir_host_out {
    weir_desc desc;             /* shape and dtype */
    void     *data;             /* borrowed during the call */
} weir_host_out;

/* The operation. Both functions write every element of the requested results, keep no pointer and
 * call no function of the device. They return WEIR_OK, or call weir_fail with a sentence and return
 * its status: then the call, or the run of the graph, fails with it. Runs repeat bit for bit only
 * if equal elements always give equal results. */
typedef struct weir_callback_def {
    const char *name;           /* for messages */

    /* Computes the results y from the inputs x. ctx is weir_callback's. */
    weir_status (*forward)(void *ctx, const weir_host_in *x, const weir_host_out *y);

    /* Computes the gradients dx of the inputs from those of the results, dy.
     * dx[i].data is NULL if that gradient is not needed, dy[i].data if y[i] is not of a float type,
     * x[i].data and y[i].data as the two flags below say. backward NULL: gradients do not pass. */
    weir_status (*backward)(void *ctx, const weir_host_in *x, const weir_host_in *y,
                            const weir_host_in *dy, const weir_host_out *dx);
    bool backward_without_x, backward_without_y;    /* backward does not read x, y: not kept */
} weir_callback_def;

/* Calls def->forward with ctx on in[nin] and puts results, described by out_desc[nout], into
 * out[nout] (borrowed from the innermost scope). In a graph the callback runs once in each run;
 * callbacks keep their recorded order, and equal ones are not merged, but one whose results nothing
 * reads is dropped. Its gradient is a call of def->backward, recorded or computed in the same way.
 *
 * def and ctx are not copied: they must outlive every graph that recorded them, and every result
 * whose gradient may still be taken. 1 to 8 inputs of any type, 1 to 4 results; with a backward at
 * most 4 inputs, and at most 8 operands that backward reads (x, y and dy together); else
 * ERR_INVALID. With the graph off it returns the status of forward. */
WEIR_API weir_status weir_callback(const weir_callback_def *def, void *ctx, int nin,
                                   weir_tensor *const *in, int nout, const weir_desc *out_desc,
                                   weir_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
