/* free_offloads.c - offloads one resident tensor after another as long as the step takes no longer.
 *
 * Parameters and optimizer state are idle for most of the step, above all at its peak between
 * forward and backward pass, and the link has time for them: nothing leaves during the backward
 * pass, nothing returns during the forward pass. Each of them is small, so that none alone makes
 * room for an activation, and no single move of annealing gains by offloading it. Together they
 * do. */
#include "graph/memory/search/free_offloads.h"

#include "graph/memory/search/candidates.h"

/* Offloads the tensor between steps and, if `idle` is set, over every interval that is much longer
 * than its copies. */
static bool offload(weir_search_state *a, uint32_t tensor, bool idle)
{
    enum { LONGER = 4 };
    const weir_mem_problem *p = a->s->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint32_t         *u = weir_refs(p, k->uses), first = a->s->lowered.first_interval[tensor];
    const double            copy = (double)k->bytes / p->link_in;

    weir_search_begin_move(a);
    if (!weir_search_change(a, first, WEIR_OFFLOAD))
        return false;
    for (uint32_t j = 1; j < k->uses.n && idle; j++)
        if (a->when[u[j]] - a->when[u[j - 1]] > LONGER * copy &&
            !weir_search_change(a, first + j, WEIR_OFFLOAD))
            return false;
    return true;
}

/* Evaluates the changed plan and keeps it if it takes no longer than *extra, which it updates, and
 * at most `most` bytes. */
static bool keep_if_free(weir_search_state *a, size_t most, double *extra, bool *kept)
{
    *kept = a->undo.n == 0;
    if (*kept)
        return true;
    if (!weir_search_try(a))
        return false;
    *kept = a->now.valid && a->now.peak <= most && a->now.extra <= *extra;
    if (!*kept)
        return weir_search_take_back(a);
    *extra = a->now.extra;
    return true;
}

bool weir_search_free_offloads(weir_search_state *a)
{
    const weir_mem_problem *p = a->s->p;

    if (!weir_search_evaluate(a))
        return false;
    const size_t limit = weir_search_limit(a), most = a->now.peak > limit ? a->now.peak : limit;
    double       extra = a->now.extra;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        bool kept = !weir_mem_tensor_is_resident(p, k) ||
                    !weir_candidate_possible(a, k, 0, WEIR_OFFLOAD);
        for (int idle = 1; idle >= 0 && !kept; idle--)
            if (!offload(a, k, idle) || !keep_if_free(a, most, &extra, &kept))
                return false;
    }
    return weir_search_evaluate(a) && weir_search_note_later(a);
}
