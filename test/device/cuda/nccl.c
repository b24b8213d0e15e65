/* nccl.c - collectives of emulated cards over the emulated NCCL: the bits of ranks on CPUs, a
 * recorded step, and failures. Each rank is a thread with a card; streams run late and in drawn
 * orders. */
#include "core/hash.h"
#include "core/splitmix.h"
#include "device/cuda/card_fixture.h"
#include "ranks.h"

enum { CARDS = 4, SEEDS = 2 };

/* Opens the plugin with some cards; false (and a failed check) if that does not work. */
static bool open_cards(card_fixture *card)
{
    setenv("WEIR_EMULATED_CARDS", "4", 1);
    return card_fixture_of(card);
}

static void close_cards(card_fixture *card)
{
    card->recover();
    unsetenv("WEIR_EMULATED_CARDS");
}

/* ---- each collective, with the graph off ---- */

enum { N = 960, RESULTS = 5 };

static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16, WEIR_I32, WEIR_I64,
                                   WEIR_U8, WEIR_I16, WEIR_U32};

enum { TYPES = sizeof types / sizeof *types };

typedef struct results {
    size_t bytes[TYPES][RESULTS];
    char  *at[TYPES][RESULTS];
} results;

/* Numbers whose sums are rounded, zeros of both signs among them. */
static void write_numbers(weir_tensor *f, int seed)
{
    float    x[N];
    uint64_t state = 77 + (uint64_t)seed;

    for (int i = 0; i < N; i++)
        x[i] = i % 9 == 0 ? -0.0f : (float)(weir_splitmix64(&state) >> 40) * 0x1p-18f - 30.0f;
    CHECK_OK(weir_write(f, x, sizeof x));
}

static void keep(results *to, int type, int k, weir_tensor *t)
{
    if (!CHECK(t != NULL))
        return;
    to->bytes[type][k] = weir_tensor_bytes(t);
    to->at[type][k] = weir_host_alloc(to->bytes[type][k]);
    CHECK_OK(weir_read(t, to->at[type][k], to->bytes[type][k]));
}

static void all_body(rank *r)
{
    results *const     to = (results *)r->job + r->rank;
    weir_tensor *const f = r->d ? weir_input(r->d, weir_1d(WEIR_F32, N)) : NULL;

    for (int i = 0; i < TYPES && CHECK(r->c && f); i++) {
        CHECK_OK(weir_scope_begin(r->d));
        write_numbers(f, r->rank);
        weir_tensor *const x = weir_cast(weir_abs(f), types[i]);
        weir_tensor *const signs = weir_cast(f, types[i]);
        keep(to, i, 0, weir_all_reduce(r->c, types[i] == WEIR_U8 ? x : signs));
        keep(to, i, 1, weir_reduce_scatter(r->c, x));
        keep(to, i, 2, weir_all_gather(r->c, x));
        keep(to, i, 3, weir_broadcast_from(r->c, x, r->world - 1));
        if (r->rank == 0)
            CHECK(weir_send_to(r->c, x, 1) != NULL);
        if (r->rank == 1)
            keep(to, i, 4, weir_recv_from(r->c, weir_1d(types[i], N), 0, NULL));
        CHECK_OK(weir_scope_end(r->d));
    }
    weir_release(f);
}

static void free_results(results all[RANKS_MOST])
{
    for (int r = 0; r < RANKS_MOST; r++)
        for (int i = 0; i < TYPES; i++)
            for (int k = 0; k < RESULTS; k++)
                weir_host_free(all[r].at[i][k]);
}

static bool same(const results *a, const results *b, int type, int k)
{
    return a->bytes[type][k] == b->bytes[type][k] &&
           (a->bytes[type][k] == 0 ||
            memcmp(a->at[type][k], b->at[type][k], a->bytes[type][k]) == 0);
}

static void check_order(int world, const char *order)
{
    static results host[RANKS_MOST], cards[RANKS_MOST];
    ranks_options  o = {.comm = {.order = order}};
    rank           all[RANKS_MOST];

    memset(host, 0, sizeof host);
    memset(cards, 0, sizeof cards);
    ranks_run(all, world, &o, all_body, host);
    o.cards = true;
    ranks_run(all, world, &o, all_body, cards);
    for (int r = 0; r < world; r++)
        for (int i = 0; i < TYPES; i++)
            for (int k = 0; k < RESULTS; k++)
                check_that(same(&host[r], &cards[r], i, k), __FILE__, __LINE__,
                           "order %s, rank %d of %d, type %d, result %d", order, r, world, i, k);
    free_results(host);
    free_results(cards);
}

CASE(nccl_has_the_bits_of_ranks_on_cpus)
{
    card_fixture card;

    if (!open_cards(&card))
        return;
    for (int world = 2; world <= CARDS; world++)
        for (int tree = 0; tree < 2; tree++) {
            card.seed((uint64_t)(2 * world + tree));
            check_order(world, tree ? "tree" : "serial");
        }
    CHECK(card.calls("ncclAllReduce") == 0);
    close_cards(&card);
}

/* ---- NCCL's own sums ---- */

static void engine_body(rank *r)
{
    weir_tensor *const f = r->d ? weir_input(r->d, weir_1d(WEIR_F32, N)) : NULL;
    results *const     to = (results *)r->job + r->rank;

    if (!CHECK(r->c && f))
        return;
    CHECK_OK(weir_scope_begin(r->d));
    write_numbers(f, r->rank);
    keep(to, 0, 0, weir_all_reduce(r->c, f));
    keep(to, 4, 0, weir_all_reduce(r->c, weir_cast(f, WEIR_I32)));
    keep(to, 2, 0, weir_all_reduce(r->c, weir_cast(f, WEIR_F16)));
    CHECK_OK(weir_scope_end(r->d));
    weir_release(f);
}

CASE(nccl_sums_in_order_engine)
{
    static results all_of[2][RANKS_MOST];
    card_fixture   card;
    rank           all[RANKS_MOST];
    ranks_options  o = {.comm = {.order = "engine"}, .cards = true};

    if (!open_cards(&card))
        return;
    memset(all_of, 0, sizeof all_of);
    const long before = card.calls("ncclAllReduce");
    ranks_run(all, CARDS, &o, engine_body, all_of[0]);
    CHECK(card.calls("ncclAllReduce") == before + 2L * CARDS);      /* f16 is Weir's own sum */
    o.comm.order = "serial";
    ranks_run(all, CARDS, &o, engine_body, all_of[1]);
    for (int r = 0; r < CARDS; r++) {
        CHECK(same(&all_of[0][r], &all_of[0][0], 0, 0));
        CHECK(same(&all_of[0][r], &all_of[1][r], 4, 0));
        CHECK(same(&all_of[0][r], &all_of[1][r], 2, 0));
        for (int i = 0; all_of[0][r].at[0][0] && all_of[1][r].at[0][0] && i < N; i++)
            CHECK_NEAR(((const float *)(const void *)all_of[0][r].at[0][0])[i],
                       ((const float *)(const void *)all_of[1][r].at[0][0])[i], 1e-4);
    }
    CHECK(!same(&all_of[0][0], &all_of[1][0], 0, 0));       /* another order */
    free_results(all_of[0]);
    free_results(all_of[1]);
    close_cards(&card);
}

/* ---- a recorded step ---- */

enum { ROWS = 4, INPUTS = 12, HIDDEN = 16, CLASSES = 5, STEPS = 3 };

typedef struct trained {
    weir_model  *m;
    weir_layer  *net;
    weir_optim  *o;
    weir_tensor *x, *y;
} trained;

static weir_status record(void *ctx)
{
    trained *const t = ctx;

    return weir_optim_accumulate(t->o, weir_cross_entropy(weir_apply(t->net, t->x), t->y));
}

static weir_status apply(void *ctx)
{
    return weir_optim_apply(((trained *)ctx)->o);
}

static void write_batch(const trained *t, int step, int part)
{
    float    x[ROWS * INPUTS];
    int32_t  y[ROWS];
    uint64_t state = 1000 * (uint64_t)step + (uint64_t)part;

    for (int i = 0; i < ROWS * INPUTS; i++)
        x[i] = (float)(weir_splitmix64(&state) >> 40) * 0x1p-24f;
    for (int i = 0; i < ROWS; i++)
        y[i] = (int32_t)(weir_splitmix64(&state) % CLASSES);
    CHECK_OK(weir_write(t->x, x, sizeof x));
    CHECK_OK(weir_write(t->y, y, sizeof y));
}

static uint64_t bits_of(const trained *t)
{
    uint64_t h = 7;

    for (size_t i = 0; i < weir_model_param_count(t->m); i++) {
        weir_tensor *const one = weir_model_param(t->m, i);
        float              data[INPUTS * HIDDEN];
        if (CHECK_OK(weir_read(one, data, weir_tensor_bytes(one))))
            h = weir_hash_bytes(h, data, weir_tensor_bytes(one));
    }
    return h;
}

/* Micro-batch j of rank `at` is part at n + j of a step. */
static uint64_t train(weir_device *d, weir_comm *c, int at, int n, size_t bucket)
{
    const weir_step_options     how = {.graph = true};
    const weir_parallel_options p = {.micro_batches = n, .bucket = bucket};
    trained                     t = {.m = weir_model_new(d)};
    uint64_t                    bits = 0;

    weir_layer *const layers[] = {weir_linear_new(t.m, "in", INPUTS, HIDDEN, true),
                                  weir_relu_new(t.m),
                                  weir_linear_new(t.m, "out", HIDDEN, CLASSES, true)};
    t.net = weir_sequential_new(t.m, "net", 3, layers);
    t.o = weir_sgd_new(d, 0.05, &(weir_sgd_options){.momentum = 0.9});
    t.x = weir_input(d, weir_2d(WEIR_F32, ROWS, INPUTS));
    t.y = weir_input(d, weir_1d(WEIR_I32, ROWS));
    if (CHECK_OK(weir_data_parallel(t.o, c, &p))) {
        weir_step *const one = weir_step_new(d, record, &t, &how);
        weir_step *const use = weir_step_new(d, apply, &t, &how);
        for (int s = 0; s < STEPS; s++) {
            for (int j = 0; j < n; j++) {
                write_batch(&t, s, at * n + j);
                CHECK_OK(weir_step_run(one));
            }
            CHECK_OK(weir_step_run(use));
        }
        bits = bits_of(&t);
        weir_step_free(one);
        weir_step_free(use);
    }
    weir_optim_free(t.o);
    weir_model_free(t.m);
    weir_release(t.x);
    weir_release(t.y);
    return bits;
}

typedef struct job {
    size_t   bucket;
    uint64_t bits[RANKS_MOST];
} job;

static void train_body(rank *r)
{
    job *const j = r->job;

    if (CHECK(r->c && r->d))
        j->bits[r->rank] = train(r->d, r->c, r->rank, 1, j->bucket);
}

/* The step of one card that accumulates the micro-batches of all ranks. */
static uint64_t train_alone(int micro_batches)
{
    weir_device *const d = weir_device_open("cuda:0", &(weir_device_options){.seed = 5});
    weir_comm *const   c = weir_comm_open("nccl:auto", d, NULL);
    const uint64_t     bits = CHECK(c != NULL) ? train(d, c, 0, micro_batches, 0) : 0;

    CHECK(weir_comm_world(c) == 1);
    weir_comm_close(c);
    weir_device_close(d);
    return bits;
}

CASE(nccl_trains_as_one_card_does)
{
    static const size_t buckets[] = {0, 512};
    card_fixture        card;
    rank                all[RANKS_MOST];

    if (!open_cards(&card))
        return;
    const size_t handles = card.handles();
    for (int world = 2; world <= CARDS; world += 2)
        for (int i = 0; i < SEEDS; i++) {
            job            j = {.bucket = buckets[i % 2]};
            const uint64_t want = train_alone(world);
            card.seed((uint64_t)(10 * world + i));
            ranks_run(all, world, &(ranks_options){.cards = true}, train_body, &j);
            for (int r = 0; r < world; r++)
                check_that(j.bits[r] == want && want != 0, __FILE__, __LINE__,
                           "rank %d of %d, seed %d: %llx, not %llx", r, world, i,
                           (unsigned long long)j.bits[r], (unsigned long long)want);
        }
    CHECK(card.handles() == handles);
    close_cards(&card);
}

/* ---- failures ---- */

static void sum_body(rank *r)
{
    const int64_t      n = r->job ? N + r->rank : N;        /* other sizes on each rank */
    weir_tensor *const x = r->c ? weir_input(r->d, weir_1d(WEIR_F32, n)) : NULL;
    float              out[N + RANKS_MOST] = {0};

    if (!x)
        return;
    CHECK_OK(weir_write(x, out, (size_t)n * sizeof *out));
    for (int i = 0; i < 2 && r->status == WEIR_OK; i++) {
        CHECK_OK(weir_scope_begin(r->d));
        weir_tensor *const y = weir_all_reduce(r->c, x);
        const weir_status  s = y ? weir_read(y, out, (size_t)n * sizeof *out) : weir_error_status();
        if (s != WEIR_OK)
            rank_note(r, s);
        CHECK_OK(weir_scope_end(r->d));
    }
    weir_release(x);
}

CASE(nccl_is_asked_only_for_what_all_ranks_call)
{
    card_fixture card;
    rank         all[RANKS_MOST];
    int          differ = 1;

    if (!open_cards(&card))
        return;
    const long before = card.calls("ncclGroupStart");
    ranks_run(all, 2, &(ranks_options){.cards = true}, sum_body, &differ);
    for (int r = 0; r < 2; r++) {
        CHECK_STATUS(all[r].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[r].error, "(961 f32");
    }
    CHECK(card.calls("ncclGroupStart") == before);
    close_cards(&card);
}

/* A rank that stops ahead of its second collective, or fails in the middle of one. */
CASE(nccl_does_not_wait_for_a_rank_that_is_gone)
{
    card_fixture  card;
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 1}, .cards = true, .faults = {[2] = ",die=3"}};

    if (!open_cards(&card))
        return;
    ranks_run(all, 3, &o, sum_body, NULL);
    for (int r = 0; r < 2; r++) {
        CHECK_STATUS(all[r].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[r].error, "rank 2 has not reached all_reduce");
    }
    o.faults[2] = NULL;
    card.fail("ncclGroupEnd", 4, (cudaError_t)3);
    ranks_run(all, 3, &o, sum_body, NULL);
    int failed = 0;
    for (int r = 0; r < 3; r++) {
        CHECK_STATUS(all[r].status, WEIR_ERR_COMM);
        failed += strstr(all[r].error, "ncclGroupEnd") != NULL;
    }
    CHECK(failed == 1);
    close_cards(&card);
}

CASE(nccl_joins_all_ranks_or_none)
{
    card_fixture card;
    rank         all[RANKS_MOST];

    if (!open_cards(&card))
        return;
    card.fail("ncclGetUniqueId", 1, (cudaError_t)2);
    ranks_run(all, 3, &(ranks_options){.cards = true}, sum_body, NULL);
    for (int r = 0; r < 3; r++) {
        CHECK_STATUS(all[r].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[r].error, "rank 0 cannot join");
        CHECK_TEXT(all[r].error, "ncclGetUniqueId");
    }
    close_cards(&card);
}

static void host_transport(rank *r)
{
    char spec[64];

    if (!r->d)
        return;
    snprintf(spec, sizeof spec, "local:%s-host,rank=%d,world=%d", r->name, r->rank, r->world);
    weir_comm *const   c = weir_comm_open(spec, r->d, NULL);
    weir_tensor *const x = weir_input(r->d, weir_1d(WEIR_F32, N));
    write_numbers(x, r->rank);
    CHECK(weir_all_reduce(c, x) == NULL);
    rank_note(r, weir_error_status());
    weir_release(x);
    weir_comm_close(c);
}

CASE(nccl_is_named_where_it_is_missing)
{
    card_fixture       card;
    rank               all[RANKS_MOST];
    weir_device *const cpu = weir_device_open("cpu", NULL);

    CHECK(weir_comm_open("nccl:auto", cpu, NULL) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "'nccl:auto' joins cards, and device cpu is none");
    weir_device_close(cpu);
    if (!open_cards(&card))
        return;
    ranks_run(all, 2, &(ranks_options){.cards = true}, host_transport, NULL);
    for (int r = 0; r < 2; r++) {
        CHECK_STATUS(all[r].status, WEIR_ERR_NOKERNEL);
        CHECK_TEXT(all[r].error, "local, moves host memory alone");
    }
    close_cards(&card);
}
