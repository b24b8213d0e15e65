/* nccl.c - the emulated NCCL: what it does late, and what it refuses.
 *
 * Two ranks, each with a card, are driven by one thread, so what each has queued is determined. */
#include <dlfcn.h>
#include <pthread.h>

#include "device/cuda/card_fixture.h"
#include "device/cuda/runtime/nccl_api.h"
#include "emulator/fake_nccl.h"

enum { RANKS = 2, N = 100 };

/* The functions of the emulated library. */
static struct {
    __typeof__(&ncclGetUniqueId)      id;
    __typeof__(&ncclCommInitRank)     init;
    __typeof__(&ncclCommDestroy)      destroy;
    __typeof__(&ncclCommAbort)        abort;
    __typeof__(&ncclGroupStart)       start;
    __typeof__(&ncclGroupEnd)         end;
    __typeof__(&ncclSend)             send;
    __typeof__(&ncclRecv)             recv;
    __typeof__(&ncclAllReduce)        reduce;
    __typeof__(&emulate_nccl_refusal) refusal;
} nccl;

static const char *const names[] = {
    "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy", "ncclCommAbort", "ncclGroupStart",
    "ncclGroupEnd", "ncclSend", "ncclRecv", "ncclAllReduce", "emulate_nccl_refusal"};

/* A rank: its card, communicator and N numbers on the card. */
typedef struct one {
    int          rank;
    weir_device *d;
    cudaStream_t stream;
    ncclComm_t   c;
    ncclUniqueId id;
    ncclResult_t joined;
    float       *at, host[N];
} one;

static one of[RANKS];

/* Makes the rank's card the thread's current one. */
static void be(const one *o)
{
    (void)o->d->ops->space(o->d);
}

static void *join_thread(void *arg)
{
    one *const o = arg;

    be(o);
    o->joined = nccl.init(&o->c, RANKS, o->id, o->rank);
    return NULL;
}

static void join_all(void)
{
    pthread_t thread[RANKS];

    for (int r = 0; r < RANKS; r++)
        CHECK(pthread_create(&thread[r], NULL, join_thread, &of[r]) == 0);
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
}

/* Opens cards `card[r]` and joins; false (and a failed check) if that does not work. */
static bool open_cards(card_fixture *card, const char *const name[RANKS])
{
    void *p = NULL;

    setenv("WEIR_EMULATED_CARDS", "2", 1);
    void *const lib = dlopen(WEIR_TEST_PLUGINS "/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!card_fixture_of(card) || !CHECK(lib != NULL))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ((void **)&nccl)[i] = card_symbol(lib, names[i]);
    CHECK(nccl.id(&of[0].id) == ncclSuccess);
    for (int r = 0; r < RANKS; r++) {
        of[r] = (one){.rank = r, .d = weir_device_open(name[r], NULL), .id = of[0].id};
        CHECK_OK(of[r].d->ops->alloc(of[r].d, sizeof of[r].host, false, &p));
        of[r].at = p;
        of[r].stream = (cudaStream_t)of[r].d->ops->streams->stream(of[r].d, 0);
        for (int i = 0; i < N; i++)
            of[r].host[i] = (float)(r * N + i);
        CHECK_OK(of[r].d->ops->upload(of[r].d, of[r].at, of[r].host, sizeof of[r].host));
        CHECK_OK(of[r].d->ops->sync(of[r].d));
    }
    join_all();
    return true;
}

static const char *const two[RANKS] = {"cuda:0", "cuda:1"};

static void close_cards(void)
{
    for (int r = 0; r < RANKS; r++) {
        of[r].d->ops->free(of[r].d, of[r].at, sizeof of[r].host);
        weir_device_close(of[r].d);
    }
    unsetenv("WEIR_EMULATED_CARDS");
}

static void leave_all(void)
{
    for (int r = 0; r < RANKS; r++)
        CHECK(nccl.destroy(of[r].c) == ncclSuccess);
}

static ncclResult_t reduce(int r, size_t count)
{
    be(&of[r]);
    return nccl.reduce(of[r].at, of[r].at, count, ncclFloat32, ncclSum, of[r].c, of[r].stream);
}

/* Halves: the first is sent, the second received. */
static ncclResult_t send(int r, size_t count)
{
    be(&of[r]);
    return nccl.send(of[r].at, count, ncclFloat32, 1 - r, of[r].c, of[r].stream);
}

static ncclResult_t recv(int r, size_t count)
{
    be(&of[r]);
    return nccl.recv(of[r].at + N / 2, count, ncclFloat32, 1 - r, of[r].c, of[r].stream);
}

static void sync_all(void)
{
    for (int r = 0; r < RANKS; r++)
        CHECK_OK(of[r].d->ops->sync(of[r].d));
}

static void read_all(void)
{
    for (int r = 0; r < RANKS; r++)
        CHECK_OK(of[r].d->ops->download(of[r].d, of[r].host, of[r].at, sizeof of[r].host));
}

CASE(nccl_sums_when_the_streams_run)
{
    card_fixture card;
    size_t     (*queued)(void);

    if (!open_cards(&card, two))
        return;
    *(void **)&queued = card_symbol(dlopen(WEIR_TEST_PLUGINS "/libweir_cuda.so",
                                           RTLD_NOW | RTLD_NOLOAD), "emulate_queued");
    for (int r = 0; r < RANKS; r++)
        CHECK(reduce(r, N) == ncclSuccess);
    CHECK(queued() >= 2 * RANKS);
    CHECK(nccl.destroy(of[0].c) == ncclInvalidUsage);
    CHECK_TEXT(nccl.refusal(), "rank 0 has 1 units that are not finished");
    read_all();
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < N; i++)
            CHECK(of[r].host[i] == (float)(N + 2 * i));
    leave_all();
    close_cards();
}

CASE(nccl_moves_what_a_group_sends)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    for (int r = 0; r < RANKS; r++) {
        CHECK(nccl.start() == ncclSuccess);
        CHECK(recv(r, N / 2) == ncclSuccess && send(r, N / 2) == ncclSuccess);
        CHECK(nccl.end() == ncclSuccess);
    }
    read_all();
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < N / 2; i++)
            CHECK(of[r].host[N / 2 + i] == (float)((1 - r) * N + i));
    leave_all();
    close_cards();
}

/* The streams go on after a refusal, and later calls fail. */
static void check_refused(const char *why)
{
    sync_all();
    CHECK_TEXT(nccl.refusal(), why);
    CHECK(reduce(0, N) == ncclRemoteError);
    leave_all();
    close_cards();
}

CASE(nccl_refuses_sums_of_other_sizes)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    for (int r = 0; r < RANKS; r++)
        CHECK(reduce(r, (size_t)(N - r)) == ncclSuccess);
    check_refused("of 100 elements of type 7 on rank 0 and of 99 of type 7 on rank 1");
}

CASE(nccl_refuses_messages_of_other_sizes)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    CHECK(send(0, 3) == ncclSuccess && recv(1, 4) == ncclSuccess);
    check_refused("rank 0 sends 3 elements of type 7 where rank 1 receives 4 of type 7");
}

CASE(nccl_refuses_sends_outside_a_group)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    for (int r = 0; r < RANKS; r++)
        CHECK(send(r, N / 2) == ncclSuccess && recv(r, N / 2) == ncclSuccess);
    check_refused("wait for each other");
}

CASE(nccl_refuses_another_order)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    CHECK(reduce(0, N) == ncclSuccess && send(0, 3) == ncclSuccess);
    CHECK(recv(1, 3) == ncclSuccess && reduce(1, N) == ncclSuccess);
    check_refused("wait for each other: another order");
}

CASE(nccl_refuses_memory_of_the_host)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    be(&of[0]);
    CHECK(nccl.send(of[0].host, N, ncclFloat32, 1, of[0].c, of[0].stream) == ncclInvalidArgument);
    CHECK_TEXT(nccl.refusal(), "400 bytes that are not in one allocation of a card");
    CHECK(recv(0, N) == ncclInvalidArgument);       /* past the end */
    CHECK(nccl.send(of[0].at, N, ncclFloat32, 0, of[0].c, of[0].stream) == ncclInvalidArgument);
    CHECK(nccl.end() == ncclInvalidUsage);
    leave_all();
    close_cards();
}

/* The rank that aborts goes on; the other waits until it aborts, too. */
CASE(nccl_refuses_calls_after_an_abort)
{
    card_fixture card;

    if (!open_cards(&card, two))
        return;
    CHECK(reduce(0, N) == ncclSuccess);
    CHECK(nccl.abort(of[0].c) == ncclSuccess);
    CHECK_OK(of[0].d->ops->sync(of[0].d));
    CHECK(reduce(0, N) == ncclInvalidArgument);
    CHECK_TEXT(nccl.refusal(), "aborted or destroyed");
    CHECK(nccl.abort(of[1].c) == ncclSuccess);
    CHECK(nccl.destroy(of[1].c) == ncclInvalidArgument);
    close_cards();
}

CASE(nccl_refuses_two_ranks_on_a_card)
{
    static const char *const same[RANKS] = {"cuda:1", "cuda:1"};
    card_fixture             card;

    if (!open_cards(&card, same))
        return;
    CHECK(of[0].joined == ncclInvalidUsage && of[1].joined == ncclInvalidUsage);
    CHECK_TEXT(nccl.refusal(), "two ranks on card 1");
    close_cards();
}
