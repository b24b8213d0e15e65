/* local.c - collectives between threads over shared memory: bits, every kind, opening. */
#include <fcntl.h>

#include "core/mem.h"
#include "device/collective.h"
#include "device/comm/order.h"
#include "ranks.h"

/* Operand of a rank: the same numbers on every rank. */
static void operand(int r, float *x, int64_t n)
{
    uint64_t state = 77 + (uint64_t)r;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(int64_t)weir_splitmix64(&state) * 0x1p-40f;
}

typedef struct sums {
    int64_t        n;
    weir_sum_order order;
} sums;

static weir_status run(rank *r, weir_collective_kind kind, int peer, int64_t n, const float *src,
                       float *dst)
{
    weir_collective job = {.kind = kind, .dtype = WEIR_F32, .peer = peer, .count = n, .src = src,
                           .dst = dst};

    job.work = malloc(weir_collective_window(r->c->world, &job) + 1);
    const weir_status status = r->c->run(r->c, &job);
    free(job.work);
    return status;
}

/* The sum of all ranks' operands, which this thread computes alone. */
static float *wanted(int world, const sums *s)
{
    const void *from[RANKS_MOST] = {NULL};
    float      *x[RANKS_MOST];
    float      *sum = malloc((size_t)s->n * sizeof *sum + 1);

    for (int k = 0; k < world; k++) {
        from[k] = x[k] = malloc((size_t)s->n * sizeof *sum + 1);
        operand(k, x[k], s->n);
    }
    weir_ordered_sum(sum, from, world, s->n, WEIR_F32, s->order);
    for (int k = 0; k < world; k++)
        free(x[k]);
    return sum;
}

static void reduce_body(rank *r)
{
    const sums *const s = r->job;
    const size_t      bytes = (size_t)s->n * sizeof(float);
    float            *x = malloc(bytes + 1), *y = malloc(bytes + 1), *want = wanted(r->world, s);

    CHECK_OR_RETURN(r->c != NULL);
    operand(r->rank, x, s->n);
    CHECK_OK(run(r, WEIR_ALL_REDUCE, -1, s->n, x, y));
    CHECK_BITS(y, want, bytes);
    CHECK_OK(run(r, WEIR_ALL_REDUCE, -1, s->n, x, x));      /* in place */
    CHECK_BITS(x, want, bytes);
    operand(r->rank, x, s->n);
    CHECK_OK(run(r, WEIR_REDUCE, 1, s->n, x, r->rank == 1 ? y : NULL));
    if (r->rank == 1)
        CHECK_BITS(y, want, bytes);
    if (s->n % r->world == 0) {
        const int64_t part = s->n / r->world;
        CHECK_OK(run(r, WEIR_REDUCE_SCATTER, -1, s->n, x, y));
        CHECK_BITS(y, want + r->rank * part, (size_t)part * sizeof *y);
    }
    free(x);
    free(y);
    free(want);
}

static void sums_of(int world, int64_t n, weir_sum_order order)
{
    rank          all[RANKS_MOST];
    sums          s = {n, order};
    ranks_options o = {.comm = {.order = order == WEIR_SUM_TREE ? "tree" : "serial"}};

    ranks_run(all, world, &o, reduce_body, &s);
}

CASE(sums_are_in_the_order_of_ranks)
{
    for (int world = 2; world <= RANKS_MOST; world++) {
        sums_of(world, 0, WEIR_SUM_SERIAL);
        sums_of(world, 1, WEIR_SUM_TREE);
        sums_of(world, 60 * world, WEIR_SUM_SERIAL);
        sums_of(world, 10007, WEIR_SUM_TREE);
    }
}

/* More than rings and the window of 4 MiB hold: several rounds. */
CASE(large_sums_take_several_rounds)
{
    sums_of(2, 2500001, WEIR_SUM_SERIAL);
    sums_of(3, 1800000, WEIR_SUM_TREE);
}

static void move_body(rank *r)
{
    enum { N = 5000 };
    float x[N], y[RANKS_MOST * N], want[N];

    CHECK_OR_RETURN(r->c != NULL);
    operand(r->rank, x, N);
    memcpy(y + r->rank * N, x, sizeof x);
    CHECK_OK(run(r, WEIR_ALL_GATHER, -1, r->world * N, x, y));
    for (int k = 0; k < r->world; k++) {
        operand(k, want, N);
        CHECK_BITS(y + k * N, want, sizeof want);
    }
    for (int root = 0; root < r->world; root++) {
        operand(r->rank, x, N);
        CHECK_OK(run(r, WEIR_BROADCAST, root, N, x, x));
        operand(root, want, N);
        CHECK_BITS(x, want, sizeof want);
    }
    /* Around: each sends to the next, the last one receives first. */
    operand(r->rank, x, N);
    const int next = (r->rank + 1) % r->world, before = (r->rank + r->world - 1) % r->world;
    if (next == 0)
        CHECK_OK(run(r, WEIR_RECV, before, N, NULL, y));
    CHECK_OK(run(r, WEIR_SEND, next, N, x, NULL));
    if (next != 0)
        CHECK_OK(run(r, WEIR_RECV, before, N, NULL, y));
    operand(before, want, N);
    CHECK_BITS(y, want, sizeof want);
}

CASE(moves_of_every_kind)
{
    rank all[RANKS_MOST];

    for (int world = 2; world <= RANKS_MOST; world++)
        ranks_run(all, world, NULL, move_body, NULL);
}

static void stats_body(rank *r)
{
    enum { N = 5000 };
    float           x[N];
    weir_comm_stats before, after, left;

    CHECK_OR_RETURN(r->c != NULL);
    CHECK_OK(weir_comm_stats_of(r->c, &before));
    for (int i = 0; i < 3; i++) {
        operand(r->rank, x, N);
        CHECK_OK(run(r, WEIR_ALL_REDUCE, -1, N, x, x));
    }
    CHECK_OK(weir_comm_stats_of(r->c, &after));
    CHECK(after.collectives == before.collectives + 3);
    CHECK(after.bytes == before.bytes + 3 * sizeof x);
    CHECK(after.wire_ms > before.wire_ms && after.waited_ms > before.waited_ms);
    weir_comm_leave(r->c);
    CHECK_OK(weir_comm_stats_of(r->c, &left));
    CHECK(left.collectives == after.collectives && left.bytes == after.bytes);
    CHECK(left.wire_ms == after.wire_ms && left.waited_ms == after.waited_ms);
    CHECK_STATUS(weir_comm_stats_of(r->c, NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_comm_stats_of(NULL, &left), WEIR_ERR_INVALID);
}

CASE(stats_count_what_was_done)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, stats_body, NULL);
}

static void equal_body(rank *r)
{
    bool   equal = false;
    double constant = -1, per_byte = -1, both[2];

    CHECK_OR_RETURN(r->c != NULL);
    CHECK_OK(weir_comm_equal(r->c, "abc", 3, &equal));
    CHECK(equal);
    CHECK_OK(weir_comm_equal(r->c, r->rank == 2 ? "abd" : "abc", 3, &equal));
    CHECK(!equal);
    CHECK_OK(weir_comm_measure(r->c, &constant, &per_byte));
    CHECK(constant >= 0 && per_byte >= 0 && constant + per_byte > 0 && constant < 1);
    both[0] = constant;
    both[1] = per_byte;
    CHECK_OK(weir_comm_equal(r->c, both, sizeof both, &equal));
    CHECK(equal);
    char *const text = weir_comm_text(r->c);
    CHECK_TEXT(text, "local: rank ");
    CHECK_TEXT(text, "of 3, sums in order serial, ");
    weir_text_free(text);
}

CASE(host_data_and_the_model_are_agreed_on)
{
    rank all[RANKS_MOST];

    ranks_run(all, 3, NULL, equal_body, NULL);
}

/* ---- opening ---- */

static void nothing(rank *r)
{
    (void)r;
}

CASE(a_missing_rank_is_named)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.faults = {",wait=100", ",wait=100"}, .absent = 1 << 2};

    ranks_run(all, 3, &o, nothing, NULL);
    CHECK_STATUS(all[0].status, WEIR_ERR_COMM);
    CHECK_TEXT(all[0].error, "rank 2 of 3 has not come");
    CHECK_STATUS(all[1].status, WEIR_ERR_COMM);
    CHECK(access("/dev/shm/weir-test-absent", F_OK) != 0);
}

CASE(what_a_killed_run_left_is_replaced)
{
    rank          all[RANKS_MOST];
    char          name[64], path[128];
    sums          s = {1000, WEIR_SUM_SERIAL};
    ranks_options o = {.name = name};

    snprintf(name, sizeof name, "test-stale-%ld", (long)getpid());
    snprintf(path, sizeof path, "/dev/shm/weir-%s", name);
    const int fd = open(path, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 5000) == 0);
    close(fd);
    ranks_run(all, 3, &o, reduce_body, &s);
    CHECK(access(path, F_OK) != 0);     /* nothing is left this time */
}

CASE(specs_are_checked)
{
    static const char *const wrong[] = {
        "", "mpi", "local", "local:", "local:a", "local:a,rank=0", "local:a,world=2",
        "local:a,rank=2,world=2", "local:a,rank=-1,world=2", "local:a,rank=0,world=65",
        "local:a b,rank=0,world=2", "local:a,rank=0,world=2,", "local:a,rank=0,world=2,x=1",
        "local:a,rank=0,world=2,delay=1", "local:a,rank=0,world=2,die=0",
        "local:../a,rank=0,world=2"};
    weir_device *d = weir_device_open("cpu", NULL);

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        CHECK(weir_comm_open(wrong[i], d, NULL) == NULL);
        CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    }
    CHECK(!weir_comm_open("auto", d, &(weir_comm_options){.order = "ring"}));
    CHECK_TEXT(weir_error(), "'ring' (expected serial, tree or engine)");
    CHECK(!weir_comm_open("auto", d, &(weir_comm_options){.timeout_s = -1}));
    CHECK_TEXT(weir_error(), "the timeout is -1 s");
    CHECK(!weir_comm_open(NULL, d, NULL));
    weir_error_clear();
    CHECK(!weir_comm_open("auto", NULL, NULL));
    weir_device_close(d);
}

/* The variable comes before those of MPI's launchers, whose plugin may be missing. */
CASE(auto_joins_what_the_environment_names)
{
    weir_device *d = weir_device_open("cpu", NULL);
    weir_comm   *c;
    char         spec[64];

    snprintf(spec, sizeof spec, "local:test-auto-%ld,rank=0,world=1", (long)getpid());
    setenv("PMI_SIZE", "2", 1);
    setenv("WEIR_COMM", spec, 1);
    c = weir_comm_open("auto", d, NULL);
    CHECK(c && weir_comm_rank(c) == 0 && weir_comm_world(c) == 1);
    char *const text = weir_comm_text(c);
    CHECK_TEXT(text, "local: rank 0 of 1");
    weir_text_free(text);
    weir_comm_close(c);
    setenv("WEIR_COMM", "global:a", 1);
    CHECK(!weir_comm_open("auto", d, NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "WEIR_COMM 'global:a' (expected auto, local:");
    unsetenv("PMI_SIZE");
    for (const char *const *none = (const char *const[]){"", "auto", NULL}; *none; none++) {
        setenv("WEIR_COMM", *none, 1);
        c = weir_comm_open("auto", d, NULL);
        char *const alone = weir_comm_text(c);
        CHECK_TEXT(alone, "alone: ");
        weir_text_free(alone);
        weir_comm_close(c);
    }
    unsetenv("WEIR_COMM");
    weir_device_close(d);
}

CASE(alone_nothing_is_sent)
{
    weir_device *d = weir_device_open("cpu", NULL);
    weir_comm   *c = weir_comm_open("auto", d, NULL);
    double       a = 1, b = 1;
    bool         equal = false;
    weir_comm_stats stats = {.collectives = 1, .wire_ms = 1};

    CHECK_OR_RETURN(c != NULL);
    CHECK_OK(weir_comm_stats_of(c, &stats));
    CHECK(stats.collectives == 0 && stats.bytes == 0 && stats.wire_ms == 0);
    CHECK(weir_comm_rank(c) == 0 && weir_comm_world(c) == 1);
    CHECK(weir_comm_rank(NULL) == 0 && weir_comm_world(NULL) == 1);
    CHECK_OK(weir_comm_measure(c, &a, &b));
    CHECK(a == 0 && b == 0);
    CHECK_OK(weir_comm_equal(c, "x", 1, &equal));
    CHECK(equal);
    char *const text = weir_comm_text(c);
    CHECK_TEXT(text, "alone: rank 0 of 1");
    weir_text_free(text);
    weir_comm_close(c);
    weir_comm_close(NULL);
    weir_device_close(d);
}
