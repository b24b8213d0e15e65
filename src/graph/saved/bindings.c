/* bindings.c - the tensors of a graph by name, and the graph as text. */
#include "graph/saved/saved.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/report/recorded.h"

const char *const weir_role_word[] = {[WEIR_ROLE_INPUT] = "input", [WEIR_ROLE_PARAM] = "param",
                                      [WEIR_ROLE_STATE] = "state", [WEIR_ROLE_OUTPUT] = "output"};

static weir_status check_planned(const char *who, const weir_graph *g)
{
    if (!g)
        return weir_fail_null(who, "the graph");
    WEIR_TRY(weir_device_check(g->dev, who));
    if (g->state == WEIR_GRAPH_PLANNED)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_STATE, "%s: the graph is not planned: call weir_graph_end first",
                     who);
}

weir_status weir_binding_check_name(const char *who, const char *name)
{
    const size_t n = strlen(name);

    if (n > 0 && n <= WEIR_BINDING_NAME && weir_text_is_utf8(name))
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "%s: the name '%.40s' has %zu bytes, or is not UTF-8; it "
                     "must have 1 to %d bytes of UTF-8", who, name, n, WEIR_BINDING_NAME);
}

/* ---- names ---- */

static bool is_taken(const weir_recorded_step *r, const char *name)
{
    for (uint32_t i = 0; i < r->bound.n; i++)
        if (r->bound.at[i].name && strcmp(r->bound.at[i].name, name) == 0)
            return true;
    return false;
}

/* The tensor's own name if it is free, else that and a number; "state3" if it has none. */
static char *free_name(const weir_recorded_step *r, const weir_bound_tensor *b, uint32_t *number)
{
    const char *const own = weir_tensor_name(b->tensor);
    char              name[WEIR_BINDING_NAME + 1];

    if (*own && strlen(own) < WEIR_BINDING_NAME - 12 && weir_text_is_utf8(own)) {
        snprintf(name, sizeof name, "%s", own);
        for (uint32_t k = 2; is_taken(r, name); k++)
            snprintf(name, sizeof name, "%s.%u", own, k);
        return weir_mem_strdup(name);
    }
    do
        snprintf(name, sizeof name, "%s%u", weir_role_word[b->role], (*number)++);
    while (is_taken(r, name));
    return weir_mem_strdup(name);
}

weir_status weir_bindings_name(weir_graph *g)
{
    uint32_t number[4] = {0};

    for (uint32_t i = 0; i < g->form->bound.n; i++) {
        weir_bound_tensor *const b = &g->form->bound.at[i];
        if (!b->name && !(b->name = free_name(g->form, b, &number[b->role])))
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

weir_status weir_graph_bindings(weir_graph *g, const weir_binding **list, size_t *count)
{
    if (!list || !count)
        return weir_fail_null("weir_graph_bindings", list ? "count" : "list");
    *list = NULL;
    *count = 0;
    WEIR_TRY(check_planned("weir_graph_bindings", g));
    WEIR_TRY(weir_bindings_name(g));
    weir_recorded_step *const r = g->form;
    r->list.n = 0;
    for (uint32_t i = 0; i < r->bound.n; i++) {
        const weir_binding b = {r->bound.at[i].name, r->bound.at[i].role, r->bound.at[i].tensor};
        if (!weir_vec_push(&r->list, b))
            return WEIR_ERR_NOMEM;
    }
    *list = r->list.at;
    *count = r->list.n;
    return WEIR_OK;
}

/* The names of inputs and outputs, separated by ", ", into text; those that fit. */
static void list_names(const weir_recorded_step *r, char *text, size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < r->bound.n && n < size; i++)
        if (r->bound.at[i].role == WEIR_ROLE_INPUT || r->bound.at[i].role == WEIR_ROLE_OUTPUT)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", r->bound.at[i].name);
}

weir_tensor *weir_graph_tensor(weir_graph *g, const char *name)
{
    char names[400];

    if (check_planned("weir_graph_tensor", g) != WEIR_OK)
        return NULL;
    if (!name)
        return (void)weir_fail_null("weir_graph_tensor", "name"), NULL;
    if (weir_bindings_name(g) != WEIR_OK)
        return NULL;
    for (uint32_t i = 0; i < g->form->bound.n; i++)
        if (strcmp(g->form->bound.at[i].name, name) == 0)
            return g->form->bound.at[i].tensor;
    list_names(g->form, names, sizeof names);
    (void)weir_fail_unknown("weir_graph_tensor: unknown tensor", name, strlen(name), names);
    return NULL;
}

/* ---- binding ---- */

static bool same_view(const weir_tensor *a, const weir_tensor *b)
{
    return a == b || (a->block && a->block == b->block && a->offset == b->offset &&
                      weir_desc_equal(&a->layout.desc, &b->layout.desc));
}

static weir_bound_tensor *find(const weir_recorded_step *r, const weir_tensor *t, weir_role role)
{
    const bool output = role == WEIR_ROLE_OUTPUT;

    for (uint32_t i = output ? r->externals : 0; i < (output ? r->bound.n : r->externals); i++) {
        weir_bound_tensor *const b = &r->bound.at[i];
        if (output ? same_view(b->tensor, t) : b->tensor->block && b->tensor->block == t->block)
            return b;
    }
    return NULL;
}

weir_status weir_graph_bind(weir_graph *g, weir_tensor *t, weir_role role, const char *name)
{
    char text[WEIR_DESC_TEXT];

    WEIR_TRY(check_planned("weir_graph_bind", g));
    if (!t)
        return weir_fail_null("weir_graph_bind", "t");
    if (role > WEIR_ROLE_OUTPUT)
        return weir_fail(WEIR_ERR_INVALID, "weir_graph_bind: unknown role %d (expected a "
                         "weir_role)", (int)role);
    weir_bound_tensor *b = find(g->form, t, role);
    if (name)
        WEIR_TRY(weir_binding_check_name("weir_graph_bind", name));
    if (name && is_taken(g->form, name) && !(b && b->name && strcmp(b->name, name) == 0))
        return weir_fail(WEIR_ERR_INVALID, "weir_graph_bind: another tensor of the graph is "
                         "called '%.100s'", name);
    if (!b && role == WEIR_ROLE_OUTPUT && !(b = weir_recorded_output(g->form, t)) &&
        g->form->body.failed)
        return WEIR_ERR_NOMEM;
    if (!b)
        return weir_fail(WEIR_ERR_INVALID, "weir_graph_bind: the tensor '%s' %s is no %s of the "
                         "graph", weir_tensor_name(t), weir_desc_text(&t->layout.desc, text),
                         role == WEIR_ROLE_OUTPUT ? "result" : "input, parameter or state");
    char *const copy = name ? weir_mem_strdup(name) : NULL;
    if (name && !copy)
        return WEIR_ERR_NOMEM;
    if (name) {
        weir_mem_free(b->name);
        b->name = copy;
    }
    b->role = role;
    return WEIR_OK;
}

/* ---- text ---- */

char *weir_graph_recorded(weir_graph *g)
{
    weir_string s = {0};

    if (check_planned("weir_graph_recorded", g) != WEIR_OK || weir_bindings_name(g) != WEIR_OK)
        return NULL;
    const weir_recorded_step *const r = g->form;
    if (g->stops)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_graph_recorded: the graph has a stop "
                              "(weir_graph_stop), which a file cannot hold");
    if (r->refused)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_graph_recorded: the step calls '%s', a "
                              "function of the program, which a file cannot hold", r->refused);
    weir_string_add(&s, "weir graph 1\nrandom %" PRIu64 "\n", r->random);
    for (uint32_t i = 0; i < r->externals; i++) {
        const weir_bound_tensor *const b = &r->bound.at[i];
        const weir_layout       l = b->tensor->layout;
        weir_string_add(&s, "%s ", weir_role_word[b->role]);
        weir_recorded_layout(&s, &l);
        weir_string_add(&s, " ");
        weir_recorded_text(&s, b->name);
    }
    weir_string_add(&s, "%s", r->body.at ? r->body.at : "");
    for (uint32_t i = r->externals; i < r->bound.n; i++) {
        weir_string_add(&s, "output %u ", r->bound.at[i].value);
        weir_recorded_text(&s, r->bound.at[i].name);
    }
    weir_string_add(&s, "end\n");
    return weir_string_take(&s);
}
