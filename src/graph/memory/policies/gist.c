/* gist.c - what waits from the forward to the backward pass waits packed, and nothing else is done
 * (Jain et al., "Gist", ISCA 2018, its encodings that lose nothing).
 *
 * A piece whose later readers all need its signs alone becomes bits (Binarize), any other with a
 * packed form becomes that, from its last forward reader to the first one behind. The budget has no
 * influence; it is met or it is not. */
#include "graph/memory/policies/gist.h"

#include "core/status.h"

/* The number of the piece's first use behind the forward pass, if the piece is of that pass; else
 * none: uses.n. */
static uint32_t crossing(const weir_problem *p, const weir_piece *k)
{
    const uint32_t *const use = weir_refs(p, k->uses);
    uint32_t              j = 0;

    if (k->maker == WEIR_NO_TASK || p->tasks.at[k->maker].phase != WEIR_FORWARD)
        return k->uses.n;
    while (j < k->uses.n && p->tasks.at[use[j]].phase == WEIR_FORWARD)
        j++;
    return j;
}

static bool signs_do(const weir_problem *p, uint32_t piece, uint32_t from)
{
    const weir_piece *const k = &p->pieces.at[piece];
    bool                    enough = k->mask > 0 && !k->output;

    for (uint32_t j = from; j < k->uses.n && enough; j++)
        enough = weir_among(p, p->tasks.at[weir_refs(p, k->uses)[j]].masked, piece);
    return enough;
}

void weir_gist_decide(const weir_walk_room *w, uint8_t *gap)
{
    const weir_problem *const p = w->p;

    for (uint32_t i = 0; i < p->pieces.n && p->codec > 0; i++) {
        const weir_piece *const k = &p->pieces.at[i];
        const uint32_t          j = crossing(p, k);
        if (j == k->uses.n || gap[w->first_gap[i] + j] != WEIR_KEEP)
            continue;
        if (signs_do(p, i, j))
            gap[w->first_gap[i] + j] = WEIR_MASKED;
        else if (k->packed > 0)
            gap[w->first_gap[i] + j] = WEIR_CODE;
    }
}

weir_status weir_policy_gist(weir_policy_job *job)
{
    weir_walk_room w;
    uint8_t       *gap = NULL;
    bool           ok = weir_walk_init(&w, job->p) && (gap = weir_mem_zalloc(w.gaps + 1u, 1));

    if (ok)
        weir_gist_decide(&w, gap);
    ok = ok && weir_walk(&w, gap);
    job->s = w.s;
    w.s = (weir_schedule){0};
    weir_walk_free(&w);
    weir_mem_free(gap);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
