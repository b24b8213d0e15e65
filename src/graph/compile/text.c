/* text.c - the texts about a planned graph by kind, and the step description in JSON. */
#include "core/status.h"
#include "graph/memory/budget/from_graph.h"
#include "graph/memory/explain/html.h"
#include "graph/memory/explain/reasons.h"
#include "graph/report/report.h"

char *weir_graph_text(const weir_graph *g, weir_text what)
{
    static void (*const writer[])(const weir_graph *g, weir_string *s) = {
        [WEIR_TEXT_GRAPH] = weir_format_graph,
        [WEIR_TEXT_PLAN] = weir_format_plan,
        [WEIR_TEXT_COST] = weir_format_cost,
        [WEIR_TEXT_DOT] = weir_format_dot,
        [WEIR_TEXT_TIMELINE_SVG] = weir_format_timeline,
        [WEIR_TEXT_ADDRESSES_SVG] = weir_format_addresses,
        [WEIR_TEXT_JSON] = weir_format_json,
        [WEIR_TEXT_STEPFILE] = weir_format_stepfile,
        [WEIR_TEXT_EXPLAIN] = weir_format_explain,
        [WEIR_TEXT_HTML] = weir_format_html,
    };
    weir_string s = {0};

    if (weir_format_check(g, "weir_graph_text") != WEIR_OK)
        return NULL;
    WEIR_VISIT(g->dev, "weir_graph_text", NULL);
    if ((size_t)what >= sizeof writer / sizeof *writer)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_graph_text: unknown text %d (expected a "
                                                "weir_text)",
                              (int)what);
    writer[what](g, &s);
    return weir_string_take(&s);
}

/* ---- the step description ---- */

/* *seconds[i] of each instruction, or NULL: use the roofline model. The caller frees it. */
static weir_status seconds_of(const weir_graph *g, weir_times times, double **seconds)
{
    const weir_rates rates = g->dev->ops->rates(g->dev);

    *seconds = NULL;
    if (times == WEIR_TIMES_ROOFLINE)
        return WEIR_OK;
    if (times == WEIR_TIMES_MEASURED)
        WEIR_TRY(weir_graph_time(g, SIZE_MAX / 4, seconds));
    else if (!(*seconds = weir_mem_alloc((g->plan->n + 1) * sizeof **seconds)))
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < g->plan->n; i++)
        if (times == WEIR_TIMES_ESTIMATED || (*seconds)[i] < 0)
            (*seconds)[i] = weir_rates_seconds(&rates, &g->plan->instr[i].call);
    return WEIR_OK;
}

char *weir_graph_stepfile(const weir_graph *g, const char *name, weir_times times)
{
    double     *seconds;
    weir_string s = {0};

    if (weir_format_check(g, "weir_graph_stepfile") != WEIR_OK)
        return NULL;
    WEIR_VISIT(g->dev, "weir_graph_stepfile", NULL);
    if (times > WEIR_TIMES_MEASURED)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_graph_stepfile: unknown times %d (expected "
                                                "a weir_times)",
                              (int)times);
    if (seconds_of(g, times, &seconds) != WEIR_OK)
        return NULL;
    weir_show_step(g, name, seconds, &s);
    weir_mem_free(seconds);
    return weir_string_take(&s);
}
