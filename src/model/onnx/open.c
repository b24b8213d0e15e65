/* open.c - opens a model: what it needs is checked first, then its initializers are loaded. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/onnx/call.h"

enum {
    OPSET_MIN = 6, /* below, and in domains of their own, rows say what holds */
    OPSET_MAX = 28,
    PART = 1 << 20              /* bytes of a tensor that are read at a time */
};

/* ---- what Weir lacks, in one sentence ---- */

/* Names of operators, each once, cut where the sentence is full. */
typedef struct lacking {
    char   text[400];
    size_t n, kinds;
} lacking;

static void add(lacking *l, const char *name, const char *why)
{
    char entry[100];

    snprintf(entry, sizeof entry, " %.60s%s,", name, why);
    if (strstr(l->text, entry))
        return;
    l->kinds++;
    if (l->n + strlen(entry) < sizeof l->text)
        l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s", entry);
}

static void look_up(const struct weir_onnx *m, weir_onnx_graph *g, lacking *l)
{
    for (size_t i = 0; i < g->n_node; i++) {
        weir_onnx_node *const n = &g->node[i];
        bool                  known = false;
        char                  name[100];
        if (*n->domain && strcmp(n->domain, "ai.onnx") != 0) {
            snprintf(name, sizeof name, "%.40s.%.40s", n->domain, n->op);
            if (!(n->row = weir_onnx_find(name, m->proto.opset, &known)))
                add(l, name, "");
        } else if (!(n->row = weir_onnx_find(n->op, m->proto.opset, &known))) {
            add(l, n->op, known ? " of this opset" : "");
        }
        for (size_t k = 0; k < n->n_attr; k++)
            if (n->attr[k].g)
                look_up(m, n->attr[k].g, l);
    }
}

static weir_status check_nodes(struct weir_onnx *m)
{
    lacking l = {.text = ""};

    look_up(m, &m->proto.graph, &l);
    const bool said = m->proto.opset >= OPSET_MIN || m->proto.graph.n_node > 0;
    if (l.kinds == 0 && said && m->proto.opset <= OPSET_MAX)
        return WEIR_OK;
    if (m->proto.opset < OPSET_MIN || m->proto.opset > OPSET_MAX)
        return weir_wire_fail(&m->proto.source, "has the opset %" PRId64 "; Weir reads %d to %d",
                              m->proto.opset, OPSET_MIN, OPSET_MAX);
    l.text[l.n - 1] = 0;
    return weir_fail(
        WEIR_ERR_IO, "%s: %.100s: Weir lacks %zu of its operators (opset %" PRId64 "):%s",
        m->proto.source.file.what, m->proto.source.file.path, l.kinds, m->proto.opset, l.text);
}

/* ---- how values are used ---- */

/* Bits of weir_onnx_use. */
enum { USED = 1, MUST_KNOW = 2, STATISTIC = 4 };

static void note_uses(const weir_onnx_graph *g, uint8_t *use)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const weir_onnx_node *const n = &g->node[i];
        const bool                  norm = strcmp(n->op, "BatchNormalization") == 0;
        for (size_t k = 0; k < n->n_in; k++)
            if (n->in[k] != WEIR_ONNX_ABSENT)
                use[n->in[k]] |= (uint8_t)(weir_onnx_must_know(n->row, k) ? MUST_KNOW
                                           : norm && (k == 3 || k == 4)   ? STATISTIC | USED
                                                                          : USED);
        for (size_t k = 0; k < n->n_attr; k++)
            if (n->attr[k].g)
                note_uses(n->attr[k].g, use);
    }
}

/* ---- initializers ---- */

/* Rows of a tensor, written through a view: a host copy of all elements would double their memory
 * while a model is opened, and an address of the tensor would pin it. */
static weir_status write_rows(void *context, const void *at, size_t from, size_t n)
{
    weir_tensor *const to = context;
    const weir_desc    d = weir_tensor_desc(to);
    const int64_t      row = (int64_t)(weir_tensor_bytes(to) / (size_t)d.dim[0]);
    weir_tensor *const rows = weir_narrow(to, 0, (int64_t)from / row, (int64_t)n / row);

    return rows ? weir_write(rows, at, n) : weir_error_status();
}

static weir_status load_tensor(struct weir_onnx *m, const weir_onnx_tensor *t, weir_tensor *to,
                               size_t bytes)
{
    const int64_t count = bytes ? weir_tensor_desc(to).dim[0] : 1;
    const size_t  row = bytes / (size_t)count;
    const bool    whole = bytes <= PART || !weir_onnx_tensor_parts(&m->proto, t);
    const size_t  part = whole ? bytes : row > PART ? row : PART / row * row;
    void *const   buffer = weir_host_alloc(part + 1);
    weir_status   s = buffer ? WEIR_OK : weir_error_status();

    if (s == WEIR_OK && whole) {
        s = weir_onnx_tensor_read(&m->proto, t, buffer, bytes);
        s = s == WEIR_OK ? weir_write(to, buffer, bytes) : s;
    } else if (s == WEIR_OK && (s = weir_scope_begin(m->dev)) == WEIR_OK) {
        s = weir_onnx_tensor_take(&m->proto, t, bytes,
                                  &(weir_onnx_taker){buffer, to, part, write_rows});
        const weir_status end = weir_scope_end(m->dev);
        s = s == WEIR_OK ? end : s;
    }
    weir_host_free(buffer);
    return s;
}

static weir_status load_constant(struct weir_onnx *m, weir_onnx_tensor *t, weir_onnx_value *v)
{
    size_t bytes;

    WEIR_TRY(weir_onnx_tensor_check(&m->proto, t, &bytes));
    WEIR_TRY(weir_onnx_desc(&m->proto, t, &v->desc));
    if (!(t->bytes = weir_host_alloc(bytes + 1)))
        return weir_error_status();
    WEIR_TRY(weir_onnx_tensor_read(&m->proto, t, t->bytes, bytes));
    v->known = t->bytes;
    v->kept = true;
    return WEIR_OK;
}

static bool is_float(weir_dtype t)
{
    return t == WEIR_F32 || t == WEIR_F64 || t == WEIR_F16 || t == WEIR_BF16;
}

static weir_status load_weight(struct weir_onnx *m, const weir_onnx_tensor *t, weir_onnx_value *v,
                               weir_desc d, bool statistic)
{
    size_t     bytes;
    const bool frozen =
        m->frozen && (strcmp(m->frozen, "*") == 0 || weir_onnx_listed(m->frozen, t->name));

    WEIR_TRY(weir_onnx_tensor_check(&m->proto, t, &bytes));
    v->t = statistic ? weir_model_new_state(m->model, NULL, t->name, d, 0)
                     : weir_model_new_param(m->model, NULL, t->name, d, 0);
    v->kept = true;
    if (!v->t)
        return weir_error_status();
    if (!statistic && frozen)
        WEIR_TRY(weir_tensor_set_needs_grad(v->t, false));
    return load_tensor(m, t, v->t, bytes);
}

static weir_status load_inits(struct weir_onnx *m, weir_onnx_graph *g, const uint8_t *use, bool top)
{
    for (size_t i = 0; i < g->n_init; i++) {
        weir_onnx_tensor *const t = &g->init[i];
        weir_onnx_value *const  v = &m->value[t->slot];
        weir_desc               d;
        if (v->kept)
            return weir_wire_fail(&m->proto.source, "has two initializers '%.60s'", t->name);
        WEIR_TRY(weir_onnx_desc(&m->proto, t, &d));
        if (top && is_float(d.dtype) && d.ndim > 0 && !(use[t->slot] & MUST_KNOW))
            WEIR_TRY(load_weight(m, t, v, d, use[t->slot] & STATISTIC));
        else
            WEIR_TRY(load_constant(m, t, v));
    }
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i].n_attr; k++) {
            weir_onnx_value unused = {0};
            if (g->node[i].attr[k].t)
                WEIR_TRY(load_constant(m, g->node[i].attr[k].t, &unused));
            if (g->node[i].attr[k].g)
                WEIR_TRY(load_inits(m, g->node[i].attr[k].g, use, false));
        }
    return WEIR_OK;
}

/* ---- opening ---- */

/* The longest lists of inputs and outputs of a node. */
static void longest(const weir_onnx_graph *g, size_t *in, size_t *out)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const weir_onnx_node *const n = &g->node[i];
        *in = n->n_in > *in ? n->n_in : *in;
        *out = n->n_out > *out ? n->n_out : *out;
        for (size_t k = 0; k < n->n_attr; k++)
            if (n->attr[k].g)
                longest(n->attr[k].g, in, out);
    }
}

static weir_status load(struct weir_onnx *m)
{
    const size_t n = m->proto.names.n;
    size_t       in = 0, out = 0;

    longest(&m->proto.graph, &in, &out);
    uint8_t *const use = weir_host_alloc(n + 1);
    m->value = weir_host_alloc((n + 1) * sizeof *m->value);
    m->last = weir_host_alloc((n + 1) * sizeof *m->last);
    m->needed = weir_host_alloc(m->proto.graph.n_node + 1);
    m->temp = weir_host_alloc((in + 1) * sizeof *m->temp);
    m->out = weir_host_alloc((out + 1) * sizeof *m->out);
    m->model = weir_model_new(m->dev);
    const bool  there = use && m->value && m->last && m->needed && m->temp && m->out && m->model;
    weir_status s = there ? WEIR_OK : weir_error_status();
    if (s == WEIR_OK) {
        note_uses(&m->proto.graph, use);
        s = load_inits(m, &m->proto.graph, use, true);
    }
    weir_host_free(use);
    return s;
}

static weir_status copy_text(const char *from, char **to)
{
    *to = from ? weir_text_copy(from) : NULL;
    return from && !*to ? weir_error_status() : WEIR_OK;
}

static weir_status start(struct weir_onnx *m, const weir_onnx_options *o)
{
    if (o) {
        WEIR_TRY(copy_text(o->dims, &m->dims));
        WEIR_TRY(copy_text(o->values, &m->values));
        WEIR_TRY(copy_text(o->frozen, &m->frozen));
    }
    WEIR_TRY(weir_onnx_parse(&m->proto));
    if (m->proto.n_functions)
        return weir_wire_fail(&m->proto.source,
                              "has %zu functions of its own, '%.40s' first, "
                              "which Weir does not read yet",
                              m->proto.n_functions, m->proto.function ? m->proto.function : "");
    WEIR_TRY(check_nodes(m));
    WEIR_TRY(load(m));
    weir_model_train(m->model, o && o->train);
    WEIR_TRY(weir_onnx_check_names(m));
    return weir_onnx_select(m, NULL);
}

static weir_onnx *open_source(weir_device *d, const char *what, const char *path, const void *bytes,
                              size_t n, const weir_onnx_options *o)
{
    if (!d)
        return (void)weir_fail_null(what, "device"), NULL;
    weir_onnx *const m = weir_host_alloc(sizeof *m);
    if (!m)
        return NULL;
    *m = (weir_onnx){.dev = d, .run_graph = weir_onnx_run_graph};
    weir_status s = copy_text(path, &m->path);
    s = s == WEIR_OK ? weir_wire_open(&m->proto.source, what, m->path, bytes, n) : s;
    m->size = m->proto.source.size;
    s = s == WEIR_OK ? start(m, o) : s;
    weir_wire_close(&m->proto.source);
    if (s == WEIR_OK)
        return m;
    weir_onnx_free(m);
    return NULL;
}

weir_onnx *weir_onnx_open(weir_device *d, const char *path, const weir_onnx_options *options)
{
    if (!path)
        return (void)weir_fail_null("onnx_open", "path"), NULL;
    return open_source(d, "onnx_open", path, NULL, 0, options);
}

weir_onnx *weir_onnx_open_bytes(weir_device *d, const void *bytes, size_t n,
                                const weir_onnx_options *options)
{
    return open_source(d, "onnx_open_bytes", NULL, bytes, n, options);
}

void weir_onnx_free(weir_onnx *m)
{
    if (!m)
        return;
    for (size_t i = 0; m->value && i < m->proto.names.n; i++)
        weir_onnx_drop(&m->value[i]);
    weir_model_free(m->model);
    weir_device_close(m->folder);
    weir_onnx_proto_free(&m->proto);
    weir_host_free(m->value);
    weir_host_free(m->last);
    weir_host_free(m->needed);
    weir_host_free(m->selected);
    weir_host_free((void *)m->temp);
    weir_host_free((void *)m->out);
    weir_host_free(m->path);
    weir_host_free(m->dims);
    weir_host_free(m->values);
    weir_host_free(m->frozen);
    weir_host_free(m);
}

weir_model *weir_onnx_model(weir_onnx *m)
{
    return m ? m->model : NULL;
}
