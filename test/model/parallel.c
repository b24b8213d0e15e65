/* parallel.c - data parallelism: the bits of W ranks are those of one process that accumulates W
 * micro-batches, for every bucket, budget and order; memory; failures. */
#include "core/hash.h"
#include "core/mem.h"
#include "ranks.h"

enum { BATCH = 4, SIDE = 28, STEPS = 3 };

/* How a step is trained, the same on all ranks. */
typedef struct way {
    bool        adam, graph, clip, half;
    int         per_rank;       /* micro-batches that each rank accumulates; 0: weir_minimize */
    const char *budget, *last_budget;   /* last_budget: of the last rank, if not NULL */
    size_t      bucket;
    weir_dtype  wire;
    uint64_t   *bits;           /* [ranks] of parameters and states afterwards */
} way;

typedef struct trained {
    weir_device *d;
    weir_model  *m;
    weir_layer  *net;
    weir_optim  *o;
    weir_scaler *scaler;
    weir_tensor *x, *y;
    bool         accumulates;
} trained;

static weir_status record(void *ctx)
{
    trained *const     t = ctx;
    weir_tensor *const loss = weir_cross_entropy(weir_apply(t->net, t->x), t->y);

    return t->accumulates ? weir_optim_accumulate(t->o, loss) : weir_minimize(t->o, loss);
}

static weir_status apply(void *ctx)
{
    const trained *const t = ctx;

    return weir_optim_apply(t->o);
}

static bool open_one(trained *t, weir_device *d, weir_comm *c, const way *w, int64_t micro_batches)
{
    *t = (trained){.d = d, .m = weir_model_new(d), .accumulates = w->per_rank > 0};
    t->net = weir_lenet_new(t->m, 10);
    t->o = w->adam ? weir_adam_new(d, 0.01, NULL)
                   : weir_sgd_new(d, 0.05, &(weir_sgd_options){.momentum = 0.9});
    t->x = weir_input(d, weir_4d(WEIR_F32, BATCH, 1, SIDE, SIDE));
    t->y = weir_input(d, weir_1d(WEIR_I32, BATCH));
    if (w->clip)
        CHECK_OK(weir_optim_set_clip_norm(t->o, 0.5));
    if (w->half) {
        t->scaler = weir_scaler_new(d, NULL);
        CHECK_OK(weir_model_set_precision(t->m, WEIR_F16));
        CHECK_OK(weir_optim_set_scaler(t->o, t->scaler));
    }
    const weir_parallel_options p = {.micro_batches = micro_batches, .bucket = w->bucket,
                                     .model = t->m, .wire = w->wire};
    return CHECK_OK(weir_data_parallel(t->o, c, &p));
}

static void close_one(trained *t)
{
    weir_optim_free(t->o);
    weir_scaler_free(t->scaler);
    weir_model_free(t->m);
    weir_release(t->x);
    weir_release(t->y);
}

static void write_batch(const trained *t, int step, int part)
{
    float    x[BATCH * SIDE * SIDE];
    int32_t  y[BATCH];
    uint64_t state = 1000 * (uint64_t)step + (uint64_t)part;

    for (int i = 0; i < BATCH * SIDE * SIDE; i++)
        x[i] = (float)(weir_splitmix64(&state) >> 40) * 0x1p-24f;
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)(weir_splitmix64(&state) % 10);
    CHECK_OK(weir_write(t->x, x, sizeof x));
    CHECK_OK(weir_write(t->y, y, sizeof y));
}

static uint64_t bits_of(const trained *t)
{
    uint64_t h = 0;

    for (size_t i = 0; i < weir_model_param_count(t->m) + weir_optim_state_count(t->o); i++) {
        const size_t params = weir_model_param_count(t->m);
        weir_tensor *const one = i < params ? weir_model_param(t->m, i)
                                            : weir_optim_state(t->o, i - params);
        const size_t bytes = weir_tensor_bytes(one);
        void *const  data = weir_host_alloc(bytes);
        if (strstr(weir_tensor_name(one), ".sum") == NULL && CHECK_OK(weir_read(one, data, bytes)))
            h += weir_hash_bytes(7, data, bytes);   /* states are in no promised order */
        weir_host_free(data);
    }
    return h;
}

/* Planned = measured <= budget. */
static void check_memory(weir_step *s)
{
    weir_graph_stats stats;
    size_t           measured = 0;

    CHECK_OK(weir_graph_stats_of(weir_step_graph(s), &stats));
    CHECK_OK(weir_graph_measure(weir_step_graph(s), &measured));
    CHECK(measured == stats.arena_bytes);
    CHECK(stats.planned_peak_bytes <= stats.unbudgeted_peak_bytes);
}

/* Micro-batch j of rank r is part r n + j of a step; n: per rank. */
static uint64_t train(weir_device *d, weir_comm *c, const way *w, int at, int n, bool measures)
{
    const weir_step_options how = {.graph = w->graph, .plan = {.budget = w->budget}};
    trained  t;
    uint64_t bits = 0;

    if (open_one(&t, d, c, w, n)) {
        weir_step *const one = weir_step_new(d, record, &t, &how);
        weir_step *const use = weir_step_new(d, apply, &t, &how);
        for (int s = 0; s < STEPS; s++) {
            for (int j = 0; j < n; j++) {
                write_batch(&t, s, at * n + j);
                CHECK_OK(weir_step_run(one));
            }
            if (w->per_rank > 0)
                CHECK_OK(weir_step_run(use));
        }
        bits = bits_of(&t);
        if (measures)
            check_memory(one);
        weir_step_free(one);
        weir_step_free(use);
    }
    close_one(&t);
    return bits;
}

/* One process that accumulates `parts` micro-batches for each update. */
static uint64_t alone(const way *w, int parts)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 5});
    weir_comm   *c = weir_comm_open("auto", d, NULL);
    way          one = *w;

    one.per_rank = parts;
    one.budget = NULL;
    const uint64_t bits = train(d, c, &one, 0, parts, false);
    weir_comm_close(c);
    weir_device_close(d);
    return bits;
}

static void train_body(rank *r)
{
    way *const w = r->job;
    way        mine = *w;

    CHECK_OR_RETURN(r->c != NULL);
    if (w->last_budget && r->rank == r->world - 1)
        mine.budget = w->last_budget;
    w->bits[r->rank] = train(r->d, r->c, &mine, r->rank, w->per_rank > 0 ? w->per_rank : 1,
                             w->budget != NULL);
}

/* The bits of all ranks, which must be the same. */
static uint64_t together(way *w, int world, const char *order)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.order = order}};
    uint64_t      bits[RANKS_MOST] = {0};

    w->bits = bits;
    ranks_run(all, world, &o, train_body, w);
    w->bits = NULL;
    for (int i = 1; i < world; i++)
        CHECK(bits[i] == bits[0]);
    return bits[0];
}

CASE(ranks_have_the_bits_of_one_that_accumulates)
{
    way sgd = {.graph = true}, adam = {.adam = true}, clip = {.graph = true, .clip = true};

    CHECK(together(&sgd, 2, NULL) == alone(&sgd, 2));
    CHECK(together(&adam, 4, NULL) == alone(&adam, 4));
    CHECK(together(&clip, 3, NULL) == alone(&clip, 3));
}

CASE(graph_on_and_off_have_the_same_bits)
{
    way on = {.graph = true, .clip = true}, off = {.clip = true};

    CHECK(together(&on, 2, NULL) == together(&off, 2, NULL));
}

CASE(scaled_losses_have_the_bits_of_one_that_accumulates)
{
    way half = {.graph = true, .half = true};

    CHECK(together(&half, 2, NULL) == alone(&half, 2));
}

/* No bucket, two or three gradients in one, all in one. */
CASE(buckets_change_no_bit)
{
    static const size_t buckets[] = {1, 3000, 200000, 1 << 30};
    uint64_t            first = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(buckets); i++) {
        way            w = {.graph = true, .clip = true, .bucket = buckets[i]};
        const uint64_t bits = together(&w, 2, NULL);
        first = i == 0 ? bits : first;
        CHECK(bits == first);
    }
}

CASE(budgets_change_no_bit)
{
    static const char *const budgets[] = {"100%", "90%", "82%"};
    way                      free_way = {.graph = true};
    const uint64_t           want = together(&free_way, 2, NULL);

    for (size_t i = 0; i < ARRAY_LENGTH(budgets); i++) {
        way w = {.graph = true, .budget = budgets[i]};
        CHECK(together(&w, 2, NULL) == want);
    }
}

/* Each rank plans within its own budget. */
CASE(budgets_of_ranks_may_differ)
{
    way free_way = {.graph = true}, one = {.graph = true, .last_budget = "82%"};

    CHECK(together(&one, 2, NULL) == together(&free_way, 2, NULL));
}

/* Of two ranks both orders are one; of three they differ, and stay the same from run to run. */
CASE(order_tree)
{
    way w = {.graph = true};

    CHECK(together(&w, 2, "tree") == together(&w, 2, "serial"));
    const uint64_t tree = together(&w, 3, "tree");
    CHECK(tree == together(&w, 3, "tree"));
}

/* M micro-batches have the bits of one tree over them, however many each rank accumulates. */
CASE(order_tree_is_one_over_all_micro_batches)
{
    way            one = {.graph = true, .clip = true, .per_rank = 8};
    const uint64_t want = together(&one, 1, "tree");

    for (int world = 2; world <= 8; world *= 2)
        for (int i = 0; i < 2; i++) {
            way w = {.graph = i == 0, .clip = true, .per_rank = 8 / world};
            CHECK(together(&w, world, "tree") == want);
        }
    way off = {.clip = true, .per_rank = 8}, small = {.graph = true, .clip = true, .per_rank = 4,
                                                      .budget = "82%", .bucket = 3000};
    CHECK(together(&off, 1, "tree") == want);
    CHECK(together(&small, 2, "tree") == want);
    CHECK(together(&one, 1, "serial") != want);
}

/* One process may accumulate any number, a rank of several a power of two. */
CASE(order_tree_of_six_micro_batches)
{
    way            one = {.adam = true, .graph = true, .per_rank = 6};
    const uint64_t want = together(&one, 1, "tree");
    way            two = {.adam = true, .per_rank = 2}, each = {.adam = true, .per_rank = 1};

    CHECK(together(&two, 3, "tree") == want);
    CHECK(together(&each, 6, "tree") == want);
}

/* A run that is saved between micro-batches goes on with its partial sums. */
CASE(partial_sums_are_saved)
{
    char         path[64];
    way          w = {.graph = true, .per_rank = 6};
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 5});
    weir_comm   *c = weir_comm_open("auto", d, &(weir_comm_options){.order = "tree"});
    trained      t, again;
    uint64_t     bits[2];

    snprintf(path, sizeof path, "/tmp/weir-sums-%ld", (long)getpid());
    if (open_one(&t, d, c, &w, 6) && open_one(&again, d, c, &w, 6)) {
        const weir_run first = {.model = t.m, .optim = t.o};
        weir_run       second = {.model = again.m, .optim = again.o};
        for (int j = 0; j < 6; j++) {
            trained *const now = j < 3 ? &t : &again;
            write_batch(now, 0, j);
            if (j == 3) {
                CHECK_OK(weir_run_save(&first, path, NULL));
                CHECK_OK(weir_run_load(&second, path));
            }
            CHECK_OK(weir_scope_begin(d));
            CHECK_OK(record(now));
            CHECK_OK(weir_scope_end(d));
        }
        for (int j = 3; j < 6; j++) {
            write_batch(&t, 0, j);
            CHECK_OK(weir_scope_begin(d));
            CHECK_OK(record(&t));
            CHECK_OK(weir_scope_end(d));
        }
        CHECK_OK(weir_optim_apply(t.o));
        CHECK_OK(weir_optim_apply(again.o));
        bits[0] = bits_of(&t);
        bits[1] = bits_of(&again);
        CHECK(bits[0] == bits[1]);
    }
    remove(path);
    close_one(&t);
    close_one(&again);
    weir_comm_close(c);
    weir_device_close(d);
}

/* ---- gradients sent as halves ---- */

CASE(halves_on_the_wire_depend_on_no_bucket_budget_or_graph)
{
    static const weir_dtype wires[] = {WEIR_BF16, WEIR_F16};
    way                     exact = {.graph = true};
    const uint64_t          f32 = together(&exact, 2, NULL);

    for (size_t i = 0; i < ARRAY_LENGTH(wires); i++) {
        way            on = {.graph = true, .wire = wires[i]}, off = {.wire = wires[i]};
        way            tight = {.graph = true, .wire = wires[i], .budget = "85%", .bucket = 3000};
        const uint64_t want = together(&on, 2, NULL);
        CHECK(want != f32);
        CHECK(together(&off, 2, NULL) == want);
        CHECK(together(&tight, 2, NULL) == want);
    }
}

/* A gradient of each rank and their sum are rounded once each: of a parameter w with loss g w. */
static void wire_body(rank *r)
{
    static const float gradient[2] = {1.00390625f, 3.0f};   /* the first is no bf16: 1 */
    weir_tensor *const w = weir_param(r->d, weir_1d(WEIR_F32, 1), "w");
    weir_optim *const  o = weir_sgd_new(r->d, 1.0, NULL);
    float              v;

    CHECK_OR_RETURN(r->c != NULL);
    CHECK_OK(weir_write_fill(w, 0));
    CHECK_OK(weir_data_parallel(o, r->c, &(weir_parallel_options){.wire = WEIR_BF16}));
    CHECK_OK(weir_scope_begin(r->d));
    CHECK_OK(weir_minimize(o, weir_sum(weir_affine(w, (double)gradient[r->rank], 0), 0, false)));
    CHECK_OK(weir_scope_end(r->d));
    CHECK_OK(weir_read(w, &v, sizeof v));
    CHECK(v == -2.0f);
    weir_optim_free(o);
    weir_release(w);
}

CASE(halves_on_the_wire_are_rounded_once)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, wire_body, NULL);
}

/* Sums have other shapes where another number of micro-batches is added: those that are 0 are as
 * good as none, others are not. */
CASE(sums_of_other_numbers_of_micro_batches)
{
    static const int given[] = {6, 6, 1}, taken[] = {2, 1, 6};
    char             path[64];
    weir_device     *d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 5});
    weir_comm       *c = weir_comm_open("auto", d, &(weir_comm_options){.order = "tree"});

    snprintf(path, sizeof path, "/tmp/weir-others-%ld", (long)getpid());
    for (size_t i = 0; i < ARRAY_LENGTH(given); i++) {
        way     w = {.per_rank = 1};
        trained t, again;
        CHECK(open_one(&t, d, c, &w, given[i]) && open_one(&again, d, c, &w, taken[i]));
        const weir_run first = {.model = t.m, .optim = t.o};
        weir_run       second = {.model = again.m, .optim = again.o};
        for (int j = 0; j < given[i]; j++) {
            write_batch(&t, 0, j);
            CHECK_OK(weir_scope_begin(d));
            CHECK_OK(record(&t));
            CHECK_OK(weir_scope_end(d));
            CHECK_OK(weir_run_save(&first, path, NULL));
            CHECK_STATUS(weir_run_load(&second, path), WEIR_ERR_IO);
            CHECK_TEXT(weir_error(), "different tensors");
        }
        CHECK_OK(weir_optim_apply(t.o));
        CHECK_OK(weir_run_save(&first, path, NULL));
        CHECK_OK(weir_run_load(&second, path));
        CHECK(bits_of(&t) == bits_of(&again));
        close_one(&t);
        close_one(&again);
    }
    remove(path);
    weir_comm_close(c);
    weir_device_close(d);
}

CASE(ranks_that_accumulate_stay_equal)
{
    way one = {.graph = true, .per_rank = 2}, two = {.per_rank = 2, .bucket = 1};

    CHECK(together(&one, 2, NULL) == together(&two, 2, NULL));
}

/* ---- beginning ---- */

static void begin_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const w = weir_param(r->d, weir_1d(WEIR_F32, 2), "w");
    weir_optim *const  o = weir_sgd_new(r->d, 0.1, NULL);
    CHECK_OK(weir_write_fill(w, r->rank));
    /* Other options than rank 0's. */
    const weir_parallel_options other = {.micro_batches = r->rank + 1};
    CHECK_STATUS(weir_data_parallel(o, r->c, &other), WEIR_ERR_COMM);
    CHECK_TEXT(weir_error(), "ranks differ in micro_batches");
    CHECK_STATUS(weir_data_parallel(o, r->c, &(weir_parallel_options){.micro_batches = -1}),
                 WEIR_ERR_INVALID);
    CHECK_STATUS(weir_data_parallel(o, r->c, &(weir_parallel_options){.wire = WEIR_I32}),
                 WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "wire is i32 (expected f32, f16 or bf16)");
    CHECK_OK(weir_data_parallel(o, r->c, NULL));
    /* Other parameters than rank 0's. */
    CHECK_OK(weir_scope_begin(r->d));
    CHECK_STATUS(weir_minimize(o, weir_sum(weir_square(w), 0, false)), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "parameter 'w' differs between ranks");
    CHECK_OK(weir_comm_share(r->c, w, 1));
    CHECK_OK(weir_minimize(o, weir_sum(weir_square(w), 0, false)));
    CHECK_OK(weir_scope_end(r->d));
    CHECK_STATUS(weir_data_parallel(o, r->c, NULL), WEIR_ERR_STATE);
    float v[2];
    CHECK_OK(weir_read(w, v, sizeof v));
    CHECK_NEAR(v[0], 0.8, 1e-6);
    weir_optim_free(o);
    weir_release(w);
}

CASE(ranks_must_begin_alike)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, begin_body, NULL);
}

/* A failed allocation on one rank is a status there, and a status on the others, too. */
static void fault_body(rank *r)
{
    trained t;
    way     w = {.graph = true};

    if (!r->c || !open_one(&t, r->d, r->c, &w, 1))
        return;
    weir_step *const one = weir_step_new(r->d, record, &t, &(weir_step_options){.graph = true});
    write_batch(&t, 0, r->rank);
    if (r->rank == 1)
        weir_mem_fail_nth(*(const int *)r->job, false);
    rank_note(r, weir_step_run(one));
    weir_step_free(one);
    close_one(&t);
}

CASE(a_failed_allocation_is_a_status_on_all_ranks)
{
    for (int n = 100; n < 2500; n += 800) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.timeout_s = 0.4}};

        ranks_run(all, 2, &o, fault_body, &n);
        const bool failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        for (int i = 0; i < 2; i++)
            CHECK(failed || all[i].status == WEIR_OK);
        CHECK(!failed || all[0].status != WEIR_OK || all[1].status != WEIR_OK);
    }
}
