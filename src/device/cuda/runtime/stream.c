/* stream.c - streams, events, and runs that are captured once and replayed as a CUDA graph.
 *
 * The streams do not synchronise with the legacy default stream. A run on several streams begins
 * and ends on the first, by events (graph/plan/streams.c), so a capture that begins on it covers
 * all. */
#include "device/cuda/runtime/stream.h"

#include "device/cuda/lib/nccl.h"
#include "device/cuda/runtime/fault.h"
#include "device/cuda/runtime/offload.h"
#include "device/cuda/runtime/rng_state.h"

enum { MOST = 8 };

struct weir_cuda_streams {
    cudaStream_t          stream[MOST];
    int                   n;
    bool                  captures;  /* not WEIR_GRAPHS=0 at open */
    uint64_t             *rng_state; /* seed and position of a run; device memory */
    WEIR_VEC(cudaEvent_t) event;
};

struct weir_replay {
    cudaGraphExec_t exec;
};

static int n_streams_wanted(void)
{
    const char *const asked = getenv("WEIR_STREAMS");
    const long        n = asked && *asked ? strtol(asked, NULL, 10) : WEIR_CUDA_STREAMS;

    return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

weir_status weir_cuda_streams_open(weir_cuda_context *u)
{
    struct weir_cuda_streams *const q = u->streams = weir_mem_zalloc(1, sizeof *q);
    void                           *rng_state = NULL;

    if (!q)
        return WEIR_ERR_NOMEM;
    const char *const graphs = getenv("WEIR_GRAPHS");
    q->captures = !graphs || strcmp(graphs, "0") != 0;
    for (const int n = n_streams_wanted(); q->n < n; q->n++)
        WEIR_CUDA_TRY(NULL, cudaStreamCreateWithFlags(&q->stream[q->n], cudaStreamNonBlocking));
    u->compute = q->stream[0];
    WEIR_CUDA_TRY(NULL, cudaMalloc(&rng_state, 2 * sizeof *q->rng_state));
    q->rng_state = rng_state;
    return WEIR_OK;
}

void weir_cuda_streams_close(weir_cuda_context *u)
{
    struct weir_cuda_streams *const q = u->streams;

    if (!q)
        return;
    for (uint32_t i = 0; i < q->event.n; i++)
        (void)cudaEventDestroy(q->event.at[i]);
    (void)cudaFree(q->rng_state);
    for (int i = 0; i < q->n; i++)
        (void)cudaStreamDestroy(q->stream[i]);
    weir_vec_free(&q->event);
    weir_mem_free(q);
    u->streams = NULL;
}

void weir_cuda_streams_info(const weir_device *d, weir_string *s)
{
    const struct weir_cuda_streams *const q = weir_cuda_context_of(d)->streams;

    weir_string_add(s, "runs: %d streams, %s\n", q->n,
                    d->checks     ? "each call is waited for (WEIR_CUDA_SYNC=1)"
                    : q->captures ? "captured as CUDA graphs"
                                  : "not captured (WEIR_GRAPHS=0)");
}

static int count(const weir_device *d)
{
    return weir_cuda_context_of(d)->streams->n;
}

static weir_stream *stream(const weir_device *d, int i)
{
    return (weir_stream *)weir_cuda_context_of(d)->streams->stream[i];
}

static weir_status events(weir_device *d, uint32_t n)
{
    struct weir_cuda_streams *const q = weir_cuda_context_of(d)->streams;

    weir_cuda_here(d);
    while (q->event.n < n) {
        cudaEvent_t e;
        WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        if (!weir_vec_push(&q->event, e)) {
            (void)cudaEventDestroy(e);
            return WEIR_ERR_NOMEM;
        }
    }
    return WEIR_OK;
}

/* The stream to use, after waiting updates have been launched. */
static cudaStream_t flushed(weir_device *d, weir_stream *s)
{
    const cudaStream_t first = weir_cuda_compute(d);
    return s ? (cudaStream_t)s : first;
}

static weir_status signal(weir_device *d, weir_stream *s, uint32_t event)
{
    WEIR_CUDA_TRY(NULL, cudaEventRecord(weir_cuda_context_of(d)->streams->event.at[event],
                                        flushed(d, s)));
    return WEIR_OK;
}

static weir_status await(weir_device *d, weir_stream *s, uint32_t event)
{
    WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(flushed(d, s),
                                            weir_cuda_context_of(d)->streams->event.at[event], 0));
    return WEIR_OK;
}

/* Errors were reported before; the remembered sentence stays. */
static void drain(weir_device *d)
{
    struct weir_cuda_streams *const q = weir_cuda_context_of(d)->streams;

    (void)weir_cuda_compute(d);
    for (int i = 0; i < q->n; i++)
        (void)cudaStreamSynchronize(q->stream[i]);
    (void)cudaGetLastError();
}

static weir_status draws(weir_device *d, uint64_t base, const uint64_t **draw)
{
    uint64_t *const rng_state = weir_cuda_context_of(d)->streams->rng_state;

    *draw = rng_state;
    WEIR_TRY(weir_cuda_rng_state_set(d, rng_state, d->seed, base));
    return weir_cuda_queued(d, "set the random state");
}

/* ---- calls one by one ---- */

weir_status weir_cuda_queued(weir_device *d, const char *what)
{
    if (d->checks)
        weir_cuda_set_late(weir_cuda_context_of(d), cudaStreamSynchronize(weir_cuda_compute(d)),
                           what);
    return weir_cuda_late(d);
}

/* Fails with the error of the call's work, or of updates that waited for company, which are
 * launched with it. An index out of range ends a run only where calls are checked. */
static weir_status check(const weir_kargs *k)
{
    weir_cuda_context *const u = weir_cuda_context_of(k->dev);
    const cudaStream_t       stream = weir_cuda_stream(k);

    weir_cuda_set_late(u, cudaStreamSynchronize(stream), NULL);
    weir_cuda_set_late(u, weir_cuda_offload_wait(u), NULL);
    const cudaError_t e = u->pending.late;
    u->pending.late = cudaSuccess;
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        return weir_call_fail(e == cudaErrorMemoryAllocation ? WEIR_ERR_NOMEM : WEIR_ERR_DEVICE,
                              k->call, "the card failed in this call: %s (%s)",
                              cudaGetErrorString(e), cudaGetErrorName(e));
    }
    WEIR_TRY(weir_cuda_offload_late(u));
    return k->dev->checks ? weir_cuda_fault_tell(u) : WEIR_OK;
}

/* ---- captured runs ---- */

static weir_status may_record(weir_device *d, bool *may)
{
    *may = weir_cuda_context_of(d)->streams->captures && !d->checks;
    (void)weir_cuda_compute(d);
    return weir_cuda_late(d);
}

static weir_status record(weir_device *d)
{
    WEIR_CUDA_TRY(NULL, cudaStreamBeginCapture(weir_cuda_compute(d),
                                               cudaStreamCaptureModeThreadLocal));
    return WEIR_OK;
}

/* Uploads the graph, too: if the card lacks memory for it, that shows here and not in a run. */
static weir_status instantiate(weir_device *d, cudaGraph_t graph, weir_replay **r)
{
    weir_replay *const replay = weir_mem_zalloc(1, sizeof *replay);

    if (!replay)
        return WEIR_ERR_NOMEM;
    weir_status s = weir_cuda_status(cudaGraphInstantiate(&replay->exec, graph, 0), NULL,
                                     "cudaGraphInstantiate");
    if (s == WEIR_OK) {
        s = weir_cuda_status(cudaGraphUpload(replay->exec, weir_cuda_compute(d)), NULL,
                             "cudaGraphUpload");
        if (s != WEIR_OK)
            (void)cudaGraphExecDestroy(replay->exec);
    }
    if (s == WEIR_OK)
        *r = replay;
    else
        weir_mem_free(replay);
    return s;
}

/* Ends the capture, whatever happened in it. The late error of updates that were to be captured is
 * the capture's. */
static weir_status recorded(weir_device *d, weir_status so_far, weir_replay **r)
{
    cudaGraph_t        graph = NULL;
    const cudaStream_t stream = weir_cuda_compute(d);
    weir_status        s = so_far != WEIR_OK ? so_far : weir_cuda_late(d);
    const cudaError_t  e = cudaStreamEndCapture(stream, &graph);

    weir_cuda_context_of(d)->pending.late = cudaSuccess;
    if (s == WEIR_OK)
        s = weir_cuda_status(e, NULL, "cudaStreamEndCapture");
    else if (e != cudaSuccess)
        (void)cudaGetLastError();
    if (s == WEIR_OK)
        s = instantiate(d, graph, r);
    if (graph)
        (void)cudaGraphDestroy(graph);
    return s;
}

static weir_status replay(weir_device *d, weir_replay *r)
{
    WEIR_CUDA_TRY(NULL, cudaGraphLaunch(r->exec, weir_cuda_compute(d)));
    return WEIR_OK;
}

/* Waits for a replay that is still running. */
static void replay_free(weir_device *d, weir_replay *r)
{
    if (!r)
        return;
    (void)cudaStreamSynchronize(weir_cuda_compute(d));
    (void)cudaGraphExecDestroy(r->exec);
    weir_mem_free(r);
}

const weir_device_streams weir_cuda_stream_ops = {
    .count = count,
    .stream = stream,
    .events = events,
    .signal = signal,
    .await = await,
    .drain = drain,
    .draws = draws,
    .check = check,
    .may_record = may_record,
    .record = record,
    .recorded = recorded,
    .replay = replay,
    .replay_free = replay_free,
    .comm = &weir_cuda_nccl,
};
