/* sweep_text.c - formats budgets against extra time as a table, as CSV and as a picture (SVG).
 *
 * In the picture the first policy sets the scale, so that a policy with many times its extra time
 * does not flatten it; curves are cut off at the upper edge. */
#include <math.h>
#include <stdio.h>

#include "core/status.h"
#include "graph/memory/stepfile/sweep.h"
#include "graph/report/svg.h"

static double share_of(const weir_sweep *c, size_t bytes)
{
    return 100 * (double)bytes / (c->whole.whole_bytes ? (double)c->whole.whole_bytes : 1);
}

/* ---- table and CSV ---- */

static void table(const weir_sweep *c, weir_string *s)
{
    uint32_t rows = 0, widest = 0;

    for (uint32_t i = 0; i < c->lines.n; i++)
        if (c->lines.at[i].points.n > rows) {
            rows = c->lines.at[i].points.n;
            widest = i;
        }
    weir_string_add(s, "%s: %zu operation%s, %.3f ms a step, %zu bytes without a budget; extra "
                    "time in %% within each budget\n\n%15s %8s", c->name, c->whole.operations,
                    c->whole.operations == 1 ? "" : "s",
                    c->whole.step_ms, c->whole.whole_bytes, "bytes", "share");
    for (uint32_t i = 0; i < c->lines.n; i++)
        weir_string_add(s, " %15s", c->lines.at[i].policy);
    weir_string_add(s, "\n");
    for (uint32_t k = 0; k < rows; k++) {
        const size_t budget = c->lines.at[widest].points.at[k].budget_bytes;
        weir_string_add(s, "%15zu %6.1f %%", budget, share_of(c, budget));
        for (uint32_t i = 0; i < c->lines.n; i++)
            if (k < c->lines.at[i].points.n)
                weir_string_add(s, " %15.3f", weir_sweep_extra(&c->lines.at[i].points.at[k]));
            else
                weir_string_add(s, " %15s", "-");
        weir_string_add(s, "\n");
    }
    weir_string_add(s, "%15zu %6.1f %%  one operation with all it needs\n", c->whole.floor_bytes,
                    share_of(c, c->whole.floor_bytes));
}

static void csv(const weir_sweep *c, weir_string *s)
{
    weir_string_add(s, "policy,budget_bytes,budget_percent,peak_bytes,extra_percent,again,"
                       "out_bytes,in_bytes\n");
    for (uint32_t i = 0; i < c->lines.n; i++)
        for (uint32_t k = 0; k < c->lines.at[i].points.n; k++) {
            const weir_stepfile_plan_stats *p = &c->lines.at[i].points.at[k];
            weir_string_add(s, "%s,%zu,%.5g,%zu,%.6g,%zu,%zu,%zu\n", c->lines.at[i].policy,
                            p->budget_bytes, share_of(c, p->budget_bytes), p->peak_bytes,
                            weir_sweep_extra(p), p->recomputed, p->out_bytes, p->in_bytes);
        }
}

/* ---- picture ---- */

enum { LABELS = 64 };       /* on one picture; further policies go without */

static double highest(const weir_sweep_line *l)
{
    double most = 0;

    for (uint32_t k = 0; k < l->points.n; k++)
        most = fmax(most, weir_sweep_extra(&l->points.at[k]));
    return most;
}

/* Returns the extra time at the upper edge. */
static double top_of(const weir_sweep *c)
{
    const double first = c->lines.n ? highest(&c->lines.at[0]) : 0;
    double       most = 0;

    for (uint32_t i = 0; i < c->lines.n; i++)
        most = fmax(most, highest(&c->lines.at[i]));
    return fmax(1, first > 0 ? fmin(most, 2 * first) : most);
}

/* Whether two policies have the same budgets and the same extra time: their curves cover each
 * other. */
static bool same_sweep(const weir_sweep_line *a, const weir_sweep_line *b)
{
    const double tiny = 1e-6;   /* % of the step */

    if (a->points.n != b->points.n)
        return false;
    for (uint32_t k = 0; k < a->points.n; k++)
        if (a->points.at[k].budget_bytes != b->points.at[k].budget_bytes ||
            fabs(weir_sweep_extra(&a->points.at[k]) - weir_sweep_extra(&b->points.at[k])) > tiny)
            return false;
    return a->points.n > 0;
}

/* The number of policies with the curve of policy i; *before: those listed before it; *first: the
 * first of them. */
static uint32_t equals(const weir_sweep *c, uint32_t i, uint32_t *before, uint32_t *first)
{
    uint32_t n = 0;

    *before = 0;
    *first = i;
    for (uint32_t k = 0; k < c->lines.n; k++) {
        if (k != i && !same_sweep(&c->lines.at[k], &c->lines.at[i]))
            continue;
        *first = k < *first ? k : *first;
        *before += k < i;
        n++;
    }
    return n;
}

/* Where a label was put, in pixels. */
typedef struct weir_label {
    double x, y;
} weir_label;

static bool touches(const weir_label *l, uint32_t n, weir_label here)
{
    for (uint32_t k = 0; k < n; k++)
        if (fabs(l[k].x - here.x) < 34 && fabs(l[k].y - here.y) < 12)
            return true;
    return false;
}

/* Labels the last point with the smallest budget within which the policy found a plan; where it is
 * above the plot, at the upper edge, with an arrow. Equal curves have one label. Labels that would
 * touch are stacked: taken[] has the places of the earlier ones. */
static void label_last(weir_chart *chart, const weir_sweep *c, const weir_sweep_line *l,
                       const char *colour, weir_label *taken, uint32_t *n)
{
    enum { WIDE = 18, HIGH = 13 };      /* pixels: half a label's width, its height */

    if (l->points.n < 2 || *n == LABELS)
        return;
    const weir_stepfile_plan_stats *p = &l->points.at[l->points.n - 1];
    const double share = share_of(c, p->budget_bytes), extra = weir_sweep_extra(p);
    const bool   above = extra > chart->ymax;
    weir_label   at = {fmin(fmax(weir_svg_x(chart, share), WEIR_SVG_X + WIDE),
                            WEIR_SVG_X + WEIR_SVG_W - WIDE),
                       fmax(above ? 0 : weir_svg_y(chart, extra) - 11, WEIR_SVG_Y + HIGH)};

    const double step = at.y < WEIR_SVG_Y + 5 * HIGH ? HIGH : -HIGH;
    while (touches(taken, *n, at) && at.y + step > WEIR_SVG_Y &&
           at.y + step < WEIR_SVG_Y + WEIR_SVG_H)
        at.y += step;
    taken[(*n)++] = at;
    weir_string_add(chart->s, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\" fill=\"%s\" "
                    "font-size=\"11\" font-weight=\"bold\" stroke=\"#fff\" stroke-width=\"3\" "
                    "paint-order=\"stroke\">%.0f %%%s</text>\n", at.x, at.y, colour, share,
                    above ? " \xe2\x86\x91" : "");
}

/* Draws one policy. Points of later policies lie below those of earlier ones and are larger, and
 * equal curves are dashed in turn, so that all can be seen. */
static void draw_line(weir_chart *chart, const weir_sweep *c, uint32_t i, const char *colour)
{
    const weir_sweep_line *l = &c->lines.at[i];
    const double           radius = 3.2 + 1.4 * (i < 4 ? i : 4);

    weir_string_add(chart->s, "<g clip-path=\"url(#plot)\" fill=\"%s\"><path d=\"", colour);
    for (uint32_t k = 0; k < l->points.n; k++)
        weir_string_add(chart->s, "%c%.2f %.2f", k ? 'L' : 'M',
                        weir_svg_x(chart, share_of(c, l->points.at[k].budget_bytes)),
                        weir_svg_y(chart, weir_sweep_extra(&l->points.at[k])));
    weir_string_add(chart->s, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
                    "stroke-linejoin=\"round\"", colour);
    uint32_t       before, first;
    const uint32_t n = equals(c, i, &before, &first);
    if (n > 1)
        weir_string_add(chart->s, " stroke-dasharray=\"9 %u\" stroke-dashoffset=\"-%u\"",
                        9 * (n - 1), 9 * before);
    weir_string_add(chart->s, "/>\n");
    for (uint32_t k = 0; k < l->points.n; k++) {
        const weir_stepfile_plan_stats *p = &l->points.at[k];
        char                            bytes[WEIR_SVG_BYTES];
        weir_string_add(chart->s, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%g\"><title>",
                        weir_svg_x(chart, share_of(c, p->budget_bytes)),
                        weir_svg_y(chart, weir_sweep_extra(p)), radius);
        weir_svg_text(chart->s, l->policy);
        weir_string_add(chart->s,
                        ": %s, %.1f %%: %.2f %% more time, %zu recomputed</title>"
                        "</circle>\n",
                        weir_svg_amount((double)p->budget_bytes, bytes),
                        share_of(c, p->budget_bytes), weir_sweep_extra(p), p->recomputed);
    }
    weir_string_add(chart->s, "</g>\n");
}

/* Marks what is always in memory and what one op needs beyond it: no plan is smaller. */
static void draw_floor(weir_chart *chart, double floor)
{
    const double x = weir_svg_x(chart, 0), w = weir_svg_x(chart, fmin(floor, 100)) - x;

    weir_string_add(chart->s, "<path d=\"M%.2f %gh%.2fv%gh%.2fZ\" fill=\"#edf0f3\"/>\n", x,
                    WEIR_SVG_Y, w, WEIR_SVG_H, -w);
}

static void picture(const weir_sweep *c, weir_string *s)
{
    static const char *const colours[] = {"#c0392b", "#4c86c6", "#ee9440", "#3f9b6d", "#8e63b5",
                                          "#22303c", "#c65b9c", "#8a8d3a", "#2fa5b3", "#a0694b"};
    enum { COLOURS = sizeof colours / sizeof *colours };
    weir_chart chart = weir_svg_begin(s, 100, top_of(c), 0, c->name);
    char       whole[WEIR_SVG_BYTES], resident[WEIR_SVG_BYTES];

    chart.unit = 1;
    chart.unit_name = "% of the step";
    chart.strip = 0;
    weir_svg_subtitle(&chart, "%zu operation%s, %.3f ms; %s without a budget, %s of "
                      "it always there%s", c->whole.operations,
                      c->whole.operations == 1 ? "" : "s", c->whole.step_ms,
                      weir_svg_amount((double)c->whole.whole_bytes, whole),
                      weir_svg_amount((double)c->whole.resident_bytes, resident),
                      c->link_out > 0 ? "; with offloading" : "");
    weir_string_add(s, "<clipPath id=\"plot\"><path d=\"M%g %gh%gv%gh%gZ\"/></clipPath>\n",
                    WEIR_SVG_X - 9, WEIR_SVG_Y, WEIR_SVG_W + 18, WEIR_SVG_H + 9, -WEIR_SVG_W - 18);
    draw_floor(&chart, share_of(c, c->whole.floor_bytes));
    weir_svg_axes(&chart, "budget, % of the peak without one", "extra time");
    for (uint32_t i = c->lines.n; i-- > 0;)
        draw_line(&chart, c, i, colours[i % COLOURS]);
    weir_label taken[LABELS];
    uint32_t   labels = 0;
    for (uint32_t i = 0; i < c->lines.n; i++) {
        uint32_t before, first;
        char     name[80];
        equals(c, i, &before, &first);
        if (before == 0)
            label_last(&chart, c, &c->lines.at[i], colours[i % COLOURS], taken, &labels);
        weir_svg_legend(&chart, colours[i % COLOURS], c->lines.at[i].policy);
        snprintf(name, sizeof name, "= %.70s", c->lines.at[first].policy);
        if (before > 0)
            weir_svg_legend(&chart, "none", name);
    }
    weir_svg_legend(&chart, "#edf0f3", "below any plan");
    weir_svg_end(&chart);
}

char *weir_sweep_text(const weir_sweep *c, weir_sweep_format form)
{
    static void (*const writer[])(const weir_sweep *c, weir_string *s) = {
        [WEIR_SWEEP_TABLE] = table, [WEIR_SWEEP_CSV] = csv, [WEIR_SWEEP_SVG] = picture};
    weir_string s = {0};

    if (!c) {
        (void)weir_fail_null("weir_sweep_text", "the sweep");
        return NULL;
    }
    if ((size_t)form >= sizeof writer / sizeof *writer)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_sweep_text: unknown format %d (expected a "
                                                "weir_sweep_format)", (int)form);
    writer[form](c, &s);
    return weir_string_take(&s);
}
