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
    const weir_plan_options how[] = {
        {.level = 0},           {.level = WEIR_LEVEL_RECORDED}, {.disable = "fuse"},
        {.disable = "inplace"}, {.disable = "order,fuse"},      {.disable = weir_pass_names()}};

    for (uint64_t seed = 1; seed <= 80; seed++) {
        const uint64_t want = run_off(seed * 7919);
        for (size_t i = 0; i < ARRAY_LENGTH(how); i++)
            if (!CHECK(run_on(seed * 7919, &how[i]) == want))
                printf("    program %d, plan %zu\n", (int)seed, i);
    }
}

/* ---- whatever a step reads has a value ---- */

enum { CELLS = 4, STEPS = 12, ROUNDS = 200 };

/* Records random reads and overwrites of states that hold no value. Returns whether one is read
 * before it is first overwritten, found by looking back at every call before. */
static bool record_cells(weir_tensor *const *cell, weir_tensor *x)
{
    int          written[STEPS], nwritten = 0;
    bool         hazard = false;
    weir_tensor *last = x;

    for (int i = 0; i < STEPS; i++) {
        const int k = (int)check_int(0, CELLS - 1);
        bool      holds = false;
        for (int j = 0; j < nwritten; j++)
            holds = holds || written[j] == k;
        if (check_int(0, 2) == 0 && holds) {
            last = weir_keep(weir_affine(cell[k], 2, 1));
        } else if (check_int(0, 40) == 0) {
            hazard = hazard || !holds;
            last = weir_keep(weir_relu(cell[k]));
        } else if (check_int(0, 1)) {
            CHECK_OK(weir_assign(cell[k], last));
            written[nwritten++] = k;
        } else {
            last = weir_keep(weir_affine(last, 1, 3));  /* reads what this graph made */
        }
    }
    return hazard;
}

CASE(reads_before_any_write)
{
    static const float one[2] = {1, 2};
    weir_device       *d = fixture_open();
    weir_tensor       *x = fixture_input(d, 2, one);
    int                hazards = 0;

    for (int round = 0; round < ROUNDS; round++) {
        const weir_plan_options o = {.level = round % 2 ? WEIR_LEVEL_RECORDED : 0};
        weir_tensor            *cell[CELLS];
        for (int k = 0; k < CELLS; k++)
            CHECK((cell[k] = weir_state(d, weir_1d(WEIR_F32, 2), "cell")) != NULL);
        weir_graph *g = weir_graph_begin(d);
        const bool  hazard = record_cells(cell, x);
        CHECK_OK(weir_graph_end(g, &o));
        CHECK_STATUS(weir_graph_run(g), hazard ? WEIR_ERR_STATE : WEIR_OK);
        hazards += hazard;
        weir_graph_free(g);
        for (int k = 0; k < CELLS; k++)
            weir_release(cell[k]);
    }
    CHECK(hazards > ROUNDS / 10 && hazards < ROUNDS - ROUNDS / 10);
    weir_release(x);
    weir_device_close(d);
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
