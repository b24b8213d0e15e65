/* recurrent.c - LSTM and GRU layers.
 *
 * All weights and biases are initially uniform in +-1/sqrt(hidden) and have PyTorch's names
 * ("weight_ih_l0", "bias_hh_l1_reverse"). */
#include "model/model.h"

#include <math.h>
#include <stdio.h>

typedef struct recurrent {
    weir_layer       base;
    bool             lstm;
    weir_rnn_options options;
    weir_rnn_weights w[];       /* [layers * directions] */
} recurrent;

static weir_tensor *recurrent_apply(const weir_layer *base, weir_tensor *x)
{
    const recurrent *l = (const recurrent *)base;
    return l->lstm ? weir_lstm(x, l->w, NULL, NULL, &l->options, NULL, NULL)
                   : weir_gru(x, l->w, NULL, &l->options, NULL);
}

/* A parameter "PART_l<layer>" of layer i / directions; NULL after a failure. */
static weir_tensor *part_new(recurrent *l, const char *part, int i, weir_desc desc, double bound)
{
    const int ways = l->options.bidirectional ? 2 : 1;
    char      full[64];

    snprintf(full, sizeof full, "%s_l%d%s", part, i / ways, i % ways ? "_reverse" : "");
    weir_tensor *t = weir_model_new_param(l->base.model, &l->base, full, desc, 0);
    return t && weir_write_uniform(t, -bound, bound) == WEIR_OK ? t : NULL;
}

/* The four tensors of layer and direction i. */
static bool weights_new(recurrent *l, int i, int64_t in, int64_t hidden)
{
    const int64_t           rows = (l->lstm ? 4 : 3) * hidden;
    const double            bound = 1 / sqrt((double)hidden);
    weir_rnn_weights *const w = &l->w[i];

    w->w_ih = part_new(l, "weight_ih", i, weir_2d(WEIR_F32, rows, in), bound);
    w->w_hh = part_new(l, "weight_hh", i, weir_2d(WEIR_F32, rows, hidden), bound);
    w->b_ih = part_new(l, "bias_ih", i, weir_1d(WEIR_F32, rows), bound);
    w->b_hh = part_new(l, "bias_hh", i, weir_1d(WEIR_F32, rows), bound);
    return w->w_ih && w->w_hh && w->b_ih && w->b_hh;
}

static weir_layer *recurrent_new(weir_model *m, const char *name, int64_t in, int64_t hidden,
                                 int layers, bool both, bool lstm)
{
    enum { MOST_LAYERS = 1000 };
    const int ways = both ? 2 : 1;

    if (in < 1 || hidden < 1 || layers < 1 || layers > MOST_LAYERS || hidden > INT32_MAX) {
        weir_fail(WEIR_ERR_INVALID,
                  "%s %s: in %lld, hidden %lld and layers %d must be 1 or more, layers %d at most",
                  lstm ? "lstm" : "gru", name ? name : "", (long long)in, (long long)hidden, layers,
                  MOST_LAYERS);
        return NULL;
    }
    if (!m)
        return (void)weir_fail_null(lstm ? "lstm" : "gru", "model"), NULL;
    const weir_mark mark = weir_model_mark(m);
    const size_t    n = (size_t)layers * (size_t)ways;
    recurrent      *l = weir_layer_make(m, sizeof *l + n * sizeof l->w[0],
                                        lstm ? "lstm" : "gru", name, recurrent_apply);
    if (!l)
        return NULL;
    l->lstm = lstm;
    l->options = (weir_rnn_options){.layers = layers, .bidirectional = both};
    for (int i = 0; i < layers * ways; i++)
        if (!weights_new(l, i, i < ways ? in : ways * hidden, hidden))
            return weir_model_undo(m, mark);
    return &l->base;
}

weir_layer *weir_lstm_new(weir_model *m, const char *name, int64_t in, int64_t hidden, int layers,
                          bool bidirectional)
{
    return recurrent_new(m, name, in, hidden, layers, bidirectional, true);
}

weir_layer *weir_gru_new(weir_model *m, const char *name, int64_t in, int64_t hidden, int layers,
                         bool bidirectional)
{
    return recurrent_new(m, name, in, hidden, layers, bidirectional, false);
}
