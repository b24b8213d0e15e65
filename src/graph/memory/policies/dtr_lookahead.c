/* dtr_lookahead.c - rematerialization with knowledge of the future, like the static DTR of
 * MegEngine (core/impl/graph/seq_dtr). It evicts the tensor with the smallest
 *
 *     (seconds to recompute it * (evicted descendants + 1))^a * (bytes that recomputing it needs)^b
 *         / bytes / seconds until its next use
 *
 * In MegEngine the user sets a and b; here the best of six pairs is taken. */
#include <math.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/dtr_sim.h"

static double score(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_mem_tensor       *k = &v->p->tensors.at[tensor];
    const weir_dtr_neighborhood *n = weir_dtr_sim_neighborhood(v, tensor);
    const double seconds = v->p->ops.at[k->producer].time + n->above, bytes = (double)k->bytes,
                 made = (double)n->count + 1;
    const uint32_t next =
        v->next[tensor] < k->uses.n ? weir_refs(v->p, k->uses)[v->next[tensor]] : v->p->ops.n;

    return pow(seconds * made, v->time_power) * pow(n->bytes + bytes, v->bytes_power) / bytes /
           (v->when[next] - v->when[v->done] + 1e-7);
}

weir_status weir_policy_dtr_lookahead(weir_policy_job *job)
{
    static const double powers[][2] = {{1, 0}, {1, 1}, {0.5, 0}, {0.5, 0.5}, {1, 0.5}, {2, 0}};
    weir_dtr_sim        v = {.score = score};
    weir_status         status = weir_dtr_sim_init(&v, job->p) ? WEIR_OK : WEIR_ERR_NOMEM;

    for (size_t i = 0; i < sizeof powers / sizeof *powers && status == WEIR_OK; i++) {
        v.time_power = powers[i][0];
        v.bytes_power = powers[i][1];
        status = weir_dtr_sim_plan(&v, job);
    }
    weir_dtr_sim_free(&v);
    return status;
}
