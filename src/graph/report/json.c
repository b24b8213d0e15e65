/* json.c - graph and plan in one JSON document.
 *
 * "tensors" and "ops" are those of the step description, with what a budget added. "plan" is what
 * runs: instructions with their operands' shapes and offsets, the items of the arena, and the
 * collectives. A time is null where it is not known. */
#include "graph/ir/format.h"
#include "graph/report/collective_numbers.h"
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

/* Milliseconds; below 0: not known. */
static void time_ms(weir_string *s, const char *key, double ms)
{
    if (ms < 0)
        weir_string_add(s, ", \"%s\": null", key);
    else
        weir_string_add(s, ", \"%s\": %.9g", key, ms);
}

/* Seconds after the start of the step at which each instruction begins, and the step ends; NULL:
 * not known. */
typedef struct begins {
    double *predicted, *measured;
} begins;

static double *begins_of(const weir_plan *p, bool known,
                         void (*fill)(const weir_plan *p, double *at), weir_string *s)
{
    double *const at = known ? weir_mem_alloc((p->n + 1u) * sizeof *at) : NULL;

    if (at)
        fill(p, at);
    s->failed |= known && !at;
    return at;
}

static void begin_times(weir_string *s, const begins *b, uint32_t i, const char *predicted,
                        const char *measured)
{
    time_ms(s, predicted, b->predicted ? b->predicted[i] * 1e3 : -1);
    time_ms(s, measured, b->measured ? b->measured[i] * 1e3 : -1);
}

static void instruction(weir_string *s, const weir_graph *g, uint32_t i, const begins *b)
{
    const weir_instr *ins = &g->plan->instr[i];
    const weir_call  *c = &ins->call;

    weir_string_add(s, "{\"op\": %u, \"kernel\": ", i);
    quoted(s, ins->kernel->impl);
    weir_string_add(s, ", \"flops\": %.17g, \"bytes\": %.17g", weir_call_flops(c),
                    weir_call_bytes(c));
    begin_times(s, b, i, "begin_ms", "measured_begin_ms");
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

static void collective(weir_string *s, const weir_plan *p, const weir_wire_span *w)
{
    const weir_collective_numbers c = weir_collective_numbers_of(p, w);

    weir_string_add(s, "{\"start\": %u, \"wait\": %u, \"bytes\": %zu", c.start, c.wait, c.bytes);
    time_ms(s, "begin_ms", c.begin_ms);
    time_ms(s, "wire_ms", c.wire_ms);
    time_ms(s, "exposed_ms", c.exposed_ms);
    time_ms(s, "measured_exposed_ms", c.measured_exposed_ms);
    weir_string_add(s, "}");
}

static void wire(weir_string *s, const weir_plan *p)
{
    const bool known = weir_plan_wire_known(p);
    double     seconds, exposed;

    weir_plan_wire_sums(p, &seconds, &exposed);
    weir_string_add(s, "\"collectives\": [");
    for (uint32_t k = 0; k < p->wire.n; k++) {
        weir_string_add(s, k ? ",\n" : "\n");
        collective(s, p, &p->wire.at[k]);
    }
    weir_string_add(s, "]");
    time_ms(s, "wire_ms", known ? seconds * 1e3 : -1);
    time_ms(s, "exposed_ms", known ? exposed * 1e3 : -1);
}

static void plan(weir_string *s, const weir_graph *g)
{
    const weir_plan *p = g->plan;
    const begins     b = {
        .predicted = begins_of(p, weir_plan_wire_known(p), weir_plan_estimated_times, s),
        .measured = begins_of(p, weir_plan_waits_known(p), weir_plan_profiled_times, s)};

    weir_string_add(s, "\"plan\": {\"arena_bytes\": %zu, \"lower_bound_bytes\": %zu, "
                    "\"workspace_bytes\": %zu, \"alignment\": %zu, \"placement\": ", p->arena,
                    p->lower_bound, p->workspace, g->dev->ops->align);
    quoted(s, p->strategy);
    begin_times(s, &b, p->n, "step_ms", "measured_step_ms");
    weir_string_add(s, ",\n\"instructions\": [");
    for (uint32_t i = 0; i < p->n; i++) {
        weir_string_add(s, i ? ",\n" : "\n");
        instruction(s, g, i, &b);
    }
    weir_string_add(s, "\n],\n");
    items(s, &p->items);
    weir_string_add(s, ",\n");
    wire(s, p);
    weir_string_add(s, "}");
    weir_mem_free(b.predicted);
    weir_mem_free(b.measured);
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
