/* update_rows.c - large gradients in blocks of rows: same bits as the graph off, never in memory
 * as a whole, and only where an update alone reads them. */
#include "graph/passes/passes.h"

#include "core/hash.h"
#include "graph/fixture.h"
#include "graph/plan/plan.h"

/* ROWS x COLS is a gradient of 10 MB, the smallest that is divided being 8 MiB. The last block is
 * shorter. */
enum { BATCH = 2, ROWS = 2600, COLS = 1000, STEPS = 3 };

#define GRADIENT ((size_t)ROWS * COLS * sizeof(float))

typedef enum optimiser { SGD, MOMENTUM, ADAM, ACCUMULATE, OPTIMISERS } optimiser;

/* What reads the gradient beside its update. */
typedef enum reader { NOBODY, SECOND_READER, CLIPPING, KEPT, ANOTHER_WEIGHT } reader;

typedef struct training {
    weir_device *d;
    weir_tensor *x, *w, *m, *v, *step, *lr;
    weir_tensor *u, *n;     /* ANOTHER_WEIGHT: a parameter and its momentum buffer; else NULL */
    optimiser    by;
    reader       beside;
} training;

static training training_new(optimiser by, reader beside)
{
    training t = {.d = fixture_open(), .by = by, .beside = beside};

    t.x = weir_input(t.d, weir_2d(WEIR_F32, BATCH, ROWS));
    t.w = weir_param(t.d, weir_2d(WEIR_F32, ROWS, COLS), "w");
    t.m = weir_state(t.d, weir_2d(WEIR_F32, ROWS, COLS), "m");
    t.v = weir_state(t.d, weir_2d(WEIR_F32, ROWS, COLS), "v");
    t.step = weir_state(t.d, weir_scalar(WEIR_F64), "step");
    t.lr = weir_input(t.d, weir_scalar(WEIR_F32));
    if (beside == ANOTHER_WEIGHT) {
        t.u = weir_param(t.d, weir_2d(WEIR_F32, ROWS, COLS), "u");
        t.n = weir_state(t.d, weir_2d(WEIR_F32, ROWS, COLS), "n");
        CHECK_OK(weir_write_uniform(t.u, -0.1, 0.1));
        CHECK_OK(weir_write_fill(t.n, 0.125));
    }
    CHECK_OK(weir_write_uniform(t.x, -1, 1));
    CHECK_OK(weir_write_uniform(t.w, -0.1, 0.1));
    CHECK_OK(weir_write_fill(t.m, 0.25));
    CHECK_OK(weir_write_fill(t.v, 0.5));
    CHECK_OK(weir_write_fill(t.step, 1));
    CHECK_OK(weir_write_fill(t.lr, 0.1));
    return t;
}

static void training_free(training *t)
{
    weir_tensor *const all[] = {t->x, t->w, t->m, t->v, t->step, t->lr, t->u, t->n};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weir_release(all[i]);
    weir_device_close(t->d);
}

static weir_status update(const training *t, weir_tensor *g)
{
    switch (t->by) {
    case SGD:
        return weir_sgd_update(t->w, g, NULL, t->lr, NULL);
    case MOMENTUM:
        return weir_sgd_update(t->w, g, t->m, t->lr,
                               &(weir_sgd_options){.momentum = 0.9, .weight_decay = 0.01});
    case ADAM:
        return weir_adam_update(t->w, g, t->m, t->v, t->step, t->lr, NULL);
    default:
        return weir_accumulate(t->m, g);
    }
}

/* Two layers beside each other, of which each has its update. */
static weir_status step_of_two(const training *t)
{
    const weir_sgd_options o = {.momentum = 0.9};
    weir_tensor *const     h = weir_add(weir_tanh(weir_matmul(t->x, t->w)),
                                        weir_tanh(weir_matmul(t->x, t->u)));
    weir_tensor           *g[2];

    WEIR_TRY(weir_gradients(weir_sum(weir_sum(h, 0, false), 0, false), 2,
                            (weir_tensor *[]){t->w, t->u}, g));
    WEIR_TRY(weir_sgd_update(t->w, g[0], t->m, t->lr, &o));
    return weir_sgd_update(t->u, g[1], t->n, t->lr, &o);
}

static weir_status take_step(void *context)
{
    const training *t = context;
    weir_tensor    *g;

    if (t->beside == ANOTHER_WEIGHT)
        return step_of_two(t);
    weir_tensor *const loss = weir_sum(weir_tanh(weir_matmul(t->x, t->w)), 0, false);
    WEIR_TRY(weir_gradients(weir_sum(loss, 0, false), 1, &t->w, &g));
    weir_pair pair = {t->w, g};
    if (t->beside == SECOND_READER)
        weir_keep(weir_sum(g, 0, false));
    if (t->beside == KEPT)
        weir_keep(g);
    if (t->beside == CLIPPING) {
        WEIR_TRY(weir_clip_norm(&pair, 1, 0.5, &pair, NULL));
        g = pair.grad;
    }
    return update(t, g);
}

/* Hash of the weight and of both states after some steps; *arena gets the plan's. */
static uint64_t bits_after(optimiser by, reader beside, const weir_step_options *o, size_t *arena,
                           uint32_t *products)
{
    training         t = training_new(by, beside);
    weir_step *const s = weir_step_new(t.d, take_step, &t, o);
    uint64_t         bits = WEIR_HASH_SEED;
    float *const     values = weir_mem_alloc(GRADIENT);

    for (int i = 0; i < STEPS; i++)
        CHECK_OK(weir_step_run(s));
    const weir_graph *const g = weir_step_graph(s);
    if (g && arena)
        *arena = g->plan->arena;
    if (g && products)
        *products = fixture_count(g, WEIR_OP_MATMUL);
    weir_tensor *const changed[] = {t.w, t.m, t.v, t.u, t.n};
    for (int i = 0; i < (t.u ? 5 : 3); i++)
        if (CHECK_OK(weir_read(changed[i], values, GRADIENT)))
            bits = weir_hash_bytes(bits, values, GRADIENT);
    weir_mem_free(values);
    weir_step_free(s);
    training_free(&t);
    return bits;
}

CASE(same_bits_and_no_gradient)
{
    for (int by = 0; by < OPTIMISERS; by++) {
        const weir_step_options whole = {.graph = true, .plan = {.disable = "update_rows"}};
        const weir_step_options rows = {.graph = true};
        size_t                  arena[2] = {0, 0};
        const uint64_t off = bits_after((optimiser)by, NOBODY, NULL, NULL, NULL);
        CHECK(bits_after((optimiser)by, NOBODY, &whole, &arena[0], NULL) == off);
        CHECK(bits_after((optimiser)by, NOBODY, &rows, &arena[1], NULL) == off);
        if (check_on_cpu()) {
            CHECK(arena[0] >= GRADIENT);
            CHECK(arena[1] < GRADIENT / 4);
        }
    }
}

CASE(another_reader_prevents_it)
{
    for (int beside = SECOND_READER; beside <= KEPT; beside++) {
        const weir_step_options rows = {.graph = true};
        uint32_t                products = 0;
        const uint64_t          off = bits_after(SGD, (reader)beside, NULL, NULL, NULL);
        CHECK(bits_after(SGD, (reader)beside, &rows, NULL, &products) == off);
        CHECK(products == 2);           /* forward, and the whole gradient */
    }
}

/* Parameters and momentum are offloaded while other blocks are computed. */
CASE(within_a_budget)
{
    const weir_step_options within = {.graph = true, .plan = {.budget = "80%"}};
    const uint64_t          off = bits_after(MOMENTUM, ANOTHER_WEIGHT, NULL, NULL, NULL);

    if (check_on_cpu())
        CHECK(bits_after(MOMENTUM, ANOTHER_WEIGHT, &within, NULL, NULL) == off);
}

CASE(short_of_memory)
{
    for (int64_t nth = 0;; nth++) {
        training          t = training_new(MOMENTUM, NOBODY);
        weir_graph *const g = weir_graph_begin(t.d);
        CHECK_OK(take_step(&t));
        CHECK_OK(weir_graph_end(g, OPTIONS_AS_RECORDED));
        const uint32_t before = g->nodes.n;
        weir_mem_fail_nth(nth, false);
        const weir_status status = weir_pass_update_rows(g);
        const bool        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(status == (failed ? WEIR_ERR_NOMEM : WEIR_OK));
        CHECK_OK(weir_graph_check(g));
        CHECK(!failed || g->nodes.n == before);
        weir_graph_free(g);
        training_free(&t);
        if (!failed)
            break;
    }
}
