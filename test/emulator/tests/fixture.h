/* fixture.h - shared by the cases of the emulated runtime: ints on the card, checks of results. */
#ifndef WEIR_TEST_EMULATOR_TESTS_FIXTURE_H
#define WEIR_TEST_EMULATOR_TESTS_FIXTURE_H

#include <cuda_runtime_api.h>

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "emulator/inject.h"
#include "emulator/tests/probe.h"

#define CHECK_CUDA(expr)           fixture_check((expr), cudaSuccess, __FILE__, __LINE__, #expr)
#define CHECK_ERROR(expr, expected) fixture_check((expr), (expected), __FILE__, __LINE__, #expr)

static inline bool fixture_check(cudaError_t got, cudaError_t want, const char *file, int line,
                                 const char *expr)
{
    return check_that(got == want, file, line, "%s\n    is %s, not %s", expr,
                      cudaGetErrorName(got), cudaGetErrorName(want));
}

static inline cudaStream_t fixture_stream(void)
{
    cudaStream_t s = NULL;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static inline cudaEvent_t fixture_event(void)
{
    cudaEvent_t e = NULL;
    CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static inline void *fixture_alloc(size_t bytes)
{
    void *p = NULL;
    CHECK_CUDA(cudaMalloc(&p, bytes));
    return p;
}

static inline int *fixture_ints(int n)
{
    return fixture_alloc((size_t)n * sizeof(int));
}

static inline void *fixture_pinned(size_t bytes)
{
    void *p = NULL;
    CHECK_CUDA(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
    return p;
}

/* n ints on the card with the values 0, 1, ...; they have arrived when this returns, whereas copies
 * from pageable memory may only have begun. */
static inline int *fixture_numbers(int n)
{
    int *const p = fixture_ints(n);
    for (int i = 0; i < n; i++)
        CHECK_CUDA(cudaMemcpy(p + i, &i, sizeof i, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaDeviceSynchronize());
    return p;
}

/* The int at p after all work queued on the stream. */
static inline int fixture_int(cudaStream_t s, const int *p)
{
    int v = -77777;
    CHECK_CUDA(cudaMemcpyAsync(&v, p, sizeof v, cudaMemcpyDeviceToHost, s));
    return v;
}

/* True if a process that calls this ends by abort; its output is discarded. */
static inline bool fixture_aborts(void (*body)(void))
{
    int         how = 0;
    const pid_t child = fork();

    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        body();
        _exit(0);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFSIGNALED(how) &&
           WTERMSIG(how) == SIGABRT;
}

#endif
