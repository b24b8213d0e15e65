/* lstm.c - definition of an LSTM over a whole sequence, and of its gradient.
 *
 * The input's part of the gates, x W_ih + b, has been computed for all steps; the op adds the
 * state's part and applies the recurrence. Its outputs are the gates after their activation
 * functions, the cells and the outputs, from which the gradient is computed: that of the sums by
 * an op, that of w_hh as one product over all steps. In mixed precision the op has the type of the
 * products. */
#include "graph/ops/define.h"

/* ---- sums of gates (t,n,4w), w_hh (4w,w), h0, c0 (n,w) -> gates (t,n,4w), h, c (t,n,w) ---- */

static weir_status lstm_infer(weir_call *c)
{
    WEIR_TRY(weir_check_any_floats(c));
    WEIR_TRY(weir_check_ndim(c, 0, "sums", 3));
    WEIR_TRY(weir_check_ndim(c, 1, "w_hh", 2));

    const weir_desc *const sums = &c->in[0].desc;
    const int64_t          n = sums->dim[1], width = c->in[1].desc.dim[1];
    const weir_desc        weights = weir_2d(sums->dtype, 4 * width, width);
    const weir_desc        state = weir_2d(sums->dtype, n, width);
    weir_desc              y = *sums;

    WEIR_TRY(weir_check_dims(c, 1, "w_hh", &weights));
    WEIR_TRY(weir_check_dims(c, 2, "h0", &state));
    WEIR_TRY(weir_check_dims(c, 3, "c0", &state));
    if (sums->dim[2] != 4 * width)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "sums have %lld columns, not 4 x %lld",
                              (long long)sums->dim[2], (long long)width);
    weir_out_like(c, 0, 0);
    y.dim[2] = width;
    WEIR_TRY(weir_out_checked(c, 1, &y));
    return weir_out_checked(c, 2, &y);
}

/* The state at the start of each step: h0, then all of h except the last. */
static weir_tensor *states_before(const weir_grad *g)
{
    const weir_lstm_attr *const a = g->attr;
    weir_tensor *const          h = g->y[1];
    const int64_t *const        d = h->layout.desc.dim;
    weir_tensor *const          first = weir_reshape(g->x[2], 3, (int64_t[]){1, d[1], d[2]});

    if (d[0] == 1)
        return first;
    weir_tensor *const rest = weir_narrow(h, 0, a->backward ? 1 : 0, d[0] - 1);
    weir_tensor *const in[] = {a->backward ? rest : first, a->backward ? first : rest};
    return first && rest ? weir_concat(2, in, 0) : NULL;
}

static weir_tensor *as_rows(weir_tensor *t)
{
    if (!t)
        return NULL;
    const int64_t *const d = t->layout.desc.dim;
    return weir_reshape(t, 2, (int64_t[]){d[0] * d[1], d[2]});
}

static weir_status lstm_gradient(weir_grad *g)
{
    weir_tensor *const dh =
        g->dy[1] ? g->dy[1] : weir_fill(g->y[1]->dev, g->y[1]->layout.desc, 0);
    weir_tensor *const in[] = {g->y[0], g->x[1], g->y[2], g->x[3], dh, g->dy[2]};
    weir_tensor       *out[WEIR_MAX_OUT] = {NULL};

    WEIR_TRY(weir_made(dh));
    WEIR_TRY(weir_record(WEIR_OP_LSTM_GRAD, g->dy[2] ? 6 : 5, in, g->attr, sizeof(weir_lstm_attr),
                         out));
    if (weir_wants(g, 0))
        g->dx[0] = out[0];
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, weir_matmul_t(as_rows(out[0]), as_rows(states_before(g)), true,
                                                   false)));
    if (weir_wants(g, 2))
        g->dx[2] = out[1];
    if (weir_wants(g, 3))
        g->dx[3] = out[2];
    return WEIR_OK;
}

/* A matrix product per step, and about 30 operations per unit. */
static double lstm_flops(const weir_call *c)
{
    const double width = (double)c->in[1].desc.dim[1];

    return (double)weir_shape_count(&c->in[0].desc) * (2 * width + 8);
}

const weir_opdef weir_op_lstm = {
    .name = "lstm",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 4,
    .nin_max = 4,
    .nout = 3,
    .autocast_half = 15,
    .inplace = 1,
    .reads_in = 1 << 1 | 1 << 2 | 1 << 3,
    .reads_out = 7,
    .differentiable = 15,
    .infer = lstm_infer,
    .grad = lstm_gradient,
    .flops = lstm_flops,
};

/* ---- gates, w_hh, c, c0, dh, dc or nothing -> dsums, dh0, dc0 ---- */

static weir_status lstm_grad_infer(weir_call *c)
{
    WEIR_TRY(weir_check_any_floats(c));
    weir_out_like(c, 0, 0);
    weir_out_like(c, 1, 3);
    weir_out_like(c, 2, 3);
    return WEIR_OK;
}

const weir_opdef weir_op_lstm_grad = {
    .name = "lstm_grad",
    .flags = WEIR_PURE | WEIR_PRODUCT,
    .nin_min = 5,
    .nin_max = 6,
    .nout = 3,
    .inplace = 1,
    .infer = lstm_grad_infer,
    .flops = lstm_flops,
};
