/* streams.c - instructions on several queues: whatever touches the same bytes keeps its order, by
 * the queues and the events alone; and narrow work does spread, where addresses that allow it
 * fit. */
#include "graph/fixture.h"
#include "graph/random.h"

enum { CALLS = 60, STREAMS = 4, MOST = 512 };

/* seen[i][l]: what of queue l is done when i begins: the number of the last instruction + 1. */
static uint32_t seen[MOST][STREAMS];

static bool touches(const weir_plan *p, const weir_operand *a, const weir_operand *b)
{
    if (a->external || b->external)
        return a->external && b->external && a->storage == b->storage;
    const weir_item *const x = &p->items.at[p->item_of[a->storage]];
    const weir_item *const y = &p->items.at[p->item_of[b->storage]];
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static bool writes(const weir_instr *ins, int k)
{
    return k >= ins->call.nin || (ins->call.def->mutates >> k & 1);
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
    for (int l = 0; l < STREAMS; l++)
        to[l] = from[l] > to[l] ? from[l] : to[l];
}

/* Which earlier instructions each one waits for, by its queue's order and its events. */
static void order(const weir_plan *p)
{
    int last[STREAMS] = {-1, -1, -1, -1};

    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *const ins = &p->instr[i];
        const int               own = ins->stream;
        if (last[own] >= 0) {
            follow(seen[i], seen[last[own]]);
            seen[i][own] = (uint32_t)last[own] + 1;
        }
        for (uint32_t w = 0; w < ins->waits; w++)
            for (uint32_t j = 0; j < i; j++)
                if (p->instr[j].signals == p->wait[ins->first_wait + w]) {
                    follow(seen[i], seen[j]);
                    seen[i][p->instr[j].stream] =
                        j + 1 > seen[i][p->instr[j].stream] ? j + 1 : seen[i][p->instr[j].stream];
                }
        last[own] = (int)i;
    }
}

/* Every later queue begins after the run's begin and is awaited at its end. */
static void check_ends(const weir_plan *p)
{
    for (int l = 1; l < STREAMS; l++) {
        const weir_instr *first = NULL, *last = NULL;
        for (uint32_t i = 0; i < p->n; i++)
            if (p->instr[i].stream == l) {
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
                !CHECK(seen[j][p->instr[i].stream] >= i + 1))
                printf("    instructions %u and %u, queues %d and %d\n", i, j, p->instr[i].stream,
                       p->instr[j].stream);
    check_ends(p);
}

/* Items that are needed at the same time lie apart, within the arena. */
static void check_places(const weir_plan *p)
{
    for (uint32_t i = 0; i < p->items.n; i++) {
        const weir_item *const a = &p->items.at[i];
        CHECK(a->bytes == 0 || a->offset + a->bytes <= p->arena);
        for (uint32_t j = 0; j < i; j++) {
            const weir_item *const b = &p->items.at[j];
            CHECK(a->last < b->first || b->last < a->first || a->offset + a->bytes <= b->offset ||
                  b->offset + b->bytes <= a->offset || a->bytes == 0 || b->bytes == 0);
        }
    }
}

/* A machine on which calls take their time and leave room beside them. */
static const weir_rates idle_machine = {.flops = 1e12, .bytes = 1e11, .call = 1e-5, .width = 1e9};

CASE(order_is_kept_across_queues)
{
    int overlapped = 0;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        random_program p;
        random_open(&p);
        check_random = seed * 104729;
        weir_graph *g = weir_graph_begin(p.d);
        random_body(&p, CALLS);
        CHECK_OK(weir_graph_end(g, seed % 2 ? NULL : OPTIONS_WITHOUT("fuse")));
        CHECK_OK(weir_plan_overlap(g, STREAMS, &idle_machine));
        check_places(g->plan);
        if (g->plan->events > 0) {
            overlapped++;
            check_plan(g->plan);
        }
        weir_graph_free(g);
        random_close(&p);
    }
    CHECK(overlapped > 10);
}

/* Four chains, values of N floats each, of `links` links; no value is kept but the last. */
static weir_graph *chains(weir_device *d, weir_tensor *x, int links, const char *budget)
{
    weir_tensor *y[4];
    weir_graph  *g = weir_graph_begin(d);

    for (int c = 0; c < 4; c++) {
        y[c] = weir_affine(x, 1, (double)c);
        for (int i = 0; i < links; i++)
            y[c] = weir_affine(weir_tanh(y[c]), 2, (double)i);
        weir_keep(y[c]);
    }
    CHECK_OK(weir_graph_end(g, &(weir_plan_options){.disable = "fuse inplace", .budget = budget}));
    return g;
}

/* Independent chains end sooner on four queues if their values do not share memory; wide operations
 * gain nothing, and then the plan stays as it was. */
CASE(chains_side_by_side)
{
    setenv("WEIR_STREAMS", "1", 1);     /* a card's own would spread the plan before */
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 64, NULL);
    weir_graph  *g = chains(d, x, 6, NULL);
    weir_rates   full = idle_machine;
    double       tight, overlapped;

    const size_t arena = g->plan->arena;
    CHECK_OK(weir_assign_streams(g->plan, STREAMS, &idle_machine, &tight));
    CHECK_OK(weir_plan_overlap(g, STREAMS, &idle_machine));
    weir_plan *const p = g->plan;
    CHECK(weir_streams_used(p) == STREAMS);
    CHECK(p->arena > arena && p->arena >= p->lower_bound);
    check_plan(p);
    check_places(p);
    CHECK_OK(weir_assign_streams(p, STREAMS, &idle_machine, &overlapped));
    CHECK(overlapped < tight / 2);
    const size_t wider = p->arena;
    full.width = 1;
    CHECK_OK(weir_plan_overlap(g, STREAMS, &full));
    CHECK(g->plan->events == 0 && g->plan->arena == wider);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
    unsetenv("WEIR_STREAMS");
}

/* Within a budget addresses spread as far as it reaches. */
CASE(budget_bounds_what_spreads)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 1024, NULL);
    weir_graph  *g = chains(d, x, 8, NULL);
    const size_t peak = weir_plan_resident(g) + g->plan->arena;
    int          before = 0;
    double       seconds;
    char         budget[32];

    weir_graph_free(g);
    for (size_t more = 0; more <= 6; more++) {
        snprintf(budget, sizeof budget, "%zu", peak + more * 1024 * sizeof(float));
        g = chains(d, x, 8, budget);
        CHECK_OK(weir_assign_streams(g->plan, STREAMS, &idle_machine, &seconds));
        const uint32_t events = g->plan->events;
        CHECK_OK(weir_plan_overlap(g, STREAMS, &idle_machine));
        CHECK(weir_plan_resident(g) + g->plan->arena <= g->budget);
        const int streams = weir_streams_used(g->plan);
        CHECK(streams >= before && (g->plan->events > 0) >= (events > 0));
        before = streams;
        check_plan(g->plan);
        check_places(g->plan);
        weir_graph_free(g);
    }
    CHECK(before == STREAMS);
    weir_release(x);
    weir_device_close(d);
}

/* The reordered plan computes the same; if memory fails, the old plan stays intact. */
CASE(spreading_keeps_the_values)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 64, NULL);
    float        want[4], got[4];
    double       seconds;

    for (int64_t nth = -1;; nth++) {
        weir_tensor *y[4];
        weir_graph  *g = weir_graph_begin(d);
        for (int c = 0; c < 4; c++) {
            y[c] = weir_affine(x, 1, (double)c);
            for (int i = 0; i < 5; i++)
                y[c] = weir_affine(weir_tanh(y[c]), 2, (double)i);
            y[c] = weir_keep(weir_sum(y[c], 0, false));
        }
        CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT("fuse")));
        weir_status status = WEIR_OK;
        if (nth >= 0) {
            weir_mem_fail_nth(nth, false);
            status = weir_plan_overlap(g, STREAMS, &idle_machine);
            weir_mem_fail_nth(-1, false);
            CHECK(status == WEIR_OK || status == WEIR_ERR_NOMEM);
        }
        const int streams = weir_streams_used(g->plan);
        CHECK_OK(weir_graph_check(g));
        check_places(g->plan);
        CHECK_OK(
            weir_assign_streams(g->plan, 1, &idle_machine, &seconds)); /* all that the CPU has */
        CHECK_OK(weir_graph_run(g));
        for (int c = 0; c < 4; c++)
            CHECK_OK(weir_read(y[c], nth < 0 ? &want[c] : &got[c], sizeof *got));
        CHECK(nth < 0 || memcmp(want, got, sizeof want) == 0);
        const bool done = nth >= 0 && status == WEIR_OK;
        CHECK(!done || streams == STREAMS);
        weir_graph_free(g);
        if (done)
            break;
    }
    weir_release(x);
    weir_device_close(d);
}
