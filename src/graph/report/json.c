/* json.c - graph and plan in one JSON document.
 *
 * "tensors" and "ops" are those of the step description, with what a budget added. "plan" is what
 * runs: instructions with their operands' shapes and offsets, and the items of the arena. */
#include "graph/ir/format.h"
#include "graph/report/report.h"

static void quoted(weir_string *s, const char *text)
{
    weir_string_add(s, "\"");
    weir_string_add_json(s, text);
    weir_string_add(s, "\"");
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
                        i ? ", " : "", o[i].storage, o[i].external ? "external" : "arena",
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
    quoted(s, ins->kernel->impl);
    weir_string_add(s, ", \"flops\": %.17g, \"bytes\": %.17g", weir_call_flops(c),
                    weir_call_bytes(c));
    if (ins->kernel->work > 0)
        weir_string_add(s, ", \"workspace\": {\"bytes\": %zu, \"offset\": %zu}", ins->kernel->work,
                        ins->work);
    if (weir_call_draws(c))
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
            continue;               /* empty, or merged into another */
        weir_string_add(s, first ? "\n" : ",\n");
        first = false;
        weir_string_add(s, "{\"tensor\": ");
        weir_string_add(s, it->storage == WEIR_NONE ? "null" : "%u", it->storage);
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

void weir_format_json(const weir_graph *g, weir_string *s)
{
    weir_string_add(s, "{\"format\": 1, \"name\": \"step %llu\", \"source\": \"weir %s\",\n",
                    (unsigned long long)g->id, weir_version());
    weir_format_lists(g, NULL, true, s);
    weir_string_add(s, ",\n");
    plan(s, g);
    weir_string_add(s, "}\n");
}
