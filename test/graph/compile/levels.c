/* levels.c - whole networks train to the same bits with the graph off, on, as recorded, and with
 * each pass left out. */
#include "graph/fixture.h"
#include "graph/pass_list.h"
#include "graph/train.h"

#ifdef WEIR_SANITIZED
enum { STEPS = 3, FEW = 2 };
#else
enum { STEPS = 20, FEW = 4 };
#endif

static void check_net(train_net net, int64_t batch, int64_t side)
{
    const weir_step_options on = {.graph = true};
    const weir_step_options recorded = {.graph = true, .plan = {.level = WEIR_LEVEL_RECORDED}};
    const uint64_t          off = train_run(net, batch, side, STEPS, NULL);

    CHECK(off != 0);
    CHECK(train_run(net, batch, side, STEPS, &on) == off);
    CHECK(train_run(net, batch, side, STEPS, &recorded) == off);
    CHECK(train_run(net, batch, side, STEPS, NULL) == off);
    const uint64_t few = train_run(net, batch, side, FEW, NULL);
    CHECK(few != off);
    pass_name    passes[PASSES_MAX];
    const size_t n = pass_list(passes);
    for (size_t i = 0; i < n; i++) {
        const weir_step_options how = {.graph = true, .plan = {.disable = passes[i]}};
        if (!CHECK(train_run(net, batch, side, FEW, &how) == few))
            printf("    %s without %s\n", train_name[net], passes[i]);
    }
}

CASE(mlp)
{
    check_net(TRAIN_MLP, 16, 0);
}

CASE(digits_cnn)
{
    check_net(TRAIN_DIGITS, 8, 0);
}

CASE(lenet)
{
    check_net(TRAIN_LENET, 4, 0);
}

CASE(resnet18)
{
    check_net(TRAIN_RESNET18, 4, 16);
}

CASE(pooled)
{
    check_net(TRAIN_POOLED, 4, 0);
}

/* From the third step on nothing is allocated. */
CASE(steps_allocate_nothing)
{
    for (int net = 0; net < TRAIN_NETS; net++) {
        const weir_step_options how = {.graph = true};
        train t;
        if (!CHECK_OK(train_open(&t, (train_net)net, 4, 16, &how)))
            continue;
        CHECK_OK(train_step(&t, 0));
        CHECK_OK(train_step(&t, 1));
        const uint64_t calls = weir_mem_calls();
        for (int i = 2; i < 5; i++)
            CHECK_OK(train_step(&t, i));
        if (!CHECK(weir_mem_calls() == calls))
            printf("    %s: %llu\n", train_name[net],
                   (unsigned long long)(weir_mem_calls() - calls));
        train_close(&t);
    }
}

/* Graph off: blocks are recycled, so the pool stops growing. */
CASE(graph_off_recycles)
{
    train       t;
    weir_memory second, later;

    if (!CHECK_OK(train_open(&t, TRAIN_DIGITS, 8, 0, NULL)))
        return;
    CHECK_OK(train_step(&t, 0));
    CHECK_OK(train_step(&t, 1));
    weir_device_memory(t.d, &second);
    for (int i = 2; i < 6; i++)
        CHECK_OK(train_step(&t, i));
    weir_device_memory(t.d, &later);
    CHECK(later.pool == second.pool && later.live == second.live);
    CHECK(later.live_peak == second.live_peak && later.arena == 0);
    train_close(&t);
}
