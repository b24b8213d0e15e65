/* reduce.c - sums and other reductions, softmax, running sums, losses. Attributes: core/attr.h. */
#include "model/onnx/write/calls.h"

/* ---- reductions: a set of axes, keep, scale ---- */

static double elements_reduced(const weir_desc *d, uint64_t dims)
{
    double n = 1;

    for (int i = 0; i < d->ndim; i++)
        n *= dims >> i & 1 ? (double)d->dim[i] : 1;
    return n;
}

/* Input 0 over the call's axes. */
static void reduced(weir_onnx_writer *w, const weir_onnx_written *c, const char *op)
{
    weir_onnx_reduced(w, op, c->out[0], weir_onnx_in(w, c, 0), (uint64_t)c->call->attr[0],
                      weir_onnx_in_desc(w, c, 0)->ndim, c->call->attr[1] != 0);
}

/* x summed, or its mean if that is what the scale makes of the sum. */
static void summed(weir_onnx_writer *w, const weir_onnx_written *c, const char *x)
{
    const weir_desc *const d = weir_onnx_in_desc(w, c, 0);
    const uint64_t         dims = (uint64_t)c->call->attr[0];
    const bool             keep = c->call->attr[1] != 0;
    const double           scale = weir_recording_double(c->call, 2);
    const weir_dtype       to = weir_onnx_out_desc(w, c, 0)->dtype;

    if (to != d->dtype)
        x = weir_onnx_cast_to(w, NULL, x, to);
    if (scale == 1 || scale == 1 / elements_reduced(d, dims)) {
        weir_onnx_reduced(w, scale == 1 ? "ReduceSum" : "ReduceMean", c->out[0], x, dims, d->ndim,
                          keep);
        return;
    }
    x = weir_onnx_reduced(w, "ReduceSum", NULL, x, dims, d->ndim, keep);
    weir_put_node2(w, "Mul", c->out[0], x, weir_onnx_scalar_of(w, to, scale));
}

void weir_onnx_write_sum(weir_onnx_writer *w, const weir_onnx_written *c)
{
    summed(w, c, weir_onnx_in(w, c, 0));
}

void weir_onnx_write_dot(weir_onnx_writer *w, const weir_onnx_written *c)
{
    summed(w, c, weir_put_node2(w, "Mul", NULL, weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1)));
}

void weir_onnx_write_dist(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const d = weir_put_node2(w, "Sub", NULL, weir_onnx_in(w, c, 0),
                                          weir_onnx_in(w, c, 1));

    summed(w, c, weir_put_node2(w, "Mul", NULL, d, d));
}

/* A product of small integers is one of i64, as a sum. */
void weir_onnx_write_prod(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_dtype to = weir_onnx_out_desc(w, c, 0)->dtype;
    const char      *x = weir_onnx_in(w, c, 0);

    if (to != weir_onnx_in_desc(w, c, 0)->dtype)
        x = weir_onnx_cast_to(w, NULL, x, to);
    weir_onnx_reduced(w, "ReduceProd", c->out[0], x, (uint64_t)c->call->attr[0],
                      weir_onnx_in_desc(w, c, 0)->ndim, c->call->attr[1] != 0);
}

void weir_onnx_write_amax(weir_onnx_writer *w, const weir_onnx_written *c)
{
    reduced(w, c, "ReduceMax");
}

void weir_onnx_write_amin(weir_onnx_writer *w, const weir_onnx_written *c)
{
    reduced(w, c, "ReduceMin");
}

void weir_onnx_write_norm1(weir_onnx_writer *w, const weir_onnx_written *c)
{
    reduced(w, c, "ReduceL1");
}

void weir_onnx_write_norm2(weir_onnx_writer *w, const weir_onnx_written *c)
{
    reduced(w, c, "ReduceL2");
}

/* ---- along one axis ---- */

static int64_t axis_of(const weir_onnx_written *c)
{
    int64_t axis = 0;

    while (((uint64_t)c->call->attr[0] >> axis & 1) == 0 && axis < WEIR_MAX_DIMS)
        axis++;
    return axis;
}

static void argument(weir_onnx_writer *w, const weir_onnx_written *c, const char *op)
{
    const char *const   x = weir_onnx_in(w, c, 0);
    const weir_onnx_set set[] = {WEIR_SET_INT("axis", axis_of(c)),
                                 WEIR_SET_INT("keepdims", c->call->attr[1])};

    weir_put_node(w, op, c->out[0], 1, &x, 2, set);
}

void weir_onnx_write_argmax(weir_onnx_writer *w, const weir_onnx_written *c)
{
    argument(w, c, "ArgMax");
}

void weir_onnx_write_argmin(weir_onnx_writer *w, const weir_onnx_written *c)
{
    argument(w, c, "ArgMin");
}

/* Halves have the operator from opset 14 on. */
static void running(weir_onnx_writer *w, const weir_onnx_written *c, const char *op)
{
    const bool          half = w->opset < 14 && weir_onnx_in_desc(w, c, 0)->dtype == WEIR_F16;
    const char *const   x = weir_onnx_in(w, c, 0);
    const char *const   in[] = {half ? weir_onnx_cast_to(w, NULL, x, WEIR_F32) : x,
                                weir_onnx_int_of(w, axis_of(c))};
    const weir_onnx_set set = WEIR_SET_INT("reverse", c->call->attr[3]);
    const char *const   y = weir_put_node(w, op, half ? NULL : c->out[0], 2, in, 1, &set);

    if (half)
        weir_onnx_cast_to(w, c->out[0], y, WEIR_F16);
}

void weir_onnx_write_cumsum(weir_onnx_writer *w, const weir_onnx_written *c)
{
    running(w, c, "CumSum");
}

void weir_onnx_write_cumprod(weir_onnx_writer *w, const weir_onnx_written *c)
{
    running(w, c, "CumProd");
}

static const char *along(weir_onnx_writer *w, const char *op, const char *out, const char *x,
                         int64_t axis)
{
    return weir_put_node(w, op, out, 1, &x, 1, &(weir_onnx_set)WEIR_SET_INT("axis", axis));
}

void weir_onnx_write_softmax(weir_onnx_writer *w, const weir_onnx_written *c)
{
    along(w, "Softmax", c->out[0], weir_onnx_in(w, c, 0), c->call->attr[0]);
}

void weir_onnx_write_log_softmax(weir_onnx_writer *w, const weir_onnx_written *c)
{
    along(w, "LogSoftmax", c->out[0], weir_onnx_in(w, c, 0), c->call->attr[0]);
}

/* ---- losses ---- */

/* Of class numbers, or of probabilities: the mean of -sum(target log softmax). */
void weir_onnx_write_cross_entropy(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const d = weir_onnx_in_desc(w, c, 0), *const t = weir_onnx_in_desc(w, c, 1);
    const char *const      in[] = {weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1)};
    const weir_onnx_set    set[] = {WEIR_SET_INT("ignore_index", c->call->attr[0]),
                                    WEIR_SET_TEXT("reduction", "mean")};

    if (t->dtype == WEIR_I32 || t->dtype == WEIR_I64) {
        weir_put_node(w, "SoftmaxCrossEntropyLoss", c->out[0], 2, in, 2, set);
        return;
    }
    const char *y = along(w, "LogSoftmax", NULL, in[0], 1);
    y = weir_onnx_reduced(w, "ReduceSum", NULL, weir_put_node2(w, "Mul", NULL, y, in[1]), 2, 2,
                          false);
    y = weir_onnx_reduced(w, "ReduceMean", NULL, y, 1, 1, false);
    weir_put_node2(w, "Mul", c->out[0], y, weir_onnx_scalar_of(w, d->dtype, -1));
}

void weir_onnx_write_count_correct(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const   x = weir_onnx_in(w, c, 0), *const t = weir_onnx_in(w, c, 1);
    const weir_onnx_set set[] = {WEIR_SET_INT("axis", 1), WEIR_SET_INT("keepdims", 0)};
    const char *const   best = weir_put_node(w, "ArgMax", NULL, 1, &x, 2, set);
    const char *const   right = weir_put_node2(w, "Equal", NULL, best,
                                                weir_onnx_cast_to(w, NULL, t, WEIR_I64));

    weir_onnx_reduced(w, "ReduceSum", c->out[0], weir_onnx_cast_to(w, NULL, right, WEIR_I64), 1, 1,
                      false);
}
