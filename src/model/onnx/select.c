/* select.c - names: values that are handed out, nodes by number, inputs and dims in options. */
#include <string.h>

#include "model/onnx/call.h"

/* Marks what the node reads; subgraphs may read values around them. */
static void mark_inputs(const weir_onnx_node *node, bool *wanted)
{
    for (size_t i = 0; i < node->n_in; i++)
        if (node->in[i] != WEIR_ONNX_ABSENT)
            wanted[node->in[i]] = true;
    for (size_t k = 0; k < node->n_attr; k++) {
        const weir_onnx_graph *const g = node->attr[k].g;
        for (size_t i = 0; g && i < g->n_node; i++)
            mark_inputs(&g->node[i], wanted);
        for (size_t i = 0; g && i < g->n_out; i++)
            wanted[g->out[i].slot] = true;
    }
}

static bool makes_wanted(const weir_onnx_node *node, const bool *wanted)
{
    for (size_t i = 0; i < node->n_out; i++)
        if (node->out[i] != WEIR_ONNX_ABSENT && wanted[node->out[i]])
            return true;
    return false;
}

/* Subgraphs' reads count for the node that has the subgraph. */
static void note_last(const weir_onnx_graph *g, uint32_t *last, uint32_t outer)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const weir_onnx_node *const n = &g->node[i];
        const uint32_t              at = outer ? outer : (uint32_t)i + 1;
        for (size_t k = 0; k < n->n_in; k++)
            if (n->in[k] != WEIR_ONNX_ABSENT)
                last[n->in[k]] = at;
        for (size_t k = 0; k < n->n_attr; k++)
            if (n->attr[k].g)
                note_last(n->attr[k].g, last, at);
    }
    for (size_t i = 0; i < g->n_out; i++)
        last[g->out[i].slot] = outer ? outer : UINT32_MAX;
}

/* The nodes that the outputs need, from the last to the first: nodes are in an order that runs. */
static weir_status mark_nodes(struct weir_onnx *m)
{
    const weir_onnx_graph *const g = &m->proto.graph;
    bool *const                  wanted = weir_host_alloc(m->proto.names.n + 1);

    if (!wanted)
        return weir_error_status();
    for (size_t i = 0; i < m->n_selected; i++)
        wanted[m->selected[i]] = true;
    for (size_t k = g->n_node; k-- > 0;)
        if ((m->needed[k] = makes_wanted(&g->node[k], wanted)))
            mark_inputs(&g->node[k], wanted);
    weir_host_free(wanted);
    memset(m->last, 0, (m->proto.names.n + 1) * sizeof *m->last);
    note_last(g, m->last, 0);
    for (size_t i = 0; i < m->n_selected; i++)
        m->last[m->selected[i]] = UINT32_MAX;
    return WEIR_OK;
}

/* The slot of a name of n bytes. */
static weir_status find(const struct weir_onnx *m, const char *name, size_t n, uint32_t *slot)
{
    for (uint32_t i = 0; i < m->proto.names.n; i++)
        if (strncmp(m->proto.names.name[i], name, n) == 0 && !m->proto.names.name[i][n]) {
            *slot = i;
            return WEIR_OK;
        }
    return weir_fail(WEIR_ERR_INVALID, "onnx_select: the model has no value '%.*s'",
                     n < 100 ? (int)n : 100, name);
}

static size_t count(const char *names)
{
    size_t n = 0;

    for (const char *p = names; p && *p; p += strcspn(p, ","), p += *p == ',')
        n++;
    return n;
}

weir_status weir_onnx_select(weir_onnx *m, const char *names)
{
    if (!m)
        return weir_fail_null("onnx_select", "model");
    const weir_onnx_graph *const g = &m->proto.graph;
    const size_t                 n = names ? count(names) : g->n_out;
    uint32_t *const              list = weir_host_alloc((n + 1) * sizeof *list);
    size_t                       i = 0;
    weir_status                  s = list ? WEIR_OK : weir_error_status();

    for (; !names && i < n && list; i++)
        list[i] = g->out[i].slot;
    for (const char *p = names; p && *p && s == WEIR_OK; p += strcspn(p, ","), p += *p == ',')
        s = find(m, p, strcspn(p, ","), &list[i++]);
    if (s != WEIR_OK) {
        weir_host_free(list);
        return s;
    }
    weir_host_free(m->selected);
    m->selected = list;
    m->n_selected = n;
    return mark_nodes(m);
}

/* ---- nodes ---- */

size_t weir_onnx_node_count(const weir_onnx *m)
{
    return m ? m->proto.graph.n_node : 0;
}

const char *weir_onnx_node_name(const weir_onnx *m, size_t i)
{
    return m && i < m->proto.graph.n_node ? m->proto.graph.node[i].name : "";
}

const char *weir_onnx_node_op(const weir_onnx *m, size_t i)
{
    return m && i < m->proto.graph.n_node ? m->proto.graph.node[i].op : "";
}

const char *weir_onnx_node_output(const weir_onnx *m, size_t i, size_t k)
{
    const weir_onnx_node *const n = m && i < m->proto.graph.n_node ? &m->proto.graph.node[i] : NULL;

    if (!n || k >= n->n_out || n->out[k] == WEIR_ONNX_ABSENT)
        return "";
    return m->proto.names.name[n->out[k]];
}

size_t weir_onnx_folded(const weir_onnx *m)
{
    size_t n = 0;

    for (size_t i = 0; m && i < m->proto.graph.n_node; i++) {
        const weir_onnx_node *const node = &m->proto.graph.node[i];
        if (strcmp(node->op, "BatchNormalization") == 0)
            return 0;
        n += strcmp(node->op, "Conv") == 0 && node->n_in > 2 && node->in[2] != WEIR_ONNX_ABSENT;
    }
    return n;
}

/* ---- names in the options ---- */

static bool is_called(const char *entry, size_t n, const char *name)
{
    return strncmp(name, entry, n) == 0 && !name[n];
}

static bool is_weight(const struct weir_onnx *m, const char *entry, size_t n)
{
    const weir_onnx_graph *const g = &m->proto.graph;

    for (size_t i = 0; i < g->n_init; i++)
        if (is_called(entry, n, g->init[i].name) && m->value[g->init[i].slot].t)
            return true;
    return n == 1 && *entry == '*';
}

static bool is_input(const struct weir_onnx *m, const char *entry, size_t n)
{
    const weir_onnx_graph *const g = &m->proto.graph;

    for (size_t i = 0; i < g->n_in; i++)
        if (is_called(entry, n, g->in[i].name))
            return true;
    return false;
}

/* "NAME=SIZE" */
static bool is_dim(const struct weir_onnx *m, const char *entry, size_t n)
{
    const weir_onnx_graph *const g = &m->proto.graph;
    const size_t                 name = strcspn(entry, "=");

    if (name >= n || n - name - 1 > 15 || strspn(entry + name + 1, "0123456789") != n - name - 1 ||
        n == name + 1)
        return false;
    for (size_t i = 0; i < g->n_in; i++)
        for (int k = 0; k < g->in[i].ndim; k++)
            if (g->in[i].param[k] && is_called(entry, name, g->in[i].param[k]))
                return true;
    return false;
}

static weir_status check_list(const struct weir_onnx *m, const char *list, const char *what,
                              bool (*has)(const struct weir_onnx *, const char *, size_t))
{
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        const size_t n = strcspn(p, ",");
        if (!has(m, p, n))
            return weir_fail(WEIR_ERR_INVALID, "%s: %.100s: %s '%.*s'", m->proto.source.file.what,
                             m->proto.source.file.path, what, n < 60 ? (int)n : 60, p);
    }
    return WEIR_OK;
}

weir_status weir_onnx_check_names(const struct weir_onnx *m)
{
    WEIR_TRY(check_list(m, m->frozen, "frozen: there is no parameter", is_weight));
    WEIR_TRY(check_list(m, m->values, "values: there is no input", is_input));
    return check_list(m, m->dims, "dims: no input has a dim like", is_dim);
}
