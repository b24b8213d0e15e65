/* anneal.c - simulated annealing over the decisions of a plan (Kirkpatrick and others,
 * "Optimization by simulated annealing", Science, 1983).
 *
 * A move changes a few intervals, many of them the longest of a tensor; or the outputs of a window
 * of neighbouring ops; or exchanges an evicted interval for a kept one. With copies, a move lowers
 * the whole plan, in time linear in its events, unless it has no effect or what it needs at least
 * rejects it; with compression, all do. Each round starts from the best plan, colder than the one
 * before. A temperature is extra time relative to the step (weir_search_objective). */
#include "graph/memory/search/anneal.h"

#include <math.h>
#include <string.h>

#include "graph/memory/search/candidates.h"
#include "graph/memory/search/free_offloads.h"
#include "graph/placement/progress.h"

/* Draws another decision for interval j of the tensor, or WEIR_KEEP if no other is possible. */
static uint8_t draw_decision(weir_search_state *a, uint32_t tensor, uint32_t j)
{
    const weir_mem_problem *p = a->s->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint8_t           now = a->decisions[a->s->lowered.first_interval[tensor] + j];
    const uint32_t          from = j > 0 ? weir_refs(p, k->uses)[j - 1] : k->producer;
    const bool              drop = weir_candidate_possible(a, tensor, j, WEIR_RECOMPUTE) &&
                      p->ops.at[k->producer].rerun_before > from + 1;
    const uint8_t ways[] = {WEIR_OFFLOAD, WEIR_COMPRESS, WEIR_COMPRESS_MASK};
    uint8_t       can[4], n = 0;

    for (size_t i = 0; i < sizeof ways; i++)
        if (ways[i] != now && weir_candidate_possible(a, tensor, j, (weir_decision)ways[i]))
            can[n++] = ways[i];
    if (n > 0 && (!drop || weir_random_u64(a) & 1))
        return now != WEIR_KEEP && weir_random_u64(a) & 1 ? (uint8_t)WEIR_KEEP
                                                          : can[weir_random_below(a, n)];
    if (!drop)
        return WEIR_KEEP;
    if (now == WEIR_KEEP)
        return weir_random_u64(a) & 3 ? WEIR_RECOMPUTE : WEIR_RECOMPUTE_TRANSIENT;
    switch (weir_random_below(a, 8)) {
    case 0:
        return WEIR_RECOMPUTE;
    case 1:
        return WEIR_RECOMPUTE_TRANSIENT;
    case 2: case 3: case 4:
        return (uint8_t)(WEIR_RECOMPUTE_EARLY +
                         weir_random_below(
                             a, weir_random_below(a, 2) ? 8 : UINT8_MAX - WEIR_RECOMPUTE_EARLY));
    default:
        return WEIR_KEEP;
    }
}

/* Changes the decision of one interval. A resident tensor may be offloaded only from interval 0 on,
 * so that interval changes with it. */
static bool change_interval(weir_search_state *a, uint32_t interval)
{
    const uint32_t tensor = a->tensor_of[interval], first = a->s->lowered.first_interval[tensor];
    const weir_mem_tensor *k = &a->s->p->tensors.at[tensor];
    const uint32_t         j = interval - first;

    if (k->bytes == 0)
        return true;
    if (k->producer == WEIR_NO_OP) {
        const uint8_t to = draw_decision(a, tensor, j == k->uses.n ? 0 : j);
        return weir_search_change(a, j == k->uses.n ? first : interval, to) &&
               (to != WEIR_OFFLOAD || weir_search_change(a, first, WEIR_OFFLOAD));
    }
    if (j == k->uses.n)
        return weir_search_change(a, interval,
                   a->decisions[interval] == WEIR_KEEP_FOR_RECOMPUTE ? WEIR_KEEP
                                                                     : WEIR_KEEP_FOR_RECOMPUTE);
    return weir_search_change(a, interval, draw_decision(a, tensor, j));
}

/* Returns the tensor's longest interval, usually the one between forward and backward pass. */
static uint32_t longest_interval(const weir_lower_state *w, uint32_t tensor)
{
    const weir_mem_tensor *k = &w->p->tensors.at[tensor];
    const uint32_t        *u = weir_refs(w->p, k->uses);
    uint32_t               best = 0, from = k->producer == WEIR_NO_OP ? 0 : k->producer, length = 0;

    for (uint32_t j = 0; j < k->uses.n; from = u[j++])
        if (u[j] - from > length) {
            length = u[j] - from;
            best = j;
        }
    return w->first_interval[tensor] + best;
}

/* Gives all outputs of a few neighbouring ops one decision in their longest interval. */
static bool move_window(weir_search_state *a)
{
    const weir_mem_problem *p = a->s->p;
    const weir_lower_state *w = &a->s->lowered;
    const uint32_t n = p->ops.n, length = 1 + weir_random_below(a, weir_random_u64(a) & 1 ? 6 : 25);
    const uint32_t from = weir_random_below(a, n);
    static const uint8_t ways[] = {WEIR_RECOMPUTE, WEIR_OFFLOAD, WEIR_COMPRESS, WEIR_COMPRESS_MASK};
    const uint8_t        to = weir_random_u64(a) & 1   ? (uint8_t)WEIR_KEEP
                              : weir_random_u64(a) & 1 ? (uint8_t)WEIR_RECOMPUTE
                                                       : ways[weir_random_below(a, 4)];

    for (uint32_t i = from; i < n && i < from + length; i++) {
        const uint32_t *out = weir_refs(p, p->ops.at[i].out);
        for (uint32_t k = 0; k < p->ops.at[i].out.n; k++) {
            const weir_mem_tensor *tensor = &p->tensors.at[out[k]];
            if (tensor->uses.n == 0)
                continue;
            const uint32_t interval = longest_interval(w, out[k]);
            const uint32_t j = interval - w->first_interval[out[k]],
                           use = weir_refs(p, tensor->uses)[j];
            const bool can = weir_candidate_possible(a, out[k], j, (weir_decision)to) &&
                             (to != WEIR_RECOMPUTE || p->ops.at[i].rerun_before > use);
            if (!weir_search_change(a, interval, can ? to : WEIR_KEEP))
                return false;
        }
    }
    return true;
}

/* Returns the tensor of `interval`; where every move lowers the whole plan, that of a live range of
 * the schedule, of which tensors that are evicted have several. */
static uint32_t draw_tensor(weir_search_state *a, uint32_t interval)
{
    const weir_schedule *s = &a->s->lowered.s;

    return weir_search_is_incremental(a) ? a->tensor_of[interval]
                                         : s->ranges.at[weir_random_below(a, s->ranges.n)].tensor;
}

/* Changes one to three intervals, with probability 1/2 each of a tensor that draw_tensor returns,
 * the longest if not any. */
static bool move_intervals(weir_search_state *a)
{
    const weir_lower_state *w = &a->s->lowered;
    const uint32_t          n = 1 + weir_random_below(a, 3);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t interval = a->worth.at[weir_random_below(a, a->worth.n)];
        if (weir_random_u64(a) & 1 && (weir_search_is_incremental(a) || w->s.ranges.n > 0)) {
            const uint32_t tensor = draw_tensor(a, interval);
            const uint32_t any = weir_random_below(a, w->p->tensors.at[tensor].uses.n + 1);
            interval = weir_random_u64(a) & 3 ? longest_interval(w, tensor)
                                              : w->first_interval[tensor] + any;
        }
        if (!change_interval(a, interval))
            return false;
    }
    return true;
}

/* Exchanges: keeps one evicted tensor and evicts a kept one. */
static bool move_exchange(weir_search_state *a)
{
    const weir_lower_state *w = &a->s->lowered;
    uint32_t                back = WEIR_NO_TENSOR, go = WEIR_NO_TENSOR;

    for (uint32_t i = 0; i < 64 && (back == WEIR_NO_TENSOR || go == WEIR_NO_TENSOR); i++) {
        const uint32_t tensor = weir_random_below(a, w->p->tensors.n);
        if (w->p->tensors.at[tensor].uses.n == 0)
            continue;
        const uint32_t interval = longest_interval(w, tensor);
        if (a->decisions[interval] == WEIR_KEEP)
            go = interval;
        else
            back = interval;
    }
    return (back == WEIR_NO_TENSOR || weir_search_change(a, back, WEIR_KEEP)) &&
           (go == WEIR_NO_TENSOR || change_interval(a, go));
}

/* Swaps the decisions of two tensors of like sizes over their longest intervals. */
static bool move_swap(weir_search_state *a)
{
    enum { TRIES = 32 };
    const weir_mem_problem *p = a->s->p;
    const weir_lower_state *w = &a->s->lowered;
    const uint32_t          one = a->tensor_of[a->worth.at[weir_random_below(a, a->worth.n)]];
    const size_t            bytes = p->tensors.at[one].bytes;

    for (uint32_t t = 0; t < TRIES && p->tensors.at[one].uses.n > 0; t++) {
        const uint32_t other = a->tensor_of[a->worth.at[weir_random_below(a, a->worth.n)]];
        const size_t   its = p->tensors.at[other].bytes;
        if (p->tensors.at[other].uses.n == 0 || its / 2 > bytes || bytes / 2 > its)
            continue;
        const uint32_t i = longest_interval(w, one), k = longest_interval(w, other);
        const uint8_t  mine = a->decisions[i], theirs = a->decisions[k];
        if (mine != theirs &&
            weir_candidate_possible(a, one, i - w->first_interval[one], (weir_decision)theirs) &&
            weir_candidate_possible(a, other, k - w->first_interval[other], (weir_decision)mine))
            return weir_search_change(a, i, theirs) && weir_search_change(a, k, mine);
    }
    return true;
}

/* Does the move change decisions without effect? The schedule is then that of the plan before. */
static bool is_same(const weir_search_state *a)
{
    return weir_search_is_incremental(a) && a->now.valid && !a->relower.changed;
}

/* Evaluates the changed plan and decides whether it replaces the one whose objective is *now, which
 * it then updates. The worst acceptable objective is drawn first: what the plan needs at least
 * suffices for most rejections, copies are timed for the others, and no further than needed. */
static bool accept(weir_search_state *a, double temperature, double *now, bool *accepted)
{
    static const double rounding = 1e-12; /* more than two sums of the same seconds differ by */

    if (!weir_search_try_runs(a))
        return false;
    *accepted = is_same(a);
    if (*accepted)
        return true;
    const double worst = *now - temperature * log(weir_random_unit(a));
    const double least = weir_search_objective(a);
    if (least > worst + rounding)
        return true;
    if (!weir_search_try_copies(a, a->now.extra + (worst + rounding - least) * a->s->p->time))
        return false;
    const double then = weir_search_objective(a);
    *accepted = then <= worst;
    *now = *accepted ? then : *now;
    return true;
}

/* How the temperature falls and what the moves are. */
typedef struct weir_cooling {
    uint32_t rounds;
    double   warmth; /* factor of the first temperature */
    double   swaps;  /* share of moves that swap two decisions */
    bool     free_offloads; /* each round begins with the offloads that cost nothing */
} weir_cooling;

static bool move(weir_search_state *a, const weir_cooling *how)
{
    const uint32_t kind = weir_random_below(a, 10);

    weir_search_begin_move(a);
    if (how->swaps > 0 && weir_random_unit(a) < how->swaps)
        return move_swap(a);
    return kind < 2 ? move_window(a) : kind < 4 ? move_exchange(a) : move_intervals(a);
}

/* Each round begins with the best plan, a little colder than the one before. */
static bool begin_round(weir_search_state *a, const weir_cooling *how)
{
    memcpy(a->decisions, a->best.decisions, a->s->lowered.intervals);
    return how->free_offloads ? weir_search_free_offloads(a) : weir_search_evaluate(a);
}

static bool run_rounds(weir_search_state *a, uint64_t moves, const weir_cooling *how)
{
    weir_search   *s = a->s;
    /* temperatures: fractions of the step's time */
    const double   hot = how->warmth * (1e-2 + 0.5 / (s->p->ops.n + 1.0)), cold = 1e-5;
    const uint64_t round = moves / how->rounds + 1;
    double         now = 0;

    for (uint64_t m = 0; m < moves && !weir_search_at_floor(s, a->best.peak); m++) {
        bool accepted;
        weir_progress_share(m, moves);
        if ((m % a->every == 0 || m % round == 0) && !weir_search_flush(a))
            return false;
        if (m % round == 0) {
            if (!begin_round(a, how))
                return false;
            now = weir_search_objective(a);
        }
        const double warm = hot / (1.0 + (double)(m / round));
        const double temperature = warm * pow(cold / warm, (double)(m % round) / (double)round);
        if (!move(a, how))
            return false;
        if (a->undo.n == 0)
            continue;
        if (!accept(a, temperature, &now, &accepted) ||
            !(!accepted ? weir_search_take_back(a) : is_same(a) || weir_search_note_later(a)))
            return false;
    }
    return weir_search_flush(a);
}

static bool anneal(weir_search_state *a, uint64_t moves, const weir_cooling *how)
{
    a->screens = a->can_screen && !a->in_steps;
    const bool ok = run_rounds(a, moves, how);
    a->screens = false;
    return ok;
}

bool weir_search_anneal(weir_search_state *a, uint64_t moves)
{
    static const weir_cooling how = {.rounds = 8, .warmth = 1};
    return anneal(a, moves, &how);
}

bool weir_search_refine(weir_search_state *a, uint64_t moves)
{
    /* Extra time per byte, both relative: a third of what a byte costs ResNet-50 at 35 % of its
     * memory. More would save bytes that tensors should use. */
    static const double       worth = 0.05;
    static const weir_cooling how = {
        .rounds = 16, .warmth = 0.2, .swaps = 0.2, .free_offloads = true};

    a->unused_weight = worth;
    const bool ok = anneal(a, moves, &how);
    a->unused_weight = 0;
    return ok;
}
