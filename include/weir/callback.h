/* callback.h - an operation of a program's own: C functions on host data, recorded like any other.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CALLBACK_PUBLIC_H
#define WEIR_CALLBACK_PUBLIC_H

#include "weir/base.h"
#include "weir/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of one operand on the host, row-major in the order of the dims whatever the tensor's
 * physical layout is. data may be NULL for an operand without elements. */
typedef struct weir_host_in {
    weir_desc   desc;
    const void *data;
} weir_host_in;

typedef struct weir_host_out {
    weir_desc desc;
    void     *data;
} weir_host_out;

/* The operation. Both functions write every element of what they are asked for, keep no pointer,
 * call nothing of the device, and answer WEIR_OK, or a status after weir_fail with a sentence: then
 * the call, or the run of the graph, fails with it. They must give the same answer for the same
 * elements if runs are to repeat bit for bit. */
typedef struct weir_callback_def {
    const char *name;           /* for messages */
    weir_status (*forward)(void *ctx, const weir_host_in *x, const weir_host_out *y);

    /* dx[i].data is NULL where no gradient is wanted; dy[i].data where y[i] is not of a float
     * type; x[i].data and y[i].data where the two flags below say so. NULL: gradients do not pass.
     */
    weir_status (*backward)(void *ctx, const weir_host_in *x, const weir_host_in *y,
                            const weir_host_in *dy, const weir_host_out *dx);
    bool backward_without_x, backward_without_y;    /* backward reads no x, no y: not kept for it */
} weir_callback_def;

/* Calls def->forward with ctx on in[nin], results as out_desc[nout] into out[nout] (borrowed from
 * the innermost scope). In a graph it is one call that runs at each run, in the recorded order
 * among callbacks, never merged with an equal one and never repeated, but dropped when nobody needs
 * its results. Its gradient is a call of def->backward, recorded or made in the same way.
 *
 * def and ctx are not copied: they must outlive every graph that recorded them and every result
 * that a gradient may still be asked of. 1 to 8 inputs of any type, 1 to 4 results; with a backward
 * at most 4 inputs, and x, y and dy together, as far as backward takes them, at most 8. */
WEIR_API weir_status weir_callback(const weir_callback_def *def, void *ctx, int nin,
                                   weir_tensor *const *in, int nout, const weir_desc *out_desc,
                                   weir_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
