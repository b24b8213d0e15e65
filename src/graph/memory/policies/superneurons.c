/* superneurons.c - SuperNeurons (Wang and others, "SuperNeurons: dynamic GPU memory management for
 * training deep neural networks", PPoPP 2018): decides by the kind of layer.
 *
 * Outputs of convolutions and matrix products are costly to recompute: they are offloaded from the
 * forward to the backward pass. All other outputs (pooling, activations, normalisation) are cheap:
 * they are dropped and recomputed. Of three plans the first that fits is taken: freeing after the
 * last reader; recomputing cheap outputs; offloading costly ones as well. The paper also caches
 * tensors in spare device memory; here a schedule prefetches as early as the limit allows. */
#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/checkpoint_set.h"

weir_status weir_policy_superneurons(weir_policy_job *job)
{
    weir_best b;

    WEIR_TRY(weir_policy_needs_link(job->p, "superneurons"));
    bool ok = weir_best_init(&b, job);
    if (ok && !weir_best_fits(&b)) {
        weir_checkpoint_set_products(job->p, b.drop);
        ok = weir_best_try_drop(&b);
    }
    if (ok && !weir_best_fits(&b)) {
        b.offload = true;
        ok = weir_best_try_drop(&b);
    }
    return weir_best_end(&b, ok, job);
}
