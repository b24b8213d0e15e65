/* dtr.c - Dynamic Tensor Rematerialization (Kirisame and others, ICLR 2021) over a step known in
 * advance: dtr_sim.c runs the step, dtr_score.c scores victims. The variants are the scores eq,
 * local, lru, size and msps; the default is the full score with e*. */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/dtr_score.h"
#include "graph/memory/search/dtr_sim.h"

/* Idle seconds of a tensor that was just used, to avoid division by 0. */
#define LEAST_IDLE 1e-7

static double score(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];
    weir_dtr_item          item = {.cost = v->p->ops.at[k->producer].time,
                                   .bytes = (double)k->bytes,
                                   .idle = v->clock - v->used[tensor] + LEAST_IDLE};

    switch (weir_dtr_reach_of(v->rule)) {
    case WEIR_DTR_ALONE:
        break;
    case WEIR_DTR_ABOVE:
        item.nearby = weir_dtr_sim_neighborhood(v, tensor)->above;
        break;
    case WEIR_DTR_AROUND:
        item.nearby = weir_dtr_sim_neighborhood(v, tensor)->above +
                      weir_dtr_sim_neighborhood(v, tensor)->below;
        break;
    case WEIR_DTR_CLASS:
        item.nearby = weir_dtr_sim_class_cost(v, tensor);
    }
    return weir_dtr_score(v->rule, &item);
}

weir_status weir_policy_dtr(weir_policy_job *job)
{
    weir_dtr_sim v = {.score = score};
    char         name[16];

    snprintf(name, sizeof name, "dtr%s%.9s", *job->variant ? ":" : "", job->variant);
    if (strlen(job->variant) > 9 || !weir_dtr_rule_named(name, &v.rule))
        return weir_fail(WEIR_ERR_INVALID, "policy dtr: unknown variant '%s' (expected eq, local, "
                         "lru, size or msps)", job->variant);
    v.use_classes = weir_dtr_reach_of(v.rule) == WEIR_DTR_CLASS;
    const weir_status status =
        weir_dtr_sim_init(&v, job->p) ? weir_dtr_sim_plan(&v, job) : WEIR_ERR_NOMEM;
    weir_dtr_sim_free(&v);
    return status;
}
