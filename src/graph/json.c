/* json.c - graph and plan in one JSON document.
 *
 * "tensors" and "ops" are a neutral description of the step that any planner can read: storages
 * with bytes and kind, operations in a valid order with a time from a roofline of 10 TFLOP/s and
 * 600 GB/s. "plan" is what runs: instructions with their operands' shapes and offsets, and the
 * pieces of the arena. */
#include <string.h>

#include "device/rates.h"
#include "graph/show.h"

/* A comma before every element of a list but the first. */
static void comma(weir_string *s, bool *first)
{
    weir_string_add(s, *first ? "" : ", ");
    *first = false;
}

static void quoted(weir_string *s, const char *text)
{
    weir_string_add(s, "\"");
    weir_string_add_json(s, text);
    weir_string_add(s, "\"");
}

/* ---- tensors ---- */

/* The node that makes each storage and whether any node names it. */
typedef struct weir_uses {
    uint32_t *maker;            /* [stores] */
    bool     *used;             /* [stores] */
} weir_uses;

static bool uses_of(const weir_graph *g, weir_uses *u)
{
    u->maker = weir_mem_alloc((g->stores.n + 1) * sizeof *u->maker);
    u->used = weir_mem_zalloc(g->stores.n + 1, sizeof *u->used);
    if (!u->maker || !u->used)
        return false;
    memset(u->maker, 0xff, (g->stores.n + 1) * sizeof *u->maker);
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *ins = &g->plan->instr[i];
        for (int k = 0; k < ins->call.nin; k++)
            u->used[ins->in[k].store] = true;
        for (int k = 0; k < ins->call.nout; k++) {
            u->used[ins->out[k].store] = true;
            u->maker[ins->out[k].store] = i;
        }
    }
    return true;
}

/* A kept result is an activation that must be there at the end. */
static void tensor(weir_string *s, const weir_graph *g, uint32_t store, uint32_t maker)
{
    const weir_store *st = &g->stores.at[store];
    const bool        made = maker != WEIR_NONE;
    const weir_kind   kind = st->kind != WEIR_KIND_OUTPUT ? st->kind
                           : made ? WEIR_KIND_ACTIVATION : WEIR_KIND_INPUT;

    weir_string_add(s, "{\"id\": %u, \"bytes\": %zu, \"kind\": \"%s\"", store, st->bytes,
                    weir_kind_name[kind]);
    if (made)
        weir_string_add(s, ", \"producer\": %u", maker);
    if (made && st->external)
        weir_string_add(s, ", \"output\": true");
    weir_string_add(s, "}");
}

static void tensors(weir_string *s, const weir_graph *g)
{
    weir_uses u = {0};
    bool      first = true;

    if (!uses_of(g, &u))
        s->failed = true;
    weir_string_add(s, "\"tensors\": [");
    for (uint32_t i = 0; i < g->stores.n && !s->failed; i++) {
        if (!u.used[i])
            continue;
        weir_string_add(s, first ? "\n" : ",\n");
        first = false;
        tensor(s, g, i, u.maker[i]);
    }
    weir_string_add(s, "\n]");
    weir_mem_free(u.maker);
    weir_mem_free(u.used);
}

/* ---- ops ---- */

/* Storages of the operands whose bit is set, each once. */
static void storages(weir_string *s, const char *key, const weir_operand *o, int n, uint32_t bits)
{
    bool first = true;

    weir_string_add(s, ", \"%s\": [", key);
    for (int k = 0; k < n; k++) {
        bool again = !(bits >> k & 1);
        for (int j = 0; j < k && !again; j++)
            again = o[j].store == o[k].store && bits >> j & 1;
        if (again)
            continue;
        comma(s, &first);
        weir_string_add(s, "%u", o[k].store);
    }
    weir_string_add(s, "]");
}

/* Pairs [in, out] of equal size: out may take over the memory of in. */
static void permissions(weir_string *s, const weir_graph *g, const weir_instr *ins)
{
    const uint32_t allowed = weir_opdefs[ins->call.op]->inplace;
    bool           first = true;

    weir_string_add(s, ", \"inplace\": [");
    for (int k = 0; k < ins->call.nin && ins->call.nout > 0; k++) {
        if (!(allowed >> k & 1) || ins->in[k].external || ins->out[0].external ||
            g->stores.at[ins->in[k].store].bytes != g->stores.at[ins->out[0].store].bytes)
            continue;
        comma(s, &first);
        weir_string_add(s, "[%u, %u]", ins->in[k].store, ins->out[0].store);
    }
    weir_string_add(s, "]");
}

static void op(weir_string *s, const weir_graph *g, uint32_t i)
{
    static const char *const phase[WEIR_PHASE_COUNT] = {
        [WEIR_FORWARD] = "fwd", [WEIR_BACKWARD] = "bwd", [WEIR_UPDATES] = "opt"};
    const weir_instr *ins = &g->plan->instr[i];
    const weir_call  *c = &ins->call;
    const double      seconds =
        weir_call_flops(c) / WEIR_FORMAT_FLOPS + weir_call_bytes(c) / WEIR_FORMAT_BYTES;

    weir_string_add(s, "{\"id\": %u, \"name\": \"", i);
    weir_show_op(s, c, "+");
    weir_string_add(s, "\", \"time_us\": %.6g, \"workspace_bytes\": %zu, \"phase\": \"%s\"",
                    seconds * 1e6, ins->choice->work, phase[ins->phase]);
    storages(s, "inputs", ins->in, c->nin, UINT32_MAX);
    storages(s, "outputs", ins->out, c->nout, UINT32_MAX);
    storages(s, "mutates", ins->in, c->nin, weir_opdefs[c->op]->mutates);
    permissions(s, g, ins);
    weir_string_add(s, ", \"rng\": %s}", weir_show_draws(c) ? "true" : "false");
}

/* ---- plan ---- */

static void numbers(weir_string *s, const char *key, const int64_t *at, int n)
{
    weir_string_add(s, ", \"%s\": [", key);
    for (int i = 0; i < n; i++)
        weir_string_add(s, i ? ", %lld" : "%lld", (long long)at[i]);
    weir_string_add(s, "]");
}

/* offset: bytes in the arena, or into the external storage. */
static void operands(weir_string *s, const char *key, const weir_operand *o, const weir_layout *l,
                     int n)
{
    weir_string_add(s, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        weir_string_add(s,
                        "%s{\"tensor\": %u, \"where\": \"%s\", \"offset\": %zu, \"dtype\": \"%s\"",
                        i ? ", " : "", o[i].store, o[i].external ? "external" : "arena",
                        o[i].offset, weir_dtype_name(l[i].desc.dtype));
        numbers(s, "shape", l[i].desc.dim, l[i].desc.ndim);
        numbers(s, "strides", l[i].stride, l[i].desc.ndim);
        weir_string_add(s, "}");
    }
    weir_string_add(s, "]");
}

static void instruction(weir_string *s, const weir_graph *g, uint32_t i)
{
    const weir_instr *ins = &g->plan->instr[i];
    const weir_call  *c = &ins->call;

    weir_string_add(s, "{\"op\": %u, \"kernel\": ", i);
    quoted(s, ins->choice->impl);
    weir_string_add(s, ", \"flops\": %.17g, \"bytes\": %.17g", weir_call_flops(c),
                    weir_call_bytes(c));
    if (ins->choice->work > 0)
        weir_string_add(s, ", \"workspace\": {\"bytes\": %zu, \"offset\": %zu}", ins->choice->work,
                        ins->work);
    if (weir_show_draws(c))
        weir_string_add(s, ", \"random_position\": %llu", (unsigned long long)ins->rng);
    operands(s, "inputs", ins->in, c->in, c->nin);
    operands(s, "outputs", ins->out, c->out, c->nout);
    weir_string_add(s, "}");
}

/* tensor is null for a workspace. */
static void items(weir_string *s, const weir_items *items)
{
    bool first = true;

    weir_string_add(s, "\"items\": [");
    for (uint32_t i = 0; i < items->n; i++) {
        const weir_item *it = &items->at[i];
        if (it->bytes == 0)
            continue;               /* empty, or taken over by another */
        weir_string_add(s, first ? "\n" : ",\n");
        first = false;
        weir_string_add(s, "{\"tensor\": ");
        weir_string_add(s, it->store == WEIR_NONE ? "null" : "%u", it->store);
        weir_string_add(s, ", \"kind\": \"%s\", \"bytes\": %zu, \"offset\": %zu, \"first\": %u, "
                        "\"last\": %u}", weir_kind_name[it->kind], it->bytes, it->offset, it->first,
                        it->last);
    }
    weir_string_add(s, "\n]");
}

static void plan(weir_string *s, const weir_graph *g)
{
    const weir_plan *p = g->plan;

    weir_string_add(s, "\"plan\": {\"arena_bytes\": %zu, \"lower_bound_bytes\": %zu, "
                    "\"workspace_bytes\": %zu, \"alignment\": %zu, \"placement\": ", p->arena,
                    p->lower_bound, p->workspace, g->dev->ops->align);
    quoted(s, p->strategy);
    weir_string_add(s, ",\n\"instructions\": [");
    for (uint32_t i = 0; i < p->n; i++) {
        weir_string_add(s, i ? ",\n" : "\n");
        instruction(s, g, i);
    }
    weir_string_add(s, "\n],\n");
    items(s, &p->items);
    weir_string_add(s, "}");
}

void weir_show_json(const weir_graph *g, weir_string *s)
{
    weir_string_add(s, "{\"format\": 1, \"name\": \"step %llu\", \"source\": \"weir %s\",\n",
                    (unsigned long long)g->id, weir_version());
    tensors(s, g);
    weir_string_add(s, ",\n\"ops\": [");
    for (uint32_t i = 0; i < g->plan->n; i++) {
        weir_string_add(s, i ? ",\n" : "\n");
        op(s, g, i);
    }
    weir_string_add(s, "\n],\n");
    plan(s, g);
    weir_string_add(s, "}\n");
}
