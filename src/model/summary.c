/* summary.c - records a network on an input's shape and notes each layer's result and costs.
 *
 * Nothing is computed: the graph is freed before its end. Each operation counts for the innermost
 * layer that calls it, and each parameter for the layer that made it, at its first use: so every
 * column of a summary adds up to its total. */
#include "model/model.h"

typedef struct summary {
    const weir_graph *graph;        /* being recorded */
    weir_list         rows;         /* of weir_summary_row, owned */
    weir_list         layers;       /* the layer of each row; NULL: the model */
    weir_summary_row *open;         /* the innermost layer's */
    double            flops, multiply_adds;     /* of the graph, when open last changed */
    weir_status       status;       /* the first failure */
} summary;

static weir_summary_row *row_new(summary *s, weir_layer *l, const char *name,
                                 const char *kind)
{
    weir_summary_row *r = NULL;

    if (weir_list_reserve(&s->rows) == WEIR_OK && weir_list_reserve(&s->layers) == WEIR_OK)
        r = weir_host_alloc(sizeof *r);
    if (!r) {
        s->status = s->status != WEIR_OK ? s->status : weir_error_status();
        return NULL;
    }
    *r = (weir_summary_row){.name = name, .kind = kind};
    s->rows.at[s->rows.n++] = r;
    s->layers.at[s->layers.n++] = l;
    return r;
}

/* Parameters and states that belong to l itself, not to its parts; l NULL: the model's own. */
static void count_tensors(weir_summary_row *r, const weir_model *m, const weir_layer *l)
{
    for (size_t i = 0; i < m->params.tensors.n; i++) {
        const weir_tensor *const t = m->params.tensors.at[i];
        if (m->params.layers.at[i] != l)
            continue;
        const size_t bytes = weir_tensor_bytes(t),
                     n = bytes / weir_dtype_size(weir_tensor_desc(t).dtype);
        r->params += n;
        r->param_bytes += bytes;
        r->trainable += weir_tensor_needs_grad(t) ? n : 0;
    }
    for (size_t i = 0; i < m->states.tensors.n; i++) {
        const weir_tensor *const t = m->states.tensors.at[i];
        if (m->states.layers.at[i] != l)
            continue;
        r->state_bytes += weir_tensor_bytes(t);
        r->states += weir_tensor_bytes(t) / weir_dtype_size(weir_tensor_desc(t).dtype);
    }
}

static bool noted(const summary *s, const weir_layer *l)
{
    for (size_t i = 0; i < s->layers.n; i++)
        if (s->layers.at[i] == l)
            return true;
    return false;
}

/* What was recorded since the last call counts for the open layer. */
static void settle(summary *s)
{
    weir_graph_cost c;

    if (weir_graph_cost_of(s->graph, &c) != WEIR_OK)
        return;
    if (s->open) {
        s->open->flops += c.flops - s->flops;
        s->open->multiply_adds += c.multiply_adds - s->multiply_adds;
    }
    s->flops = c.flops;
    s->multiply_adds = c.multiply_adds;
}

/* A layer's function begins: adds a row, and returns its number. */
static size_t enter(void *ctx, weir_layer *l)
{
    summary *const s = ctx;
    const bool shared = noted(s, l);
    const int  depth = s->open ? s->open->depth + 1 : 0;

    settle(s);
    weir_summary_row *const r = row_new(s, l, l->name, l->kind);
    if (!r)
        return SIZE_MAX;
    r->depth = depth;
    r->shared = shared;
    if (!shared)
        count_tensors(r, l->model, l);
    s->open = r;
    return s->rows.n - 1;
}

static void leave(void *ctx, size_t row, const weir_tensor *y)
{
    summary *const s = ctx;

    if (row == SIZE_MAX)
        return;
    weir_summary_row *const r = s->rows.at[row];
    settle(s);
    if (y) {
        r->applied = true;
        r->output = weir_tensor_desc(y);
    }
    s->open = NULL;
    for (size_t i = row; i-- > 0 && !s->open;)
        if (((weir_summary_row *)s->rows.at[i])->depth < r->depth)
            s->open = s->rows.at[i];
}

/* Rows for tensors that no applied layer has: of the model itself, and of parts of `root` that its
 * function did not call. */
static void note_rest(summary *s, const weir_layer *root)
{
    const weir_model *const m = root->model;
    weir_summary_row        own = {0};

    for (size_t i = 0; i < m->layers.n; i++) {
        weir_layer *const l = m->layers.at[i];
        weir_summary_row        one = {0};
        count_tensors(&one, m, l);
        if (one.params + one.states == 0 || noted(s, l) || !weir_layer_is_within(l, root))
            continue;
        weir_summary_row *const r = row_new(s, l, l->name, l->kind);
        if (r)
            count_tensors(r, m, l);
    }
    count_tensors(&own, m, NULL);
    if (own.params + own.states > 0) {
        weir_summary_row *const r = row_new(s, NULL, "", "model");
        if (r)
            count_tensors(r, m, NULL);
    }
}

static weir_status record(summary *s, weir_layer *l, weir_tensor *x)
{
    weir_device *const d = l->model->dev;

    WEIR_TRY(weir_no_grad_begin(d));
    l->model->watch = &(weir_model_watch){enter, leave, s};
    const weir_tensor *const y = weir_apply(l, x);
    l->model->watch = NULL;
    WEIR_TRY(weir_no_grad_end(d));
    return y ? s->status : weir_error_status();
}

static weir_status note_all(summary *s, weir_layer *l, weir_desc x)
{
    weir_model *const  m = l->model;
    const bool         training = m->training;
    weir_tensor *const input = weir_input(m->dev, x);
    weir_graph *const  g = input ? weir_graph_begin(m->dev) : NULL;
    weir_status        status = g ? WEIR_OK : weir_error_status();

    s->graph = g;
    m->training = false;
    if (g)
        status = record(s, l, input);
    m->training = training;
    weir_graph_free(g);
    weir_release(input);
    if (status == WEIR_OK)
        note_rest(s, l);
    return status != WEIR_OK ? status : s->status;
}

static char *text_of(const summary *s, weir_desc x, const weir_summary_options *options)
{
    weir_summary_row *const rows = weir_host_alloc((s->rows.n + 1) * sizeof *rows);

    for (size_t i = 0; rows && i < s->rows.n; i++)
        rows[i] = *(const weir_summary_row *)s->rows.at[i];
    char *const text = rows ? weir_summary_text(s->rows.n, rows, x, options) : NULL;
    weir_host_free(rows);
    return text;
}

char *weir_layer_summary(weir_layer *l, weir_desc x, const weir_summary_options *options)
{
    summary s = {0};
    char        *text = NULL;

    if (!l)
        return (void)weir_fail_null("layer_summary", "layer"), NULL;
    if (l->model->watch) {
        weir_fail(WEIR_ERR_STATE, "layer_summary: inside another summary of the model");
        return NULL;
    }
    if (note_all(&s, l, x) == WEIR_OK)
        text = text_of(&s, x, options);
    for (size_t i = 0; i < s.rows.n; i++)
        weir_host_free(s.rows.at[i]);
    weir_list_free(&s.rows);
    weir_list_free(&s.layers);
    return text;
}
