/* world.c - the world of a simulated device: its spec, its communicator, times of collectives. */
#include "device/sim/sim.h"

#include <stdlib.h>

#include "check.h"
#include "core/mem.h"
#include "device/sim/spec.h"
#include "weir.h"

enum { N = 1000 };

/* 4 ranks on 2 nodes; calls and copies take no time. */
#define WORLD "sim:flops=1e24,memory=1e24,link=1e24,call=0,copy=0,world=4,node=2,wire=1e6,"        \
              "alpha=1e-3,inner=1e9"

/* Seconds of an all_reduce of 1000 f32 there. */
#define SERIAL (2 * (2 * 1e-3 + 1000 / 1e9 + 2 * 2 * 1000 / 1e6))
#define TREE   (2 * (1e-3 + 0.5 * 4000 / 1e9 + 0.5 * 4000 / 1e6))

CASE(a_world_in_a_spec)
{
    weir_sim_spec s;

    CHECK_OK(weir_sim_spec_read("v100", &s));
    CHECK(s.network.world == 1 && s.network.node == 1);
    CHECK_OK(weir_sim_spec_read("v100,world=512,node=8,wire=3.1e9,alpha=20e-6", &s));
    CHECK(s.network.world == 512 && s.network.node == 8);
    CHECK(s.network.wire == 3.1e9 && s.network.alpha == 20e-6);
    CHECK(s.network.inner == 12e9 && s.network.inner_alpha == 1e-5);    /* those of the link */
    CHECK_OK(weir_sim_spec_read("inner=300GB/s,world=65536,copy=1e-6,link_in=1e9", &s));
    CHECK(s.network.world == 65536 && s.network.inner == 300e9 && s.network.inner_alpha == 1e-6);
    CHECK(s.network.wire == 3.1e9 && s.network.alpha == 2e-5);
}

CASE(bad_worlds)
{
    static const struct { const char *text, *says; } bad[] = {
        {"sim:world=0", "world=0 must be a whole number of ranks from 1 to 65536"},
        {"sim:world=-4", "world=-4 must be"},
        {"sim:world=2.5", "world=2.5 must be"},
        {"sim:world=65537", "world=65537 must be"},
        {"sim:world=8,node=0", "node=0 must be a whole number of ranks"},
        {"sim:world=12,node=8", "nodes of 8 ranks do not divide a world of 12"},
        {"sim:node=8", "nodes of 8 ranks do not divide a world of 1"},
        {"sim:world=2,wire=-1", "wire=-1 must be at least 1 byte"},
        {"sim:world=2,wire=0", "wire=0 must be"},
        {"sim:world=2,inner=0", "inner=0 must be"},
        {"sim:world=2,alpha=-1e-6", "alpha=-1e-6 must be seconds"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        CHECK(weir_device_open(bad[i].text, NULL) == NULL);
        CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), bad[i].says);
    }
}

static weir_device *opened(const char *name)
{
    weir_device *const d = weir_device_open(name, &(weir_device_options){.threads = 1});

    CHECK(d != NULL);
    return d;
}

CASE(the_communicator_of_the_world)
{
    weir_device *const d = opened(WORLD);
    weir_comm *const   c = weir_comm_open("auto", d, &(weir_comm_options){.order = "tree"});
    double             constant, per_byte;

    CHECK_OR_RETURN(c != NULL);
    CHECK(weir_comm_rank(c) == 0 && weir_comm_world(c) == 4);
    CHECK_TEXT(weir_comm_order(c), "tree");
    char *text = weir_comm_text(c);
    CHECK_TEXT(text, "simulated: rank 0 of 4, sums in order tree");
    weir_text_free(text);
    text = weir_info_text(d);
    CHECK_TEXT(text, "rank 0 of 4, 2 a node; 0.001 GB/s and 1000 us a message between nodes");
    weir_text_free(text);
    CHECK_OK(weir_comm_measure(c, &constant, &per_byte));
    CHECK_NEAR(constant, 2 * 1e-3, 1e-9);
    CHECK_NEAR(per_byte, 2 * (0.5 / 1e9 + 0.5 / 1e6), 1e-12);
    weir_comm_close(c);
    weir_device_close(d);
}

/* Each rank has sent what this one has. */
CASE(host_data_is_that_of_this_rank)
{
    weir_device *const d = opened(WORLD);
    weir_comm *const   c = weir_comm_open("auto", d, NULL);
    const int          mine = 7;
    int                all[4] = {0};
    bool               equal = false;
    weir_comm_stats    stats;

    CHECK_OR_RETURN(c != NULL);
    CHECK_OK(weir_comm_gather(c, &mine, sizeof mine, all));
    for (int r = 0; r < 4; r++)
        CHECK(all[r] == mine);
    CHECK_OK(weir_comm_equal(c, &mine, sizeof mine, &equal));
    CHECK(equal && weir_device_clock(d) == 0);
    CHECK_OK(weir_comm_stats_of(c, &stats));
    CHECK(stats.collectives == 0 && stats.wire_ms == 0);
    weir_comm_close(c);
    weir_device_close(d);
}

CASE(other_specs_are_refused)
{
    weir_device *const d = opened(WORLD);

    CHECK(weir_comm_open("local:x,rank=0,world=2", d, NULL) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "'local:x,rank=0,world=2' joins ranks that compute, which device sim "
                             "does not");
    CHECK(weir_comm_open("auto", d, &(weir_comm_options){.order = "ring"}) == NULL);
    CHECK_TEXT(weir_error(), "'ring'");
    weir_device_close(d);
}

/* A launcher's variables are of no account. */
CASE(one_rank_sends_nothing)
{
    setenv("WEIR_COMM", "local:nobody,rank=0,world=2", 1);
    weir_device *const d = opened("sim:v100");
    weir_comm *const   c = weir_comm_open("auto", d, NULL);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, N));

    unsetenv("WEIR_COMM");
    CHECK_OR_RETURN(c != NULL);
    CHECK(weir_comm_world(c) == 1 && weir_all_reduce(c, x) == x && weir_device_clock(d) == 0);
    weir_release(x);
    weir_comm_close(c);
    weir_device_close(d);
}

/* With the graph off each is waited for. */
CASE(collectives_take_the_wire)
{
    static const char *const order[] = {"serial", "tree"};

    for (int i = 0; i < 2; i++) {
        weir_device *const d = opened(WORLD);
        weir_comm *const   c = weir_comm_open("auto", d, &(weir_comm_options){.order = order[i]});
        weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, N));
        weir_comm_stats    stats;

        CHECK_OR_RETURN(c != NULL);
        CHECK_OK(weir_write_fill(x, 0));
        const double begin = weir_device_clock(d), want = i ? TREE : SERIAL;
        CHECK(weir_all_reduce(c, x) != NULL);
        CHECK_NEAR(weir_device_clock(d) - begin, want, 1e-12);
        CHECK(weir_reduce_scatter(c, x) != NULL);
        CHECK_NEAR(weir_device_clock(d) - begin, 1.5 * want, 1e-12);
        CHECK(weir_send_to(c, x, 1) != NULL);       /* within the node */
        CHECK_NEAR(weir_device_clock(d) - begin, 1.5 * want + 4000 / 1e9, 1e-12);
        CHECK_OK(weir_comm_stats_of(c, &stats));
        CHECK(stats.collectives == 3 && stats.bytes == 12000);
        CHECK_NEAR(stats.wire_ms, 1500 * want + 4e6 / 1e9, 1e-9);
        CHECK_NEAR(stats.waited_ms, stats.wire_ms, 1e-9);
        weir_release(x);
        weir_comm_close(c);
        weir_device_close(d);
    }
}

CASE(leaving_ends_collectives)
{
    weir_device *const d = opened(WORLD);
    weir_comm *const   c = weir_comm_open("auto", d, NULL);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, N));

    CHECK_OR_RETURN(c != NULL);
    CHECK_OK(weir_write_fill(x, 0));
    weir_comm_leave(c);
    CHECK(weir_all_reduce(c, x) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_COMM);
    CHECK_TEXT(weir_error(), "rank 0 has left its communicator");
    weir_release(x);
    weir_comm_close(c);
    weir_device_close(d);
}

CASE(joining_short_of_memory)
{
    weir_device *const d = opened(WORLD);
    const int64_t      alive = weir_mem_alive();
    weir_comm         *c = NULL;

    for (int n = 0; n < 9 && !c; n++) {
        weir_mem_fail_nth(n, true);
        c = weir_comm_open("auto", d, NULL);
        weir_mem_fail_nth(-1, false);
        CHECK(c || (weir_error_status() == WEIR_ERR_NOMEM && weir_mem_alive() == alive));
    }
    CHECK(c != NULL);
    weir_comm_close(c);
    weir_device_close(d);
}
