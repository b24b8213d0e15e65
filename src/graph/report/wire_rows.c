/* wire_rows.c - draws computing and collectives over time, below the timeline of a plan.
 *
 * The timeline's own axis counts instructions, on which a wait of any length is one step wide. So
 * these rows have an axis of milliseconds: a bar is as long as its time. */
#include "graph/report/wire_rows.h"

#include <math.h>
#include <stdio.h>

#include "graph/ir/format.h"
#include "graph/report/collective_numbers.h"

/* Pixels: from the timeline's strip to the line of text, from there to the first row, from the last
 * row to the lower edge; and what a picture has below its strip without these rows. */
enum { ABOVE = 64, TEXT = 8, BELOW = 44, USUAL = 60 };

typedef struct rows {
    weir_chart       *c;
    const weir_graph *g;
    const weir_plan  *p;
    bool              known;    /* the plan's prediction is */
    double           *at;       /* [n + 1] seconds: as predicted, */
    double           *measured; /* and as profiled; NULL: it was not */
    double            most;     /* seconds at the right edge */
} rows;

static int count(const weir_plan *p)
{
    return (weir_plan_wire_known(p) ? 2 : 0) + weir_plan_waits_known(p);
}

int weir_wire_rows_height(const weir_plan *p)
{
    if (p->wire.n == 0)
        return 0;
    return ABOVE + TEXT - USUAL + (count(p) ? WEIR_SVG_STREAM * count(p) + BELOW : 0);
}

static double row_y(const rows *r, int row)
{
    return WEIR_SVG_Y + WEIR_SVG_H + r->c->strip + ABOVE + TEXT + WEIR_SVG_STREAM * row;
}

static double time_x(const rows *r, double seconds)
{
    return WEIR_SVG_X + WEIR_SVG_W * seconds / r->most;
}

/* Begins a bar, a path element that the caller closes. */
static void bar(const rows *r, int row, double from, double to, const char *colour)
{
    const double x = time_x(r, from), w = fmax(time_x(r, to) - x, 0.3);

    weir_string_add(r->c->s, "<path fill=\"%s\" d=\"M%.2f %gh%.2fv14h%.2fZ\"", colour, x,
                    row_y(r, row), w, -w);
}

/* Writes the name of a row at its left and a time at its right. */
static void name_row(const rows *r, int row, const char *name, const char *what, double seconds)
{
    weir_string_add(r->c->s, "<g font-size=\"10\"><text x=\"%g\" y=\"%g\" text-anchor=\"end\">%s"
                    "</text><text x=\"%g\" y=\"%g\">%s%.4f ms</text></g>\n", WEIR_SVG_X - 8,
                    row_y(r, row) + 11, name, WEIR_SVG_X + WEIR_SVG_W + 8, row_y(r, row) + 11, what,
                    seconds * 1e3);
}

/* Draws the instructions of each phase as one bar, by the times at which they begin. */
static void draw_compute(const rows *r, int row, const double *at)
{
    for (uint32_t i = 0, end; i < r->p->n; i = end) {
        const weir_phase phase = r->p->instr[i].phase;
        for (end = i + 1; end < r->p->n && r->p->instr[end].phase == phase;)
            end++;
        if (at[end] <= at[i])
            continue;
        bar(r, row, at[i], at[end], weir_phase_colour[phase]);
        weir_string_add(r->c->s, "><title>%s: %.4f to %.4f ms</title></path>\n",
                        weir_phase_name[phase], at[i] * 1e3, at[end] * 1e3);
    }
}

/* Marks in a row of computing that it waits for the collective, up to `end`. */
static void draw_wait(const rows *r, int row, const weir_wire_span *w, double end, double seconds)
{
    if (seconds <= 0)
        return;
    bar(r, row, end - seconds, end, WEIR_WAIT_COLOUR);
    weir_string_add(r->c->s, "><title>%u waits %.4f ms for %u ", w->wait, seconds * 1e3, w->start);
    weir_format_node(r->c->s, r->g, w->start, weir_svg_text);
    weir_string_add(r->c->s, "</title></path>\n");
}

/* Writes the milliseconds into a bar that has space for them. */
static void label(const rows *r, int row, double from, double to)
{
    const double a = time_x(r, from), b = time_x(r, to);

    if (b - a > 50)
        weir_string_add(r->c->s, "<text x=\"%.2f\" y=\"%g\" font-size=\"10\" fill=\"#fff\" "
                        "text-anchor=\"middle\">%.4g ms</text>\n", (a + b) / 2,
                        row_y(r, row) + 11, (to - from) * 1e3);
}

static void tooltip(const rows *r, const weir_wire_span *w)
{
    const weir_collective_numbers c = weir_collective_numbers_of(r->p, w);

    weir_string_add(r->c->s, "<title>%u ", c.start);
    weir_format_node(r->c->s, r->g, c.start, weir_svg_text);
    weir_string_add(r->c->s, ", awaited at %u: %zu bytes, %.4f ms on the wire from %.4f ms on, "
                    "computing waits %.4f ms", c.wait, c.bytes, c.wire_ms, c.begin_ms,
                    c.exposed_ms);
    if (r->measured)
        weir_string_add(r->c->s, ", measured %.4f ms", c.measured_exposed_ms);
    weir_string_add(r->c->s, "</title>");
}

/* Draws a collective on the wire; what computing waits meanwhile, for it or for one behind it, in
 * another colour. */
static void draw_collective(const rows *r, int row, const weir_wire_span *w)
{
    const double end = w->begin + w->seconds;
    bool         hidden = true;

    weir_string_add(r->c->s, "<g class=\"wire\" stroke=\"#fff\" stroke-width=\"0.5\">");
    tooltip(r, w);
    bar(r, row, w->begin, end, WEIR_WIRE_COLOUR);
    weir_string_add(r->c->s, "/></g>\n");
    for (uint32_t k = 0; k < r->p->wire.n; k++) {
        const weir_wire_span *const other = &r->p->wire.at[k];
        const double                done = other->begin + other->seconds;
        const double from = fmax(w->begin, done - other->exposed), to = fmin(end, done);
        if (to <= from)
            continue;
        bar(r, row, from, to, WEIR_WAIT_COLOUR);
        weir_string_add(r->c->s, " stroke=\"#fff\" stroke-width=\"0.5\">");
        tooltip(r, w);
        weir_string_add(r->c->s, "</path>\n");
        label(r, row, from, to);
        hidden = false;
    }
    if (hidden)
        label(r, row, w->begin, end);
}

static void draw_predicted(const rows *r)
{
    double seconds, exposed;

    weir_plan_wire_sums(r->p, &seconds, &exposed);
    draw_compute(r, 0, r->at);
    for (uint32_t k = 0; k < r->p->wire.n; k++) {
        const weir_wire_span *const w = &r->p->wire.at[k];
        draw_wait(r, 0, w, w->begin + w->seconds, w->exposed);
        draw_collective(r, 1, w);
    }
    name_row(r, 0, "compute", "waits ", exposed);
    name_row(r, 1, "wire", "", seconds);
}

static void draw_measured(const rows *r, int row)
{
    double waited = 0;

    draw_compute(r, row, r->measured);
    for (uint32_t k = 0; k < r->p->wire.n; k++) {
        const weir_wire_span *const w = &r->p->wire.at[k];
        const double                one = weir_plan_profiled_wait(r->p, w);
        draw_wait(r, row, w, r->measured[w->wait + 1], one);
        waited += one;
    }
    name_row(r, row, "measured", "waits ", waited);
}

static void draw_axis(const rows *r)
{
    const double y = row_y(r, count(r->p)), most = r->most * 1e3, step = weir_svg_tick(most, 12);

    weir_string_add(r->c->s, "<path d=\"M%g %gh%g\" stroke=\"#66737f\"/>\n", WEIR_SVG_X, y,
                    WEIR_SVG_W);
    for (int i = 0; i * step <= most; i++) {
        const double x = time_x(r, i * step / 1e3);
        weir_string_add(r->c->s, "<path d=\"M%.2f %gv5\" stroke=\"#66737f\"/>"
                        "<text x=\"%.2f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n", x, y, x,
                        y + 19, i * step);
    }
    weir_string_add(r->c->s, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">time, ms</text>\n",
                    WEIR_SVG_X + WEIR_SVG_W / 2, y + 36);
}

/* The sums, as stats and explain have them. */
static void summary(const rows *r)
{
    double seconds, exposed;

    weir_plan_wire_sums(r->p, &seconds, &exposed);
    weir_string_add(r->c->s, "<text x=\"%g\" y=\"%g\">collectives: %u", WEIR_SVG_X,
                    row_y(r, 0) - TEXT, r->p->wire.n);
    if (r->known)
        weir_string_add(r->c->s, ", predicted to take %.4f ms on the wire, for %.4f ms of which "
                        "computing waits, in a step of %.4f ms", seconds * 1e3, exposed * 1e3,
                        r->at[r->p->n] * 1e3);
    else
        weir_string_add(r->c->s, "; how long they take is not known (weir_comm_measure)");
    if (r->measured)
        weir_string_add(r->c->s, "; measured step: %.4f ms", r->measured[r->p->n] * 1e3);
    weir_string_add(r->c->s, "</text>\n");
}

static void draw(rows *r)
{
    if (r->known)
        weir_plan_estimated_times(r->p, r->at);
    if (r->measured)
        weir_plan_profiled_times(r->p, r->measured);
    r->most = fmax(r->known ? r->at[r->p->n] : 0, r->measured ? r->measured[r->p->n] : 0);
    summary(r);
    if (r->most <= 0)
        return;
    if (r->known)
        draw_predicted(r);
    if (r->measured)
        draw_measured(r, r->known ? 2 : 0);
    draw_axis(r);
}

void weir_draw_wire_rows(weir_chart *c, const weir_graph *g)
{
    const weir_plan *const p = g->plan;
    rows                   r = {.c = c, .g = g, .p = p, .known = weir_plan_wire_known(p)};

    if (p->wire.n == 0)
        return;
    r.at = weir_mem_zalloc(p->n + 1u, sizeof *r.at);
    if (weir_plan_waits_known(p))
        r.measured = weir_mem_zalloc(p->n + 1u, sizeof *r.measured);
    if (r.at && (r.measured || !weir_plan_waits_known(p)))
        draw(&r);
    else
        c->s->failed = true;
    weir_mem_free(r.at);
    weir_mem_free(r.measured);
}
