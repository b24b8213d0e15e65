/* execute.c - random programs, graph off against graph on in every kind of plan: the same bits in
 * all states and kept results, run after run, and the measured peak is the planned one. */
#include "core/hash.h"
#include "graph/random.h"

enum { CALLS = 60, RUNS = 3 };

static uint64_t hash_of(uint64_t h, const weir_tensor *t)
{
    float v[RANDOM_ROWS * RANDOM_COLS];
    CHECK_OK(weir_read(t, v, weir_tensor_bytes(t)));
    return weir_hash_bytes(h, v, weir_tensor_bytes(t));
}

static uint64_t bits_of(const random_program *p, uint64_t h)
{
    for (int i = 0; i < RANDOM_STATES; i++)
        h = hash_of(h, p->state[i]);
    for (int i = 0; i < p->nkept; i++)
        h = hash_of(h, p->kept[i]);
    return h;
}

static uint64_t run_off(uint64_t seed)
{
    random_program p;
    uint64_t       bits = WEIR_HASH_SEED;

    random_open(&p);
    for (int run = 0; run < RUNS; run++) {
        check_random = seed;
        CHECK_OK(weir_scope_begin(p.d));
        random_body(&p, CALLS);
        bits = bits_of(&p, bits);
        CHECK_OK(weir_scope_end(p.d));
    }
    random_close(&p);
    return bits;
}

static uint64_t run_on(uint64_t seed, const weir_plan_options *o)
{
    random_program p;
    uint64_t       bits = WEIR_HASH_SEED;

    random_open(&p);
    check_random = seed;
    weir_graph *g = weir_graph_begin(p.d);
    random_body(&p, CALLS);
    CHECK_OK(weir_graph_end(g, o));
    for (int run = 0; run < RUNS; run++) {
        size_t peak;
        if (run == 1) {
            CHECK_OK(weir_graph_measure(g, &peak));
            CHECK(peak == g->plan->arena);
        } else {
            CHECK_OK(weir_graph_run(g));
        }
        bits = bits_of(&p, bits);
    }
    weir_graph_free(g);
    random_close(&p);
    return bits;
}

CASE(random_programs_off_and_on)
{
    static const weir_plan_options how[] = {
        {.level = 0}, {.level = WEIR_LEVEL_RECORDED}, {.disable = "fuse"}, {.disable = "inplace"},
        {.disable = "order,fuse"}, {.disable = "cse,copies,fold,dce"}};

    for (uint64_t seed = 1; seed <= 80; seed++) {
        const uint64_t want = run_off(seed * 7919);
        for (size_t i = 0; i < ARRAY_LENGTH(how); i++)
            if (!CHECK(run_on(seed * 7919, &how[i]) == want))
                printf("    program %d, plan %zu\n", (int)seed, i);
    }
}

/* ---- a run allocates nothing ---- */

CASE(no_allocations_after_the_first_run)
{
    random_program p;

    random_open(&p);
    weir_graph *g = weir_graph_begin(p.d);
    random_body(&p, CALLS);
    CHECK(fixture_finish(g, NULL));
    CHECK_OK(weir_graph_run(g));
    const uint64_t calls = weir_mem_calls();
    for (int i = 0; i < 10; i++)
        CHECK_OK(weir_graph_run(g));
    CHECK(weir_mem_calls() == calls);
    weir_graph_free(g);
    random_close(&p);
}
