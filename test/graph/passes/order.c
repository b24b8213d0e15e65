/* order.c - the order of calls: sound for every storage, its peak never above the recorded one. */
#include "graph/passes/passes.h"
#include "graph/plan/plan.h"
#include "graph/fixture.h"
#include "graph/random.h"

/* Does node n write (or else read) the storage? */
static bool touches(const weir_graph *g, const weir_node *n, uint32_t storage, bool writes)
{
    for (int k = 0; k < n->nin; k++)
        if (weir_storage_of(g, n->in[k]) == storage && (!writes || n->def->mutates >> k & 1))
            return true;
    for (int k = 0; k < n->nout && writes; k++)
        if (weir_storage_of(g, n->out[k]) == storage)
            return true;
    return false;
}

/* Must a stay before b? By definition, storage by storage. */
static bool conflict(const weir_graph *g, const weir_node *a, const weir_node *b)
{
    for (uint32_t s = 0; s < g->storages.n; s++) {
        const bool wa = touches(g, a, s, true), wb = touches(g, b, s, true);
        if ((wa && (wb || touches(g, b, s, false))) || (wb && touches(g, a, s, false)))
            return true;
    }
    return false;
}

/* Largest sum of live temporaries by definition: made and still to be read. */
static size_t peak(const weir_graph *g)
{
    size_t most = 0;

    for (uint32_t t = 0; t < g->nodes.n; t++) {
        size_t live = 0;
        for (uint32_t s = 0; s < g->storages.n; s++) {
            uint32_t first = UINT32_MAX, last = 0;
            for (uint32_t i = 0; i < g->nodes.n && !g->storages.at[s].external; i++) {
                if (touches(g, &g->nodes.at[i], s, true))
                    first = last = i;
                else if (touches(g, &g->nodes.at[i], s, false))
                    last = i;
            }
            if (first <= t && t <= last)
                live += g->storages.at[s].bytes;
        }
        most = live > most ? live : most;
    }
    return most;
}

/* The largest sum of live bytes of the plan that the order gives, workspaces and results in place
 * included. */
static size_t planned(weir_graph *g)
{
    return CHECK_OK(weir_plan_build(g, ~0u)) ? g->plan->lower_bound : 0;
}

/* Orders a recorded graph again and compares with what it was. Nodes are told apart by their random
 * position, which the order must carry along. */
static void check_order(weir_graph *g)
{
    const uint32_t n = g->nodes.n;
    weir_node     *before = weir_mem_alloc((n + 1) * sizeof *before);
    uint32_t      *at = weir_mem_alloc((n + 1) * sizeof *at);

    for (uint32_t i = 0; i < n; i++) {
        g->nodes.at[i].rng = i;
        before[i] = g->nodes.at[i];
    }
    const size_t recorded = planned(g);
    CHECK_OK(weir_pass_order(g));
    CHECK_OK(weir_graph_check(g));
    CHECK(g->nodes.n == n && planned(g) <= recorded);
    for (uint32_t i = 0; i < n; i++)
        at[g->nodes.at[i].rng] = i;
    bool sound = true;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = i + 1; k < n; k++)
            sound = sound && (at[i] < at[k] || !conflict(g, &before[i], &before[k]));
    CHECK(sound);
    weir_mem_free(before);
    weir_mem_free(at);
}

CASE(random_orders_are_sound)
{
    for (int i = 0; i < 60; i++) {
        random_program p;
        check_random = 500 + (uint64_t)i;
        random_open(&p);
        weir_graph *g = weir_graph_begin(p.d);
        random_body(&p, 40);
        if (CHECK_OK(weir_graph_end(g, OPTIONS_AS_RECORDED)))
            check_order(g);
        weir_graph_free(g);
        random_close(&p);
    }
}

/* Freeing first can be wrong: b = a + r replaces a large value early, at the cost of both at once
 * while e is still there. Rows: a 10, e 8, q 9; recorded peak a + e + q, greedy a + e + b. */
CASE(a_worse_order_is_not_taken)
{
    enum { COLS = 256 };
    weir_device *d = fixture_open();
    weir_tensor *x = weir_state(d, weir_2d(WEIR_F32, 1, COLS), "x");
    weir_tensor *w = weir_state(d, weir_2d(WEIR_F32, 9, 8), "w");
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *a = weir_exp(weir_broadcast_to(x, weir_2d(WEIR_F32, 10, COLS)));
    weir_tensor *e = weir_exp(weir_broadcast_to(x, weir_2d(WEIR_F32, 8, COLS)));
    weir_tensor *r = weir_sum(e, 0, false);

    weir_keep(weir_sum(weir_matmul(w, e), 0, false));
    weir_keep(weir_sum(weir_add(a, r), 0, false));
    CHECK_OK(weir_graph_end(g, OPTIONS_AS_RECORDED));
    if (check_on_cpu())                 /* the product's workspace differs elsewhere */
        CHECK(peak(g) / (COLS * sizeof(float)) == 27);
    check_order(g);
    weir_graph_free(g);
    weir_release(x);
    weir_release(w);
    weir_device_close(d);
}

/* Dependencies are edges forward, each conflict is a path. */
CASE(dependencies_point_forward)
{
    random_program p;
    weir_deps      deps;

    random_open(&p);
    weir_graph *g = weir_graph_begin(p.d);
    random_body(&p, 60);
    CHECK_OK(weir_graph_end(g, OPTIONS_AS_RECORDED));
    CHECK_OK(weir_deps_of(g, &deps));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        bool reach[512] = {false};
        reach[i] = true;
        for (uint32_t k = i; k < g->nodes.n; k++)
            for (uint32_t e = deps.first[k]; e < deps.first[k + 1]; e++) {
                CHECK(deps.to[e] > k);
                reach[deps.to[e]] |= reach[k];
            }
        for (uint32_t k = i + 1; k < g->nodes.n; k++)
            CHECK(reach[k] || !conflict(g, &g->nodes.at[i], &g->nodes.at[k]));
    }
    weir_deps_free(&deps);
    weir_graph_free(g);
    random_close(&p);
}

/* Gradients of all parameters never coexist: updates come as soon as their gradient is there. */
CASE(updates_come_early)
{
    enum { LAYERS = 8, SIDE = 64 };
    weir_device *d = fixture_open();
    weir_tensor *w[LAYERS], *lr = weir_input(d, weir_scalar(WEIR_F32));
    CHECK_OK(weir_write_fill(lr, 0.1));
    for (int i = 0; i < LAYERS; i++) {
        w[i] = weir_param(d, weir_2d(WEIR_F32, SIDE, SIDE), "w");
        CHECK_OK(weir_write_uniform(w[i], -0.1, 0.1));
    }
    size_t arena[2];
    for (int on = 0; on < 2; on++) {
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *h = weir_fill(d, weir_2d(WEIR_F32, 1, SIDE), 1), *grad[LAYERS];
        for (int i = 0; i < LAYERS; i++)
            h = weir_tanh(weir_matmul(h, w[i]));
        CHECK_OK(weir_gradients(weir_sum(h, 0, false), LAYERS, w, grad));
        for (int i = 0; i < LAYERS; i++)
            CHECK_OK(weir_sgd_update(w[i], grad[i], NULL, lr, NULL));
        CHECK_OK(weir_graph_end(g, on ? NULL : OPTIONS_WITHOUT("order")));
        arena[on] = g->plan->arena;
        weir_graph_free(g);
    }
    CHECK(arena[0] >= LAYERS * SIDE * SIDE * sizeof(float));
    CHECK(arena[1] <= 2 * SIDE * SIDE * sizeof(float));
    for (int i = 0; i < LAYERS; i++)
        weir_release(w[i]);
    weir_release(lr);
    weir_device_close(d);
}
