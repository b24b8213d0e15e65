/* region.c - regions that the program marked: their values are dropped and made anew for gradients
 * (Chen et al. 2016, "Training deep nets with sublinear memory cost", with segments given by hand).
 *
 * A value of a region that only the region's own forward calls read is dropped between its last
 * forward use and its first later one. What cannot be made anew by then stays; so does all else, as
 * long as a region is made anew from it (which costs nothing where none is). */
#include "graph/passes.h"
#include "graph/policy/budget.h"
#include "graph/policy/recorded.h"
#include "graph/policy/walk.h"

/* Does a forward call outside the region read the piece? Then it is one of the region's results. */
static bool is_result(const weir_graph *g, const weir_problem *p, const weir_piece *k,
                      uint32_t region)
{
    const uint32_t *use = weir_refs(p, k->uses);

    for (uint32_t j = 0; j < k->uses.n; j++)
        if (g->nodes.at[use[j]].phase == WEIR_FORWARD && g->nodes.at[use[j]].region != region)
            return true;
    return false;
}

/* The gap between the last forward use and the first later one, as far as that is legal. */
static void drop(const weir_graph *g, const weir_problem *p, const weir_piece *k, uint8_t *gap)
{
    const uint32_t *use = weir_refs(p, k->uses);

    for (uint32_t j = 0; j < k->uses.n; j++)
        if (g->nodes.at[use[j]].phase != WEIR_FORWARD) {
            if (p->tasks.at[k->maker].until > use[j])
                gap[j] = WEIR_DROP;
            return;
        }
}

static void decide(const weir_graph *g, const weir_problem *p, const weir_walk_room *w,
                   uint8_t *gap)
{
    for (uint32_t i = 0; i < p->pieces.n; i++) {
        const weir_piece *k = &p->pieces.at[i];
        const uint32_t    region = g->nodes.at[k->maker].region;
        if (region == 0 || is_result(g, p, k, region))
            gap[w->first_gap[i] + k->uses.n] = WEIR_TAIL;
        else
            drop(g, p, k, gap + w->first_gap[i]);
    }
}

static bool has_regions(const weir_graph *g)
{
    bool again = false, region = false;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        again = again || g->nodes.at[i].again;
        region = region || g->nodes.at[i].region;
    }
    return region && !again;
}

weir_status weir_region_apply(weir_graph *g, uint32_t passes)
{
    weir_problem    p;
    weir_walk_room  w = {0};
    weir_unexpanded old = {0};
    uint32_t       *piece_of;

    if (!has_regions(g))
        return WEIR_OK;
    WEIR_TRY(weir_problem_of(g, NULL, passes >> WEIR_PASS_INPLACE & 1, &p, &piece_of));
    weir_status status = WEIR_ERR_NOMEM;
    uint8_t    *gap = NULL;
    if (weir_walk_init(&w, &p) && (gap = weir_mem_zalloc(w.gaps + 1u, 1)) != NULL) {
        decide(g, &p, &w, gap);
        status = weir_walk(&w, gap) ? WEIR_OK : WEIR_ERR_NOMEM;
    }
    if (status == WEIR_OK && w.valid && w.s.events.n > p.tasks.n) {
        status = weir_graph_expand(g, &w.s, piece_of, &old);
        if (status == WEIR_OK)
            status = weir_plan_build(g, passes);
        if (status == WEIR_OK)
            g->plan->extra_seconds = w.extra;
        if (status == WEIR_OK)
            status = weir_reasons_keep(g, &p, &w.s, &piece_of, old.stores);
    }
    weir_unexpanded_free(&old);
    weir_walk_free(&w);
    weir_mem_free(gap);
    weir_problem_free(&p);
    weir_mem_free(piece_of);
    return status;
}
