/* branch.c - one node of the depth-first search: a run's cases, tried one after the other.
 *
 * Runs of sections that nothing left crosses are solved apart. Where to branch and into what,
 * exact_state.c says. What has been proven dead - floors and items left of a run - is remembered by
 * a 64-bit hash, so orders of one pile are not tried one after the other. */
#include <math.h>

#include "graph/placement/exact.h"

static uint64_t hash_of(const weir_exact *x, uint32_t lo, uint32_t hi)
{
    uint64_t h = (uint64_t)x->cap;

    for (uint32_t i = x->s.from[lo], end = x->s.from[hi]; i < end; i++)
        if (x->at[i] < 0)
            h += weir_exact_mix(x->s.span[i].kind * 0x9e3779b97f4a7c15u + 1);
    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0)
            h += weir_exact_mix((uint64_t)x->floor[s] * 0xd1342543de82ef95u +
                                weir_exact_mix(s + 0x5851f42d4c957f2du));
    return h ? h : 1;
}

static bool make_case(weir_exact *x, uint32_t i, weir_fork f)
{
    return i == WEIR_NOTHING ? weir_exact_set_floor(x, f.section, f.above)
                             : weir_exact_put(x, i, f.floor);
}

/* Room that a case, which has been made, costs the sections of [lo, hi), in parts of what they had;
 * infinite: it is a dead end. */
static double loss_of(weir_exact *x, uint32_t lo, uint32_t hi)
{
    double loss = 0;

    if (!weir_exact_rise(x, lo, hi))
        return HUGE_VAL;
    for (uint32_t s = lo; s < hi; s++) {
        const int64_t room = x->cap - x->view[s].end;
        if (x->total[s] > 0 && room < x->room[s])
            loss += (double)(x->room[s] - room) / (double)(x->room[s] + 1);
    }
    return loss;
}

/* Makes each case from `base` on, leaves dead ends out and sorts the others by what they cost. */
static bool look_ahead(weir_exact *x, uint32_t lo, uint32_t hi, weir_fork f, uint32_t base)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n;
    uint32_t      *at = x->cases.at + base, kept = 0;

    for (uint32_t s = lo; s < hi; s++)
        x->room[s] = x->cap - x->view[s].end;
    for (uint32_t c = 0; c < x->cases.n - base; c++) {
        const uint32_t i = at[c];
        const double   loss = make_case(x, i, f) ? loss_of(x, lo, hi) : HUGE_VAL;
        weir_exact_undo(x, placed, undo);
        if (loss == HUGE_VAL)
            continue;
        uint32_t k = kept++;
        for (; k > 0 && x->loss[k - 1] > loss; k--) {
            x->loss[k] = x->loss[k - 1];
            at[k] = at[k - 1];
        }
        x->loss[k] = loss;
        at[k] = i;
    }
    x->cases.n = base + kept;
    return !x->short_of_memory;
}

static weir_exact_result try_cases(weir_exact *x, uint32_t lo, uint32_t hi, weir_fork f,
                                   uint32_t base)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n, end = x->cases.n;

    for (uint32_t c = base; c < end; c++) {
        const bool       made = make_case(x, x->cases.at[c], f);
        const weir_exact_result r = made ? weir_exact_solve(x, lo, hi) : WEIR_CUT;
        if (r != WEIR_DEAD)
            return r;
        weir_exact_undo(x, placed, undo);
    }
    return WEIR_DEAD;
}

/* Chooses a section of a surveyed run and tries its cases. */
static weir_exact_result branch(weir_exact *x, uint32_t lo, uint32_t hi)
{
    const uint32_t  base = x->cases.n;
    const weir_fork f = weir_exact_fork(x, lo, hi);

    if (!weir_exact_cases(x, lo, f))
        return WEIR_CUT;
    if (x->look && x->cases.n > base + 1 && !look_ahead(x, lo, hi, f, base))
        return WEIR_CUT;
    const weir_exact_result r = try_cases(x, lo, hi, f, base);
    x->cases.n = base;
    return r;
}

/* A run of sections in one piece. */
static weir_exact_result search(weir_exact *x, uint32_t lo, uint32_t hi)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n;
    weir_exact_result     r = WEIR_DEAD;

    if (x->nodes >= x->limit)
        return WEIR_CUT;
    x->nodes++;
    if (weir_exact_rise(x, lo, hi)) {
        const uint64_t hash = hash_of(x, lo, hi);
        uint64_t      *slot = &x->memo[hash >> (64 - WEIR_MEMO_BITS)];
        if (*slot != hash) {
            r = branch(x, lo, hi);
            if (r == WEIR_DEAD)
                *slot = hash;
        }
    }
    if (x->short_of_memory)
        r = WEIR_CUT;
    if (r == WEIR_DEAD)
        weir_exact_undo(x, placed, undo);
    return r;
}

weir_exact_result weir_exact_solve(weir_exact *x, uint32_t lo, uint32_t hi)
{
    return weir_exact_runs(x, lo, hi, search);
}
