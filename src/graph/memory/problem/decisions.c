/* decisions.c - reads lives as decisions: those over a gap kept the piece, those that begin in it
 * brought it back. */
#include "graph/memory/problem/decisions.h"

#include <string.h>

/* The event of each task's first run. */
static void list_first_runs(const weir_schedule *s, uint32_t *event)
{
    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].act == WEIR_RUN && !s->events.at[e].again)
            event[s->events.at[e].what] = e;
}

/* What life l says of the piece's gaps: those within it are kept; one that it begins in was let
 * go, for good if the life ends there, too, or waited for on the host. */
static void decide(const weir_schedule *s, const weir_life *l, const uint32_t *event, uint8_t *gap)
{
    const weir_problem *p = s->p;
    const weir_piece   *k = &p->pieces.at[l->piece];
    const uint32_t     *u = weir_refs(p, k->uses), n = k->uses.n;
    const bool          copied = !l->before && s->events.at[l->first].act == WEIR_IN;

    for (uint32_t j = 0; j < n; j++) {
        const uint32_t from = event[j > 0 ? u[j - 1] : k->maker], to = event[u[j]];
        if (l->first <= from && l->last >= to)
            gap[j] = WEIR_KEEP;
        else if (copied && l->first > from && l->first < to)
            gap[j] = WEIR_SWAP;
        else if (l->first > from && l->last < to)
            gap[j] = WEIR_DROP_AGAIN;
    }
    const uint32_t end = event[n > 0 ? u[n - 1] : k->maker];
    if (l->first <= end && l->last > end && !k->output)
        gap[n] = WEIR_TAIL;
}

/* The same for a resident piece: whether it lives on the host, and where it comes from there. */
static void decide_resident(const weir_schedule *s, const weir_life *l, const uint32_t *event,
                            uint8_t *gap)
{
    const weir_piece *k = &s->p->pieces.at[l->piece];
    const uint32_t   *u = weir_refs(s->p, k->uses);

    if (l->before && l->form == WEIR_HOST)
        gap[0] = WEIR_SWAP;
    if (l->before || l->form != WEIR_PLAIN)
        return;
    for (uint32_t j = 0; j < k->uses.n; j++)
        if (l->first < event[u[j]] && (j == 0 || l->first > event[u[j - 1]]))
            gap[j] = WEIR_SWAP;
}

bool weir_gap_of_schedule(const weir_walk_room *w, const weir_schedule *s, uint8_t *gap)
{
    const weir_problem *p = w->p;
    uint32_t *const     event = weir_mem_zalloc(p->tasks.n + 1u, sizeof *event);

    if (!event)
        return false;
    list_first_runs(s, event);
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const uint32_t n = p->pieces.at[k].uses.n;
        memset(gap + w->first_gap[k], weir_piece_resident(p, k) ? WEIR_KEEP : WEIR_DROP, n);
        gap[w->first_gap[k] + n] = WEIR_KEEP;
    }
    for (uint32_t i = 0; i < s->lives.n; i++) {
        const weir_life *l = &s->lives.at[i];
        uint8_t *const   own = gap + w->first_gap[l->piece];
        if (weir_piece_resident(p, l->piece))
            decide_resident(s, l, event, own);
        else if (l->form == WEIR_PLAIN)
            decide(s, l, event, own);
    }
    weir_mem_free(event);
    return true;
}
