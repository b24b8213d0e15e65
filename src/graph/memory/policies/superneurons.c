/* superneurons.c - SuperNeurons (Wang et al., "SuperNeurons: dynamic GPU memory management for
 * training deep neural networks", PPoPP 2018): what each layer's kind makes cheap.
 *
 * Results of convolutions and matrix products are dear to recompute: they are offloaded from the
 * forward to the backward pass. All other results (pooling, activations, normalisation) are cheap:
 * they are dropped and recomputed from those. Three plans are tried, and the first that fits is
 * taken: freeing what has no reader left, cheap results recomputed, dear ones offloaded as well.
 * The paper also caches tensors in spare device memory; here a schedule prefetches as early as the
 * limit allows. */
#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/checkpoint_set.h"

/* Drops what is cheap to recompute where it waits for gradients. */
static void drop_cheap(weir_best *b)
{
    const weir_mem_problem *const p = b->job->p;
    const uint32_t                turn = weir_forward_end(p);

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const uint32_t producer = p->tensors.at[k].producer;
        const bool cheap = producer != WEIR_NO_OP && p->ops.at[producer].phase == WEIR_FORWARD &&
                           p->ops.at[producer].kind == WEIR_OP_CLASS_OTHER;
        b->drop[k] = cheap ? weir_forward_end_interval(p, k, turn) : WEIR_NEVER_DROPPED;
    }
}

weir_status weir_policy_superneurons(weir_policy_job *job)
{
    weir_best b;

    WEIR_TRY(weir_policy_needs_link(job->p, "superneurons"));
    bool ok = weir_best_init(&b, job);
    if (ok && !weir_best_fits(&b)) {
        drop_cheap(&b);
        ok = weir_best_try_drop(&b);
    }
    if (ok && !weir_best_fits(&b)) {
        b.offload = true;
        ok = weir_best_try_drop(&b);
    }
    return weir_best_end(&b, ok, job);
}
