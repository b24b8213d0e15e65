/* names.c - checks the options of an opened model: names that it has, sizes that are numbers. */
#include <string.h>

#include "model/onnx/call.h"

static bool same(const char *entry, size_t n, const char *name)
{
    return strncmp(name, entry, n) == 0 && !name[n];
}

static bool is_weight(const struct weir_onnx *m, const char *entry, size_t n)
{
    const weir_onnx_graph *const g = &m->proto.graph;

    for (size_t i = 0; i < g->n_init; i++)
        if (same(entry, n, g->init[i].name) && m->value[g->init[i].slot].t)
            return true;
    return n == 1 && *entry == '*';
}

static bool is_input(const struct weir_onnx *m, const char *entry, size_t n)
{
    const weir_onnx_graph *const g = &m->proto.graph;

    for (size_t i = 0; i < g->n_in; i++)
        if (same(entry, n, g->in[i].name))
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
            if (g->in[i].param[k] && same(entry, name, g->in[i].param[k]))
                return true;
    return false;
}

static weir_status check(const struct weir_onnx *m, const char *list, const char *what,
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
    WEIR_TRY(check(m, m->frozen, "frozen: there is no parameter", is_weight));
    WEIR_TRY(check(m, m->values, "values: there is no input", is_input));
    return check(m, m->dims, "dims: no input has a dim like", is_dim);
}
