/* picture.c - a schedule over time: live bytes by kind, the budget, in the background what the step
 * would need without one, and the three streams below.
 *
 * Live bytes follow the order of issue, so an event's bytes are drawn from the time at which
 * compute reaches it to the time at which it reaches the next one. What the step needs without a
 * budget is drawn at the times of the same first runs, so that the two can be compared. */
#include <math.h>
#include <stdio.h>

#include "graph/memory/problem/event_times.h"
#include "graph/memory/explain/explain.h"
#include "graph/memory/policies/policy.h"
#include "graph/ir/format.h"
#include "graph/report/svg.h"

/* Layers; the kinds of storages come first. layer_order lists them from the bottom up. */
enum { ALWAYS = WEIR_KIND_COUNT, COMPRESSED, BACK, RECOMPUTED, LAYERS };

static const int layer_order[LAYERS] = {
    ALWAYS, WEIR_KIND_PARAM, WEIR_KIND_STATE, WEIR_KIND_INPUT, WEIR_KIND_OUTPUT,
    WEIR_KIND_ACTIVATION, WEIR_KIND_GRADIENT, COMPRESSED, BACK, RECOMPUTED, WEIR_KIND_WORKSPACE};

typedef struct weir_drawing {
    const weir_schedule *s;
    const weir_naming   *n;
    weir_event_time     *moment;
    weir_schedule        whole; /* schedule of the step with everything kept */
    double              *x;     /* [events + 1] in units of the axis */
    double              *live;  /* [LAYERS][events + 1] bytes */
    double              *floor; /* [events + 1] zeros, the lower edge of the first layer */
    double               unit;  /* seconds per unit of the axis */
    const char          *unit_name;
} weir_drawing;

static double *row(const weir_drawing *d, int layer)
{
    return d->live + (size_t)layer * (d->s->events.n + 1u);
}

static const char *layer_name(int layer)
{
    static const char *const own[] = {"always there", "compressed", "copied back", "recomputed"};
    return layer < WEIR_KIND_COUNT ? weir_kind_name[layer] : own[layer - ALWAYS];
}

static const char *layer_colour(int layer)
{
    static const char *const own[] = {"#5b6b7b", "#8a8d3a", WEIR_IN_COLOUR, WEIR_RECOMPUTE_COLOUR};
    return layer < WEIR_KIND_COUNT ? weir_kind_colour[layer] : own[layer - ALWAYS];
}

static int layer_of(const weir_drawing *d, const weir_live_range *l)
{
    const weir_event *v = &d->s->events.at[l->first];

    if (l->form != WEIR_FORM_PLAIN)
        return COMPRESSED;
    if (!l->before && v->kind == WEIR_EVENT_PREFETCH)
        return BACK;
    if (!l->before && v->kind == WEIR_EVENT_RUN && v->recomputed)
        return RECOMPUTED;
    return (int)d->n->kind(d->n->ctx, l->tensor);
}

/* Adds the name of a tensor or an op as text of the picture. */
static void add_name(weir_chart *c, const weir_drawing *d, uint32_t what, bool op)
{
    weir_string name = {0};

    (op ? d->n->op : d->n->tensor)(d->n->ctx, what, &name);
    c->s->failed |= name.failed;
    if (name.at)
        weir_svg_text(c->s, name.at);
    weir_mem_free(name.at);
}

/* ---- numbers ---- */

static void choose_unit(weir_drawing *d)
{
    static const struct { double seconds; const char *name; } units[] = {
        {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    size_t i = 0;

    while (d->s->time < 12 * units[i].seconds && i + 1 < sizeof units / sizeof *units)
        i++;
    d->unit = units[i].seconds;
    d->unit_name = units[i].name;
}

static void gather(weir_drawing *d)
{
    const weir_schedule *s = d->s;
    double               at = 0;

    for (uint32_t e = 0; e < s->events.n; e++) {
        const weir_event *v = &s->events.at[e];
        const bool        copy = v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH;
        d->x[e] = copy ? at : d->moment[e].begin / d->unit;
        at = copy ? at : d->moment[e].end / d->unit;
        row(d, ALWAYS)[e] = (double)d->n->base;
        row(d, WEIR_KIND_WORKSPACE)[e] =
            v->kind == WEIR_EVENT_RUN ? (double)s->p->ops.at[v->what].work : 0;
    }
    d->x[s->events.n] = s->time / d->unit;
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range *l = &s->ranges.at[i];
        const double           bytes = (double)weir_live_range_bytes(s->p, l);
        double *const    to = row(d, layer_of(d, l));
        for (uint32_t e = l->first + (l->over != WEIR_NO_RANGE); e <= l->last; e++)
            to[e] += bytes;
    }
}

static bool begin(weir_drawing *d)
{
    const size_t    n = d->s->events.n + 1u;
    weir_policy_job whole = {.p = d->s->p, .limit = SIZE_MAX, .variant = ""};

    d->moment = weir_schedule_event_times(d->s);
    d->x = weir_mem_zalloc(n, sizeof *d->x);
    d->floor = weir_mem_zalloc(n, sizeof *d->floor);
    d->live = weir_mem_zalloc(n * LAYERS, sizeof *d->live);
    const bool ok = weir_policy_recycle(&whole) == WEIR_OK;
    d->whole = whole.s;
    return ok && d->moment && d->x && d->floor && d->live;
}

static void end(weir_drawing *d)
{
    weir_mem_free(d->moment);
    weir_mem_free(d->x);
    weir_mem_free(d->floor);
    weir_mem_free(d->live);
    weir_schedule_free(&d->whole);
}

/* ---- plot ---- */

/* Draws the live bytes of the step without a budget, behind everything else. */
static void draw_whole(weir_chart *c, const weir_drawing *d)
{
    const weir_schedule *s = d->s;
    double               at = (double)d->n->base;

    weir_string_add(c->s, "<path fill=\"#eef1f4\" stroke=\"#b9c4cd\" d=\"M%g %.2f", WEIR_SVG_X,
                    weir_svg_y(c, at));
    for (uint32_t e = 0; e < s->events.n; e++) {
        const double live = (double)(d->n->base +
                                     (size_t)d->whole.live.at[weir_schedule_first_run(s, e)]);
        if (live == at)
            continue;
        at = live;
        weir_string_add(c->s, "H%.2fV%.2f", weir_svg_x(c, d->x[e]), weir_svg_y(c, at));
    }
    weir_string_add(c->s, "H%.2fV%.2fH%gZ\"/>\n", weir_svg_x(c, d->x[s->events.n]),
                    weir_svg_y(c, 0), WEIR_SVG_X);
}

/* Returns the y of the label of a dot at `y`: above the budget's line if it would cross that
 * line. */
static double words_y(const weir_chart *c, const weir_drawing *d, double y)
{
    /* pixels between dot and label; height of the label */
    enum { ABOVE = 8, HIGH = 14 };
    const double line = weir_svg_y(c, (double)d->n->budget);

    return d->n->budget && line < y && line > y - ABOVE - HIGH ? line - 6 : y - ABOVE;
}

/* Marks the peak with a dot and its bytes, and the budget with a label at the other side. */
static void draw_marks(weir_chart *c, const weir_drawing *d)
{
    if (d->s->events.n == 0)
        return;
    const uint32_t peak = weir_peak_event(d->s);
    const double   bytes = (double)((size_t)d->s->live.at[peak] + d->n->base);
    const double   at = (d->x[peak] + d->x[peak + 1]) / 2, x = weir_svg_x(c, at);
    const bool     left = at < c->xmax / 2;
    char           text[80], number[WEIR_SVG_BYTES];

    snprintf(text, sizeof text, "budget %s", weir_svg_bytes(c, (double)d->n->budget, number));
    if (d->n->budget && (double)d->n->budget < c->ymax)
        weir_svg_level(c, (double)d->n->budget, "#b3261e", left, text);
    weir_string_add(c->s, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"4\" fill=\"#b3261e\" "
                    "stroke=\"#fff\" stroke-width=\"1.5\"/>\n<text x=\"%.2f\" y=\"%.2f\" "
                    "text-anchor=\"%s\" font-weight=\"bold\" stroke=\"#fff\" "
                    "stroke-width=\"3\" paint-order=\"stroke\">peak %s at ",
                    x, weir_svg_y(c, bytes), x + (left ? 8 : -8),
                    words_y(c, d, weir_svg_y(c, bytes)),
                    left ? "start" : "end", weir_svg_bytes(c, bytes, number));
    add_name(c, d, weir_schedule_first_run(d->s, peak), true);
    weir_string_add(c->s, "</text>\n");
}

/* ---- streams ---- */

/* Draws first runs by phase; repeated runs stand out and have a tooltip with their names. */
static void draw_compute(weir_chart *c, const weir_drawing *d)
{
    const weir_schedule *s = d->s;

    for (uint32_t e = 0, next; e < s->events.n; e = next) {
        const weir_event v = s->events.at[e];
        uint32_t         last = e;
        next = e + 1;
        if (v.kind != WEIR_EVENT_RUN)
            continue;
        const uint8_t phase = s->p->ops.at[v.what].phase;
        for (; next < s->events.n && !v.recomputed; next++) {
            const weir_event w = s->events.at[next];
            if (w.kind == WEIR_EVENT_OFFLOAD || w.kind == WEIR_EVENT_PREFETCH)
                continue;
            if (w.kind != WEIR_EVENT_RUN || w.recomputed || s->p->ops.at[w.what].phase != phase ||
                d->moment[next].wait > 0)
                break;
            last = next;
        }
        weir_svg_bar(c, 0, d->moment[e].begin / d->unit, d->moment[last].end / d->unit,
                 v.recomputed ? WEIR_RECOMPUTE_COLOUR : weir_phase_colour[phase]);
        if (v.recomputed) {
            weir_string_add(c->s, "><title>recomputed: %lld ", d->n->number(d->n->ctx, v.what));
            add_name(c, d, v.what, true);
            weir_string_add(c->s, ", %.4g ms</title></path>\n",
                            s->p->ops.at[v.what].time * 1e3);
        } else {
            weir_string_add(c->s, "/>\n");
        }
    }
}

static void draw_copies(weir_chart *c, const weir_drawing *d)
{
    char bytes[WEIR_SVG_BYTES];

    for (uint32_t e = 0; e < d->s->events.n; e++) {
        const weir_event v = d->s->events.at[e];
        if (v.kind != WEIR_EVENT_OFFLOAD && v.kind != WEIR_EVENT_PREFETCH)
            continue;
        const bool out = v.kind == WEIR_EVENT_OFFLOAD;
        weir_svg_bar(c, out ? 1 : 2, d->moment[e].begin / d->unit, d->moment[e].end / d->unit,
                 out ? WEIR_OUT_COLOUR : WEIR_IN_COLOUR);
        weir_string_add(c->s, " stroke=\"#fff\" stroke-width=\"0.5\"><title>%s: ",
                        out ? "out" : "in");
        add_name(c, d, v.what, false);
        weir_string_add(c->s, ", %s</title></path>\n",
                        weir_svg_bytes(c, (double)d->s->p->tensors.at[v.what].bytes, bytes));
    }
}

/* ---- together ---- */

static void add_legend(weir_chart *c, const weir_drawing *d)
{
    for (int k = LAYERS - 1; k >= 0; k--) {
        double most = 0;
        for (uint32_t e = 0; e < d->s->events.n; e++)
            most = fmax(most, row(d, layer_order[k])[e]);
        if (most > 0)
            weir_svg_legend(c, layer_colour(layer_order[k]), layer_name(layer_order[k]));
    }
    weir_svg_legend(c, "#dde3e8", "without a budget");
    c->legend++;
    for (int k = 0; k < WEIR_PHASE_COUNT; k++)
        weir_svg_legend(c, weir_phase_colour[k], weir_phase_name[k]);
    if (d->s->recomputed > 0)
        weir_svg_legend(c, WEIR_RECOMPUTE_COLOUR, "recomputation");
    if (d->s->copies) {
        weir_svg_legend(c, WEIR_OUT_COLOUR, "copy out");
        weir_svg_legend(c, WEIR_IN_COLOUR, "copy in");
    }
}

static void draw(weir_drawing *d, weir_string *svg)
{
    const weir_schedule *s = d->s;
    const int            streams = s->copies ? 3 : 1;
    const double         most = (double)(d->whole.peak > s->peak ? d->whole.peak : s->peak) +
                        (double)d->n->base;
    char         a[WEIR_SVG_BYTES], axis[32];

    weir_chart c = weir_svg_begin(svg, 1, most, WEIR_SVG_STREAM * (streams - 1), d->n->title);
    c.xmax = fmax(s->time / d->unit, 1e-9);
    const double time = s->p->time > 0 ? s->p->time : 1;
    weir_svg_subtitle(&c, "%.4g %s, %.2f %% of them extra; %s without a budget",
                      (s->p->time + d->n->extra) / d->unit, d->unit_name, 100 * d->n->extra / time,
                      weir_svg_bytes(&c, (double)d->n->whole, a));
    snprintf(axis, sizeof axis, "time, %s", d->unit_name);
    draw_whole(&c, d);
    weir_svg_axes(&c, axis, "live");
    for (int k = 0; k < LAYERS; k++)
        weir_svg_layer(&c, layer_name(layer_order[k]), layer_colour(layer_order[k]), s->events.n,
                       d->x, d->floor, row(d, layer_order[k]));
    draw_compute(&c, d);
    draw_copies(&c, d);
    weir_svg_streams(&c, streams);
    draw_marks(&c, d);
    add_legend(&c, d);
    weir_svg_end(&c);
}

void weir_picture(const weir_schedule *s, const weir_naming *n, weir_string *svg)
{
    weir_drawing d = {.s = s, .n = n};

    if (begin(&d)) {
        choose_unit(&d);
        gather(&d);
        draw(&d, svg);
    } else {
        svg->failed = true;
    }
    end(&d);
}
