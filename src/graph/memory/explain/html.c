/* html.c - a plan as one web page: view.html with the plan's numbers as JSON inside.
 *
 * "items" are the allocations of the arena, [kind, bytes, offset, first, last instruction];
 * "wire" are the collectives, [start, wait, from, to, bytes, ms, ms that computing waits, the same
 * measured or -1, name], with places between instructions at which the wire begins and ends them;
 * "tensors" say what lies in them, [storage, item or -1, bytes, name, origin or -1]; "resident" is
 * what is on the device between steps, [kind, bytes, name]. The page is text of the HTML syntax, so
 * the JSON has no '<': a name such as "</script>" cannot end the element. */
#include "graph/memory/explain/html.h"

#include <string.h>

#include "core/attr.h"
#include "graph/ir/format.h"
#include "graph/memory/explain/reasons.h"
#include "graph/report/collective_numbers.h"
#include "graph/report/report.h"
#include "graph/report/svg.h"

static const unsigned char page_bytes[] = {
#include "view_html.inc"
    0};

/* The line of the page that the plan replaces. */
static const char place[] = "<!-- plans -->\n";

static void numbers(const weir_graph *g, const weir_graph_stats *t, weir_string *s)
{
    weir_string_add(s, "{\"format\": 1, \"kind\": \"weir plan\", \"name\": \"step %llu\", "
                    "\"source\": \"weir %s\",\n", (unsigned long long)g->id, weir_version());
    weir_string_add(s, "\"persistent_bytes\": %zu, \"arena_bytes\": %zu, \"planned_peak_bytes\": "
                    "%zu, \"lower_bound_bytes\": %zu, \"budget_bytes\": %zu, "
                    "\"unbudgeted_peak_bytes\": %zu, \"recomputed\": %zu, \"extra_ms\": %.9g,\n",
                    t->persistent_bytes, t->arena_bytes, t->planned_peak_bytes,
                    t->lower_bound_bytes, t->budget_bytes, t->unbudgeted_peak_bytes, t->recomputed,
                    t->extra_ms);
}

static void legend(weir_string *s)
{
    weir_string_add(s, "\"kinds\": [");
    for (int k = 0; k < WEIR_KIND_COUNT; k++)
        weir_string_add(s, "%s[\"%s\", \"%s\"]", k ? ", " : "", weir_kind_name[k],
                        weir_kind_colour[k]);
    weir_string_add(s, "],\n\"phases\": [");
    for (int k = 0; k < WEIR_PHASE_COUNT; k++)
        weir_string_add(s, "%s[\"%s\", \"%s\"]", k ? ", " : "", weir_phase_name[k],
                        weir_phase_colour[k]);
    weir_string_add(s, "],\n\"moves\": [[\"recomputation\", \"%s\"], [\"copy out\", \"%s\"], "
                    "[\"copy in\", \"%s\"], [\"collective\", \"%s\"], [\"computing waits\", "
                    "\"%s\"]],\n", WEIR_RECOMPUTE_COLOUR, WEIR_OUT_COLOUR, WEIR_IN_COLOUR,
                    WEIR_WIRE_COLOUR, WEIR_WAIT_COLOUR);
}

/* [name, phase, recomputed, stream, milliseconds as estimated] of each instruction. */
static void instructions(const weir_graph *g, weir_string *s)
{
    const weir_rates rates = g->dev->ops->rates(g->dev);

    weir_string_add(s, "\"instructions\": [");
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *const ins = &g->plan->instr[i];
        weir_string_add(s, "%s[\"", i ? ",\n" : "\n");
        weir_format_node(s, g, i, weir_string_add_json);
        weir_string_add(s, "\", %d, %d, %u, %.4g]", (int)ins->phase, g->nodes.at[i].recomputed,
                        ins->stream, 1e3 * weir_rates_seconds(&rates, &ins->call));
    }
    weir_string_add(s, "],\n");
}

static void items(const weir_items *items, weir_string *s)
{
    weir_string_add(s, "\"items\": [");
    for (uint32_t i = 0; i < items->n; i++) {
        const weir_item *it = &items->at[i];
        weir_string_add(s, "%s[%d, %zu, %zu, %u, %u]", i ? ",\n" : "\n", (int)it->kind, it->bytes,
                        it->offset, it->first, it->last);
    }
    weir_string_add(s, "],\n");
}

static void number_or_none(weir_string *s, uint32_t n)
{
    if (n == WEIR_NONE)
        weir_string_add(s, ", -1");
    else
        weir_string_add(s, ", %u", n);
}

static void tensors(const weir_graph *g, weir_string *s)
{
    const char *before = "\n";

    weir_string_add(s, "\"tensors\": [");
    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *const st = &g->storages.at[i];
        if (g->plan->item_of[i] == WEIR_NONE && !st->external)
            continue;
        weir_string_add(s, "%s[%u", before, i);
        number_or_none(s, g->plan->item_of[i]);
        weir_string_add(s, ", %zu, \"", st->bytes);
        weir_format_tensor(s, g, i, weir_string_add_json);
        weir_string_add(s, "\"");
        number_or_none(s, st->origin);
        weir_string_add(s, "]");
        before = ",\n";
    }
    weir_string_add(s, "],\n");
}

static void resident(const weir_graph *g, size_t persistent, weir_string *s)
{
    size_t known = 0;

    weir_string_add(s, "\"resident\": [");
    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *const st = &g->storages.at[i];
        if (!st->external || st->offloaded)
            continue;
        weir_string_add(s, "%s[%d, %zu, \"", known ? ",\n" : "\n", (int)st->kind,
                        weir_plan_taken(g, i));
        weir_format_tensor(s, g, i, weir_string_add_json);
        weir_string_add(s, "\"]");
        known += weir_plan_taken(g, i);
    }
    if (persistent > known)
        weir_string_add(s, "%s[-1, %zu, \"what other graphs and the program hold\"]",
                        known ? ",\n" : "\n", persistent - known);
    weir_string_add(s, "],\n");
}

/* [1 out or 2 in, first instruction, the one that awaits it, bytes, name] of each transfer. */
static void copies(const weir_graph *g, weir_string *s)
{
    const char *before = "\n";

    weir_string_add(s, "\"copies\": [");
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        const bool             out = n->op == WEIR_OP_SPILL_OUT;
        if (!out && n->op != WEIR_OP_SPILL_IN)
            continue;
        weir_string_add(s, "%s[%d, %u, %u, %zu, \"", before, out ? 1 : 2, i, weir_awaited(g, i),
                        (size_t)weir_spill_attr_of(n->op, n->attr)->bytes);
        weir_format_tensor(s, g, weir_storage_of(g, out ? n->in[0] : n->out[0]),
                           weir_string_add_json);
        weir_string_add(s, "\"]");
        before = ",\n";
    }
    weir_string_add(s, "],\n");
}

/* The place of a moment among the instructions: 7.5 is half-way through instruction 7. */
static double place_of(const double *at, uint32_t n, double seconds)
{
    uint32_t i = 0;

    while (i + 1 < n && at[i + 1] <= seconds)
        i++;
    return seconds < at[i + 1] ? i + (seconds - at[i]) / (at[i + 1] - at[i]) : i + 1.0;
}

static void collective(const weir_graph *g, const weir_wire_span *w, const double *at,
                       weir_string *s)
{
    const weir_collective_numbers c = weir_collective_numbers_of(g->plan, w);
    const bool                    known = c.wire_ms >= 0;
    const double from = known ? place_of(at, g->plan->n, w->begin) : w->start;
    const double to = known ? place_of(at, g->plan->n, w->begin + w->seconds) : w->wait + 1.0;

    weir_string_add(s, "[%u, %u, %.9g, %.9g, %zu, %.6g, %.6g, %.6g, \"", c.start, c.wait, from, to,
                    c.bytes, c.wire_ms, c.exposed_ms, c.measured_exposed_ms);
    weir_format_node(s, g, w->start, weir_string_add_json);
    weir_string_add(s, "\"]");
}

static void wire(const weir_graph *g, weir_string *s)
{
    const weir_plan *const p = g->plan;
    double *const          at = weir_mem_zalloc(p->n + 1u, sizeof *at);

    s->failed |= !at;
    weir_string_add(s, "\"wire\": [");
    if (at)
        weir_plan_estimated_times(p, at);
    for (uint32_t k = 0; at && k < p->wire.n; k++) {
        weir_string_add(s, k ? ",\n" : "\n");
        collective(g, &p->wire.at[k], at, s);
    }
    weir_string_add(s, "],\n\"decisions\": ");
    weir_mem_free(at);
}

static void plan(const weir_graph *g, weir_string *s)
{
    weir_graph_stats stats;

    if (weir_graph_stats_of(g, &stats) != WEIR_OK) {
        s->failed = true;
        return;
    }
    numbers(g, &stats, s);
    legend(s);
    instructions(g, s);
    items(&g->plan->items, s);
    tensors(g, s);
    resident(g, stats.persistent_bytes, s);
    copies(g, s);
    wire(g, s);
    weir_format_decisions(g, s);
    weir_string_add(s, "}");
}

/* Adds JSON with every '<' written as \u003c: outside strings JSON has none. */
static void add_safely(weir_string *s, const char *json)
{
    for (const char *open; (open = strchr(json, '<')); json = open + 1)
        weir_string_add(s, "%.*s\\u003c", (int)(open - json), json);
    weir_string_add(s, "%s", json);
}

void weir_format_html(const weir_graph *g, weir_string *s)
{
    const char *const page = (const char *)page_bytes;
    const char *const at = strstr(page, place);
    weir_string       json = {0};

    plan(g, &json);
    s->failed |= json.failed || !json.at || !at;
    if (!s->failed) {
        weir_string_add(s, "%.*s<script type=\"application/json\" class=\"plan\">\n",
                        (int)(at - page), page);
        add_safely(s, json.at);
        weir_string_add(s, "\n</script>\n%s", at + strlen(place));
    }
    weir_mem_free(json.at);
}
