/* failures.c - errors of the emulated card: injected ones, lost contexts, no cards at all. */
#include "emulator/tests/fixture.h"
#include "emulator/work.h"

CASE(the_nth_call_fails)
{
    void      *p[3] = {NULL};
    const long calls = emulate_calls("cudaMalloc");

    emulate_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMalloc(&p[0], 8));
    CHECK_ERROR(cudaMalloc(&p[1], 8), cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMalloc(&p[2], 8));
    CHECK(emulate_failed() == 1);
    CHECK(emulate_calls("cudaMalloc") == calls + 3);
    CHECK_ERROR(cudaGetLastError(), cudaErrorMemoryAllocation);
    emulate_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
    emulate_fail("cudaMalloc", 0, cudaSuccess);
    CHECK_CUDA(cudaMalloc(&p[1], 8));
    for (int i = 0; i < 3; i++)
        CHECK_CUDA(cudaFree(p[i]));
    emulate_recover();
}

CASE(every_call_from_the_nth_on_fails)
{
    void *p[4] = {NULL};

    emulate_fail_from("cudaMalloc", 2, cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMalloc(&p[0], 8));
    for (int i = 1; i < 3; i++)
        CHECK_ERROR(cudaMalloc(&p[i], 8), cudaErrorMemoryAllocation);
    CHECK(emulate_failed() == 2);
    emulate_recover();
    CHECK_CUDA(cudaMalloc(&p[3], 8));
    CHECK_CUDA(cudaFree(p[0]));
    CHECK_CUDA(cudaFree(p[3]));
}

/* What libraries call at the beginning of their functions. */
CASE(functions_of_libraries_fail)
{
    const size_t handles = emulate_handles();

    emulate_fail("cudnnSetStream", 2, (cudaError_t)4000);
    emulate_fail_from("*", 1, cudaErrorUnknown);    /* any function of the runtime alone */
    CHECK(emulate_call("cudnnSetStream") == 0);
    CHECK(emulate_call("cudnnSetStream") == 4000);
    CHECK(emulate_call("cudnnSetStream") == 0);
    CHECK(emulate_calls("cudnnSetStream") == 3);
    emulate_recover();
    emulate_hold(1);
    CHECK(emulate_handles() == handles + 1);
    emulate_hold(-1);
    CHECK(emulate_handles() == handles);
}

/* A kernel fails when it runs; from then on every call fails. */
CASE(a_kernel_fails)
{
    cudaStream_t s = fixture_stream(), t = NULL;
    int *const   x = fixture_ints(1);

    CHECK_CUDA(probe_set(s, x, 1, 1));
    CHECK(fixture_int(s, x) == 1);
    emulate_fail("kernel", 2, cudaErrorIllegalAddress);
    CHECK_CUDA(probe_set(s, x, 1, 2));
    CHECK_CUDA(probe_set(s, x, 1, 3));
    CHECK_ERROR(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    CHECK_ERROR(probe_set(s, x, 1, 4), cudaErrorIllegalAddress);
    CHECK_ERROR(cudaStreamCreate(&t), cudaErrorIllegalAddress);
    CHECK_ERROR(cudaGetLastError(), cudaErrorIllegalAddress);
    CHECK_ERROR(cudaGetLastError(), cudaErrorIllegalAddress);
    emulate_recover();
    CHECK_CUDA(cudaGetLastError());
    CHECK(fixture_int(s, x) == 2);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* A copy whose memory has been freed when it runs. */
CASE(freed_below_a_graph)
{
    cudaStream_t    s = fixture_stream();
    int *const      x = fixture_ints(1);
    cudaGraph_t     g = NULL;
    cudaGraphExec_t exec = NULL;

    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK_CUDA(cudaMemsetAsync(x, 0, sizeof *x, s));
    CHECK_CUDA(cudaStreamEndCapture(s, &g));
    CHECK_CUDA(cudaGraphInstantiate(&exec, g, 0));
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaGraphLaunch(exec, s));
    CHECK_ERROR(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    emulate_recover();
    CHECK_CUDA(cudaGraphDestroy(g));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(no_card)
{
    int          n = 7;
    void        *p;
    cudaStream_t s;

    setenv("WEIR_EMULATED_CARDS", "0", 1);
    CHECK_ERROR(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    CHECK(n == 0);
    CHECK_ERROR(cudaSetDevice(0), cudaErrorNoDevice);
    CHECK_ERROR(cudaMalloc(&p, 8), cudaErrorNoDevice);
    CHECK_ERROR(cudaStreamCreate(&s), cudaErrorNoDevice);
    CHECK_CUDA(cudaDriverGetVersion(&n));
    CHECK(n == 0);
    setenv("WEIR_EMULATED_CARDS", "3", 1);
    CHECK_CUDA(cudaGetDeviceCount(&n));
    CHECK(n == 3);
    CHECK_ERROR(cudaSetDevice(3), cudaErrorInvalidDevice);
    unsetenv("WEIR_EMULATED_CARDS");
    (void)cudaGetLastError();
}

/* A kernel must be queued on a stream of the current card. */
CASE(several_cards)
{
    size_t       before, after, total;
    cudaStream_t zero = fixture_stream();

    setenv("WEIR_EMULATED_CARDS", "3", 1);
    CHECK_CUDA(cudaMemGetInfo(&before, &total));
    CHECK_CUDA(cudaSetDevice(2));
    cudaStream_t two = fixture_stream();
    int *const   x = fixture_ints(1);
    CHECK_CUDA(probe_set(two, x, 1, 5));
    CHECK(fixture_int(two, x) == 5);
    CHECK_ERROR(probe_set(zero, x, 1, 5), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_ERROR(probe_set(two, x, 1, 5), cudaErrorInvalidResourceHandle);
    CHECK_CUDA(cudaMemGetInfo(&after, &total));
    CHECK(before == after);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaStreamDestroy(two));
    CHECK_CUDA(cudaStreamDestroy(zero));
    unsetenv("WEIR_EMULATED_CARDS");
    (void)cudaGetLastError();
}

CASE(names_and_properties)
{
    struct cudaDeviceProp p;
    int                   v = 0;

    CHECK_TEXT(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
    CHECK_TEXT(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    CHECK_TEXT(cudaGetErrorName((cudaError_t)4711), "unrecognized");
    CHECK_CUDA(cudaGetDeviceProperties(&p, 0));
    CHECK_TEXT(p.name, "emulated");
    CHECK_CUDA(cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
    CHECK(v == p.multiProcessorCount);
    CHECK_ERROR(cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 1), cudaErrorInvalidDevice);
    CHECK_CUDA(cudaRuntimeGetVersion(&v));
    CHECK(v == CUDART_VERSION);
    (void)cudaGetLastError();
}
