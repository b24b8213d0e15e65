/* step_json.c - a planned step as the JSON that planners exchange (weir_stepfile_read).
 *
 * Tensors are storages: views are merged into them, and bytes are not aligned. Storages that exist
 * before the step are param, state or input; a kept result is an output. Calls of the caller's
 * functions have "once": they must not run again. Without `recomputed`, nodes that the memory
 * planner added are left out, and their readers read the original storages. */
#include <string.h>

#include "core/attr.h"
#include "core/status.h"
#include "graph/ir/format.h"
#include "graph/report/report.h"

/* Facts about each storage, as arrays [storages]. */
typedef struct weir_uses {
    const weir_graph *g;
    bool              recomputed;
    uint32_t         *maker; /* number of the op that computes it; WEIR_NONE: external */
    bool             *used;  /* an op names it */
} weir_uses;

static bool shown(const weir_uses *u, uint32_t i)
{
    const weir_node *n = &u->g->nodes.at[i];
    return u->recomputed || (!n->recomputed && !weir_op_moves(n->op));
}

/* The storage of the value, or the original if that storage is a copy. */
static uint32_t tensor_of(const weir_uses *u, uint32_t value)
{
    uint32_t storage = weir_storage_of(u->g, value);

    while (!u->recomputed && u->g->storages.at[storage].origin != WEIR_NONE)
        storage = u->g->storages.at[storage].origin;
    return storage;
}

static void note_uses(weir_uses *u)
{
    for (uint32_t i = 0, op = 0; i < u->g->nodes.n; i++) {
        const weir_node *n = &u->g->nodes.at[i];
        if (!shown(u, i))
            continue;
        for (int k = 0; k < n->nin; k++)
            u->used[tensor_of(u, n->in[k])] = true;
        for (int k = 0; k < n->nout; k++) {
            u->used[tensor_of(u, n->out[k])] = true;
            u->maker[tensor_of(u, n->out[k])] = op;
        }
        op++;
    }
}

static bool uses_of(const weir_graph *g, bool recomputed, weir_uses *u)
{
    const size_t n = (size_t)g->storages.n + 1;

    *u = (weir_uses){.g = g,
                     .recomputed = recomputed,
                     .maker = weir_mem_alloc(n * sizeof *u->maker),
                     .used = weir_mem_zalloc(n, sizeof *u->used)};
    if (!u->maker || !u->used)
        return false;
    memset(u->maker, 0xff, n * sizeof *u->maker);
    note_uses(u);
    return true;
}

static void uses_free(weir_uses *u)
{
    weir_mem_free(u->maker);
    weir_mem_free(u->used);
}

/* ---- tensors ---- */

static weir_kind kind_of(const weir_uses *u, uint32_t storage)
{
    const weir_kind kind = u->g->storages.at[storage].kind;

    if (u->maker[storage] != WEIR_NONE)
        return kind == WEIR_KIND_GRADIENT ? kind : WEIR_KIND_ACTIVATION;
    return kind == WEIR_KIND_PARAM || kind == WEIR_KIND_STATE ? kind : WEIR_KIND_INPUT;
}

static void tensor(const weir_uses *u, uint32_t storage, weir_string *s)
{
    const weir_storage *st = &u->g->storages.at[storage];

    weir_string_add(s, "{\"id\": %u, \"bytes\": %zu, \"kind\": \"%s\"", storage, st->bytes,
                    weir_kind_name[kind_of(u, storage)]);
    if (u->maker[storage] != WEIR_NONE)
        weir_string_add(s, ", \"producer\": %u%s", u->maker[storage],
                        st->external ? ", \"output\": true" : "");
    if (*weir_storage_name(u->g, storage)) {
        weir_string_add(s, ", \"name\": \"");
        weir_string_add_json(s, weir_storage_name(u->g, storage));
        weir_string_add(s, "\"");
    }
    weir_string_add(s, "}");
}

static void tensors(const weir_uses *u, weir_string *s)
{
    const char *gap = "\n";

    weir_string_add(s, "\"tensors\": [");
    for (uint32_t i = 0; i < u->g->storages.n; i++) {
        if (!u->used[i])
            continue;
        weir_string_add(s, "%s", gap);
        tensor(u, i, s);
        gap = ",\n";
    }
    weir_string_add(s, "\n]");
}

/* ---- ops ---- */

/* A list of tensors, each once. */
typedef struct weir_list_text {
    uint32_t at[WEIR_EW_MAX_IN + WEIR_MAX_OUT];
    int      n;
} weir_list_text;

static void add(weir_list_text *l, uint32_t tensor)
{
    for (int i = 0; i < l->n; i++)
        if (l->at[i] == tensor)
            return;
    l->at[l->n++] = tensor;
}

/* `must`: the format requires the list even if it is empty. */
static void list(weir_string *s, const char *key, const weir_list_text *l, bool must)
{
    if (l->n == 0 && !must)
        return;
    weir_string_add(s, ", \"%s\": [", key);
    for (int i = 0; i < l->n; i++)
        weir_string_add(s, i ? ", %u" : "%u", l->at[i]);
    weir_string_add(s, "]");
}

static void operands(const weir_uses *u, const weir_node *n, weir_string *s)
{
    weir_list_text in = {0}, out = {0}, overwritten = {0};

    for (int k = 0; k < n->nin; k++) {
        add(&in, tensor_of(u, n->in[k]));
        if (n->def->mutates >> k & 1)
            add(&overwritten, tensor_of(u, n->in[k]));
    }
    for (int k = 0; k < n->nout; k++)
        add(&out, tensor_of(u, n->out[k]));
    list(s, "inputs", &in, true);
    list(s, "outputs", &out, true);
    list(s, "mutates", &overwritten, false);
}

/* Pairs [in, out]: out may take over the memory of in. */
static void permissions(const weir_uses *u, const weir_node *n, weir_string *s)
{
    bool any = false;

    for (int o = 0; o < n->nout; o++) {
        weir_list_text from = {0};
        for (int k = 0; k < n->nin; k++)
            if (weir_may_take_over(u->g, n, k, o) &&
                !u->g->storages.at[tensor_of(u, n->in[k])].external)
                add(&from, tensor_of(u, n->in[k]));
        for (int i = 0; i < from.n; i++) {
            weir_string_add(s, "%s[%u, %u]", any ? ", " : ", \"inplace\": [", from.at[i],
                            tensor_of(u, n->out[o]));
            any = true;
        }
    }
    weir_string_add(s, any ? "]" : "");
}

static double roofline(const weir_call *c)
{
    return weir_call_flops(c) / WEIR_FORMAT_FLOPS + weir_call_bytes(c) / WEIR_FORMAT_BYTES;
}

/* Within the text of the name: ends it, and begins that of the path if the node has one. */
static void path(const weir_graph *g, uint32_t i, weir_string *s)
{
    weir_string text = {0};

    weir_format_name(&text, g, i);
    s->failed |= text.failed;
    if (text.at) {
        weir_string_add(s, "\", \"path\": \"");
        weir_string_add_json(s, text.at);
    }
    weir_mem_free(text.at);
}

static void op(const weir_uses *u, uint32_t i, uint32_t number, const double *seconds,
               weir_string *s)
{
    static const char *const phase[WEIR_PHASE_COUNT] = {
        [WEIR_FORWARD] = "fwd", [WEIR_BACKWARD] = "bwd", [WEIR_UPDATES] = "opt"};
    const weir_instr *ins = &u->g->plan->instr[i];
    const weir_node  *n = &u->g->nodes.at[i];
    weir_string       name = {0};

    weir_format_op(&name, &ins->call, "+");
    char *const text = weir_string_take(&name);
    s->failed = s->failed || !text;
    weir_string_add(s, "{\"id\": %u, \"name\": \"", number);
    weir_string_add_json(s, text ? text : "");
    weir_mem_free(text);
    path(u->g, i, s);
    weir_string_add(s, "\", \"time_us\": %.9g, \"workspace_bytes\": %zu, \"phase\": \"%s\"",
                    1e6 * (seconds && seconds[i] >= 0 ? seconds[i] : roofline(&ins->call)),
                    ins->kernel->work, phase[ins->phase]);
    operands(u, n, s);
    permissions(u, n, s);
    weir_string_add(s, weir_call_draws(&ins->call) ? ", \"rng\": true" : "");
    if (n->def->flags & WEIR_RUNS_ONCE && n->nout > 0)
        weir_string_add(s, ", \"once\": true");
    weir_string_add(s, "}");
}

void weir_format_lists(const weir_graph *g, const double *seconds, bool recomputed, weir_string *s)
{
    weir_uses u;

    if (!uses_of(g, recomputed, &u)) {
        s->failed = true;
    } else {
        tensors(&u, s);
        weir_string_add(s, ",\n\"ops\": [");
        for (uint32_t i = 0, number = 0; i < g->nodes.n; i++) {
            if (!shown(&u, i))
                continue;
            weir_string_add(s, number ? ",\n" : "\n");
            op(&u, i, number++, seconds, s);
        }
        weir_string_add(s, "\n]");
    }
    uses_free(&u);
}

/* ---- the whole ---- */

void weir_show_step(const weir_graph *g, const char *name, const double *seconds, weir_string *s)
{
    weir_string_add(s, "{\"format\": 1, \"name\": \"");
    if (name)
        weir_string_add_json(s, name);
    else
        weir_string_add(s, "step %llu", (unsigned long long)g->id);
    weir_string_add(s, "\", \"source\": \"weir %s\",\n", weir_version());
    weir_format_lists(g, seconds, false, s);
    weir_string_add(s, "}\n");
}

void weir_format_stepfile(const weir_graph *g, weir_string *s)
{
    weir_show_step(g, NULL, NULL, s);
}
