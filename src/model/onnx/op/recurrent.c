/* recurrent.c - RNN, GRU and LSTM: one direction or both, sequences of several lengths.
 *
 * A layer as PyTorch defines it becomes Weir's own. What that lacks (plain RNNs, other activations,
 * peepholes, coupled gates, a reset in front of the product, the reverse direction alone) is
 * recorded step by step. Definitions: onnx.ai/onnx/operators/onnx__LSTM.html, __GRU, __RNN. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "model/onnx/op/ops.h"

enum { STEPS = 20000, FUNCTIONS = 3 }; /* most steps; most activations of a direction */

typedef weir_tensor *(*activation)(weir_tensor *x);

typedef enum cell { RNN, GRU, LSTM } cell;

static const int gates_of[] = {1, 3, 4};

/* Sizes: steps, n sequences, hidden; axis 0 of weights and states counts directions. */
typedef struct recurrent {
    weir_onnx_call *c;
    cell            cell;
    weir_tensor    *x;                /* (steps, n, columns) */
    weir_tensor    *w, *r, *b;        /* (d, gates*hidden, columns), (.., hidden), (d, 2*gates*h) */
    weir_tensor    *peephole;         /* (d, 3*hidden), i, o, f; b and peephole may be NULL */
    weir_tensor    *h, *state;        /* first ones (d, n, hidden); NULL: 0; state: of the LSTM */
    weir_tensor    *lengths;          /* (n); NULL: all steps */
    int64_t         steps, n, hidden;
    int             directions;
    bool            reverse;          /* the one direction is backwards */
    bool            batch_first, coupled;
    bool            reset_behind;     /* GRU: of the product, not of the state in front of it */
    bool            usual;            /* activations are the default ones */
    activation      function[2 * FUNCTIONS];
} recurrent;

/* The results of a layer: y (steps, d, n, hidden), last states (d, n, hidden). */
typedef struct results {
    weir_tensor *y, *h, *state;
} results;

/* ---- reading ---- */

static weir_status read_functions(recurrent *r)
{
    static const struct {
        const char *name;
        activation  fn;
    } known[] = {{"Tanh", weir_tanh},         {"Sigmoid", weir_sigmoid},   {"Relu", weir_relu},
                 {"Softsign", weir_softsign}, {"Softplus", weir_softplus}};
    static const activation     usual[][FUNCTIONS] = {{weir_tanh},
                                                      {weir_sigmoid, weir_tanh},
                                                      {weir_sigmoid, weir_tanh, weir_tanh}};
    const weir_onnx_attr *const a = weir_onnx_attr_of(r->c, "activations");
    const int                   each = r->cell == RNN ? 1 : r->cell == GRU ? 2 : 3;

    r->usual = true;
    for (int i = 0; i < r->directions * each; i++)
        r->function[i] = usual[r->cell][i % each];
    if (!a || a->n_strings == 0)
        return WEIR_OK;
    if (a->n_strings != (size_t)(r->directions * each))
        return weir_onnx_refuse(r->c, "%zu activations in place of %d", a->n_strings,
                                r->directions * each);
    for (int i = 0; i < r->directions * each; i++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcasecmp(known[k].name, a->strings[i]) != 0)
            k++;
        if (k == sizeof known / sizeof *known)
            return weir_onnx_refuse(r->c, "the activation %.30s", a->strings[i]);
        r->usual = r->usual && known[k].fn == r->function[i];
        r->function[i] = known[k].fn;
    }
    return WEIR_OK;
}

static weir_status read_attributes(recurrent *r)
{
    const char *const direction = weir_onnx_str(r->c, "direction", "forward");

    r->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    r->reverse = strcmp(direction, "reverse") == 0;
    if (r->directions == 1 && !r->reverse && strcmp(direction, "forward") != 0)
        return weir_onnx_refuse(r->c, "direction %.20s", direction);
    if (weir_onnx_attr_of(r->c, "clip"))
        return weir_onnx_refuse(r->c, "clip");
    r->batch_first = weir_onnx_int(r->c, "layout", 0) != 0;
    r->coupled = r->cell == LSTM && weir_onnx_int(r->c, "input_forget", 0) != 0;
    r->reset_behind = weir_onnx_int(r->c, "linear_before_reset", 0) != 0;
    return read_functions(r);
}

static weir_tensor *swapped(weir_tensor *x)
{
    return x ? weir_transpose(x, (int[]){1, 0, 2}) : NULL;
}

/* Input i, NULL if it is not given; fails if it is given and cannot be read, or if it does not have
 * this shape. Tensors that have sequences in front are turned. */
static weir_status read_input(recurrent *r, size_t i, bool turned, weir_desc want, weir_tensor **t)
{
    *t = NULL;
    if (!weir_onnx_has(r->c, i))
        return WEIR_OK;
    *t = weir_onnx_x(r->c, i);
    if (turned && *t && weir_tensor_desc(*t).ndim == 3)
        *t = swapped(*t);
    if (!*t)
        return weir_error_status();
    const weir_desc have = weir_tensor_desc(*t);
    bool            same = have.ndim == want.ndim;
    for (int k = 0; k < want.ndim && same; k++)
        same = have.dim[k] == want.dim[k];
    return same ? WEIR_OK
                : weir_onnx_refuse(r->c, "input %zu has another shape than the sizes of the layer "
                                         "(%" PRId64 " steps, %" PRId64 " sequences, %" PRId64
                                         " hidden, %d directions) ask for",
                                   i, r->steps, r->n, r->hidden, r->directions);
}

static weir_status read_tensors(recurrent *r)
{
    weir_tensor *const x = weir_onnx_x(r->c, 0), *const recurrence = weir_onnx_x(r->c, 2);
    const int          states = r->cell == LSTM ? 2 : 1;
    const int64_t      gates = gates_of[r->cell], d = r->directions;

    if (!x || !recurrence)
        return weir_error_status();
    r->x = r->batch_first && weir_tensor_desc(x).ndim == 3 ? swapped(x) : x;
    const weir_desc dx = weir_tensor_desc(r->x), dr = weir_tensor_desc(recurrence);
    if (dx.ndim != 3 || dr.ndim != 3)
        return weir_onnx_refuse(r->c, "inputs with %d and %d axes", dx.ndim, dr.ndim);
    r->steps = dx.dim[0];
    r->n = dx.dim[1];
    r->hidden = weir_onnx_int(r->c, "hidden_size", dr.dim[2]);
    if (r->steps < 1 || r->steps > STEPS || r->hidden < 1)
        return weir_onnx_refuse(r->c, "%" PRId64 " steps", r->steps);
    const weir_desc state = weir_3d(dx.dtype, d, r->n, r->hidden);
    WEIR_TRY(read_input(r, 1, false, weir_3d(dx.dtype, d, gates * r->hidden, dx.dim[2]), &r->w));
    WEIR_TRY(read_input(r, 2, false, weir_3d(dx.dtype, d, gates * r->hidden, r->hidden), &r->r));
    WEIR_TRY(read_input(r, 3, false, weir_2d(dx.dtype, d, 2 * gates * r->hidden), &r->b));
    WEIR_TRY(read_input(r, 4, false, weir_1d(WEIR_I32, r->n), &r->lengths));
    WEIR_TRY(read_input(r, 5, r->batch_first, state, &r->h));
    if (states == 2) {
        WEIR_TRY(read_input(r, 6, r->batch_first, state, &r->state));
        WEIR_TRY(read_input(r, 7, false, weir_2d(dx.dtype, d, 3 * r->hidden), &r->peephole));
    }
    return r->w && r->r ? WEIR_OK : weir_onnx_refuse(r->c, "an input is missing");
}

/* ---- parts ---- */

/* Row d of axis 0. */
static weir_tensor *row(weir_tensor *t, int64_t d)
{
    return t ? weir_squeeze(weir_narrow(t, 0, d, 1), 0) : NULL;
}

/* Block i of `size` elements along an axis. */
static weir_tensor *block(weir_tensor *t, int axis, int64_t i, int64_t size)
{
    return weir_narrow(t, axis, i * size, size);
}

static weir_tensor *zeros(const recurrent *r, int64_t rows)
{
    return weir_fill(r->c->dev, weir_2d(weir_tensor_desc(r->x).dtype, rows, r->hidden), 0);
}

/* ---- Weir's own layers ---- */

/* Gates in the order of Weir's: i, f, g, o for ONNX's i, o, f, g; r, z, n for z, r, n. */
static weir_tensor *ordered(const recurrent *r, weir_tensor *t)
{
    static const int lstm[] = {0, 2, 3, 1}, gru[] = {1, 0, 2};
    const int *const order = r->cell == LSTM ? lstm : gru;
    weir_tensor     *part[4];

    for (int i = 0; i < gates_of[r->cell]; i++)
        part[i] = block(t, 0, order[i], r->hidden);
    return weir_concat(gates_of[r->cell], part, 0);
}

static weir_status own_layer(const recurrent *r, results *out)
{
    weir_rnn_weights       w[2];
    const weir_rnn_options o = {.bidirectional = r->directions == 2, .lengths = r->lengths};
    weir_tensor           *y;

    for (int d = 0; d < r->directions; d++) {
        const int64_t half = gates_of[r->cell] * r->hidden;
        weir_tensor  *b = row(r->b, d);
        w[d] = (weir_rnn_weights){
            .w_ih = ordered(r, row(r->w, d)),
            .w_hh = ordered(r, row(r->r, d)),
            .b_ih = b ? ordered(r, block(b, 0, 0, half)) : NULL,
            .b_hh = b ? ordered(r, block(b, 0, 1, half)) : NULL,
        };
        if (!w[d].w_ih || !w[d].w_hh)
            return weir_error_status();
    }
    if (r->cell == LSTM)
        y = weir_lstm(r->x, w, r->h, r->state, &o, &out->h, &out->state);
    else
        y = weir_gru(r->x, w, r->h, &o, &out->h);
    if (!y)
        return weir_error_status();
    y = weir_reshape(y, 4, (int64_t[]){r->steps, r->n, r->directions, r->hidden});
    out->y = y ? weir_transpose(y, (int[]){0, 2, 1, 3}) : NULL;
    return out->y ? WEIR_OK : weir_error_status();
}

/* ---- step by step ---- */

/* One direction: its weights, its functions, the states behind the last step. */
typedef struct direction {
    weir_tensor *w, *r, *bias, *inner; /* inner: the bias inside the product with the state */
    weir_tensor *peephole;
    weir_tensor *h, *state;            /* (n, hidden) */
    const activation *f;
} direction;

static weir_status begin(const recurrent *r, int d, direction *at)
{
    const int64_t half = gates_of[r->cell] * r->hidden;
    weir_tensor  *b = row(r->b, d);

    *at = (direction){.w = row(r->w, d),
                      .r = row(r->r, d),
                      .peephole = row(r->peephole, d),
                      .h = r->h ? row(r->h, d) : zeros(r, r->n),
                      .f = &r->function[d * (r->cell == RNN ? 1 : r->cell == GRU ? 2 : 3)]};
    if (r->cell == LSTM)
        at->state = r->state ? row(r->state, d) : zeros(r, r->n);
    if (b && r->cell == GRU && r->reset_behind) {
        at->bias = block(b, 0, 0, half);
        at->inner = block(b, 0, 1, half);
    } else if (b) {
        at->bias = weir_add(block(b, 0, 0, half), block(b, 0, 1, half));
    }
    return at->w && at->r && at->h && (!b || at->bias) ? WEIR_OK : weir_error_status();
}

/* x: the products with the input, (n, gates*hidden); the state changes. Returns the next h. */
static weir_tensor *lstm_step(const recurrent *r, direction *at, weir_tensor *x)
{
    weir_tensor *const all = weir_add(x, weir_linear(at->h, at->r, NULL));
    weir_tensor       *gate[4]; /* i, o, f, g */

    for (int i = 0; i < 4; i++)
        gate[i] = block(all, 1, i, r->hidden);
    for (int i = 0; i < 3 && at->peephole; i += 2)
        gate[i] = weir_add(gate[i], weir_mul(block(at->peephole, 0, i, r->hidden), at->state));
    weir_tensor *const in = at->f[0](gate[0]);
    weir_tensor *const keep = r->coupled ? weir_affine(in, -1, 1) : at->f[0](gate[2]);
    at->state = weir_add(weir_mul(keep, at->state), weir_mul(in, at->f[1](gate[3])));
    if (at->peephole)
        gate[1] = weir_add(gate[1], weir_mul(block(at->peephole, 0, 1, r->hidden), at->state));
    return weir_mul(at->f[0](gate[1]), at->f[2](at->state));
}

static weir_tensor *gru_step(const recurrent *r, direction *at, weir_tensor *x)
{
    const int64_t      h = r->hidden;
    weir_tensor *const both = weir_linear(at->h, weir_narrow(at->r, 0, 0, 2 * h),
                                          at->inner ? weir_narrow(at->inner, 0, 0, 2 * h) : NULL);
    weir_tensor *const gate = at->f[0](weir_add(weir_narrow(x, 1, 0, 2 * h), both));
    weir_tensor *const z = block(gate, 1, 0, h), *const reset = block(gate, 1, 1, h);
    weir_tensor *const w = block(at->r, 0, 2, h);
    weir_tensor       *n;

    if (r->reset_behind)
        n = weir_mul(reset, weir_linear(at->h, w, at->inner ? block(at->inner, 0, 2, h) : NULL));
    else
        n = weir_linear(weir_mul(reset, at->h), w, NULL);
    n = at->f[1](weir_add(block(x, 1, 2, h), n));
    return weir_add(weir_mul(weir_affine(z, -1, 1), n), weir_mul(z, at->h));
}

/* One step of a direction; behind the end of a sequence its states stay and its output is 0. */
static weir_tensor *step(const recurrent *r, direction *at, weir_tensor *x, int64_t t)
{
    weir_tensor *const h = at->h, *const state = at->state;
    weir_tensor       *next = NULL, *lasts = NULL;

    switch (r->cell) {
    case RNN:
        next = at->f[0](weir_add(x, weir_linear(h, at->r, NULL)));
        break;
    case GRU:
        next = gru_step(r, at, x);
        break;
    case LSTM:
        next = lstm_step(r, at, x);
        break;
    }
    at->h = next;
    if (!r->lengths)
        return next;
    lasts = weir_gt(weir_reshape(r->lengths, 2, (int64_t[]){r->n, 1}),
                    weir_fill_int(r->c->dev, weir_scalar(WEIR_I32), t));
    at->h = weir_where(lasts, next, h);
    if (state)
        at->state = weir_where(lasts, at->state, state);
    return weir_where(lasts, next, zeros(r, 1));
}

/* at: room for the outputs of all steps and directions, in the order of y. */
static weir_status record_steps(const recurrent *r, weir_tensor **at, results *out)
{
    const weir_desc d = weir_tensor_desc(r->x);
    const int64_t   gates = gates_of[r->cell];
    weir_tensor    *h[2] = {NULL}, *state[2] = {NULL};

    for (int k = 0; k < r->directions; k++) {
        direction  way;
        const bool back = r->reverse || k == 1;
        WEIR_TRY(begin(r, k, &way));
        weir_tensor *x = weir_reshape(r->x, 2, (int64_t[]){r->steps * r->n, d.dim[2]});
        x = weir_linear(x, way.w, way.bias);
        x = weir_reshape(x, 3, (int64_t[]){r->steps, r->n, gates * r->hidden});
        for (int64_t i = 0; i < r->steps && x; i++) {
            const int64_t t = back ? r->steps - 1 - i : i;
            at[t * r->directions + k] = step(r, &way, row(x, t), t);
            if (!at[t * r->directions + k])
                return weir_error_status();
        }
        h[k] = way.h;
        state[k] = way.state;
    }
    weir_tensor *const y = weir_stack((int)(r->steps * r->directions), at, 0);
    out->y = weir_reshape(y, 4, (int64_t[]){r->steps, r->directions, r->n, r->hidden});
    out->h = weir_stack(r->directions, h, 0);
    out->state = r->cell == LSTM ? weir_stack(r->directions, state, 0) : NULL;
    return out->y && out->h ? WEIR_OK : weir_error_status();
}

static weir_status stepwise(const recurrent *r, results *out)
{
    weir_tensor **const at = weir_host_alloc((size_t)(r->steps * r->directions) * sizeof *at);

    if (!at)
        return weir_error_status();
    const weir_status s = record_steps(r, at, out);
    weir_host_free((void *)at);
    return s;
}

/* ---- the operators ---- */

static weir_status recur(weir_onnx_call *c, cell kind)
{
    recurrent r = {.c = c, .cell = kind};
    results   out = {.y = NULL};

    WEIR_TRY(read_attributes(&r));
    WEIR_TRY(read_tensors(&r));
    const bool own = kind != RNN && r.usual && !r.reverse && !r.peephole && !r.coupled &&
                     (kind == LSTM || r.reset_behind);
    WEIR_TRY(own ? own_layer(&r, &out) : stepwise(&r, &out));
    if (r.batch_first) {
        out.y = weir_transpose(out.y, (int[]){2, 0, 1, 3});
        out.h = swapped(out.h);
        out.state = swapped(out.state);
    }
    WEIR_TRY(weir_onnx_give(c, 0, out.y));
    if (weir_onnx_wants(c, 1))
        WEIR_TRY(weir_onnx_give(c, 1, out.h));
    return kind == LSTM && weir_onnx_wants(c, 2) ? weir_onnx_give(c, 2, out.state) : WEIR_OK;
}

weir_status weir_onnx_rnn(weir_onnx_call *c)
{
    return recur(c, RNN);
}

weir_status weir_onnx_gru(weir_onnx_call *c)
{
    return recur(c, GRU);
}

weir_status weir_onnx_lstm(weir_onnx_call *c)
{
    return recur(c, LSTM);
}
