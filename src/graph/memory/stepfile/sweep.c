/* sweep.c - plans a step description for falling budgets, policy by policy. */
#include "graph/memory/stepfile/sweep.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/stepfile/stepfile.h"
#include "graph/memory/policies/table.h"

/* Plans level by level until a plan does not fit. */
static weir_status add_points(weir_sweep *c, weir_sweep_line *line, const weir_stepfile *o,
                              const weir_stepfile_options *options, weir_frontier *frontier)
{
    char                  budget[24] = "100%";
    weir_stepfile_options how = *options;

    how.policy = line->policy;
    how.budget = budget;
    for (size_t point = WEIR_FRONTIER_LEVELS; point > 0; point--) {
        weir_stepfile_plan_stats s = {0};
        char *const             plan = weir_stepfile_plan_frontier(o, &how, frontier, &s);
        const bool              fits = plan != NULL;
        weir_text_free(plan);
        if (!fits && weir_error_status() != WEIR_ERR_BUDGET)
            return weir_error_status();
        if (point == WEIR_FRONTIER_LEVELS && c->whole.whole_bytes == 0)
            c->whole = s;
        if (!fits)
            break;
        if (!weir_vec_push(&line->points, s))
            return WEIR_ERR_NOMEM;
        snprintf(budget, sizeof budget, "%zu", s.whole_bytes * (point - 1) / WEIR_FRONTIER_LEVELS);
    }
    return WEIR_OK;
}

static weir_status add_line(weir_sweep *c, const weir_stepfile *o, const char *policy, size_t n,
                            const weir_stepfile_options *options)
{
    const weir_sweep_line line = {.policy = weir_mem_alloc(n + 1)};

    if (!line.policy || !weir_vec_push(&c->lines, line)) {
        weir_mem_free(line.policy);
        return WEIR_ERR_NOMEM;
    }
    memcpy(line.policy, policy, n);
    line.policy[n] = '\0';
    weir_frontier     frontier = {.whole = c->whole.whole_bytes};
    const weir_status status = add_points(c, &c->lines.at[c->lines.n - 1], o, options, &frontier);
    weir_frontier_free(&frontier);
    return status;
}

static weir_status add_lines(weir_sweep *c, const weir_stepfile *o,
                             const weir_stepfile_options *options)
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
    return c->lines.n ? WEIR_OK : weir_fail(WEIR_ERR_INVALID, "weir_stepfile_sweep: no policy is "
                                            "named in '%s'", options->policy);
}

weir_sweep *weir_stepfile_sweep(const weir_stepfile *o, const weir_stepfile_options *options)
{
    static const weir_stepfile_options none;
    const weir_stepfile_options *const how = options ? options : &none;

    if (!o) {
        (void)weir_fail_null("weir_stepfile_sweep", "the step");
        return NULL;
    }
    if (how->budget)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_stepfile_sweep: a sweep chooses its own "
                              "budgets, so budget must be NULL, not '%s'", how->budget);
    weir_sweep *c = weir_mem_zalloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->link_out = how->link_out;
    c->link_in = how->link_in;
    c->name = weir_mem_strdup(o->name);
    if (!c->name || add_lines(c, o, how) != WEIR_OK) {
        weir_sweep_free(c);
        return NULL;
    }
    return c;
}

void weir_sweep_free(weir_sweep *c)
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
