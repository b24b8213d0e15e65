/* gpt.c - networks over text: a transformer decoder and an LSTM, tokens in, logits out.
 *
 * Vaswani et al., "Attention is all you need", 2017, in the form of Radford et al., "Language
 * models are unsupervised multitask learners", 2019: layer norm before attention and before the two
 * linear layers, learned positions. Activations are kept as rows (n t, width), row i t + s for
 * position s of sequence i; only attention sees them as (n, t, ...), which is a view. The LSTM's
 * weights are those of weir_lstm_new. */
#include "model/nets/nets.h"

#include <stdio.h>

/* Embeddings start normal with this deviation, as GPT-2's. */
#define DEVIATION 0.02

/* x must be token numbers (n, t). */
static weir_status tokens_check(const char *op, const weir_tensor *x)
{
    const weir_desc d = weir_tensor_desc(x);

    if (d.ndim != 2)
        return weir_fail(WEIR_ERR_SHAPE, "%s: x has %d axes but must be tokens (n, t)", op, d.ndim);
    return WEIR_OK;
}

/* ---- a block of the transformer ---- */

typedef struct block {
    weir_layer *norm1, *norm2;
    weir_layer *qkv, *proj;     /* width -> 3 width, width -> width */
    weir_layer *up, *down;      /* width -> 4 width -> width */
} block;

typedef struct gpt {
    weir_layer   base;
    int64_t      context, width, heads;
    int          layers;
    weir_layer  *token;         /* embedding */
    weir_tensor *position;      /* (context, width) */
    weir_layer  *norm, *out;
    block        block[];
} gpt;

/* x + proj(attention(norm(x))), x (n t, width) */
static weir_tensor *attend(const gpt *l, const block *b, weir_tensor *x, int64_t t)
{
    const weir_attention_options o = {.heads = l->heads, .causal = WEIR_ATTENTION_FROM_FIRST};

    if (!weir_unit_begin(x))
        return NULL;
    weir_tensor *y = weir_apply(b->qkv, weir_apply(b->norm1, x));
    y = weir_reshape(y, 3, (const int64_t[]){-1, t, 3 * l->width});
    y = weir_attention_packed(y, &o);
    y = weir_reshape(y, 2, (const int64_t[]){-1, l->width});
    return weir_unit_end(x, weir_add(x, weir_apply(b->proj, y)));
}

/* x + down(gelu(up(norm(x)))) */
static weir_tensor *think(const block *b, weir_tensor *x)
{
    if (!weir_unit_begin(x))
        return NULL;
    weir_tensor *y = weir_gelu(weir_apply(b->up, weir_apply(b->norm2, x)));
    return weir_unit_end(x, weir_add(x, weir_apply(b->down, y)));
}

/* Block i, named so in texts about the graph. */
static weir_tensor *block_apply(const gpt *l, int i, weir_tensor *x, int64_t t)
{
    char        part[24], name[WEIR_NAME_MAX];
    const char *outer;

    snprintf(part, sizeof part, "block%d", i);
    if (!x || weir_name_join(name, l->base.name, part) != WEIR_OK ||
        weir_inside_begin(l->base.model, name, &outer) != WEIR_OK)
        return NULL;
    x = think(&l->block[i], attend(l, &l->block[i], x, t));
    return weir_inside_end(l->base.model, outer) == WEIR_OK ? x : NULL;
}

/* Vectors of the tokens and of their positions: (n, t) -> (n t, width). */
static weir_tensor *embed(const gpt *l, weir_tensor *x, int64_t t)
{
    if (!weir_unit_begin(x))
        return NULL;
    weir_tensor *at = t < l->context ? weir_narrow(l->position, 0, 0, t) : l->position;
    weir_tensor *y = weir_add(weir_apply(l->token, x), at);
    return weir_unit_end(x, weir_reshape(y, 2, (const int64_t[]){-1, l->width}));
}

static weir_tensor *gpt_apply(const weir_layer *base, weir_tensor *x)
{
    const gpt *l = (const gpt *)base;

    if (tokens_check("gpt", x) != WEIR_OK)
        return NULL;
    const int64_t t = weir_tensor_desc(x).dim[1];
    if (t < 1 || t > l->context) {
        weir_fail(WEIR_ERR_SHAPE, "gpt: x has %lld positions but must have 1 to the context %lld",
                  (long long)t, (long long)l->context);
        return NULL;
    }
    x = embed(l, x, t);
    for (int i = 0; i < l->layers; i++)
        x = block_apply(l, i, x, t);
    return x ? weir_apply(l->out, weir_apply(l->norm, x)) : NULL;
}

/* A linear layer; in 0: a layer norm. */
static weir_layer *part_new(weir_model *m, const char *prefix, const char *name, int64_t in,
                            int64_t out)
{
    char full[WEIR_NAME_MAX];

    if (weir_name_join(full, prefix, name) != WEIR_OK)
        return NULL;
    return in ? weir_linear_new(m, full, in, out, true) : weir_layer_norm_new(m, full, out);
}

static bool block_new(weir_model *m, int i, int64_t width, block *b)
{
    char name[24];

    snprintf(name, sizeof name, "block%d", i);
    return (b->norm1 = part_new(m, name, "norm1", 0, width)) &&
           (b->qkv = part_new(m, name, "qkv", width, 3 * width)) &&
           (b->proj = part_new(m, name, "proj", width, width)) &&
           (b->norm2 = part_new(m, name, "norm2", 0, width)) &&
           (b->up = part_new(m, name, "up", width, 4 * width)) &&
           (b->down = part_new(m, name, "down", 4 * width, width));
}

weir_layer *weir_gpt_new(weir_model *m, int64_t vocab, int64_t context, int64_t width,
                         int64_t heads, int layers)
{
    static const char *const names[] = {"vocab", "context", "width", "heads", "layers"};

    if (!m)
        return (void)weir_fail_null("gpt", "model"), NULL;
    const weir_mark mark = weir_model_mark(m);
    if (weir_sizes_check("gpt", NULL, 5, names,
                         (const int64_t[]){vocab, context, width, heads, layers}))
        return NULL;
    if (width % heads) {
        weir_fail(WEIR_ERR_INVALID, "gpt: %lld heads do not divide the width %lld",
                  (long long)heads, (long long)width);
        return NULL;
    }
    gpt *l = weir_layer_make(m, sizeof *l + (size_t)layers * sizeof l->block[0], "gpt", NULL,
                             gpt_apply);
    if (!l)
        return NULL;
    l->context = context;
    l->width = width;
    l->heads = heads;
    l->layers = layers;
    bool made = (l->token = weir_embedding_new(m, "token", vocab, width, WEIR_F32,
                                               DEVIATION)) &&
                (l->position = weir_layer_new_table(&l->base, "position.weight", context, width,
                                                    WEIR_F32, DEVIATION));
    for (int i = 0; made && i < layers; i++)
        made = block_new(m, i, width, &l->block[i]);
    made = made && (l->norm = weir_layer_norm_new(m, "norm", width)) &&
           (l->out = weir_linear_new(m, "out", width, vocab, false));
    return weir_net_finish(m, mark, &l->base, made);
}

/* ---- LSTM ---- */

typedef struct char_lstm {
    weir_layer   base;
    int64_t      width;
    weir_layer  *token, *lstm, *out;
} char_lstm;

/* The recurrence goes over (t, n, width); its outputs are put back in the order of the tokens. */
static weir_tensor *char_lstm_apply(const weir_layer *base, weir_tensor *x)
{
    const char_lstm *l = (const char_lstm *)base;

    if (tokens_check("char_lstm", x) != WEIR_OK)
        return NULL;
    x = weir_apply(l->lstm, weir_apply(l->token, weir_transpose(x, NULL)));
    x = weir_transpose(x, (const int[]){1, 0, 2});
    x = weir_reshape(x, 2, (const int64_t[]){-1, l->width});
    return x ? weir_apply(l->out, x) : NULL;
}

weir_layer *weir_char_lstm_new(weir_model *m, int64_t vocab, int64_t width, int layers)
{
    static const char *const names[] = {"vocab", "width", "layers"};

    if (!m)
        return (void)weir_fail_null("char_lstm", "model"), NULL;
    const weir_mark mark = weir_model_mark(m);
    if (weir_sizes_check("char_lstm", NULL, 3, names, (const int64_t[]){vocab, width, layers}))
        return NULL;
    char_lstm *l = weir_layer_make(m, sizeof *l, "char_lstm", NULL, char_lstm_apply);
    if (!l)
        return NULL;
    l->width = width;
    const bool made = (l->token = weir_embedding_new(m, "token", vocab, width, WEIR_F32,
                                                     DEVIATION)) &&
                      (l->lstm = weir_lstm_new(m, "lstm", width, width, layers, false)) &&
                      (l->out = weir_linear_new(m, "out", width, vocab, true));
    return weir_net_finish(m, mark, &l->base, made);
}
