/* captures.c - stream capture and graphs of the emulated card. */
#include "emulator/tests/fixture.h"

enum { ROUNDS = 40 };

static enum cudaStreamCaptureStatus status_of(cudaStream_t s)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CHECK_CUDA(cudaStreamIsCapturing(s, &status));
    return status;
}

static size_t nodes_of(cudaGraph_t g)
{
    size_t n = 0;
    CHECK_CUDA(cudaGraphGetNodes(g, NULL, &n));
    return n;
}

/* Makes b follow all work of a so far. */
static void order(cudaStream_t a, cudaStream_t b, cudaEvent_t e)
{
    CHECK_CUDA(cudaEventRecord(e, a));
    CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
}

static void count_call(void *context)
{
    ++*(int *)context;
}

/* x = 2 x + 1 by copies, fills and kernels on two streams, with a host function on one of them. */
static cudaGraph_t capture_step(cudaStream_t a, cudaStream_t b, int *x, int *y, int *calls)
{
    cudaEvent_t e = fixture_event(), f = fixture_event();
    cudaGraph_t g = NULL;

    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaMemcpyAsync(y, x, sizeof *x, cudaMemcpyDeviceToDevice, a));
    order(a, b, e);
    CHECK_CUDA(probe_step(b, y, 1, 1, 1));
    CHECK_CUDA(cudaLaunchHostFunc(b, count_call, calls));
    CHECK(status_of(b) == cudaStreamCaptureStatusActive);
    order(b, a, f);
    CHECK_CUDA(probe_add(a, x, y, 1));
    CHECK_CUDA(cudaMemsetAsync(y, 0xee, sizeof *y, a));
    CHECK_CUDA(cudaStreamEndCapture(a, &g));
    CHECK(status_of(a) == cudaStreamCaptureStatusNone);
    CHECK(status_of(b) == cudaStreamCaptureStatusNone);
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaEventDestroy(f));
    return g;
}

CASE(replay)
{
    cudaStream_t    a = fixture_stream(), b = fixture_stream();
    int *const      x = fixture_ints(1), *const y = fixture_ints(1);
    cudaGraphExec_t exec = NULL;
    int             calls = 0;

    CHECK_CUDA(probe_set(a, x, 1, 3));
    CHECK(fixture_int(a, x) == 3);
    cudaGraph_t g = capture_step(a, b, x, y, &calls);
    CHECK(nodes_of(g) == 5);
    CHECK(emulate_queued() == 0);
    CHECK(fixture_int(a, x) == 3);          /* captured, not run */
    CHECK_CUDA(cudaGraphInstantiate(&exec, g, 0));
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_CUDA(cudaGraphUpload(exec, a));
    for (int i = 0; i < 5; i++)
        CHECK_CUDA(cudaGraphLaunch(exec, i % 2 ? a : b));       /* launches run one after another */
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(fixture_int(a, x) == (3 + 1) * 32 - 1);
    CHECK(calls == 5);
    CHECK_CUDA(cudaGraphLaunch(exec, a));
    CHECK_CUDA(cudaGraphExecDestroy(exec));                     /* queued launches still run */
    CHECK(fixture_int(a, x) == (3 + 1) * 64 - 1);
    CHECK_ERROR(cudaGraphLaunch(exec, a), cudaErrorInvalidValue);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    (void)cudaGetLastError();
}

/* Two branches that both write x, with or without an edge between them. Returns how often the
 * second one is last. */
static int branches(bool edge)
{
    cudaStream_t    a = fixture_stream(), b = fixture_stream();
    cudaEvent_t     e = fixture_event(), f = fixture_event(), h = fixture_event();
    int *const      x = fixture_ints(1);
    cudaGraph_t     g = NULL;
    cudaGraphExec_t exec = NULL;
    int             second = 0;

    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    order(a, b, e);
    CHECK_CUDA(probe_set(a, x, 1, 1));
    if (edge)
        order(a, b, f);
    CHECK_CUDA(probe_set(b, x, 1, 2));
    order(b, a, h);
    CHECK_CUDA(cudaStreamEndCapture(a, &g));
    CHECK_CUDA(cudaGraphInstantiateWithFlags(&exec, g, 0));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_CUDA(cudaGraphLaunch(exec, a));
        second += fixture_int(a, x) == 2;
    }
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaEventDestroy(f));
    CHECK_CUDA(cudaEventDestroy(h));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    return second;
}

CASE(missing_edge_shows)
{
    CHECK(branches(true) == ROUNDS);
    const int luck = branches(false);
    CHECK(luck > ROUNDS / 10 && luck < ROUNDS - ROUNDS / 10);
}

/* A captured copy, from pinned or pageable memory, reads it when the graph runs. */
CASE(captured_copies_read_late)
{
    cudaStream_t    s = fixture_stream();
    int *const      x = fixture_ints(1), *const pinned = fixture_pinned(sizeof *pinned);
    cudaGraph_t     g = NULL;
    cudaGraphExec_t exec = NULL;

    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaMemcpyAsync(x, pinned, sizeof *x, cudaMemcpyHostToDevice, s));
    CHECK_CUDA(cudaStreamEndCapture(s, &g));
    CHECK_CUDA(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < 3; i++) {
        *pinned = i;
        CHECK_CUDA(cudaGraphLaunch(exec, s));
        CHECK(fixture_int(s, x) == i);
    }
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFreeHost(pinned));
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* Calls that invalidate a capture because they would wait or allocate. */
static cudaError_t poison(cudaStream_t s, cudaStream_t other, int *x, int how)
{
    void  *p;
    size_t n;

    switch (how) {
    case 0:  return cudaStreamSynchronize(s);
    case 1:  return cudaStreamQuery(s);
    case 2:  return cudaDeviceSynchronize();
    case 3:  return cudaMalloc(&p, 4);
    case 4:  return cudaFree(x);
    case 5:  return cudaMemcpy(&n, x, 4, cudaMemcpyDeviceToHost);
    case 6:  return cudaHostAlloc(&p, 4, 0);
    default: return cudaStreamSynchronize(other);
    }
}

CASE(calls_that_spoil_a_capture)
{
    cudaStream_t s = fixture_stream(), other = fixture_stream();
    int *const   x = fixture_ints(1);

    for (int how = 0; how < 8; how++) {
        cudaGraph_t g = (cudaGraph_t)x;
        CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        CHECK_CUDA(probe_set(s, x, 1, 1));
        CHECK_ERROR(poison(s, other, x, how), cudaErrorStreamCaptureUnsupported);
        CHECK(status_of(s) == cudaStreamCaptureStatusInvalidated);
        CHECK_ERROR(probe_set(s, x, 1, 1), cudaErrorStreamCaptureInvalidated);
        CHECK_ERROR(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
        CHECK(g == NULL);
        CHECK_CUDA(probe_set(s, x, 1, how));
        CHECK(fixture_int(s, x) == how);
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(s));
    CHECK_CUDA(cudaStreamDestroy(other));
    (void)cudaGetLastError();
}

/* A relaxed capture forbids only calls on its own stream. */
CASE(relaxed_captures)
{
    cudaStream_t s = fixture_stream(), other = fixture_stream();
    int *const   x = fixture_ints(1);
    cudaGraph_t  g = NULL;

    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    int *const y = fixture_ints(1);
    CHECK_CUDA(probe_set(s, x, 1, 1));
    CHECK_CUDA(probe_set(other, y, 1, 6));
    CHECK(fixture_int(other, y) == 6);
    CHECK_CUDA(cudaStreamEndCapture(s, &g));
    CHECK(nodes_of(g) == 1);
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
    CHECK_CUDA(cudaStreamDestroy(other));
}

CASE(forks_must_join)
{
    cudaStream_t a = fixture_stream(), b = fixture_stream();
    cudaEvent_t  e = fixture_event();
    int *const   x = fixture_ints(1);
    cudaGraph_t  g = NULL;

    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(probe_set(a, x, 1, 1));
    order(a, b, e);
    CHECK_CUDA(probe_set(b, x, 1, 2));
    CHECK_ERROR(cudaStreamEndCapture(b, &g), cudaErrorStreamCaptureUnmatched);
    CHECK_ERROR(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureUnjoined);
    CHECK(g == NULL);
    CHECK_ERROR(cudaStreamEndCapture(a, &g), cudaErrorIllegalState);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    (void)cudaGetLastError();
}

/* Events inside a capture order only nodes of that capture. */
CASE(events_across_the_border)
{
    cudaStream_t a = fixture_stream(), b = fixture_stream();
    cudaEvent_t  before = fixture_event(), inside = fixture_event();
    cudaGraph_t  g = NULL;

    CHECK_CUDA(cudaEventRecord(before, b));
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_ERROR(cudaStreamWaitEvent(a, before, 0), cudaErrorStreamCaptureIsolation);
    CHECK_ERROR(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaEventRecord(inside, a));
    CHECK_ERROR(cudaEventQuery(inside), cudaErrorCapturedEvent);
    CHECK_ERROR(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaEventRecord(inside, a));
    CHECK_ERROR(cudaStreamWaitEvent(b, inside, 0), cudaErrorStreamCaptureMerge);
    CHECK_ERROR(cudaStreamEndCapture(a, &g), cudaErrorStreamCaptureInvalidated);
    CHECK_ERROR(cudaStreamEndCapture(b, &g), cudaErrorStreamCaptureInvalidated);
    CHECK_ERROR(cudaEventSynchronize(inside), cudaErrorCapturedEvent);
    CHECK_CUDA(cudaEventRecord(inside, a));
    CHECK_CUDA(cudaEventSynchronize(inside));
    CHECK_CUDA(cudaEventDestroy(before));
    CHECK_CUDA(cudaEventDestroy(inside));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    (void)cudaGetLastError();
}

/* External events are recorded, and waited for, by each launch. */
CASE(external_events)
{
    cudaStream_t    a = fixture_stream(), b = fixture_stream();
    cudaEvent_t     go = fixture_event(), done = fixture_event();
    int *const      x = fixture_ints(1);
    cudaGraph_t     g = NULL;
    cudaGraphExec_t exec = NULL;

    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaStreamWaitEvent(a, go, cudaEventWaitExternal));
    CHECK_CUDA(probe_step(a, x, 1, 10, 1));
    CHECK_CUDA(cudaEventRecordWithFlags(done, a, cudaEventRecordExternal));
    CHECK_CUDA(cudaStreamEndCapture(a, &g));
    CHECK(nodes_of(g) == 3);
    CHECK_CUDA(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_CUDA(probe_set(b, x, 1, i));
        CHECK_CUDA(cudaEventRecord(go, b));
        CHECK_CUDA(cudaGraphLaunch(exec, a));
        CHECK_CUDA(cudaStreamWaitEvent(b, done, 0));
        CHECK(fixture_int(b, x) == 10 * i + 1);
    }
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(go));
    CHECK_CUDA(cudaEventDestroy(done));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
}

CASE(capture_info)
{
    cudaStream_t            s = fixture_stream();
    int *const              x = fixture_ints(1);
    cudaGraph_t             g = NULL, same = NULL;
    const cudaGraphNode_t  *after = NULL;
    enum cudaStreamCaptureStatus status;
    unsigned long long      id = 0;
    size_t                  n = 9;
    cudaGraphNode_t         all[3];
    enum cudaGraphNodeType       type;

    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(probe_set(s, x, 1, 1));
    CHECK_CUDA(cudaMemsetAsync(x, 0, sizeof *x, s));
#if CUDART_VERSION >= 13000
    CHECK_CUDA(cudaStreamGetCaptureInfo(s, &status, &id, &g, &after, NULL, &n));
#else
    CHECK_CUDA(cudaStreamGetCaptureInfo_v2(s, &status, &id, &g, &after, &n));
#endif
    CHECK(status == cudaStreamCaptureStatusActive && id > 0 && n == 1);
    CHECK_CUDA(cudaGraphNodeGetType(after[0], &type));
    CHECK(type == cudaGraphNodeTypeMemset);
    CHECK_CUDA(cudaStreamEndCapture(s, &same));
    CHECK(g == same);
    n = 3;
    CHECK_CUDA(cudaGraphGetNodes(g, all, &n));
    CHECK(n == 2);
    CHECK_CUDA(cudaGraphNodeGetType(all[0], &type));
    CHECK(type == cudaGraphNodeTypeKernel);
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_ERROR(cudaGraphDestroy(g), cudaErrorInvalidValue);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(s));
    (void)cudaGetLastError();
}
