/* placed_plans.c - recorded graphs planned by every placement; a placement that does not exist. */
#include "graph/fixture.h"
#include "graph/placed.h"

enum { EVERY = ARRAY_LENGTH(placers) };

static weir_status record_step(weir_device *d, const char *placement, weir_graph **g)
{
    static const float zeros[8 * 16];
    weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, 8, 16)), *y;

    CHECK_OK(weir_write(x, zeros, sizeof zeros));
    *g = weir_graph_begin(d);
    y = weir_keep(weir_mul(weir_exp(x), weir_sigmoid(weir_sin(x))));
    const weir_status status =
        weir_graph_end(*g, &(weir_plan_options){.placement = placement,
                                                .disable = "fuse,inplace"});
    weir_release(x);
    return y ? status : weir_error_status();
}

CASE(a_plan_by_each_strategy)
{
    for (int s = 0; s <= EVERY; s++) {
        weir_device     *d = weir_device_open(check_device(), NULL);
        weir_graph      *g = NULL;
        weir_graph_stats stats;
        size_t           measured;

        CHECK_OK(record_step(d, s < EVERY ? placers[s] : NULL, &g));
        CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_graph_stats_of(g, &stats));
        CHECK_OK(weir_graph_measure(g, &measured));
        CHECK(measured == stats.arena_bytes && measured > 0);
        weir_graph_free(g);
        weir_device_close(d);
    }
}

CASE(an_unknown_strategy)
{
    weir_device *d = weir_device_open(check_device(), NULL);
    weir_graph  *g = NULL;

    CHECK_STATUS(record_step(d, "luck", &g), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "unknown placement 'luck' (expected auto, life");
    weir_graph_free(g);
    weir_device_close(d);
}
