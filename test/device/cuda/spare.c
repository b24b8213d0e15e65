/* spare.c - tests of the memory that stays free for CUDA's libraries where no budget is named. */
#include "device/cuda/card_fixture.h"
#include "device/memory/reserve.h"

#include <math.h>

enum { MIB = 1 << 20 };

static card_fixture card;

/* A card with `bytes` free. */
static weir_device *card_with(size_t bytes)
{
    char text[32];

    snprintf(text, sizeof text, "%zu", card.allocated() + bytes);
    setenv("WEIR_EMULATED_BYTES", text, 1);
    return weir_device_open("cuda", NULL);
}

/* The side of a square of f32 that takes nearly `bytes`. */
static int64_t side_of(size_t bytes)
{
    return (int64_t)sqrt((double)bytes / sizeof(float));
}

/* Plans and runs the sum of a product of n * n elements, which alone is in the arena. */
static weir_status run_product(weir_device *d, int64_t n, const char *budget)
{
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, n, 1));
    float *const       at = calloc((size_t)n, sizeof *at);

    weir_status status = weir_write(x, at, (size_t)n * sizeof *at);
    free(at);
    weir_graph *const g = weir_graph_begin(d);
    (void)weir_keep(weir_sum(weir_matmul_t(x, x, false, true), 0, false));
    if (status == WEIR_OK)
        status = weir_graph_end(g, &(weir_plan_options){.budget = budget});
    if (status == WEIR_OK)
        status = weir_graph_run(g);
    if (status == WEIR_OK)
        status = weir_device_sync(d);
    weir_release(x);
    weir_graph_free(g);
    return status;
}

CASE(an_arena_without_a_budget_leaves_room)
{
    weir_memory m;

    CHECK_OR_RETURN(card_fixture_of(&card));
    weir_device *d = card_with(8 * MIB);
    CHECK_OR_RETURN(d != NULL);
    weir_device_memory(d, &m);
    CHECK(m.reserved == m.total / WEIR_RESERVE_SHARE && m.reserved >= MIB / 4);
    CHECK(m.auto_budget == 0);          /* its reserve is never less than 64 MiB */
    CHECK_OR_RETURN(m.unused > 2 * m.reserved);         /* other cases may hold memory */
    const int64_t n = side_of(m.unused - m.reserved / 2);
    CHECK_STATUS(run_product(d, n, NULL), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "no memory for an arena of ");
    CHECK_TEXT(weir_error(), "are kept for what the device's libraries load later, unless a budget "
                             "is named");
    weir_device_close(d);
    d = card_with(8 * MIB);
    CHECK_OK(run_product(d, n, "100MB"));
    weir_device_close(d);
    d = card_with(8 * MIB);
    CHECK_OK(run_product(d, side_of(m.unused - m.reserved - m.reserved / 2), NULL));
    weir_device_close(d);
    unsetenv("WEIR_EMULATED_BYTES");
}

CASE(blocks_without_a_budget_leave_room)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    weir_device *const d = card_with(4 * MIB);
    CHECK_OR_RETURN(d != NULL);
    const size_t       n = 1000000;
    float *const       at = calloc(n, sizeof *at);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, (int64_t)n));
    CHECK_STATUS(weir_write(x, at, n * sizeof *at), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "a budget, such as \"auto\", says how many bytes to use");
    CHECK_OK(weir_device_set_budget(d, "4.1MB"));
    CHECK_OK(weir_write(x, at, n * sizeof *at));
    weir_release(x);
    free(at);
    weir_device_close(d);
    unsetenv("WEIR_EMULATED_BYTES");
}

/* On a card of the usual size the reserve is one number, which the budget "auto" leaves, too. */
CASE(the_reserve_is_told)
{
    weir_memory m;

    CHECK_OR_RETURN(card_fixture_of(&card));
    setenv("WEIR_EMULATED_BYTES", "25769803776", 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    weir_device_memory(d, &m);
    CHECK(m.reserved == (size_t)768 * MIB);
    CHECK(m.auto_budget + m.reserved <= m.unused);
    char *const info = weir_info_text(d);
    CHECK_TEXT(info, "0.81 GB stay free, where no budget is named");
    weir_text_free(info);
    weir_device_close(d);
    unsetenv("WEIR_EMULATED_BYTES");
    weir_device *const cpu = weir_device_open("cpu", NULL);
    weir_device_memory(cpu, &m);
    CHECK(m.reserved == 0);
    weir_device_close(cpu);
}
