/* each_call.c - every CUDA call fails in its turn: the result is a status with a sentence, nothing
 * leaks, and the next run works. In whatever order the card runs its work, the bits are the
 * same. */
#include "device/cuda/card_fixture.h"

enum { ROWS = 8, WIDTH = 24, CLASSES = 3, STEPS = 4 };

static card_fixture card;

/* Everything created so far; freed in every case. */
typedef struct bench {
    weir_device *d;
    weir_model  *net;
    weir_optim  *sgd;
    weir_tensor *x, *y;
    weir_graph  *step;
} bench;

/* A use of the card: returns losses or a failure. */
typedef weir_status (*work_fn)(bench *b, float out[STEPS]);

static weir_status write_data(bench *b)
{
    float   x[ROWS * WIDTH];
    int32_t y[ROWS];

    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(i * 37 % 101) / 101;
    for (int i = 0; i < ROWS; i++)
        y[i] = i % CLASSES;
    WEIR_TRY(weir_write(b->x, x, sizeof x));
    return weir_write(b->y, y, sizeof y);
}

static weir_status bench_open(bench *b)
{
    if (!(b->d = weir_device_open("cuda", NULL)) ||
        !(b->x = weir_input(b->d, weir_2d(WEIR_F32, ROWS, WIDTH))) ||
        !(b->y = weir_input(b->d, weir_1d(WEIR_I32, ROWS))))
        return weir_error_status();
    return write_data(b);
}

static weir_tensor *product_sum(const bench *b)
{
    return weir_sum(weir_matmul_t(b->x, b->x, false, true), 0, false);
}

/* The sum of all elements of a product: with the graph off, and by a graph. */
static weir_status products(bench *b, float out[STEPS])
{
    WEIR_TRY(bench_open(b));
    WEIR_TRY(weir_scope_begin(b->d));
    weir_tensor *y = product_sum(b);
    weir_status  s = y ? weir_read(y, &out[0], sizeof out[0]) : weir_error_status();
    weir_scope_end(b->d);
    WEIR_TRY(s);
    if (!(b->step = weir_graph_begin(b->d)))
        return weir_error_status();
    y = weir_keep(product_sum(b));
    WEIR_TRY(weir_graph_end(b->step, NULL));
    for (int i = 1; i < STEPS; i++) {
        WEIR_TRY(weir_graph_run(b->step));
        WEIR_TRY(weir_read(y, &out[i], sizeof out[i]));
    }
    return WEIR_OK;
}

/* Training steps in which some values are offloaded. */
static weir_status train(bench *b, const weir_plan_options *options, float out[STEPS])
{
    weir_layer *mlp;

    WEIR_TRY(bench_open(b));
    if (!(b->net = weir_model_new(b->d)) ||
        !(mlp = weir_mlp_new(b->net, 5, (int64_t[]){WIDTH, 64, 48, 32, CLASSES})) ||
        !(b->sgd = weir_sgd_new(b->d, 0.3, &(weir_sgd_options){.momentum = 0.9})) ||
        !(b->step = weir_graph_begin(b->d)))
        return weir_error_status();
    weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(mlp, b->x), b->y));
    WEIR_TRY(weir_minimize(b->sgd, loss));
    WEIR_TRY(weir_graph_end(b->step, options));
    for (int i = 0; i < STEPS; i++) {
        WEIR_TRY(weir_graph_run(b->step));
        WEIR_TRY(weir_read(loss, &out[i], sizeof out[i]));
    }
    return WEIR_OK;
}

static weir_status training(bench *b, float out[STEPS])
{
    return train(b, NULL, out);
}

static weir_status swapping(bench *b, float out[STEPS])
{
    return train(b, &(weir_plan_options){.budget = "98%", .policy = "capuchin:passive"}, out);
}

static weir_status use_card(work_fn work, float out[STEPS])
{
    bench             b = {0};
    const weir_status s = work(&b, out);

    weir_graph_free(b.step);
    weir_optim_free(b.sgd);
    weir_model_free(b.net);
    weir_release(b.x);
    weir_release(b.y);
    weir_device_close(b.d);
    return s;
}

/* ---- failures ---- */

/* Functions whose failure may be ignored: their work is over, or there is another way. */
static bool may_be_silent(const char *function)
{
    static const char *const known[] = {
        "cudaStreamDestroy", "cudaEventDestroy", "cudaFree", "cudaFreeHost", "cudaGraphDestroy",
        "cudaGraphExecDestroy", "cudaHostUnregister", "cudaMemGetInfo", "cudaDeviceGetAttribute",
        "cudaMalloc", "cudaHostAlloc",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], function) == 0)
            return true;
    return false;
}

/* A failing free leaves its object allocated, which is no leak of ours. */
static bool may_leak(const char *function)
{
    return strncmp(function, "cudaFree", 8) == 0 || strstr(function, "Destroy");
}

/* The nth call of the function fails. Returns true if the failure was reported. */
static bool fails_well(work_fn work, const char *function, long nth, cudaError_t error,
                       const float want[STEPS])
{
    float        out[STEPS] = {0};
    const size_t bytes = card.allocated(), handles = card.handles();
    const int    before = check_failures;
    char         said[300] = "";

    card.recover();
    card.fail(function, nth, error);
    const weir_status s = use_card(work, out);
    if (s == WEIR_OK) {
        CHECK_BITS(out, want, sizeof out);
    } else {
        snprintf(said, sizeof said, "%s", weir_error());
        CHECK(s == WEIR_ERR_DEVICE || s == WEIR_ERR_NOMEM);
        CHECK(strstr(said, cudaGetErrorName(error)) || strstr(said, "CUBLAS_STATUS") ||
              strstr(said, "CUDA_ERROR"));
    }
    CHECK(card.failed() == 1);
    card.recover();
    if (!may_leak(function) && error != cudaErrorIllegalAddress) {
        CHECK(card.allocated() == bytes);
        CHECK(card.handles() == handles);
    }
    if (check_failures > before)
        printf("    when call %ld of %s failed: %s\n", nth, function, said);
    return s != WEIR_OK;
}

static const char *const functions[] = {
    "cudaGetDeviceCount", "cudaSetDevice", "cudaGetDeviceProperties", "cudaDeviceGetAttribute",
    "cudaMemGetInfo", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost",
    "cudaStreamCreateWithFlags", "cudaStreamDestroy", "cudaStreamSynchronize",
    "cudaStreamWaitEvent", "cudaEventCreateWithFlags", "cudaEventDestroy",
    "cudaEventRecordWithFlags", "cudaEventSynchronize", "cudaMemcpyAsync", "cudaMemsetAsync",
    "cudaLaunchKernel", "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
    "cudaGraphLaunch", "cudaGraphDestroy", "cudaGraphExecDestroy",
};

/* Fails about `most` calls of each function, evenly spread. */
static void each_call_fails(work_fn work, long most)
{
    float want[STEPS], out[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK_OK(use_card(work, want));
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const long before = card.calls(functions[f]);
        CHECK_OK(use_card(work, out));
        CHECK_BITS(out, want, sizeof out);
        const long calls = card.calls(functions[f]) - before, by = 1 + calls / most;
        long       seen = 0;
        for (long nth = 1; nth <= calls; nth += by)
            seen += fails_well(work, functions[f], nth,
                               strstr(functions[f], "lloc") ? cudaErrorMemoryAllocation
                                                            : cudaErrorUnknown, want);
        if (!may_be_silent(functions[f]) && calls > 0 && !CHECK(seen > 0))
            printf("    all failures of %s went unseen\n", functions[f]);
    }
    CHECK_OK(use_card(work, out));
    CHECK_BITS(out, want, sizeof out);
}

CASE(of_products)
{
    each_call_fails(products, 6);
}

CASE(of_training)
{
    each_call_fails(training, 4);
}

static long calls_of(const char *function, work_fn work)
{
    float      out[STEPS];
    const long before = card.calls(function);
    CHECK_OK(use_card(work, out));
    return card.calls(function) - before;
}

CASE(of_swapping)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK(calls_of("cudaHostAlloc", swapping) > calls_of("cudaHostAlloc", training));
    each_call_fails(swapping, 4);
}

/* A kernel that fails while it runs is reported by the next wait; the card is then lost. */
CASE(of_kernels)
{
    float want[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK_OK(use_card(products, want));
    const long before = card.calls("kernel");
    CHECK_OK(use_card(products, want));
    const long kernels = card.calls("kernel") - before;
    CHECK(kernels >= 2 * STEPS);
    for (long nth = 1; nth <= kernels; nth++) {
        CHECK(fails_well(products, "kernel", nth, cudaErrorIllegalAddress, want));
        CHECK_OK(use_card(products, want));
    }
}

/* ---- orders ---- */

/* A missing wait, a missing event or a buffer reused too early would change the bits in one of
 * these orders. */
CASE(every_order_has_the_same_bits)
{
    static const char *const streams[] = {"1", "4", "8"};
    float                    want[STEPS], out[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    setenv("WEIR_STREAMS", "1", 1);
    CHECK_OK(use_card(training, want));
    CHECK(want[STEPS - 1] < want[0]);
    for (uint64_t seed = 1; seed <= 24; seed++) {
        setenv("WEIR_STREAMS", streams[seed % 3], 1);
        card.seed(seed);
        CHECK_OK(use_card(seed % 2 ? training : swapping, out));
        if (!CHECK_BITS(out, want, sizeof out))
            printf("    with seed %d\n", (int)seed);
    }
    unsetenv("WEIR_STREAMS");
}
