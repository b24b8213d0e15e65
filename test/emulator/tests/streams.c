/* streams.c - streams and events of the emulated card: lazy, in random orders, as events allow. */
#include "emulator/tests/fixture.h"

enum { N = 64, ROUNDS = 60 };

/* Work starts only when the program waits for it. */
CASE(nothing_runs_before_it_is_waited_for)
{
    cudaStream_t s = fixture_stream();
    int *const   x = fixture_ints(1), *const host = fixture_pinned(sizeof *host);

    *host = 3;
    CHECK_CUDA(probe_set(s, x, 1, 5));
    CHECK_CUDA(cudaMemcpyAsync(host, x, sizeof *host, cudaMemcpyDeviceToHost, s));
    CHECK(emulate_queued() == 2);
    CHECK(*host == 3);
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK(emulate_queued() == 0);
    CHECK(*host == 5);
    CHECK_CUDA(cudaFreeHost(host));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* x = 1 on one stream, x = 10 x on another: 10 if an event orders them. Returns how often. */
static int ordered(bool with_event)
{
    cudaStream_t a = fixture_stream(), b = fixture_stream();
    cudaEvent_t  e = fixture_event();
    int *const   x = fixture_ints(1);
    int          right = 0;

    for (int i = 0; i < ROUNDS; i++) {
        CHECK_CUDA(probe_set(a, x, 1, 7));
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_CUDA(probe_set(a, x, 1, 1));
        if (with_event) {
            CHECK_CUDA(cudaEventRecord(e, a));
            CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
        }
        CHECK_CUDA(probe_step(b, x, 1, 10, 0));
        CHECK_CUDA(cudaStreamSynchronize(a));
        right += fixture_int(b, x) == 10;
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
    return right;
}

CASE(missing_event_shows)
{
    CHECK(ordered(true) == ROUNDS);
    const int luck = ordered(false);
    CHECK(luck > ROUNDS / 10 && luck < ROUNDS - ROUNDS / 10);
}

/* An event stands for its last record before the wait. */
CASE(events_are_what_they_were_when_waited_for)
{
    cudaStream_t a = fixture_stream(), b = fixture_stream();
    cudaEvent_t  e = fixture_event();
    int *const   x = fixture_ints(2);

    for (int i = 0; i < ROUNDS; i++) {
        CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));       /* never recorded, or done */
        CHECK_CUDA(probe_set(a, x, 1, i));
        CHECK_CUDA(cudaEventRecord(e, a));
        CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
        CHECK_CUDA(probe_step(a, x + 1, 1, 0, 100 + i));
        CHECK_CUDA(cudaEventRecord(e, a));
        CHECK(fixture_int(b, x) == i);
        CHECK_CUDA(cudaEventSynchronize(e));
        CHECK(fixture_int(b, x + 1) == 100 + i);
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamDestroy(b));
}

/* Pageable memory may change once the call returns, pinned memory once the copy is done. */
CASE(buffers_changed_early)
{
    cudaStream_t s = fixture_stream();
    int *const   x = fixture_ints(2), *const pinned = fixture_pinned(sizeof *pinned);
    int          pageable = 1;

    *pinned = 1;
    CHECK_CUDA(cudaMemcpyAsync(x, &pageable, sizeof *x, cudaMemcpyHostToDevice, s));
    CHECK_CUDA(cudaMemcpyAsync(x + 1, pinned, sizeof *x, cudaMemcpyHostToDevice, s));
    pageable = *pinned = 2;
    CHECK(fixture_int(s, x) == 1);
    CHECK(fixture_int(s, x + 1) == 2);
    CHECK_CUDA(cudaFreeHost(pinned));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void remember(void *context)
{
    int *const log = context;
    log[0]++;
    log[log[0]] = log[0] * 11;
}

static void call_cuda(void *context)
{
    *(cudaError_t *)context = cudaDeviceSynchronize();
}

CASE(host_functions_in_order)
{
    cudaStream_t s = fixture_stream();
    int          log[4] = {0};
    cudaError_t  said = cudaSuccess;

    for (int i = 0; i < 3; i++)
        CHECK_CUDA(cudaLaunchHostFunc(s, remember, log));
    CHECK_CUDA(cudaLaunchHostFunc(s, call_cuda, &said));
    CHECK(log[0] == 0);
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK(log[0] == 3 && log[1] == 11 && log[2] == 22 && log[3] == 33);
    CHECK(said == cudaErrorNotPermitted);
    CHECK_ERROR(cudaLaunchHostFunc(s, NULL, NULL), cudaErrorInvalidValue);
    CHECK_CUDA(cudaStreamDestroy(s));
    (void)cudaGetLastError();
}

/* Polling makes progress, and sometimes finds unfinished work. */
CASE(queries)
{
    cudaStream_t s = fixture_stream();
    cudaEvent_t  e = fixture_event();
    int *const   x = fixture_ints(1);
    cudaError_t  last;
    int          polls = 0;

    CHECK_CUDA(cudaEventQuery(e));
    CHECK_CUDA(cudaStreamQuery(s));
    for (int i = 0; i < N; i++)
        CHECK_CUDA(probe_set(s, x, 1, i));
    CHECK_CUDA(cudaEventRecord(e, s));
    while ((last = cudaEventQuery(e)) == cudaErrorNotReady && polls < 10000)
        polls++;
    CHECK_CUDA(last);
    CHECK(polls > 2);
    CHECK_ERROR(cudaGetLastError(), cudaErrorNotReady);
    CHECK_CUDA(probe_set(s, x, 1, -1));
    while ((last = cudaStreamQuery(s)) == cudaErrorNotReady && polls < 10000)
        polls++;
    CHECK_CUDA(last);
    CHECK(fixture_int(s, x) == -1);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_CUDA(cudaStreamDestroy(s));
    (void)cudaGetLastError();
}

static void nap(void *context)
{
    (void)context;
    usleep(3000);
}

CASE(event_times)
{
    cudaStream_t s = fixture_stream();
    cudaEvent_t  a, b, off = fixture_event();
    float        ms = -1;

    CHECK_CUDA(cudaEventCreate(&a));
    CHECK_CUDA(cudaEventCreateWithFlags(&b, cudaEventBlockingSync));
    CHECK_ERROR(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaEventRecord(a, s));
    CHECK_CUDA(cudaLaunchHostFunc(s, nap, NULL));
    CHECK_CUDA(cudaEventRecord(b, s));
    CHECK_ERROR(cudaEventElapsedTime(&ms, a, b), cudaErrorNotReady);
    CHECK_CUDA(cudaEventSynchronize(b));
    CHECK_CUDA(cudaEventElapsedTime(&ms, a, b));
    CHECK(ms >= 3);
    CHECK_CUDA(cudaEventRecord(off, s));
    CHECK_CUDA(cudaEventSynchronize(off));
    CHECK_ERROR(cudaEventElapsedTime(&ms, a, off), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaEventDestroy(a));
    CHECK_CUDA(cudaEventDestroy(b));
    CHECK_CUDA(cudaEventDestroy(off));
    CHECK_CUDA(cudaStreamDestroy(s));
    (void)cudaGetLastError();
}

/* The legacy stream and blocking ones wait for each other; non-blocking ones do not. */
CASE(legacy_stream)
{
    cudaStream_t blocking, other = fixture_stream();
    int *const   x = fixture_ints(1), *const y = fixture_ints(1);
    int          early = 0, late = 0;

    CHECK_CUDA(cudaStreamCreate(&blocking));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_CUDA(cudaMemset(y, 0, sizeof *y));
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_CUDA(probe_set(blocking, x, 1, i));
        CHECK_CUDA(probe_step(NULL, x, 1, 2, 1));
        CHECK_CUDA(probe_step(blocking, x, 1, 3, 2));
        CHECK_CUDA(probe_set(other, y, 1, 1));
        CHECK(fixture_int(blocking, x) == 6 * i + 5);
        CHECK_CUDA(cudaMemcpy(&early, y, sizeof early, cudaMemcpyDeviceToHost));
        CHECK_CUDA(cudaStreamSynchronize(other));
        late += early == 0;
    }
    CHECK(late > 0 && late < ROUNDS);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(blocking));
    CHECK_CUDA(cudaStreamDestroy(other));
}

CASE(streams_may_be_destroyed_with_work_in_them)
{
    cudaStream_t a = fixture_stream(), b = fixture_stream();
    cudaEvent_t  e = fixture_event();
    int *const   x = fixture_ints(1);

    CHECK_CUDA(probe_set(a, x, 1, 4));
    CHECK_CUDA(cudaEventRecord(e, a));
    CHECK_CUDA(cudaStreamDestroy(a));
    CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK(fixture_int(b, x) == 4);
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(emulate_queued() == 0);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(b));
}

CASE(handles_of_the_dead)
{
    cudaStream_t s = fixture_stream(), t = fixture_stream();
    cudaEvent_t  e = fixture_event();
    int *const   x = fixture_ints(1);

    CHECK_CUDA(cudaStreamDestroy(s));
    CHECK_ERROR(probe_set(s, x, 1, 1), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaEventRecord(e, s), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaStreamDestroy(s), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaMemsetAsync(x, 0, 4, s), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaEventDestroy(e));
    CHECK_ERROR(cudaEventDestroy(e), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaStreamWaitEvent(t, e, 0), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaEventSynchronize(e), cudaErrorInvalidResourceHandle);
    CHECK_ERROR(cudaStreamCreateWithFlags(&s, 8), cudaErrorInvalidValue);
    CHECK_ERROR(cudaPeekAtLastError(), cudaErrorInvalidValue);
    CHECK_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_CUDA(cudaPeekAtLastError());
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(t));
}

/* The same seed draws the same order. */
CASE(seeds)
{
    int seen[2][ROUNDS];
    for (int run = 0; run < 2; run++) {
        cudaStream_t a = fixture_stream(), b = fixture_stream();
        int *const   x = fixture_ints(1);
        emulate_seed(99);
        for (int i = 0; i < ROUNDS; i++) {
            CHECK_CUDA(probe_set(a, x, 1, 1));
            CHECK_CUDA(probe_set(b, x, 1, 2));
            CHECK_CUDA(cudaDeviceSynchronize());
            CHECK_CUDA(cudaMemcpy(&seen[run][i], x, sizeof *x, cudaMemcpyDeviceToHost));
        }
        CHECK_CUDA(cudaFree(x));
        CHECK_CUDA(cudaStreamDestroy(a));
        CHECK_CUDA(cudaStreamDestroy(b));
    }
    CHECK_BITS(seen[0], seen[1], sizeof seen[0]);
}
