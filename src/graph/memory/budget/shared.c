/* shared.c - one budget for several graphs of a device: their list, the limit, the refusal. */
#include "graph/memory/budget/shared.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/ir/format.h"
#include "graph/ir/session.h"
#include "graph/memory/budget/amount.h"
#include "graph/plan/plan.h"

static void shared_budget_free(weir_shared_budget *s)
{
    for (size_t i = 0; i < sizeof s->text / sizeof *s->text; i++)
        weir_mem_free(s->text[i]);
    weir_revert_record_free(&s->before);
    weir_mem_free(s);
}

/* Keeps a copy of a text and points the option to it. NULL stays NULL. */
static bool copy_text(char **copy, const char *text, const char **option)
{
    *copy = text ? weir_mem_strdup(text) : NULL;
    *option = *copy;
    return *copy || !text;
}

static weir_status copy_options(weir_shared_budget *s, const weir_plan_options *o)
{
    weir_memory m;
    char        now[24];
    const char *budget = o->budget;

    s->options = (weir_plan_options){.measure = o->measure, .profile_steps = o->profile_steps,
                                     .shared_budget = true};
    if (strcmp(budget, "auto") == 0) {
        weir_device_memory(s->g->dev, &m);
        snprintf(now, sizeof now, "%zu", m.auto_budget);
        budget = now;
    }
    const bool copied = copy_text(&s->text[0], budget, &s->options.budget) &&
                        copy_text(&s->text[1], o->policy, &s->options.policy) &&
                        copy_text(&s->text[2], o->cache, &s->options.cache);
    return copied ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_shared_budget_join(weir_graph *g, uint32_t passes,
                                    const weir_plan_options *options, bool of_device)
{
    size_t bytes;

    if (strcmp(options->budget, "auto") != 0)
        WEIR_TRY(weir_budget_parse(options->budget, 0, &bytes));
    weir_shared_budget *const s = weir_mem_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    s->g = g;
    s->passes = passes;
    s->of_device = of_device;
    const weir_status status = copy_options(s, options);
    if (status != WEIR_OK) {
        shared_budget_free(s);
        return status;
    }
    s->next = g->session->shared;
    g->session->shared = s;
    g->shared = s;
    return WEIR_OK;
}

void weir_shared_budget_leave(weir_graph *g)
{
    weir_shared_budget *const s = g->shared;

    if (!s)
        return;
    if (!g->dev->closed) {              /* a closed device has no session */
        weir_shared_budget **p = &g->session->shared;
        while (*p != s)
            p = &(*p)->next;
        *p = s->next;
    }
    shared_budget_free(s);
    g->shared = NULL;
}

void weir_shared_budget_keep(weir_graph *g, weir_revert_record *old)
{
    if (old->nodes && g->shared)
        g->shared->before = *old;
    else
        weir_revert_record_free(old);
    *old = (weir_revert_record){0};
}

/* The graph's persistent bytes if nothing of it were in the spill file and no graph waited between
 * its halves. */
static size_t persistent_bytes(const weir_graph *g)
{
    size_t bytes = weir_plan_resident(g) - weir_device_arenas_held(g->dev, &g->waiting.held);

    for (uint32_t i = 0; i < g->storages.n && g->n_offloaded > 0; i++)
        if (g->storages.at[i].offloaded)
            bytes += weir_plan_taken(g, i);
    return bytes;
}

weir_status weir_shared_budget_limit(const weir_graph *g, size_t *bytes)
{
    const char *const text = g->shared->options.budget;
    size_t            arena = 0, persistent = 0;

    for (const weir_shared_budget *s = g->session->shared; s && strchr(text, '%'); s = s->next) {
        const size_t own = persistent_bytes(s->g);
        arena = s->arena > arena ? s->arena : arena;
        persistent = own > persistent ? own : persistent;
    }
    return weir_budget_parse(text, persistent + arena, bytes);
}

bool weir_shared_budget_holds(const weir_graph *g)
{
    return g->shared && (!g->shared->of_device ||
                         strcmp(g->session->budget, g->shared->options.budget) == 0);
}

weir_status weir_shared_budget_refuse(const weir_graph *g, size_t limit, const char *why)
{
    size_t      own[WEIR_KIND_OUTPUT + 1] = {0}, all = 0;
    weir_string last = {0};

    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_storage *const s = &g->storages.at[i];
        if (!s->external || s->kind > WEIR_KIND_OUTPUT)
            continue;
        own[s->kind] += weir_plan_taken(g, i);
        all += weir_plan_taken(g, i);
    }
    const size_t resident = weir_plan_resident(g);
    if (g->nodes.n > 0)
        weir_format_node(&last, g, g->nodes.n - 1, NULL);
    const weir_status status = weir_fail(
        WEIR_ERR_BUDGET, "weir_graph_run: the graph of %zu operations%s%s%s no longer fits into "
        "the budget of %zu bytes that it shares with other graphs: it needs %zu for its step "
        "without a budget, and the device holds its parameters (%zu), states (%zu), inputs (%zu) "
        "and outputs (%zu), and %zu bytes of other graphs and tensors; planned again: %s",
        g->recorded, last.at ? ", the last one " : "", last.at ? last.at : "", last.at ? "," : "",
        limit, g->shared->arena, own[WEIR_KIND_PARAM], own[WEIR_KIND_STATE], own[WEIR_KIND_INPUT],
        own[WEIR_KIND_OUTPUT], resident > all ? resident - all : 0, why);
    weir_mem_free(last.at);
    return status;
}
