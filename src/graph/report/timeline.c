/* timeline.c - a plan as pictures: live bytes over the instructions, and the address map of the
 * arena. */
#include <stdio.h>

#include "core/attr.h"
#include "graph/ir/format.h"
#include "graph/report/report.h"
#include "graph/report/svg.h"
#include "graph/report/wire_rows.h"

/* Layers of the timeline from the bottom: persistent kinds of this graph, persistent bytes of
 * others, the planner's kinds, and, at the peak of live bytes, gaps between addresses, so that the
 * top is the planned peak. */
enum { OTHER = WEIR_KIND_COUNT, GAPS, LAYERS };

static const int layer_order[LAYERS] = {
    WEIR_KIND_PARAM, WEIR_KIND_STATE, WEIR_KIND_INPUT, WEIR_KIND_OUTPUT, OTHER,
    WEIR_KIND_ACTIVATION, WEIR_KIND_GRADIENT, WEIR_KIND_WORKSPACE, GAPS};

static const char *layer_name(int layer)
{
    return layer == OTHER ? "other graphs" : layer == GAPS ? "gaps" : weir_kind_name[layer];
}

static const char *layer_colour(int layer)
{
    return layer == OTHER ? "#d5dbe0" : layer == GAPS ? "#f2c6c2" : weir_kind_colour[layer];
}

/* ---- live bytes ---- */

typedef struct weir_timeline {
    uint32_t n;
    double  *live; /* [LAYERS][n + 1] bytes during each instruction; the last column is unused */
    double  *floor;             /* [n] where the next layer begins */
    double   persistent;
} weir_timeline;

static double *row(const weir_timeline *t, int layer)
{
    return t->live + (size_t)layer * (t->n + 1);
}

static void pile(const weir_timeline *t, int layer, uint32_t first, uint32_t last, double bytes)
{
    for (uint32_t i = first; i <= last && i < t->n; i++)
        row(t, layer)[i] += bytes;
}

/* Adds external storages to all instructions, except those kept in the spill file: while on the
 * device, these are items of the arena. */
static void pile_external(const weir_graph *g, const weir_timeline *t)
{
    double known = 0;

    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *st = &g->storages.at[i];
        if (!st->external || st->offloaded)
            continue;
        const double bytes = (double)weir_plan_taken(g, i);
        pile(t, (int)st->kind, 0, t->n, bytes);
        known += bytes;
    }
    if (t->persistent > known)
        pile(t, OTHER, 0, t->n, t->persistent - known);
}

/* Adds the difference between the arena and the live bytes at the peak. */
static void pile_gaps(const weir_plan *p, const weir_timeline *t)
{
    double *const sum = t->floor, most = (double)p->lower_bound;

    if (p->arena == p->lower_bound)
        return;
    for (uint32_t i = 0; i < p->items.n; i++)
        for (uint32_t k = p->items.at[i].first; k <= p->items.at[i].last && k < t->n; k++)
            sum[k] += (double)p->items.at[i].bytes;
    for (uint32_t i = 0; i < t->n; i++) {
        if (sum[i] == most)
            pile(t, GAPS, i, i, (double)p->arena - most);
        sum[i] = 0;
    }
}

static bool timeline(const weir_graph *g, weir_timeline *t)
{
    const weir_plan *p = g->plan;
    weir_graph_stats stats;

    if (weir_graph_stats_of(g, &stats) != WEIR_OK)
        return false;
    t->n = p->n;
    t->persistent = (double)stats.persistent_bytes;
    t->live = weir_mem_zalloc((size_t)LAYERS * (p->n + 1u), sizeof *t->live);
    t->floor = weir_mem_zalloc(p->n + 1u, sizeof *t->floor);
    if (!t->live || !t->floor)
        return false;
    for (uint32_t i = 0; i < p->items.n; i++) {
        const weir_item *it = &p->items.at[i];
        pile(t, (int)it->kind, it->first, it->last, (double)it->bytes);
    }
    pile_external(g, t);
    pile_gaps(p, t);
    return true;
}

/* Draws the strip below the plot: the phase of each instruction. */
static void draw_phases(weir_chart *c, const weir_plan *p)
{
    const double foot = WEIR_SVG_Y + WEIR_SVG_H;

    for (uint32_t i = 0, end; i < p->n; i = end) {
        const weir_phase phase = p->instr[i].phase;
        for (end = i + 1; end < p->n && p->instr[end].phase == phase;)
            end++;
        const double x = weir_svg_x(c, i), w = weir_svg_x(c, end) - x;
        weir_string_add(c->s, "<path d=\"M%.2f %gh%.2fv14h%.2fZ\" fill=\"%s\"/>", x, foot + 2, w,
                        -w, weir_phase_colour[phase]);
        if (w > 60)
            weir_string_add(c->s,
                            "<text x=\"%.2f\" y=\"%g\" font-size=\"10\" text-anchor=\"middle\">"
                            "%s</text>",
                            x + w / 2, foot + 12.5, weir_phase_name[phase]);
        weir_string_add(c->s, "\n");
    }
}

/* Marks recomputed instructions in the row of the phases. */
static void draw_recomputed(weir_chart *c, const weir_graph *g)
{
    for (uint32_t i = 0; i < g->plan->n; i++) {
        if (!g->nodes.at[i].recomputed)
            continue;
        weir_svg_bar(c, 0, i, i + 1.0, WEIR_RECOMPUTE_COLOUR);
        weir_string_add(c->s, "><title>recomputed: %u ", i);
        weir_format_node(c->s, g, i, weir_svg_text);
        weir_string_add(c->s, "</title></path>\n");
    }
}

uint32_t weir_awaited(const weir_graph *g, uint32_t i)
{
    const uint64_t ticket = weir_spill_attr_of(g->nodes.at[i].op, g->nodes.at[i].attr)->ticket;

    for (uint32_t k = i + 1; k < g->plan->n; k++)
        if (g->nodes.at[k].op == WEIR_OP_SPILL_WAIT &&
            weir_spill_attr_of(g->nodes.at[k].op, g->nodes.at[k].attr)->ticket == ticket)
            return k;
    return g->plan->n;
}

/* Draws transfers to and from the spill file, from where they begin to where they are awaited. */
static void draw_copies(weir_chart *c, const weir_graph *g)
{
    char bytes[WEIR_SVG_BYTES];

    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_node *n = &g->nodes.at[i];
        const bool       out = n->op == WEIR_OP_SPILL_OUT;
        if (!out && n->op != WEIR_OP_SPILL_IN)
            continue;
        const weir_spill_attr *a = weir_spill_attr_of(n->op, n->attr);
        weir_svg_bar(c, out ? 1 : 2, i, weir_awaited(g, i), out ? WEIR_OUT_COLOUR : WEIR_IN_COLOUR);
        weir_string_add(c->s, " fill-opacity=\"0.7\" stroke=\"#fff\" stroke-width=\"0.5\"><title>"
                        "%s: ", out ? "out" : "in");
        weir_format_tensor(c->s, g, weir_storage_of(g, out ? n->in[0] : n->out[0]), weir_svg_text);
        weir_string_add(c->s, ", %s, ticket %u</title></path>\n",
                        weir_svg_bytes(c, (double)a->bytes, bytes), (unsigned)a->ticket);
    }
}

static bool has_copies(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->plan->n; i++)
        if (g->nodes.at[i].op == WEIR_OP_SPILL_OUT)
            return true;
    return false;
}

/* An invisible bar per instruction, with its name as a tooltip. */
static void draw_hints(weir_chart *c, const weir_graph *g, const weir_timeline *t)
{
    char bytes[WEIR_SVG_BYTES];

    weir_string_add(c->s, "<g fill=\"#fff\" fill-opacity=\"0\">\n");
    for (uint32_t i = 0; i < t->n; i++) {
        weir_string_add(c->s, "<path d=\"M%.2f %gV%gH%.2fV%gZ\"><title>%u ", weir_svg_x(c, i),
                        WEIR_SVG_Y, WEIR_SVG_Y + WEIR_SVG_H, weir_svg_x(c, i + 1), WEIR_SVG_Y, i);
        weir_format_node(c->s, g, i, weir_svg_text);
        weir_string_add(c->s, ": %s live</title></path>\n", weir_svg_bytes(c, t->floor[i], bytes));
    }
    weir_string_add(c->s, "</g>\n");
}

static uint32_t highest(const weir_timeline *t)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < t->n; i++)
        if (t->floor[i] > t->floor[best])
            best = i;
    return best;
}

/* Marks the peak with a dot and the instruction's name. */
static void draw_highest(weir_chart *c, const weir_graph *g, const weir_timeline *t)
{
    if (t->n == 0)
        return;
    const uint32_t i = highest(t);
    const double   x = weir_svg_x(c, i + 0.5);
    weir_string_add(c->s,
                    "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"4\" fill=\"#b3261e\" stroke=\"#fff\" "
                    "stroke-width=\"1.5\"><title>most bytes live at %u ",
                    x, weir_svg_y(c, t->floor[i]), i);
    weir_format_node(c->s, g, i, weir_svg_text);
    weir_string_add(c->s, "</title></circle>\n");
}

static void timeline_legend(weir_chart *c, const weir_graph *g, const weir_timeline *t)
{
    bool recomputed = false;

    for (int k = LAYERS - 1; k >= 0; k--) {
        const double *live = row(t, layer_order[k]);
        double        most = 0;
        for (uint32_t i = 0; i < t->n; i++)
            most = live[i] > most ? live[i] : most;
        if (most > 0)
            weir_svg_legend(c, layer_colour(layer_order[k]), layer_name(layer_order[k]));
    }
    c->legend++;                /* a blank entry before the phases */
    for (int k = 0; k < WEIR_PHASE_COUNT; k++)
        weir_svg_legend(c, weir_phase_colour[k], weir_phase_name[k]);
    for (uint32_t i = 0; i < g->plan->n; i++)
        recomputed = recomputed || g->nodes.at[i].recomputed;
    if (recomputed)
        weir_svg_legend(c, WEIR_RECOMPUTE_COLOUR, "recomputation");
    if (has_copies(g)) {
        weir_svg_legend(c, WEIR_OUT_COLOUR, "copy out");
        weir_svg_legend(c, WEIR_IN_COLOUR, "copy in");
    }
    if (g->plan->wire.n > 0) {
        weir_svg_legend(c, WEIR_WIRE_COLOUR, "collective");
        weir_svg_legend(c, WEIR_WAIT_COLOUR, "computing waits");
    }
}

/* Draws the planned peak and the budget above it, if any: one line where two would touch. */
static void draw_levels(weir_chart *c, double peak, double budget)
{
    enum { TOUCH = 20 };        /* pixels */
    char       a[WEIR_SVG_BYTES], b[WEIR_SVG_BYTES], text[2 * WEIR_SVG_BYTES + 40];
    const bool both = budget > 0 && weir_svg_y(c, peak) - weir_svg_y(c, budget) < TOUCH;

    weir_svg_bytes(c, peak, a);
    weir_svg_bytes(c, budget, b);
    snprintf(text, sizeof text, "budget %s", b);
    if (both)
        snprintf(text, sizeof text, "planned peak %s, budget %s", a, b);
    if (budget > 0)
        weir_svg_level(c, budget, both ? "#b3261e" : "#22303c", both, text);
    snprintf(text, sizeof text, "planned peak %s", a);
    if (!both)
        weir_svg_level(c, peak, "#b3261e", true, text);
}

static void draw_timeline(const weir_graph *g, weir_timeline *t, weir_string *s)
{
    const weir_plan *p = g->plan;
    const double     peak = t->persistent + (double)p->arena;
    char             a[WEIR_SVG_BYTES], b[WEIR_SVG_BYTES], d[WEIR_SVG_BYTES];

    const int  streams = has_copies(g) ? 3 : 1;
    const int  lower = WEIR_SVG_STREAM * (streams - 1);
    const bool near = (double)g->budget >= peak && (double)g->budget < 1.5 * peak;
    weir_chart c = weir_svg_begin(s, p->n, near ? (double)g->budget : peak,
                                  lower + weir_wire_rows_height(p), "Live bytes over one step");
    c.strip -= weir_wire_rows_height(p);        /* they lie below the axis */
    weir_svg_subtitle(&c, "%u instructions; persistent %s + arena %s (lower bound %s)", p->n,
                      weir_svg_bytes(&c, t->persistent, a), weir_svg_bytes(&c, (double)p->arena, b),
                      weir_svg_bytes(&c, (double)p->lower_bound, d));
    weir_svg_axes(&c, "instruction", "live");
    for (int k = 0; k < LAYERS; k++)
        weir_svg_layer(&c, layer_name(layer_order[k]), layer_colour(layer_order[k]), t->n, NULL,
                       t->floor, row(t, layer_order[k]));
    draw_phases(&c, p);
    draw_recomputed(&c, g);
    draw_copies(&c, g);
    if (streams > 1)
        weir_svg_streams(&c, streams);
    draw_levels(&c, peak, near ? (double)g->budget : 0);
    draw_highest(&c, g, t);
    draw_hints(&c, g, t);
    timeline_legend(&c, g, t);
    weir_draw_wire_rows(&c, g);
    weir_svg_end(&c);
}

void weir_format_timeline(const weir_graph *g, weir_string *s)
{
    weir_timeline t = {0};

    if (timeline(g, &t))
        draw_timeline(g, &t, s);
    else
        s->failed = true;
    weir_mem_free(t.live);
    weir_mem_free(t.floor);
}

/* ---- addresses ---- */

/* Writes the item's name if there is space for one. */
static void item_label(weir_string *s, const weir_graph *g, const weir_item *it, double x, double y,
                       double w, double h)
{
    if (w < 34 || h < 13)
        return;
    weir_string_add(s, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"10\" fill=\"#fff\" "
                    "text-anchor=\"middle\">", x + w / 2, y + h / 2 + 3.5);
    if (it->storage == WEIR_NONE)
        weir_string_add(s, w > 66 ? "workspace" : "work");
    else
        weir_format_storage(s, g, it->storage);
    weir_string_add(s, "</text>\n");
}

static void draw_item(weir_chart *c, const weir_graph *g, const weir_item *it)
{
    const double x = weir_svg_x(c, it->first), y = weir_svg_y(c, (double)(it->offset + it->bytes));
    const double w = weir_svg_x(c, it->last + 1.0) - x, h = weir_svg_y(c, (double)it->offset) - y;

    weir_string_add(c->s,
                    "<rect class=\"item\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
                    "fill=\"%s\"%s><title>",
                    x, y, w, h, weir_kind_colour[it->kind],
                    w > 3 && h > 3 ? " stroke=\"#fff\" stroke-width=\"0.6\"" : "");
    if (it->storage != WEIR_NONE) {
        weir_format_tensor(c->s, g, it->storage, weir_svg_text);
        weir_string_add(c->s, ", ");
    }
    weir_string_add(c->s, "%s, %zu bytes at %zu, instructions %u to %u, begun by ",
                    weir_kind_name[it->kind], it->bytes, it->offset, it->first, it->last);
    weir_format_node(c->s, g, it->first, weir_svg_text);
    weir_string_add(c->s, "</title></rect>\n");
    item_label(c->s, g, it, x, y, w, h);
}

static void address_levels(weir_chart *c, const weir_plan *p)
{
    char bytes[WEIR_SVG_BYTES], text[80];
    const bool met = p->arena == p->lower_bound;

    snprintf(text, sizeof text, met ? "planned arena %s = lower bound" : "planned arena %s",
             weir_svg_bytes(c, (double)p->arena, bytes));
    weir_svg_level(c, (double)p->arena, "#b3261e", true, text);
    if (met)
        return;
    snprintf(text, sizeof text, "lower bound %s", weir_svg_bytes(c, (double)p->lower_bound, bytes));
    weir_svg_level(c, (double)p->lower_bound, "#22303c", false, text);
}

/* Kinds that occur, parameters and states too if they are offloaded between uses. */
static void address_legend(weir_chart *c, const weir_plan *p)
{
    bool met[WEIR_KIND_COUNT] = {false};

    for (uint32_t i = 0; i < p->items.n; i++)
        met[p->items.at[i].kind] = met[p->items.at[i].kind] || p->items.at[i].bytes > 0;
    for (int k = 0; k < WEIR_KIND_COUNT; k++)
        if (met[k])
            weir_svg_legend(c, weir_kind_colour[k], weir_kind_name[k]);
    c->legend++;
    for (int k = 0; k < WEIR_PHASE_COUNT; k++)
        weir_svg_legend(c, weir_phase_colour[k], weir_phase_name[k]);
}

void weir_format_addresses(const weir_graph *g, weir_string *s)
{
    const weir_plan *p = g->plan;
    uint32_t         n_items = 0;

    for (uint32_t i = 0; i < p->items.n; i++)
        n_items += p->items.at[i].bytes > 0;
    weir_chart c = weir_svg_begin(s, p->n, (double)p->arena, 0, "Address map of the arena");
    weir_svg_subtitle(&c, "%u allocations over %u instructions; placed by: %s", n_items, p->n,
                      p->strategy);
    weir_svg_axes(&c, "instruction", "offset");
    for (uint32_t i = 0; i < p->items.n; i++)
        if (p->items.at[i].bytes > 0)       /* else empty, or merged into another */
            draw_item(&c, g, &p->items.at[i]);
    draw_phases(&c, p);
    address_levels(&c, p);
    address_legend(&c, p);
    weir_svg_end(&c);
}
