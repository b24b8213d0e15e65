/* each_call.c - every call of CUDA, cuBLASLt, cuDNN, NVRTC and the driver fails in its turn, alone
 * and with all that follow. The result is a status with a sentence, or the right bits; nothing
 * leaks, and once the fault has passed the next run works. In whatever order the card runs its
 * work, the bits are the same.
 *
 * The suite takes a few calls of each function; WEIR_TEST_FULL=1 takes all. */
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn_graph.h>
#include <nvrtc.h>

#include "device/cuda/card_fixture.h"
#include "device/cuda/card_work.h"

enum { MOST_FUNCTIONS = 128 };

static card_fixture card;

/* ---- failures ---- */

/* ONCE: the nth call alone; LASTING: it and every later one, until the card recovers. */
typedef enum failure { ONCE, LASTING } failure;

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* What the function returns: a failure of its own library, or its lack of memory. */
static int error_of(const char *function, bool memory)
{
    if (starts(function, "cublasLt"))
        return memory ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INTERNAL_ERROR;
    if (starts(function, "cudnn"))
        return memory ? CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                      : CUDNN_STATUS_INTERNAL_ERROR;
    if (starts(function, "nvrtc"))
        return memory ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_ERROR_INTERNAL_ERROR;
    if (!starts(function, "cuda"))
        return memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    return memory ? cudaErrorMemoryAllocation : cudaErrorUnknown;
}

/* Functions whose failure may be ignored: their work is over, or there is another way. */
static bool may_be_silent(const char *function)
{
    static const char *const known[] = {
        "cudaFree", "cudaHostUnregister", "cudaMemGetInfo", "cudaDeviceGetAttribute", "cudaMalloc",
        "cudaHostAlloc", "cudaEventElapsedTime", "cuModuleUnload", "cuModuleGetFunction",
        "cuModuleLoadData", "cublasLtMatmulAlgo",
        "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphUpload",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        if (starts(function, known[i]))
            return true;
    return strstr(function, "Destroy");
}

/* A failing free leaves its object allocated, which is no leak of ours. */
static bool may_leak(const char *function)
{
    return starts(function, "cudaFree") ||
           (starts(function, "cuda") && strstr(function, "Destroy"));
}

/* The sentence names the error of the function's library. */
static bool names_error(const char *said, const char *function, int error)
{
    return strstr(said, starts(function, "cuda") || strcmp(function, "kernel") == 0
                            ? cudaGetErrorName((cudaError_t)error)
                        : starts(function, "cublas") ? "CUBLAS_STATUS"
                        : starts(function, "cudnn")  ? "CUDNN_STATUS"
                        : starts(function, "nvrtc")  ? "NVRTC_ERROR"
                                                     : "CUDA_ERROR") ||
           (error == cudaErrorMemoryAllocation && strstr(said, "no memory for")) ||
           /* a library's status, because a call below it failed */
           (starts(function, "cuda") &&
            (strstr(said, "CUBLAS_STATUS") || strstr(said, "CUDNN_STATUS") ||
             strstr(said, "CUDA_ERROR")));
}

/* The nth call of the function fails. Returns true if the failure was reported. */
static bool fails_well(work_fn work, const char *function, long nth, failure how, int error,
                       const float want[STEPS])
{
    float        out[STEPS] = {0};
    bench        b;
    const size_t bytes = card.allocated(), handles = card.handles();
    const int    before = check_failures;

    (how == ONCE ? card.fail : card.fail_from)(function, nth, (cudaError_t)error);
    const weir_status s = use_card(work, how == ONCE, &b, out);
    if (s == WEIR_OK)
        CHECK_BITS(out, want, sizeof out);
    if (b.failed != WEIR_OK) {
        CHECK(b.failed == WEIR_ERR_DEVICE || b.failed == WEIR_ERR_NOMEM);
        CHECK(names_error(b.said, function, error));
    }
    if (b.again)        /* the fault has passed */
        CHECK(s == WEIR_OK);
    CHECK(card.failed() >= 1);
    card.recover();
    if (!may_leak(function) && error != cudaErrorIllegalAddress) {
        CHECK(card.allocated() == bytes);
        CHECK(card.handles() == handles);
    }
    if (check_failures > before)
        printf("    when call %ld of %s failed %s: %s\n", nth, function,
               how == ONCE ? "once" : "from then on", b.said);
    return b.failed != WEIR_OK;
}

/* Functions and how often a program has called them. */
typedef struct census {
    int         n;
    const char *function[MOST_FUNCTIONS];
    long        calls[MOST_FUNCTIONS];
} census;

static void census_begin(census *c)
{
    for (c->n = 0; c->n < MOST_FUNCTIONS && (c->function[c->n] = card.function(c->n)); c->n++)
        c->calls[c->n] = -card.calls(c->function[c->n]);
    CHECK(c->n < MOST_FUNCTIONS);
}

static void census_end(census *c)
{
    for (int i = 0; i < c->n; i++)
        c->calls[i] += card.calls(c->function[i]);
}

static void works(work_fn work, const float want[STEPS])
{
    bench b;
    float out[STEPS];

    CHECK_OK(use_card(work, false, &b, out));
    CHECK_BITS(out, want, STEPS * sizeof *want);
}

/* Returns how many of the two failures were reported. */
static long call_fails(work_fn work, const char *function, long nth, bool memory,
                       const float want[STEPS])
{
    const int error = error_of(function, memory);

    return fails_well(work, function, nth, ONCE, error, want) +
           fails_well(work, function, nth, LASTING, error, want);
}

/* About `most` of the function's calls fail, evenly spread. */
static void function_fails(work_fn work, const char *function, long calls, long most,
                           const float want[STEPS])
{
    const bool full = check_full(), allocates = strstr(function, "lloc");
    const long by = full || allocates ? 1 : 1 + (calls - 1) / most;
    long       seen = 0;

    for (long nth = 1; nth <= calls; nth += by) {
        seen += call_fails(work, function, nth, allocates, want);
        if (full || allocates)
            seen += call_fails(work, function, nth, !allocates, want);
    }
    if (full)
        works(work, want);
    if (!may_be_silent(function) && !CHECK(seen > 0))
        printf("    all failures of %s went unseen\n", function);
}

/* About `most` calls of each function that the program calls fail. */
static void each_call_fails(work_fn work, long most)
{
    bench  b;
    census c;
    float  want[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    card.recover();
    CHECK_OK(use_card(work, false, &b, want));
    census_begin(&c);
    works(work, want);
    census_end(&c);
    for (int i = 0; i < c.n; i++)
        if (c.calls[i] > 0 && strcmp(c.function[i], "kernel") != 0)
            function_fails(work, c.function[i], c.calls[i], most, want);
    works(work, want);
}

CASE(of_products)
{
    each_call_fails(products, 2);
}

CASE(of_compiling)
{
    each_call_fails(compiling, 1);
}

CASE(of_convolution)
{
    each_call_fails(convolution, 2);
}

CASE(of_autotuned)
{
    each_call_fails(autotuned, 1);
}

CASE(of_training)
{
    each_call_fails(training, 1);
}

static long calls_of(const char *function, work_fn work)
{
    bench      b;
    float      out[STEPS];
    const long before = card.calls(function);
    CHECK_OK(use_card(work, false, &b, out));
    return card.calls(function) - before;
}

CASE(of_offloading)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK(calls_of("cudaHostAlloc", offloading) > calls_of("cudaHostAlloc", training));
    each_call_fails(offloading, 1);
}

CASE(of_swapping)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK(calls_of("cudaHostAlloc", swapping) > calls_of("cudaHostAlloc", training));
    each_call_fails(swapping, 1);
}

CASE(of_spilling)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK(calls_of("cudaLaunchHostFunc", spilling) > 0);
    each_call_fails(spilling, 1);
}

/* A kernel that fails while it runs is reported by the next wait; the card is then lost. */
CASE(of_kernels)
{
    bench b;
    float want[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK_OK(use_card(products, false, &b, want));
    const long kernels = calls_of("kernel", products);
    CHECK(kernels >= 2 * STEPS);
    for (long nth = 1; nth <= kernels; nth++) {
        CHECK(fails_well(products, "kernel", nth, LASTING, cudaErrorIllegalAddress, want));
        works(products, want);
    }
}

/* ---- orders ---- */

/* A missing wait, a missing event or a buffer reused too early would change the bits in one of
 * these orders. */
CASE(every_order_has_the_same_bits)
{
    static const char *const streams[] = {"1", "4", "8"};
    bench                    b;
    float                    want[STEPS], out[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    setenv("WEIR_STREAMS", "1", 1);
    CHECK_OK(use_card(training, false, &b, want));
    CHECK(want[STEPS - 1] < want[0]);
    for (uint64_t seed = 1; seed <= 24; seed++) {
        setenv("WEIR_STREAMS", streams[seed % 3], 1);
        card.seed(seed);
        CHECK_OK(use_card(seed % 2 ? training : swapping, false, &b, out));
        if (!CHECK_BITS(out, want, sizeof out))
            printf("    with seed %d\n", (int)seed);
    }
    unsetenv("WEIR_STREAMS");
}
