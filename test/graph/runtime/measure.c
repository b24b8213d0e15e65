/* measure.c - the measured step peak equals the planned one, and would not if a kernel wrote
 * beyond. */
#include "graph/fixture.h"
#include "device/memory/arena.h"
#include "graph/train.h"

CASE(measured_is_planned)
{
    static const struct { train_net net; int64_t batch, side; } steps[] = {
        {TRAIN_MLP, 16, 0}, {TRAIN_DIGITS, 16, 0}, {TRAIN_LENET, 8, 0}, {TRAIN_RESNET18, 4, 16},
        {TRAIN_POOLED, 4, 0}};

    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        for (int level = -1; level < 1; level++) {
            const weir_step_options how = {.graph = true, .plan = {.level = level}};
            train  t;
            size_t peak = 0;
            if (!CHECK_OK(train_open(&t, steps[i].net, steps[i].batch, steps[i].side, &how)))
                continue;
            CHECK_OK(train_step(&t, 0));
            weir_graph *g = weir_step_graph(t.step);
            if (g && CHECK_OK(weir_graph_measure(g, &peak)) && !CHECK(peak == g->plan->arena))
                printf("    %s level %d: measured %zu, planned %zu\n", train_name[steps[i].net],
                       level, peak, g->plan->arena);
            train_close(&t);
        }
}

/* ---- a kernel that writes beyond its output ---- */

static struct {
    const weir_kernel *real;
    size_t             bytes, beyond; /* of output 0; written past its end */
} injected;

static weir_status overrun(const weir_kargs *k)
{
    const weir_status status = injected.real->run(k);
    if (status != WEIR_OK)
        return status;
    return k->dev->ops->fill(k->dev, (char *)k->dst[0] + injected.bytes, 0x5a, injected.beyond);
}

/* The instruction whose first output ends at the top of the arena. */
static weir_instr *top_of(const weir_plan *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        weir_instr *ins = &p->instr[i];
        if (ins->call.nout == 0 || ins->out[0].external)
            continue;
        const weir_item *it = &p->items.at[p->item_of[ins->out[0].storage]];
        if (it->offset + it->bytes == p->arena)
            return ins;
    }
    return NULL;
}

CASE(a_planted_overrun_is_seen)
{
    static const size_t beyond[] = {1, 64};

    for (size_t i = 0; i < ARRAY_LENGTH(beyond); i++) {
        weir_device *d = fixture_open_unguarded();
        weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 1024));
        CHECK_OK(weir_write_uniform(x, 0, 1));
        weir_graph *g = weir_graph_begin(d);
        weir_keep(weir_sum(weir_exp(x), 0, false));
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_device_arena(d, g->plan->arena + 4096, false));
        size_t peak;
        CHECK_OK(weir_graph_measure(g, &peak));
        CHECK(peak == g->plan->arena);

        weir_instr *ins = top_of(g->plan);
        if (CHECK(ins != NULL)) {
            weir_kernel bad = *ins->kernel;
            injected.real = ins->kernel;
            injected.bytes = weir_shape_bytes(&ins->call.out[0].desc);
            injected.beyond = beyond[i];
            bad.run = overrun;
            ins->kernel = &bad;
            CHECK_OK(weir_graph_measure(g, &peak));
            CHECK(peak == g->plan->arena + g->dev->ops->align);
            ins->kernel = injected.real;
            CHECK_OK(weir_graph_measure(g, &peak));
            CHECK(peak == g->plan->arena);
        }
        weir_graph_free(g);
        weir_release(x);
        weir_device_close(d);
    }
}

/* In a training step as well. */
CASE(a_planted_overrun_in_training)
{
    const weir_step_options how = {.graph = true};
    train  t;
    size_t peak;

    if (!CHECK_OK(train_open(&t, TRAIN_MLP, 8, 0, &how)))
        return;
    if (t.d->guard) {                   /* they see it themselves: guard.c */
        train_close(&t);
        return;
    }
    CHECK_OK(train_step(&t, 0));
    weir_graph *g = weir_step_graph(t.step);
    CHECK_OK(weir_device_arena(t.d, g->plan->arena + 4096, false));
    weir_instr *ins = top_of(g->plan);
    if (CHECK(ins != NULL)) {
        weir_kernel bad = *ins->kernel;
        injected.real = ins->kernel;
        injected.bytes = g->plan->items.at[g->plan->item_of[ins->out[0].storage]].bytes;
        injected.beyond = 64;
        bad.run = overrun;
        ins->kernel = &bad;
        CHECK_OK(weir_graph_measure(g, &peak));
        CHECK(peak == g->plan->arena + g->dev->ops->align);
        ins->kernel = injected.real;
    }
    train_close(&t);
}

CASE(only_of_a_planned_graph)
{
    weir_device *d = fixture_open();
    weir_graph  *g = weir_graph_begin(d);
    size_t       peak = 1;

    CHECK_STATUS(weir_graph_measure(g, &peak), WEIR_ERR_STATE);
    CHECK(peak == 0);
    CHECK(weir_graph_measure(NULL, &peak) != WEIR_OK);
    CHECK(weir_graph_measure(g, NULL) != WEIR_OK);
    weir_graph_free(g);
    weir_device_close(d);
}
