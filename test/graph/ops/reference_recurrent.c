/* reference_recurrent.c - the reference of LSTM and GRU: one element of one step at a time. */
#include <math.h>

#include "graph/ops/reference.h"

/* Inputs of a call: x (t,n,in), w_ih, w_hh, b_ih, b_hh, then a mask (t,n), lengths (n) or first
 * states. The same weights serve all layers and directions. */
enum { X, W_IH, W_HH, B_IH, B_HH, LAST };

typedef struct cell {
    const ref_call *c;
    int             gates;
    int64_t         hidden;
} cell;

static double squash(double v)
{
    return 1 / (1 + exp(-v));
}

/* Row `row` of w times v, plus the bias. */
static double gate(const cell *s, int w, int bias, int64_t row, const double *v)
{
    const int64_t columns = s->c->in[w].desc.dim[1];
    double        sum = s->c->in[bias].at[row];

    for (int64_t k = 0; k < columns; k++)
        sum += s->c->in[w].at[row * columns + k] * v[k];
    return sum;
}

/* Unit j of the next state from x and h; *state is unit j of the LSTM's c. */
static double unit(const cell *s, int64_t j, const double *x, const double *h, double *state)
{
    double from_x[4], from_h[4];

    for (int g = 0; g < s->gates; g++) {
        from_x[g] = gate(s, W_IH, B_IH, g * s->hidden + j, x);
        from_h[g] = gate(s, W_HH, B_HH, g * s->hidden + j, h);
    }
    if (s->gates == 4) {
        *state = squash(from_x[1] + from_h[1]) * *state +
                 squash(from_x[0] + from_h[0]) * tanh(from_x[2] + from_h[2]);
        return squash(from_x[3] + from_h[3]) * tanh(*state);
    }
    const double z = squash(from_x[1] + from_h[1]);
    const double n = tanh(from_x[2] + squash(from_x[0] + from_h[0]) * from_h[2]);
    return (1 - z) * n + z * h[j];
}

/* One row of the batch through one layer in one direction; y gets its outputs, h and state (hidden
 * each) the last states. */
static void row(const cell *s, const ref_array *x, const ref_array *mask, int64_t n, bool backward,
                double *h, double *state, ref_array *y)
{
    const int64_t t = x->desc.dim[0], batch = x->desc.dim[1], in = x->desc.dim[2];
    ref_array     now = ref_new(weir_1d(WEIR_F64, s->hidden));

    for (int64_t i = 0; i < t; i++) {
        const int64_t at = (backward ? t - 1 - i : i) * batch + n;
        const double  m = !mask                 ? 1
                          : mask->desc.ndim == 2 ? mask->at[at]
                                                 : (double)(at / batch) < mask->at[n];
        double *const out = y->at + at * y->desc.dim[2] + (backward ? s->hidden : 0);
        for (int64_t j = 0; j < s->hidden; j++) {
            double next = state[j];
            now.at[j] = unit(s, j, x->at + at * in, h, &next);
            state[j] = m * next + (1 - m) * state[j];
            out[j] = m * now.at[j];
        }
        for (int64_t j = 0; j < s->hidden; j++)
            h[j] = m * now.at[j] + (1 - m) * h[j];
    }
    ref_free(&now);
}

/* `keep`: the last states of h, and of c, follow the outputs along axis 0. */
static void recurrent(ref_call *c, int gates)
{
    const bool      masked = c->o->ndim > 0;
    const int64_t   ways = c->o->both ? 2 : 1, layers = c->o->layers ? c->o->layers : 1;
    const cell      s = {c, gates, c->in[W_HH].desc.dim[1]};
    const int64_t   t = c->in[X].desc.dim[0], n = c->in[X].desc.dim[1];
    const int64_t   states = layers * ways, kept = c->o->keep ? states * (gates == 4 ? 2 : 1) : 0;
    const weir_desc d = {c->type, 3, {t, n, ways * s.hidden}};
    const weir_desc all = {c->type, 3, {states, n, s.hidden}};
    ref_array       h = ref_new(all), state = ref_new(all), x = c->in[X];

    c->out = ref_new((weir_desc){c->type, 3, {t + kept, n, ways * s.hidden}});
    for (int64_t i = 0; i < ref_count(&all) && c->nin > LAST && !masked; i++)
        h.at[i] = state.at[i] = c->in[LAST].at[i];
    for (int64_t l = 0; l < layers; l++) {
        ref_array y = ref_new(d);
        for (int64_t k = 0; k < ways * n; k++) {
            const int64_t at = ((l * ways + k / n) * n + k % n) * s.hidden;
            row(&s, &x, masked ? &c->in[LAST] : NULL, k % n, k >= n, h.at + at, state.at + at, &y);
        }
        if (l > 0)
            ref_free(&x);
        x = y;
    }
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        const int64_t after = i - ref_count(&d), more = after - ref_count(&all);
        c->out.at[i] = after < 0 ? x.at[i] : more < 0 ? h.at[after] : state.at[more];
    }
    ref_free(&x);
    ref_free(&h);
    ref_free(&state);
}

void ref_lstm(ref_call *c)
{
    recurrent(c, 4);
}

void ref_gru(ref_call *c)
{
    recurrent(c, 3);
}
