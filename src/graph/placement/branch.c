/* branch.c - one node of the depth-first search: tries the cases of a run one after another.
 *
 * Runs of sections that no remaining item crosses are solved separately. exact_state.c decides
 * where to branch and into which cases. Dead states (the floors and remaining items of a run) are
 * remembered by a 64-bit hash, so that permutations of one pile are not tried again. */
#include <math.h>

#include "graph/placement/exact.h"
#include "core/splitmix.h"
#include "graph/placement/progress.h"

static uint64_t hash_of(const weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    uint64_t h = (uint64_t)x->cap;

    for (uint32_t end = x->s.from[hi], i = weir_exact_left(x, x->s.from[lo], end); i < end;
         i = weir_exact_left(x, i + 1, end))
        h += weir_splitmix_hash(x->s.span[i].kind * WEIR_SPLITMIX64_STEP + 1);
    for (uint32_t s = lo; s < hi; s++)
        if (x->total[s] > 0)
            h += weir_splitmix_hash((uint64_t)x->floor[s] * 0xd1342543de82ef95u +
                                weir_splitmix_hash(s + 0x5851f42d4c957f2du));
    return h ? h : 1;
}

static bool make_case(weir_exact_state *x, uint32_t i, weir_branch_point f)
{
    return i == WEIR_EXACT_NO_ITEM ? weir_exact_set_floor(x, f.section, f.above)
                                   : weir_exact_put(x, i, f.floor);
}

/* Returns the slack that a case, already applied, costs the sections of [lo, hi), as fractions of
 * the slack that each had; infinity: a dead end. */
static double loss_of(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    double loss = 0;

    if (!weir_exact_rise(x, lo, hi))
        return HUGE_VAL;
    for (uint32_t s = lo; s < hi; s++) {
        const int64_t slack = x->cap - x->end[s];
        if (x->total[s] > 0 && slack < x->slack[s])
            loss += (double)(x->slack[s] - slack) / (double)(x->slack[s] + 1);
    }
    return loss;
}

/* Applies each case from `base` on, drops dead ends and sorts the others by their cost. Returns
 * false if memory runs out, or if the turn has looked at its share of cases. */
static bool look_ahead(weir_exact_state *x, uint32_t lo, uint32_t hi, weir_branch_point f,
                       uint32_t base)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n;
    uint32_t      *at = x->cases.at + base, kept = 0;

    for (uint32_t s = lo; s < hi; s++)
        x->slack[s] = x->cap - x->end[s];
    if (x->cases.n - base > x->looks)
        return false;
    x->looks -= x->cases.n - base;
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

static weir_exact_result try_cases(weir_exact_state *x, uint32_t lo, uint32_t hi,
                                   weir_branch_point f, uint32_t base)
{
    const uint32_t placed = x->placed.n, undo = x->undo.n, end = x->cases.n;

    for (uint32_t c = base; c < end; c++) {
        const bool              made = make_case(x, x->cases.at[c], f);
        const weir_exact_result r = made ? weir_exact_solve(x, lo, hi) : WEIR_EXACT_GAVE_UP;
        if (r != WEIR_EXACT_DEAD_END)
            return r;
        weir_exact_undo(x, placed, undo);
    }
    return WEIR_EXACT_DEAD_END;
}

/* Chooses a section of a run whose floors have risen, and tries its cases. */
static weir_exact_result branch(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    const uint32_t          base = x->cases.n;
    const weir_branch_point f = weir_exact_branch_point(x, lo, hi);

    if (!weir_exact_cases(x, lo, f))
        return WEIR_EXACT_GAVE_UP;
    if (x->look && x->cases.n > base + 1 && !look_ahead(x, lo, hi, f, base))
        return WEIR_EXACT_GAVE_UP;
    const weir_exact_result r = try_cases(x, lo, hi, f, base);
    x->cases.n = base;
    return r;
}

enum { POLLED = 256 };      /* nodes between two polls */

/* Searches a run of sections that cannot be divided. */
static weir_exact_result search(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    const uint32_t    placed = x->placed.n, undo = x->undo.n;
    weir_exact_result r = WEIR_EXACT_DEAD_END;

    if (x->nodes >= x->limit)
        return WEIR_EXACT_GAVE_UP;
    x->nodes++;
    if (weir_exact_rise(x, lo, hi)) {
        const uint64_t hash = hash_of(x, lo, hi);
        uint64_t      *slot = &x->memo[hash >> (64 - WEIR_MEMO_BITS)];
        if (*slot != hash) {
            r = branch(x, lo, hi);
            if (r == WEIR_EXACT_DEAD_END)
                *slot = hash;
        }
    }
    if (x->nodes % POLLED == 0 && !weir_progress_poll())
        x->short_of_memory = true;
    if (x->short_of_memory)
        r = WEIR_EXACT_GAVE_UP;
    if (r == WEIR_EXACT_DEAD_END)
        weir_exact_undo(x, placed, undo);
    return r;
}

weir_exact_result weir_exact_solve(weir_exact_state *x, uint32_t lo, uint32_t hi)
{
    return weir_exact_runs(x, lo, hi, search);
}
