/* plan.c - plans of real training steps: the arena at its lower bound, nothing overlapping, all
 * parts accounted for. */
#include "graph/fixture.h"
#include "graph/train.h"

static const struct {
    train_net net;
    int64_t   batch, side;
} steps[] = {{TRAIN_MLP, 16, 0}, {TRAIN_DIGITS, 16, 0}, {TRAIN_LENET, 16, 0},
             {TRAIN_RESNET18, 4, 32}, {TRAIN_POOLED, 4, 0}};

/* The training step of a network, planned and not run. */
static weir_graph *plan_of(train *t, size_t i, const weir_plan_options *o)
{
    if (!CHECK_OK(train_open(t, steps[i].net, steps[i].batch, steps[i].side, NULL)))
        return NULL;
    weir_graph *g = weir_graph_begin(t->d);
    CHECK_OK(train_record(t));
    if (CHECK_OK(weir_graph_end(g, o)))
        return g;
    weir_graph_free(g);
    train_close(t);
    return NULL;
}

static void check_items(const weir_graph *g)
{
    const weir_plan *p = g->plan;
    size_t           top = 0;
    bool             apart = true;

    for (uint32_t i = 0; i < p->items.n; i++) {
        const weir_item *a = &p->items.at[i];
        CHECK(a->offset % 64 == 0 && a->bytes % 64 == 0 && a->last < p->n);
        top = a->bytes && a->offset + a->bytes > top ? a->offset + a->bytes : top;
        for (uint32_t k = 0; k < i; k++) {
            const weir_item *b = &p->items.at[k];
            apart = apart && (a->first > b->last || b->first > a->last ||
                              a->offset + a->bytes <= b->offset ||
                              b->offset + b->bytes <= a->offset);
        }
    }
    CHECK(apart && top == p->arena);
}

/* Every operand of every instruction lies in an item that is alive there. */
static void check_operands(const weir_graph *g)
{
    const weir_plan *p = g->plan;

    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *ins = &p->instr[i];
        for (int k = 0; k < ins->call.nin + ins->call.nout; k++) {
            const weir_operand *o = &ins->in[k];
            if (o->external)
                continue;
            const weir_item *it = &p->items.at[p->item_of[o->storage]];
            CHECK(it->first <= i && i <= it->last);
            CHECK(it->offset <= o->offset && o->offset <= it->offset + it->bytes);
        }
    }
}

CASE(arenas_meet_the_lower_bound)
{
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        for (int level = -1; level < 1; level++) {
            train       t;
            weir_graph *g = plan_of(&t, i, &(weir_plan_options){.level = level});
            if (!g)
                continue;
            check_items(g);
            check_operands(g);
            if (!CHECK((double)g->plan->arena <= 1.01 * (double)g->plan->lower_bound))
                printf("    %s level %d: %zu, bound %zu\n", train_name[steps[i].net], level,
                       g->plan->arena, g->plan->lower_bound);
            weir_graph_free(g);
            train_close(&t);
        }
}

/* Passes only ever help: the full plan is no larger than the recorded one. */
CASE(passes_help)
{
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        size_t arena[2];
        for (int level = -1; level < 1; level++) {
            train       t;
            weir_graph *g = plan_of(&t, i, &(weir_plan_options){.level = level});
            CHECK_OR_RETURN(g != NULL);
            arena[level + 1] = g->plan->arena;
            weir_graph_free(g);
            train_close(&t);
        }
        if (!CHECK(arena[1] <= arena[0]))
            printf("    %s: %zu to %zu bytes\n", train_name[steps[i].net], arena[0], arena[1]);
    }
}

/* The same step gives the same plan, offset by offset. */
CASE(plans_are_deterministic)
{
    train       a, b;
    weir_graph *g = plan_of(&a, 1, NULL), *h = plan_of(&b, 1, NULL);

    CHECK_OR_RETURN(g && h);
    CHECK(g->plan->n == h->plan->n && g->plan->arena == h->plan->arena &&
          g->plan->items.n == h->plan->items.n);
    CHECK_BITS(g->plan->items.at, h->plan->items.at, g->plan->items.n * sizeof(weir_item));
    weir_graph_free(g);
    weir_graph_free(h);
    train_close(&a);
    train_close(&b);
}

/* Persistent bytes are those the device holds, before the first run and after it. */
CASE(statistics)
{
    train            t;
    weir_graph      *g = plan_of(&t, 1, NULL);
    weir_graph_stats s, later;
    weir_memory      m;

    CHECK_OR_RETURN(g != NULL);
    CHECK_OK(weir_write_fill(t.x, 0.5));
    CHECK_OK(weir_write_fill(t.y, 3));
    CHECK_OK(weir_graph_stats_of(g, &s));
    CHECK(s.runs == 0 && s.nodes > s.instructions && s.flops > 0 && s.bytes > 0);
    CHECK(s.planned_peak_bytes == s.persistent_bytes + s.arena_bytes);
    CHECK(s.record_ms > 0 && s.plan_ms > 0 && s.workspace_bytes <= s.arena_bytes);
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_graph_stats_of(g, &later));
    weir_device_memory(t.d, &m);
    CHECK(later.runs == 2 && later.persistent_bytes == s.persistent_bytes);
    CHECK(m.persistent == s.persistent_bytes && m.arena == s.arena_bytes);
    CHECK(m.live == m.persistent);
    weir_graph_free(g);
    train_close(&t);
}
