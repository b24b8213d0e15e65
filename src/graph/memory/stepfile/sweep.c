/* sweep.c - plans a described step for smaller and smaller budgets, policy by policy. */
#include "graph/memory/stepfile/sweep.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/stepfile/stepfile.h"
#include "graph/memory/policies/table.h"

/* Plans rung by rung until one does not fit. */
static weir_status add_points(weir_curve *c, weir_curve_line *line, const weir_outline *o,
                              const weir_outline_options *options, weir_ladder *ladder)
{
    char                 budget[24] = "100%";
    weir_outline_options how = *options;

    how.policy = line->policy;
    how.budget = budget;
    for (size_t rung = WEIR_RUNGS; rung > 0; rung--) {
        weir_outline_plan_stats s = {0};
        char *const             plan = weir_outline_plan_by(o, &how, ladder, &s);
        const bool              fits = plan != NULL;
        weir_text_free(plan);
        if (!fits && weir_error_status() != WEIR_ERR_BUDGET)
            return weir_error_status();
        if (rung == WEIR_RUNGS && c->whole.whole_bytes == 0)
            c->whole = s;
        if (!fits)
            break;
        if (!weir_vec_push(&line->points, s))
            return WEIR_ERR_NOMEM;
        snprintf(budget, sizeof budget, "%zu", s.whole_bytes * (rung - 1) / WEIR_RUNGS);
    }
    return WEIR_OK;
}

static weir_status add_line(weir_curve *c, const weir_outline *o, const char *policy, size_t n,
                            const weir_outline_options *options)
{
    const weir_curve_line line = {.policy = weir_mem_alloc(n + 1)};

    if (!line.policy || !weir_vec_push(&c->lines, line)) {
        weir_mem_free(line.policy);
        return WEIR_ERR_NOMEM;
    }
    memcpy(line.policy, policy, n);
    line.policy[n] = '\0';
    weir_ladder       ladder = {.whole = c->whole.whole_bytes};
    const weir_status status = add_points(c, &c->lines.at[c->lines.n - 1], o, options, &ladder);
    weir_ladder_free(&ladder);
    return status;
}

static weir_status add_lines(weir_curve *c, const weir_outline *o,
                             const weir_outline_options *options)
{
    size_t                   n;
    const weir_policy *const all = weir_policies(&n);
    const bool               linked = options->link_out > 0 && options->link_in > 0;

    for (size_t i = 0; i < n && !options->policy; i++)
        if (!all[i].slow && (!all[i].link || linked))
            WEIR_TRY(add_line(c, o, all[i].name, strlen(all[i].name), options));
    for (const char *s = options->policy; s && *s; s += strspn(s, ", ")) {
        n = strcspn(s, ", ");
        WEIR_TRY(add_line(c, o, s, n, options));
        s += n;
    }
    return c->lines.n ? WEIR_OK : weir_fail(WEIR_ERR_INVALID, "weir_outline_curve: no policy is "
                                            "named in '%s'", options->policy);
}

weir_curve *weir_outline_curve(const weir_outline *o, const weir_outline_options *options)
{
    static const weir_outline_options none;
    const weir_outline_options *const how = options ? options : &none;

    if (!o) {
        (void)weir_fail_null("weir_outline_curve", "the outline");
        return NULL;
    }
    if (how->budget)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_outline_curve: the budgets are its own, not "
                              "'%s'", how->budget);
    weir_curve *c = weir_mem_zalloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->link_out = how->link_out;
    c->link_in = how->link_in;
    c->name = weir_mem_strdup(o->name);
    if (!c->name || add_lines(c, o, how) != WEIR_OK) {
        weir_curve_free(c);
        return NULL;
    }
    return c;
}

void weir_curve_free(weir_curve *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->lines.n; i++) {
        weir_mem_free(c->lines.at[i].policy);
        weir_vec_free(&c->lines.at[i].points);
    }
    weir_vec_free(&c->lines);
    weir_mem_free(c->name);
    weir_mem_free(c);
}
