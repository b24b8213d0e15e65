/* evict.c - a budget with the graph off: live bytes stay within it, the bits stay what they were. */
#include "lab.h"
#include "train.h"

#include <stdlib.h>

enum { STEPS = 20 };

static const char *const policies[] = {"dtr",      "dtr:eq",   "dtr:local",
                                       "dtr:lru",  "dtr:size", "dtr:msps"};

static const struct { train_net net; int64_t batch, side; } nets[] = {
    {TRAIN_MLP, 64, 0}, {TRAIN_DIGITS, 16, 0}, {TRAIN_LENET, 8, 0}, {TRAIN_POOLED, 4, 0}};

typedef struct outcome {
    weir_status status;
    uint64_t    bits;
    weir_memory memory;
} outcome;

static outcome run(size_t net, size_t budget, const char *policy, int steps)
{
    outcome o = {.status = WEIR_ERR_NOMEM};
    char    text[32];
    train   t;

    if (!CHECK_OK(train_open(&t, nets[net].net, nets[net].batch, nets[net].side, NULL)))
        return o;
    snprintf(text, sizeof text, "%zu", budget);
    if (budget) {
        CHECK_OK(weir_device_set_policy(t.d, policy));
        CHECK_OK(weir_device_set_budget(t.d, text));
    }
    o.status = WEIR_OK;
    for (int k = 0; k < steps && o.status == WEIR_OK; k++)
        o.status = train_step(&t, k);
    if (o.status == WEIR_OK)
        o.bits = train_bits(&t);
    weir_device_memory(t.d, &o.memory);
    train_close(&t);
    return o;
}

CASE(training_within_a_budget)
{
    for (size_t i = 0; i < LAB_COUNT(nets); i++) {
        const outcome plain = run(i, 0, NULL, STEPS);
        CHECK_OR_RETURN(plain.status == WEIR_OK);
        CHECK(plain.memory.evicted == 0 && plain.memory.again == 0);
        for (int percent = 100; percent >= 10; percent -= 10) {
            const size_t  budget = plain.memory.live_peak / 100 * (size_t)percent;
            const outcome o = run(i, budget, "dtr", STEPS);
            printf("%s %d%%: %zu of %zu, persistent %zu, evicted %llu again %llu: %s\n",
                   train_name[nets[i].net], percent, o.memory.live_peak, plain.memory.live_peak,
                   plain.memory.persistent, (unsigned long long)o.memory.evicted,
                   (unsigned long long)o.memory.again, o.status == WEIR_OK ? "ok" : weir_error());
            CHECK(o.memory.live_peak <= budget && o.memory.pool <= budget);
            if (o.status == WEIR_OK)
                CHECK(o.bits == plain.bits);
            else
                CHECK_STATUS(o.status, WEIR_ERR_BUDGET);
        }
    }
}

/* Each rule alone, at a budget that all of them can keep. */
CASE(every_policy)
{
    const outcome plain = run(1, 0, NULL, STEPS);

    for (size_t p = 0; p < LAB_COUNT(policies); p++)
        for (int percent = 80; percent >= 60; percent -= 20) {
            const size_t  budget = plain.memory.live_peak / 100 * (size_t)percent;
            const outcome o = run(1, budget, policies[p], STEPS);
            printf("%s %d: evicted %llu again %llu\n", policies[p], percent, (unsigned long long)o.memory.evicted, (unsigned long long)o.memory.again);
            CHECK_OK(o.status);
            CHECK(o.bits == plain.bits && o.memory.live_peak <= budget && o.memory.again > 0);
        }
}
