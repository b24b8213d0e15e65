/* compare.c - the peak of a step, and the table of graph off and graph on. */
#include "compare.h"

#include <stdio.h>

#include "show.h"

weir_status compare_peak(weir_device *d, weir_step *step, compare_case *c)
{
    weir_graph      *g = weir_step_graph(step);
    weir_graph_stats stats;
    weir_memory      memory;
    size_t           arena;

    if (!g) {
        weir_device_memory(d, &memory);
        c->measured = memory.live_peak;
        return WEIR_OK;
    }
    WEIR_TRY(weir_graph_stats_of(g, &stats));
    WEIR_TRY(weir_graph_measure(g, &arena));
    c->planned = stats.planned_peak_bytes;
    c->measured = stats.persistent_bytes + arena;
    return WEIR_OK;
}

static weir_status draw(const weir_graph *g, weir_text what, const char *dir, const char *name,
                        const char *part)
{
    char  file[100];
    char *svg = weir_graph_text(g, what);
    if (!svg)
        return weir_error_status();
    snprintf(file, sizeof file, "%.64s-%s.svg", name, part);
    show_write(dir, file, svg);
    weir_text_free(svg);
    return WEIR_OK;
}

weir_status compare_draw(const weir_step *step, const char *dir, const char *name)
{
    const weir_graph *g = weir_step_graph(step);
    if (!g)
        return WEIR_OK;
    WEIR_TRY(draw(g, WEIR_TEXT_TIMELINE_SVG, dir, name, "timeline"));
    return draw(g, WEIR_TEXT_ADDRESSES_SVG, dir, name, "addresses");
}

static bool ran(const compare_case *c)
{
    return c->end.bytes > 0;
}

enum { COLUMNS = 11 };

static void row(char (*cell)[SHOW_CELL], const char *label, int batch, const compare_case *c)
{
    for (int i = 0; i < COLUMNS; i++)
        snprintf(cell[i], SHOW_CELL, "-");
    snprintf(cell[0], SHOW_CELL, "%d", batch);
    snprintf(cell[1], SHOW_CELL, "%s", label);
    snprintf(cell[2], SHOW_CELL, "%.3f", (double)c->measured / 1e6);
    snprintf(cell[3], SHOW_CELL, "%.3f", c->ms);
    snprintf(cell[4], SHOW_CELL, "%.1f", 1e3 / c->ms);
    snprintf(cell[5], SHOW_CELL, "%.0f", 1e3 * batch / c->ms);
    if (c->planned)
        snprintf(cell[8], SHOW_CELL, "%zu", c->planned);
    snprintf(cell[9], SHOW_CELL, "%zu", c->measured);
}

static void row_against(char (*cell)[SHOW_CELL], const compare_case *c, const compare_case *off)
{
    snprintf(cell[6], SHOW_CELL, "%.1f", 100 - 100 * (double)c->measured / (double)off->measured);
    snprintf(cell[7], SHOW_CELL, "%.2f", off->ms / c->ms);
    snprintf(cell[10], SHOW_CELL, "%s", snapshot_equal(&c->end, &off->end) ? "yes" : "no");
}

static void print(int batch, const compare_case cases[COMPARE_BOTH])
{
    char cells[(COMPARE_BOTH + 1) * COLUMNS][SHOW_CELL] = {
        "batch",     "case",           "memory MB", "ms/step",        "steps/s",
        "samples/s", "memory saved %", "speed-up",  "planned peak B", "measured peak B",
        "bit-identical"};
    const compare_case *off = &cases[COMPARE_OFF], *on = &cases[COMPARE_ON];
    size_t              rows = 1;

    if (ran(off))
        row(&cells[COLUMNS * rows++], "graph off", batch, off);
    if (ran(on))
        row(&cells[COLUMNS * rows++], "graph on", batch, on);
    if (ran(off) && ran(on))
        row_against(&cells[COLUMNS * (rows - 1)], on, off);
    printf("\n");
    show_table(rows, COLUMNS, cells);
}

static bool holds(const compare_case cases[COMPARE_BOTH], double accuracy)
{
    const compare_case *off = &cases[COMPARE_OFF], *on = &cases[COMPARE_ON];
    return (!ran(off) || off->accuracy >= accuracy) &&
           (!ran(on) || (on->accuracy >= accuracy && on->planned == on->measured)) &&
           (!ran(off) || !ran(on) || snapshot_equal(&off->end, &on->end));
}

bool compare(const compare_options *o, compare_fn run, void *ctx)
{
    compare_case cases[COMPARE_BOTH] = {0};
    weir_status  s = WEIR_OK;
    bool         good = true;

    for (int i = COMPARE_OFF; s == WEIR_OK && i <= COMPARE_ON; i++) {
        if (o->which != COMPARE_BOTH && o->which != i)
            continue;
        s = run(ctx, i == COMPARE_ON, &cases[i]);
        if (s == WEIR_OK && o->dump)
            good = snapshot_write(&cases[i].end, o->dump) && good;
    }
    if (s == WEIR_OK)
        print(o->batch, cases);
    else
        fprintf(stderr, "%s\n", weir_error());
    good = good && s == WEIR_OK && holds(cases, o->accuracy);
    for (int i = COMPARE_OFF; i <= COMPARE_ON; i++)
        snapshot_free(&cases[i].end);
    return good;
}
