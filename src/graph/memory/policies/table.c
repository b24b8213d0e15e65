/* table.c - the table of policies, and how any of them is made to fit. */
#include "graph/memory/policies/policy.h"

#include <string.h>

#include "core/status.h"
#include "core/text.h"
#include "graph/memory/policies/compress.h"
#include "weir/plan.h"

static const weir_policy policies[] = {
    {"auto", "recompute swap pack mask order", weir_policy_auto, false, false},
    {"mincut", "ratio=0.5", weir_policy_mincut, false, false},
    {"recycle", "", weir_policy_recycle, false, false},
    {"checkpoint", "manual sequential offload memory speed", weir_policy_checkpoint, false, false},
    {"sublinear", "", weir_policy_sublinear, false, false},
    {"dtr", "eq local lru size msps", weir_policy_dtr, false, false},
    {"dtr_lookahead", "", weir_policy_dtr_lookahead, false, false},
    {"vdnn", "all conv dyn", weir_policy_vdnn, false, true},
    {"capuchin", "passive guided", weir_policy_capuchin, false, true},
    {"delta", "", weir_policy_delta, false, true},
    {"autotm", "", weir_policy_autotm, false, true},
    {"optimal", "nodes=1000", weir_policy_optimal, true, false},
    {"gist", "", weir_policy_gist, false, false},
    {"actnn", "2 4 8 16", weir_policy_actnn, false, false},
};

const weir_policy *weir_policies(size_t *n)
{
    *n = sizeof policies / sizeof *policies;
    return policies;
}

char *weir_policy_names(void)
{
    weir_string s = {0};

    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        weir_string_add(&s, "%s%s%s\n", policies[i].name, *policies[i].variants ? " " : "",
                        policies[i].variants);
    return weir_string_take(&s);
}

static weir_status no_such(const char *name)
{
    weir_string names = {0};

    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        weir_string_add(&names, "%s%s", i ? ", " : "", policies[i].name);
    char *const       all = weir_string_take(&names);
    const weir_status status = weir_fail(WEIR_ERR_INVALID, "there is no policy '%s'; there are %s",
                                         name, all ? all : "none");
    weir_mem_free(all);
    return status;
}

weir_status weir_policy_find(const char *text, const weir_policy **policy, const char **variant)
{
    const char  *name = text ? text : "auto";
    const size_t n = strcspn(name, ":/");

    *variant = name + n + (name[n] == ':');
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        *policy = &policies[i];
        if (strlen(policies[i].name) != n || strncmp(policies[i].name, name, n) != 0)
            continue;
        if (**variant && **variant != '/' && !*policies[i].variants)
            return weir_fail(WEIR_ERR_INVALID, "there is no policy '%s'; %s has no variants", name,
                             policies[i].name);
        return WEIR_OK;
    }
    return no_such(name);
}

weir_status weir_policy_needs_link(const weir_problem *p, const char *name)
{
    if (p->link_out > 0 && p->link_in > 0)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "policy %s needs a link to the host: --link", name);
}

uint64_t weir_policy_moves(uint32_t tasks)
{
    /* Moves per task and at most: seconds for thousands of tasks. A count, never a clock. */
    enum { MOVES_PER_TASK = 2000, MOST_WORK = 60000000, LEAST_MOVES = 2000 };
    const uint64_t wanted = (uint64_t)MOVES_PER_TASK * tasks, most = MOST_WORK / (tasks + 1u);
    const uint64_t moves = wanted < most ? wanted : most;
    return moves < LEAST_MOVES ? LEAST_MOVES : moves;
}

weir_status weir_fit_run(weir_fit *f)
{
    enum { MOST_TRIES = 8 };
    size_t target = f->room;

    for (int i = 0; i < MOST_TRIES && !f->fits; i++) {
        weir_policy_job job = {.p = f->p, .room = target, .addresses = f->quick ? 0 : f->room,
                               .align = f->align, .variant = f->variant, .moves = f->moves,
                               .gap = f->gap};
        weir_status     status = weir_packing_plan(f->policy, &job);
        f->gap = job.gap;
        f->target = target;
        f->proven = i ? f->proven : job.proven;
        weir_schedule_free(&f->s);
        f->s = job.s;
        if (status == WEIR_OK && !f->s.valid)
            return WEIR_OK;
        if (status == WEIR_OK)
            status = f->lay(f->ctx, &f->s, &f->height);
        WEIR_TRY(status);
        f->fits = f->height <= f->room;
        if (f->s.peak > target || target == 0)
            break;
        const size_t over = f->fits ? 0 : f->height - f->room;
        target = f->s.peak > over ? f->s.peak - over : 0;
    }
    return WEIR_OK;
}

void weir_fit_free(weir_fit *f)
{
    weir_schedule_free(&f->s);
    weir_mem_free(f->gap);
}
