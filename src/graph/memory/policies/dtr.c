/* dtr.c - dynamic tensor rematerialization (Kirisame et al., ICLR 2021) over a step known in
 * advance: dtr_sim.c runs it, dtr_score.c says who goes. Variants are the scores: eq, local, lru,
 * size, msps; none: e* and all. */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/dtr_score.h"
#include "graph/memory/search/dtr_sim.h"

/* Idle seconds of what was used just now: there is no division by 0. */
#define LEAST_IDLE 1e-7

static double score(weir_evictor *v, uint32_t piece)
{
    const weir_piece *k = &v->p->pieces.at[piece];
    weir_dtr_item     item = {.cost = v->p->tasks.at[k->maker].time, .bytes = (double)k->bytes,
                              .idle = v->clock - v->used[piece] + LEAST_IDLE};

    switch (weir_dtr_reach_of(v->rule)) {
    case WEIR_DTR_ALONE:
        break;
    case WEIR_DTR_ABOVE:
        item.nearby = weir_evictor_near(v, piece)->above;
        break;
    case WEIR_DTR_AROUND:
        item.nearby = weir_evictor_near(v, piece)->above + weir_evictor_near(v, piece)->below;
        break;
    case WEIR_DTR_CLASS:
        item.nearby = weir_evictor_classes(v, piece);
    }
    return weir_dtr_score(v->rule, &item);
}

weir_status weir_policy_dtr(weir_policy_job *job)
{
    weir_evictor v = {.score = score};
    char         name[16];

    snprintf(name, sizeof name, "dtr%s%.9s", *job->variant ? ":" : "", job->variant);
    if (strlen(job->variant) > 9 || !weir_dtr_rule_named(name, &v.rule))
        return weir_fail(WEIR_ERR_INVALID, "policy dtr: there is no score '%s'; there are eq, "
                         "local, lru, size, msps", job->variant);
    v.classes = weir_dtr_reach_of(v.rule) == WEIR_DTR_CLASS;
    const weir_status status =
        weir_evictor_init(&v, job->p) ? weir_evictor_plan(&v, job) : WEIR_ERR_NOMEM;
    weir_evictor_free(&v);
    return status;
}
