/* nccl.c - the only file that calls NCCL. See nccl.h.
 *
 * Each collective is between two events of the stream, by which the wire thread sees whether one
 * has begun and not ended. ncclCommAbort is for a communicator in which others hang, so that thread
 * calls it while this rank's own thread may be inside a call; no later call uses the handle. */
#include "device/cuda/lib/nccl.h"

#include <pthread.h>

#include "core/mem.h"
#include "core/status.h"
#include "device/cuda/lib/ordered_sum.h"
#include "device/cuda/runtime/libs.h"

/* Collectives that may be queued before the first has ended. */
enum { QUEUED = 64 };

struct weir_stream_comm {
    weir_device              *dev;
    const weir_cuda_lib_nccl *lib;
    ncclComm_t                comm;
    int                       rank, world;
    weir_sum_order            order;
    cudaStream_t              stream;           /* of the collective at hand */
    bool                      in_group;
    ncclResult_t              failed;           /* the first failure of this group */
    const char               *failed_in;
    int                       abandoned;        /* atomic: comm is gone */
    pthread_mutex_t           lock;             /* of `queued` and `ended` */
    uint64_t                  queued, ended;    /* collectives so far */
    cudaEvent_t               begins[QUEUED], ends[QUEUED];
};

/* ---- failures ---- */

static bool is_abandoned(const weir_stream_comm *s)
{
    return __atomic_load_n(&s->abandoned, __ATOMIC_ACQUIRE);
}

static weir_status status_of(const weir_cuda_lib_nccl *lib, ncclResult_t r, const char *what)
{
    return r == ncclSuccess ? WEIR_OK
                            : weir_fail(WEIR_ERR_COMM, "device cuda: %s: %s (NCCL's error %d)",
                                        what, lib->ncclGetErrorString(r), (int)r);
}

/* Every stream of the communicator goes on. */
static void abort_once(weir_stream_comm *s)
{
    if (!__atomic_exchange_n(&s->abandoned, 1, __ATOMIC_ACQ_REL))
        (void)s->lib->ncclCommAbort(s->comm);
}

/* Remembers the first failure of the group. */
static void note(weir_stream_comm *s, ncclResult_t r, const char *what)
{
    if (s->failed == ncclSuccess && r != ncclSuccess) {
        s->failed = r;
        s->failed_in = what;
    }
}

/* ---- joining and leaving ---- */

static weir_status prepare(weir_device *d, void *id)
{
    const weir_cuda_lib_nccl *lib;
    ncclUniqueId              made;

    _Static_assert(sizeof made == WEIR_STREAM_COMM_ID, "an id of NCCL");
    weir_cuda_here(d);
    if (weir_cuda_open_nccl(&lib) != WEIR_OK)
        return weir_error_status();
    if (!id)
        return WEIR_OK;
    WEIR_TRY(status_of(lib, lib->ncclGetUniqueId(&made), "ncclGetUniqueId"));
    memcpy(id, &made, sizeof made);
    return WEIR_OK;
}

static void destroy(weir_stream_comm *s)
{
    for (int i = 0; i < QUEUED; i++) {
        if (s->begins[i])
            (void)cudaEventDestroy(s->begins[i]);
        if (s->ends[i])
            (void)cudaEventDestroy(s->ends[i]);
    }
    pthread_mutex_destroy(&s->lock);
    weir_mem_free(s);
}

static weir_status make_events(weir_stream_comm *s)
{
    for (int i = 0; i < QUEUED; i++) {
        WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&s->begins[i], cudaEventDisableTiming));
        WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&s->ends[i], cudaEventDisableTiming));
    }
    return WEIR_OK;
}

static weir_status join(weir_device *d, const void *id, int rank, int world, weir_sum_order order,
                        weir_stream_comm **out)
{
    weir_stream_comm *const s = weir_mem_zalloc(1, sizeof *s);
    ncclUniqueId            its;

    if (!s)
        return WEIR_ERR_NOMEM;
    weir_cuda_here(d);
    memcpy(&its, id, sizeof its);
    s->dev = d;
    s->rank = rank;
    s->world = world;
    s->order = order;
    pthread_mutex_init(&s->lock, NULL);
    weir_status status = make_events(s);
    if (status == WEIR_OK)
        status = weir_cuda_open_nccl(&s->lib);
    if (status == WEIR_OK)
        status = status_of(s->lib, s->lib->ncclCommInitRank(&s->comm, world, its, rank),
                           "ncclCommInitRank");
    if (status == WEIR_OK)
        *out = s;
    else
        destroy(s);
    return status;
}

static void leave(weir_stream_comm *s)
{
    if (!s)
        return;
    weir_cuda_here(s->dev);
    if (!is_abandoned(s))
        (void)s->lib->ncclCommDestroy(s->comm);
    destroy(s);
}

/* ---- one collective ---- */

static weir_status begin(weir_stream_comm *s, weir_stream *stream)
{
    const cudaStream_t first = weir_cuda_compute(s->dev);

    WEIR_TRY(weir_cuda_late(s->dev));
    if (is_abandoned(s))
        return weir_fail(WEIR_ERR_COMM, "device cuda: rank %d's communicator was given up",
                         s->rank);
    s->stream = stream ? (cudaStream_t)stream : first;
    if (s->queued >= QUEUED)
        WEIR_CUDA_TRY(NULL, cudaEventSynchronize(s->ends[s->queued % QUEUED]));
    pthread_mutex_lock(&s->lock);
    s->ended = s->queued >= QUEUED && s->ended <= s->queued - QUEUED ? s->queued - QUEUED + 1
                                                                     : s->ended;
    pthread_mutex_unlock(&s->lock);
    WEIR_CUDA_TRY(NULL, cudaEventRecord(s->begins[s->queued % QUEUED], s->stream));
    return WEIR_OK;
}

/* After a failure in the middle of a collective others wait for what will not come. */
static weir_status end(weir_stream_comm *s, weir_status so_far)
{
    if (so_far != WEIR_OK) {
        abort_once(s);
        return so_far;
    }
    WEIR_CUDA_TRY(NULL, cudaEventRecord(s->ends[s->queued % QUEUED], s->stream));
    pthread_mutex_lock(&s->lock);
    s->queued++;
    pthread_mutex_unlock(&s->lock);
    return WEIR_OK;
}

static bool in_group(weir_stream_comm *s)
{
    if (!s->in_group && !is_abandoned(s)) {
        note(s, s->lib->ncclGroupStart(), "ncclGroupStart");
        s->in_group = true;
    }
    return !is_abandoned(s) && s->failed == ncclSuccess;
}

static void send(void *by, const void *at, size_t bytes, int peer)
{
    weir_stream_comm *const s = by;

    if (in_group(s))
        note(s, s->lib->ncclSend(at, bytes, ncclUint8, peer, s->comm, s->stream), "ncclSend");
}

static void recv(void *by, void *at, size_t bytes, int peer)
{
    weir_stream_comm *const s = by;

    if (in_group(s))
        note(s, s->lib->ncclRecv(at, bytes, ncclUint8, peer, s->comm, s->stream), "ncclRecv");
}

static weir_status exchange(void *by)
{
    weir_stream_comm *const s = by;

    if (s->in_group)
        note(s, s->lib->ncclGroupEnd(), "ncclGroupEnd");
    const ncclResult_t failed = s->failed;
    s->in_group = false;
    s->failed = ncclSuccess;
    if (is_abandoned(s))
        return weir_fail(WEIR_ERR_COMM, "device cuda: rank %d's communicator was given up while a "
                         "collective was queued", s->rank);
    return status_of(s->lib, failed, s->failed_in);
}

static weir_status sum(void *by, const weir_rank_sum *rank_sum)
{
    const weir_stream_comm *const s = by;

    return weir_cuda_ordered_sum(s->stream, rank_sum, s->rank, s->world, s->order);
}

/* Halves and small integers are summed by Weir in any order. */
static bool type_of(weir_dtype d, ncclDataType_t *type)
{
    switch (d) {
    case WEIR_F32: *type = ncclFloat32; return true;
    case WEIR_F64: *type = ncclFloat64; return true;
    case WEIR_I32: *type = ncclInt32; return true;
    case WEIR_I64: *type = ncclInt64; return true;
    case WEIR_U8:  *type = ncclUint8; return true;
    default:       return false;
    }
}

static weir_status reduce(weir_stream_comm *s, const weir_collective *job, bool *has)
{
    ncclDataType_t type;

    *has = type_of(job->dtype, &type);
    if (!*has || job->count == 0)
        return WEIR_OK;
    if (!is_abandoned(s))
        note(s, s->lib->ncclAllReduce(job->src, job->dst, (size_t)job->count, type, ncclSum,
                                      s->comm, s->stream), "ncclAllReduce");
    return exchange(s);
}

/* ---- deadlines ---- */

static void finish(weir_stream_comm *s)
{
    if (s->queued > 0)
        (void)cudaEventSynchronize(s->ends[(s->queued - 1) % QUEUED]);
}

static bool under_way(weir_stream_comm *s, uint64_t *number)
{
    pthread_mutex_lock(&s->lock);
    while (s->ended < s->queued && cudaEventQuery(s->ends[s->ended % QUEUED]) == cudaSuccess)
        s->ended++;
    const bool begun = s->ended < s->queued &&
                       cudaEventQuery(s->begins[s->ended % QUEUED]) == cudaSuccess;
    *number = s->ended + 1;
    pthread_mutex_unlock(&s->lock);
    return begun;
}

/* Is there work whose results will be wrong? */
static bool is_unfinished(weir_stream_comm *s)
{
    uint64_t number;

    (void)under_way(s, &number);
    pthread_mutex_lock(&s->lock);
    const bool unfinished = s->ended < s->queued;
    pthread_mutex_unlock(&s->lock);
    return unfinished;
}

/* The sentence is there before the stream goes on, so a thread that waits for it finds the
 * sentence. */
static void abandon(weir_stream_comm *s, const char *why)
{
    weir_cuda_context *const u = weir_cuda_context_of(s->dev);

    if (is_abandoned(s))
        return;
    weir_cuda_here(s->dev);
    snprintf(u->given_up.why, sizeof u->given_up.why, "%s", why);
    if (is_unfinished(s))
        __atomic_store_n(&u->given_up.told, 1, __ATOMIC_RELEASE);
    abort_once(s);
}

const weir_stream_comm_ops weir_cuda_nccl = {
    .rounds = {send, recv, exchange, sum},
    .prepare = prepare,
    .join = join,
    .begin = begin,
    .end = end,
    .reduce = reduce,
    .finish = finish,
    .under_way = under_way,
    .abandon = abandon,
    .leave = leave,
};
