/* exact.c - finds a placement of at most a given height, or proves that none exists: depth-first
 * search (branch.c) and beam search (beam.c), within a limit on nodes.
 *
 * The time of a depth-first search varies widely with the order of the cases. So several orders
 * take turns (by the slack that a case costs one step ahead, or by sizes), each with twice the
 * nodes of its last turn, later ones with pseudo-random changes; they share the hash table of dead
 * states. Depth-first search proves infeasibility and finds placements without slack; beams, which
 * alternate with it and become ever wider, find those with slack. */
#include <stdlib.h>
#include <string.h>

#include "core/splitmix.h"
#include "core/status.h"
#include "graph/placement/exact.h"
#include "graph/placement/gap_fit.h"

enum {
    FIRST_NODES = 6,
    ORDERS = 10,
    FIRST_WIDTH = 8,
    BEAMS = 4, /* of each width */
    SLACK = 200,         /* there is slack if more than 1 / SLACK of the height is unused */
    SPARE_TURNS = 7,     /* nodes of beams per node of depth-first search, with slack */
    TIGHT_TURNS = 2,     /* nodes of depth-first search per node of beams, without */
    MOST_BEAM = 1 << 22, /* most numbers in the states of a beam */
    BEAM_CASES = 8,      /* cases of a state, estimated */
    LOOKS = 64           /* most cases looked at per node, on average of a turn */
};

/* Ranks which items are tried first: another order each round, later ones perturbed. The first
 * order is that of MiniMalloc: items in the fullest section, the widest first. */
static void rank_spans(weir_exact_state *x, uint64_t round)
{
    static const double by[4] = {0.1, 4, 0.5, 0};
    const double   shake = round < 2 * ORDERS ? 0 : by[round / ORDERS % 4];
    const uint64_t seed = round / ORDERS * (ORDERS - 2) + round % ORDERS - 2;

    x->lowest = round % 2 == 0;
    x->look = round % ORDERS < 2;
    for (uint32_t i = 0; i < x->s.spans; i++) {
        const weir_place_span *v = &x->s.span[i];
        const double     wide = v->b - v->a, bytes = (double)v->bytes;
        int64_t          most = 0;
        for (uint32_t s = v->a; s < v->b; s++)
            most = x->total[s] > most ? x->total[s] : most;
        const double full = (double)most / (double)x->cap;
        const double ranks[] = {full * 1e6 + wide, wide + bytes / (double)x->cap, wide * bytes,
                                bytes};
        x->rank[i] = ranks[round % ORDERS < 2 ? 0 : round % ORDERS / 2 - 1];
        const uint64_t random = weir_splitmix_hash(v->kind * WEIR_SPLITMIX64_STEP + seed);
        x->rank[i] *= 1 + shake * (double)(random >> 11) * 0x1p-53;
    }
}

static void begin(weir_exact_state *x)
{
    x->placed.n = x->undo.n = x->cases.n = 0;
    memset(x->floor, 0, x->s.n * sizeof *x->floor);
    memset(x->total, 0, x->s.n * sizeof *x->total);
    for (uint32_t i = 0; i < x->s.spans; i++) {
        const weir_place_span *v = &x->s.span[i];
        weir_exact_set_at(x, i, -1);
        for (uint32_t s = v->a; s < v->b; s++)
            x->total[s] += v->bytes;
    }
}

/* Keeps the best placement of runs that are low enough: their items count as placed. */
static void keep_low(weir_exact_state *x)
{
    const weir_placer *p = x->p;

    for (uint32_t i = 0; i < x->s.spans && p->best_height != SIZE_MAX;) {
        const uint32_t first = i;
        uint32_t       end = x->s.span[i].b;
        size_t         height = 0;
        for (; i < x->s.spans && x->s.span[i].a < end; i++) {
            const size_t top = p->best[x->s.span[i].item] + (size_t)x->s.span[i].bytes;
            end = x->s.span[i].b > end ? x->s.span[i].b : end;
            height = top > height ? top : height;
        }
        for (uint32_t k = first; k < i && height <= (size_t)x->cap; k++)
            weir_exact_set_at(x, k, (int64_t)p->best[x->s.span[k].item]);
    }
}

/* Returns the width of a beam: widths double after every BEAMS of them, as far as MOST_BEAM
 * allows. */
static uint32_t width_of(const weir_exact_state *x, uint64_t beam)
{
    const uint64_t most = MOST_BEAM / (x->s.n + x->s.spans + 1u) + 1;
    const uint64_t width = (uint64_t)FIRST_WIDTH << (beam / BEAMS < 20 ? beam / BEAMS : 20);

    return (uint32_t)(width < most ? width : most);
}

static weir_exact_result try_beam(weir_exact_state *x, uint64_t beam, uint64_t end)
{
    static const double spare[3] = {0.002, 0.01, 0.0005};

    begin(x);
    keep_low(x);
    x->width = width_of(x, beam);
    x->lowest = beam % 2 == 1;
    x->pressing = beam / 2 % 2 == 1 ? 1 : 0;
    x->spare = spare[beam / BEAMS % 3];
    x->limit = end;
    return weir_exact_runs(x, 0, x->s.n, weir_exact_beam);
}

static weir_exact_result try_order(weir_exact_state *x, uint64_t round, uint64_t end)
{
    const uint64_t share = (uint64_t)(x->s.spans + 32) * FIRST_NODES << round / ORDERS;

    begin(x);
    keep_low(x);
    rank_spans(x, round);
    const uint64_t mine = x->look ? share / 4 : share;      /* looking ahead costs several nodes */
    x->limit = mine < end - x->nodes ? x->nodes + mine : end;
    x->looks = LOOKS * (x->limit - x->nodes);
    return weir_exact_solve(x, 0, x->s.n);
}

/* Do the items leave more than 1 / SLACK of the height unused on average? */
static bool has_slack(const weir_exact_state *x)
{
    double all = 0;

    for (uint32_t s = 0; s < x->s.n; s++)
        all += (double)x->total[s];
    return all < (1 - 1.0 / SLACK) * (double)x->cap * x->s.n;
}

static uint64_t count_left(const weir_exact_state *x)
{
    uint64_t n = 0;

    for (uint32_t word = 0; word <= x->s.spans / 64; word++)
        n += (uint64_t)__builtin_popcountll(x->left[word]);
    return n;
}

/* Tries one height within a number of nodes, unless they are too few to place every item. With
 * slack, beams get most nodes, as long as enough nodes are left for them to finish. */
static weir_exact_result attempt(weir_exact_state *x, size_t cap, uint64_t nodes)
{
    const uint64_t    end = x->nodes + nodes;
    uint64_t          rounds = 0, beams = 0, depth = 0, level = 0;
    weir_exact_result r = WEIR_EXACT_GAVE_UP;

    x->cap = (int64_t)cap;
    begin(x);
    const bool spare = has_slack(x);
    keep_low(x);
    if (nodes < count_left(x))          /* a node places at most one item */
        return WEIR_EXACT_GAVE_UP;
    while (r == WEIR_EXACT_GAVE_UP && x->nodes < end && !x->short_of_memory) {
        const uint64_t before = x->nodes;
        const uint64_t cost = (uint64_t)width_of(x, beams) * x->s.spans * BEAM_CASES;
        if (level < (spare ? SPARE_TURNS * depth : depth / TIGHT_TURNS) && cost < end - before) {
            r = try_beam(x, beams++, end);
            level += x->nodes - before;
        } else {
            r = try_order(x, rounds++, end);
            depth += x->nodes - before;
        }
    }
    if (r == WEIR_EXACT_FOUND) {
        memset(x->p->offset, 0, x->p->n * sizeof *x->p->offset);
        for (uint32_t i = 0; i < x->s.spans; i++)
            x->p->offset[x->s.span[i].item] = (size_t)x->at[i];
        weir_place_offer(x->p, "exact");
    }
    return r;
}

/* Tries the target first: with half of the nodes, or with all if it is a capacity above the bound,
 * the only height that matters then. Next bisects the heights between target and best. Heights are
 * sums of sizes, so only multiples of the sizes' common divisor are tried. */
static void lower(weir_exact_state *x)
{
    weir_placer      *p = x->p;
    const size_t      unit = weir_place_unit(p);
    uint64_t          left = p->nodes - p->nodes / 2;
    weir_exact_result r = attempt(x, p->target, p->nodes - (p->target > p->bound ? 0 : left));
    /* proven: every height below `low` is impossible */
    bool              all = r == WEIR_EXACT_DEAD_END;
    size_t            low = p->target / unit + 1;

    p->proven = all;
    if (p->target > p->bound)
        return;
    while (p->best_height > p->target && low < p->best_height / unit && left > 0) {
        const size_t   middle = low + (p->best_height / unit - low) / 2;
        const uint64_t before = x->nodes;
        r = attempt(x, p->best_height == SIZE_MAX ? low * 2 * unit : middle * unit,
                    left / 4 + 1);
        left -= x->nodes - before < left ? x->nodes - before : left;
        if (x->short_of_memory)
            return;
        all = all && r != WEIR_EXACT_GAVE_UP;
        if (r != WEIR_EXACT_FOUND)
            low = middle + 1;
    }
    p->proven = all && p->best_height != SIZE_MAX && low >= p->best_height / unit;
}

static bool alloc(weir_exact_state *x)
{
    const size_t n = x->s.n + 1u, spans = x->s.spans + 1u;

    x->floor = weir_mem_alloc(n * sizeof *x->floor);
    x->total = weir_mem_alloc(n * sizeof *x->total);
    x->low = weir_mem_alloc(n * sizeof *x->low);
    x->end = weir_mem_alloc(n * sizeof *x->end);
    x->view = weir_mem_alloc(n * sizeof *x->view);
    x->at = weir_mem_alloc(spans * sizeof *x->at);
    x->left = weir_mem_zalloc(spans / 64 + 2, sizeof *x->left);
    x->high = weir_mem_alloc(spans * sizeof *x->high);
    x->order = weir_mem_alloc(spans * sizeof *x->order);
    x->next = weir_mem_alloc(spans * sizeof *x->next);
    x->by_floor = weir_mem_alloc(n * sizeof *x->by_floor);
    x->head = weir_mem_alloc(n * sizeof *x->head);
    x->rank = weir_mem_alloc(spans * sizeof *x->rank);
    x->slack = weir_mem_alloc(n * sizeof *x->slack);
    x->loss = weir_mem_alloc((spans + 1) * sizeof *x->loss);
    x->memo = weir_mem_zalloc((size_t)1 << WEIR_MEMO_BITS, sizeof *x->memo);
    return x->floor && x->total && x->low && x->end && x->view && x->at && x->left && x->high &&
           x->order && x->next && x->by_floor && x->head && x->rank && x->slack && x->loss &&
           x->memo;
}

static void release(weir_exact_state *x)
{
    weir_mem_free(x->floor);
    weir_mem_free(x->total);
    weir_mem_free(x->low);
    weir_mem_free(x->end);
    weir_mem_free(x->view);
    weir_mem_free(x->at);
    weir_mem_free(x->left);
    weir_mem_free(x->high);
    weir_mem_free(x->order);
    weir_mem_free(x->next);
    weir_mem_free(x->by_floor);
    weir_mem_free(x->head);
    weir_mem_free(x->rank);
    weir_mem_free(x->slack);
    weir_mem_free(x->loss);
    weir_mem_free(x->memo);
    weir_vec_free(&x->undo);
    weir_vec_free(&x->placed);
    weir_vec_free(&x->cases);
    weir_place_instance_free(&x->s);
}

/* Returns the default limit on nodes: the work of a node is all sections of all items. */
static uint64_t nodes_of(const weir_exact_state *x)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < x->s.spans; i++)
        all += x->s.span[i].b - x->s.span[i].a;
    return x->p->work / all + 1;
}

weir_status weir_place_exact(weir_placer *p, const char *name)
{
    weir_exact_state x = {.p = p};

    (void)name;
    if (p->best_height == SIZE_MAX)
        WEIR_TRY(weir_place_orders(p));
    if (p->best_height <= p->target)
        return WEIR_OK;
    WEIR_TRY(weir_place_instance_of(p, &x.s));
    const bool ok = alloc(&x);
    if (ok) {
        p->nodes = p->nodes ? p->nodes : nodes_of(&x);
        lower(&x);
    }
    p->used += x.nodes;
    release(&x);
    return ok && !x.short_of_memory ? WEIR_OK : WEIR_ERR_NOMEM;
}
