/* lanes.c - instructions on several queues: whatever touches the same bytes keeps its order, by the
 * queues and the events alone; and narrow work does spread. */
#include "lab.h"
#include "random.h"

enum { CALLS = 60, LANES = 4, MOST = 512 };

/* seen[i][l]: what of queue l is done when i begins: the number of the last instruction + 1. */
static uint32_t seen[MOST][LANES];

static bool touches(const weir_plan *p, const weir_operand *a, const weir_operand *b)
{
    if (a->external || b->external)
        return a->external && b->external && a->store == b->store;
    const weir_item *const x = &p->items.at[p->item_of[a->store]];
    const weir_item *const y = &p->items.at[p->item_of[b->store]];
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static bool writes(const weir_instr *ins, int k)
{
    return k >= ins->call.nin || (weir_opdefs[ins->call.op]->mutates >> k & 1);
}

static bool conflict(const weir_plan *p, const weir_instr *a, const weir_instr *b)
{
    for (int i = 0; i < a->call.nin + a->call.nout; i++)
        for (int k = 0; k < b->call.nin + b->call.nout; k++)
            if ((writes(a, i) || writes(b, k)) && touches(p, &a->in[i], &b->in[k]))
                return true;
    return false;
}

static void follow(uint32_t *to, const uint32_t *from)
{
    for (int l = 0; l < LANES; l++)
        to[l] = from[l] > to[l] ? from[l] : to[l];
}

/* What each instruction is sure of, from its queue's order and the events that it awaits. */
static void order(const weir_plan *p)
{
    int last[LANES] = {-1, -1, -1, -1};

    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *const ins = &p->instr[i];
        const int               own = ins->lane;
        if (last[own] >= 0) {
            follow(seen[i], seen[last[own]]);
            seen[i][own] = (uint32_t)last[own] + 1;
        }
        for (uint32_t w = 0; w < ins->waits; w++)
            for (uint32_t j = 0; j < i; j++)
                if (p->instr[j].signals == p->wait[ins->first_wait + w]) {
                    follow(seen[i], seen[j]);
                    seen[i][p->instr[j].lane] = j + 1 > seen[i][p->instr[j].lane]
                                                    ? j + 1 : seen[i][p->instr[j].lane];
                }
        last[own] = (int)i;
    }
}

/* Every later queue begins after the run's begin and is awaited at its end. */
static void check_ends(const weir_plan *p)
{
    for (int l = 1; l < LANES; l++) {
        const weir_instr *first = NULL, *last = NULL;
        for (uint32_t i = 0; i < p->n; i++)
            if (p->instr[i].lane == l) {
                first = first ? first : &p->instr[i];
                last = &p->instr[i];
            }
        bool begins = !first, ends = !last;
        for (uint32_t w = 0; first && w < first->waits; w++)
            begins = begins || p->wait[first->first_wait + w] == 0;
        for (uint32_t w = p->ends; last && w < p->nwait; w++)
            ends = ends || p->wait[w] == last->signals;
        CHECK(begins && ends);
    }
}

static void check_plan(const weir_plan *p)
{
    if (!CHECK(p->n <= MOST))
        return;
    order(p);
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t j = i + 1; j < p->n; j++)
            if (conflict(p, &p->instr[i], &p->instr[j]) &&
                !CHECK(seen[j][p->instr[i].lane] >= i + 1))
                printf("    instructions %u and %u, queues %d and %d\n", i, j, p->instr[i].lane,
                       p->instr[j].lane);
    check_ends(p);
}

/* A machine on which calls take their time and leave room beside them. */
static const weir_rates roomy = {.flops = 1e12, .bytes = 1e11, .call = 1e-5, .width = 1e9};

CASE(order_is_kept_across_queues)
{
    int spread = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        random_program p;
        random_open(&p);
        check_random = seed * 104729;
        weir_graph *g = weir_graph_begin(p.d);
        random_body(&p, CALLS);
        CHECK_OK(weir_graph_end(g, seed % 2 ? NULL : LAB_WITHOUT("fuse")));
        CHECK_OK(weir_lanes(g->plan, LANES, &roomy));
        if (g->plan->events > 0) {
            spread++;
            check_plan(g->plan);
        }
        weir_graph_free(g);
        random_close(&p);
    }
    CHECK(spread > 10);
}

/* Four chains that share no bytes end sooner on four queues; wide ones do not. Each value is kept:
 * addresses that one chain takes over from another would put them in order. */
CASE(chains_side_by_side)
{
    weir_device *d = lab_open();
    weir_tensor *x = lab_input(d, 64, NULL), *y[4];
    weir_graph  *g = weir_graph_begin(d);
    weir_rates   full = roomy;

    for (int c = 0; c < 4; c++) {
        y[c] = weir_keep(weir_affine(x, 1, (double)c));
        for (int i = 0; i < 6; i++)
            y[c] = weir_keep(weir_affine(weir_keep(weir_tanh(y[c])), 2, (double)i));
    }
    CHECK_OK(weir_graph_end(g, LAB_WITHOUT("fuse")));
    weir_plan *const p = g->plan;
    CHECK_OK(weir_lanes(p, LANES, &roomy));
    CHECK(p->events > 0);
    uint32_t used = 0;
    for (uint32_t i = 0; i < p->n; i++)
        used |= 1u << p->instr[i].lane;
    CHECK(used == 15);
    check_plan(p);
    full.width = 1;
    CHECK_OK(weir_lanes(p, LANES, &full));
    CHECK(p->events == 0);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}
