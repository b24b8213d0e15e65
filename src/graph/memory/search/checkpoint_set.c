/* checkpoint_set.c - from what stays to decisions.
 *
 * Whoever is asked for while the step is at task s has to be allowed to run again at s, and so has
 * whoever it is made from, up to what stays: seen against the order of the tasks, each piece knows
 * the last s at which it is asked for before its maker is looked at. */
#include "graph/memory/search/checkpoint_set.h"

#include <string.h>

/* What cannot be made anew when it is asked for stays. asked[piece]: task + 1. */
static void settle_legal(const weir_problem *p, uint32_t *drop, uint32_t *asked)
{
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const weir_piece *x = &p->pieces.at[k];
        drop[k] = weir_piece_resident(p, k) ? WEIR_STAYS : drop[k];
        asked[k] = drop[k] < x->uses.n ? weir_refs(p, x->uses)[drop[k]] + 1 : 0;
    }
    for (uint32_t i = p->tasks.n; i-- > 0;) {
        const weir_task *t = &p->tasks.at[i];
        const uint32_t  *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
        uint32_t         last = 0;
        for (uint32_t k = 0; k < t->out.n; k++)
            if (drop[out[k]] != WEIR_STAYS && asked[out[k]] > last)
                last = asked[out[k]];
        if (last > 0 && t->until < last)
            for (uint32_t k = 0; k < t->out.n; k++)
                drop[out[k]] = WEIR_STAYS;
        else
            for (uint32_t k = 0; k < t->in.n; k++)
                asked[in[k]] = last > asked[in[k]] ? last : asked[in[k]];
    }
}

bool weir_keep_decide(const weir_walk_room *w, uint32_t *drop, uint8_t *gap)
{
    const weir_problem *p = w->p;
    uint32_t *const     asked = weir_mem_alloc((p->pieces.n + 1u) * sizeof *asked);

    if (!asked)
        return false;
    settle_legal(p, drop, asked);
    memset(gap, WEIR_KEEP, w->gaps);
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const uint32_t uses = p->pieces.at[k].uses.n;
        if (drop[k] == WEIR_STAYS)
            gap[w->first_gap[k] + uses] = weir_piece_resident(p, k) ? WEIR_KEEP : WEIR_TAIL;
        else if (drop[k] < uses)
            gap[w->first_gap[k] + drop[k]] = WEIR_DROP;
    }
    weir_mem_free(asked);
    return true;
}

uint32_t weir_keep_turn(const weir_problem *p)
{
    uint32_t turn = 0;
    int64_t  gain = 0, best = 0;

    for (uint32_t i = 0; i < p->tasks.n; i++) {
        gain += p->tasks.at[i].phase == WEIR_FORWARD ? 1 : -1;
        turn = gain > best ? i + 1 : turn;
        best = gain > best ? gain : best;
    }
    return turn;
}

uint32_t weir_keep_gap(const weir_problem *p, uint32_t piece, uint32_t turn)
{
    const weir_range uses = p->pieces.at[piece].uses;
    uint32_t         j = 0;

    while (j < uses.n && weir_refs(p, uses)[j] < turn)
        j++;
    return j;
}

/* Will a forward reader of the piece run again? */
static bool is_checkpoint(const weir_problem *p, uint32_t piece, const uint32_t *drop)
{
    const weir_piece *k = &p->pieces.at[piece];

    for (uint32_t j = 0; j < k->uses.n; j++) {
        const weir_task *t = &p->tasks.at[weir_refs(p, k->uses)[j]];
        for (uint32_t i = 0; i < t->out.n && t->phase == WEIR_FORWARD; i++) {
            const uint32_t made = weir_refs(p, t->out)[i];
            if (drop[made] < p->pieces.at[made].uses.n)
                return true;
        }
    }
    return false;
}

void weir_keep_offload(const weir_walk_room *w, const uint32_t *drop, uint8_t *gap)
{
    const weir_problem *p = w->p;
    const uint32_t      turn = weir_keep_turn(p);

    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const weir_piece *x = &p->pieces.at[k];
        if (drop[k] == WEIR_STAYS && !weir_piece_resident(p, k) && !x->output && x->bytes > 0 &&
            is_checkpoint(p, k, drop))
            gap[w->first_gap[k] + weir_keep_gap(p, k, turn)] = WEIR_SWAP;
    }
}

static uint32_t segment_of(const weir_problem *p, const uint32_t *segment, uint32_t task)
{
    return segment ? segment[task] : p->tasks.at[task].region;
}

/* Does a forward task of another segment read the piece? */
static bool is_result(const weir_problem *p, uint32_t piece, const uint32_t *segment)
{
    const weir_piece *k = &p->pieces.at[piece];
    const uint32_t   *use = weir_refs(p, k->uses), own = segment_of(p, segment, k->maker);

    for (uint32_t j = 0; j < k->uses.n; j++)
        if (p->tasks.at[use[j]].phase == WEIR_FORWARD && segment_of(p, segment, use[j]) != own)
            return true;
    return false;
}

void weir_keep_segments(const weir_problem *p, const uint32_t *segment, uint32_t *drop)
{
    const uint32_t turn = weir_keep_turn(p);

    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const uint32_t maker = p->pieces.at[k].maker;
        const bool     inside = maker != WEIR_NO_TASK && segment_of(p, segment, maker) &&
                            p->tasks.at[maker].phase == WEIR_FORWARD;
        drop[k] = inside && !is_result(p, k, segment) ? weir_keep_gap(p, k, turn) : WEIR_STAYS;
    }
}
