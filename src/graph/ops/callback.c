/* callback.c - definitions of operations supplied by the caller: the function and its gradient.
 *
 * Neither op is pure: the functions may have side effects, so calls are never merged or repeated
 * and keep their order. Attributes hold the descs of x and y, because the gradient may be given
 * neither. */
#include <stdint.h>

#include "graph/ops/define.h"
#include "weir/callback.h"
#include "weir/graph.h"

enum { ALL_IN = (1 << WEIR_MAX_IN) - 1, ALL_OUT = (1 << WEIR_MAX_OUT) - 1 };

_Static_assert(sizeof((weir_callback_attr *)0)->desc ==
               (WEIR_MAX_IN + WEIR_MAX_OUT) * sizeof(weir_desc_attr), "room for every operand");

static const weir_callback_def *def_of(const weir_callback_attr *a)
{
    return (const weir_callback_def *)(uintptr_t)a->def;
}

static weir_desc desc_x(const weir_callback_attr *a, int i)
{
    return weir_desc_unpack(&a->desc[i]);
}

static weir_desc desc_y(const weir_callback_attr *a, int i)
{
    return weir_desc_unpack(&a->desc[a->nx + i]);
}

/* ---- forward: x -> y ---- */

static weir_status callback_infer(weir_call *c)
{
    const weir_callback_attr *const a = c->attr;

    c->nout = (int)a->ny;
    for (int i = 0; i < c->nout; i++) {
        const weir_desc d = desc_y(a, i);
        WEIR_TRY(weir_out_checked(c, i, &d));
    }
    return WEIR_OK;
}

/* Appends a gradient for each float y, zeros for those without one. */
static weir_status add_dy(const weir_grad *g, weir_tensor **in, int *n)
{
    for (int i = 0; i < g->nout; i++) {
        const weir_desc d = g->y[i]->layout.desc;
        if (!weir_is_any_float(d.dtype))
            continue;
        in[*n] = g->dy[i] ? g->dy[i] : weir_fill(g->y[i]->dev, d, 0);
        WEIR_TRY(weir_made(in[(*n)++]));
    }
    return WEIR_OK;
}

static weir_status callback_grad(weir_grad *g)
{
    weir_callback_attr             a = *(const weir_callback_attr *)g->attr;
    const weir_callback_def *const def = def_of(&a);
    weir_tensor                   *in[WEIR_MAX_IN], *dx[WEIR_MAX_OUT];
    int                            n = 0, made = 0;

    a.want = g->want;
    for (int i = 0; i < g->nin && !def->backward_without_x; i++)
        in[n++] = g->x[i];
    for (int i = 0; i < g->nout && !def->backward_without_y; i++)
        in[n++] = g->y[i];
    WEIR_TRY(add_dy(g, in, &n));
    WEIR_TRY(weir_record(WEIR_OP_CALLBACK_GRAD, n, in, &a, sizeof a, dx));
    for (int i = 0; i < g->nin; i++)
        if (weir_wants(g, i))
            g->dx[i] = dx[made++];
    return WEIR_OK;
}

const weir_opdef weir_op_callback = {
    .name = "callback",
    .flags = WEIR_STRIDED | WEIR_CALLER,
    .nin_min = 1,
    .nin_max = WEIR_MAX_IN,
    .nout = WEIR_MAX_OUT,
    .reads_in = ALL_IN,
    .reads_out = ALL_OUT,
    .differentiable = ALL_IN,
    .infer = callback_infer,
    .grad = callback_grad,
    .flops = weir_flops_none,
};

/* ---- backward: [x], [y], dy -> dx of the bits of want ---- */

static weir_status callback_grad_infer(weir_call *c)
{
    const weir_callback_attr *const a = c->attr;

    c->nout = 0;
    for (int i = 0; i < (int)a->nx; i++)
        if ((a->want >> i & 1) != 0) {
            const weir_desc d = desc_x(a, i);
            WEIR_TRY(weir_out_checked(c, c->nout++, &d));
        }
    return WEIR_OK;
}

const weir_opdef weir_op_callback_grad = {
    .name = "callback_grad",
    .flags = WEIR_STRIDED | WEIR_CALLER,
    .nin_min = 1,
    .nin_max = WEIR_MAX_IN,
    .nout = WEIR_MAX_OUT,
    .infer = callback_grad_infer,
    .flops = weir_flops_none,
};

/* ---- public function ---- */

/* Fails if there are more operands than a call, or the call of the gradient, can have. */
static weir_status check_counts(const weir_callback_def *def, const char *name, int nin, int nout,
                                const weir_desc *out_desc)
{
    if (nin < 1 || nin > WEIR_MAX_IN || nout < 1 || nout > WEIR_MAX_OUT)
        return weir_fail(WEIR_ERR_INVALID, "callback '%s': %d inputs and %d results are given, "
                         "but 1 to %d and 1 to %d are allowed",
                         name, nin, nout, WEIR_MAX_IN, WEIR_MAX_OUT);
    if (!def->backward)
        return WEIR_OK;
    int given = (def->backward_without_x ? 0 : nin) + (def->backward_without_y ? 0 : nout);
    for (int i = 0; i < nout; i++)
        given += weir_is_any_float(out_desc[i].dtype);
    if (nin > WEIR_MAX_OUT || given > WEIR_MAX_IN)
        return weir_fail(WEIR_ERR_INVALID, "callback '%s': a backward takes at most %d inputs, and "
                         "x, y and dy together at most %d; here they are %d and %d", name,
                         WEIR_MAX_OUT, WEIR_MAX_IN, nin, given);
    return WEIR_OK;
}

static weir_status pack(weir_callback_attr *a, const weir_callback_def *def, void *ctx, int nin,
                        weir_tensor *const *in, int nout, const weir_desc *out_desc)
{
    *a = (weir_callback_attr){.def = (uintptr_t)def, .ctx = (uintptr_t)ctx, .nx = nin, .ny = nout};
    for (int i = 0; i < nin; i++) {
        if (!in[i])
            return weir_fail_null("weir_callback", "an input");
        WEIR_TRY(weir_desc_pack("callback", &in[i]->layout.desc, &a->desc[i]));
    }
    for (int i = 0; i < nout; i++)
        WEIR_TRY(weir_desc_pack("callback", &out_desc[i], &a->desc[nin + i]));
    return WEIR_OK;
}

/* Without a backward function, results are constants for the tape. */
static weir_status record(const weir_callback_def *def, int nin, weir_tensor *const *in,
                          const weir_callback_attr *a, weir_tensor **made)
{
    weir_device *const d = in[0]->dev;

    if (def->backward)
        return weir_record(WEIR_OP_CALLBACK, nin, in, a, sizeof *a, made);
    WEIR_TRY(weir_no_grad_begin(d));
    const weir_status status = weir_record(WEIR_OP_CALLBACK, nin, in, a, sizeof *a, made);
    const weir_status end = weir_no_grad_end(d);
    return status != WEIR_OK ? status : end;
}

weir_status weir_callback(const weir_callback_def *def, void *ctx, int nin, weir_tensor *const *in,
                          int nout, const weir_desc *out_desc, weir_tensor **out)
{
    weir_callback_attr a;
    weir_tensor       *made[WEIR_MAX_OUT] = {NULL};

    if (!def || !def->forward || !in || !out_desc || !out)
        return weir_fail_null("weir_callback", !def ? "def" : !def->forward ? "def->forward"
                                               : !in ? "in" : !out ? "out" : "out_desc");
    WEIR_TRY(check_counts(def, def->name ? def->name : "", nin, nout, out_desc));
    for (int i = 0; i < nout; i++)
        out[i] = NULL;
    WEIR_TRY(pack(&a, def, ctx, nin, in, nout, out_desc));
    WEIR_TRY(record(def, nin, in, &a, made));
    for (int i = 0; i < nout; i++)
        out[i] = made[i];
    return WEIR_OK;
}
