/* vtable.c - the CUDA device's table of functions over the emulated card, and every call of CUDA
 * failing in its turn: a status with a sentence, nothing lost, and the next run works. */
#include <dlfcn.h>

#include "cuda/lab.h"
#include "device/device.h"
#include "weir.h"

/* What the emulated card of the plugin offers: not the one that this program is linked with. */
static struct {
    void (*fail)(const char *function, long nth, cudaError_t error);
    long (*failed)(void);
    long (*calls)(const char *function);
    size_t (*allocated)(void);
    size_t (*handles)(void);
    size_t (*queued)(void);
    void (*recover)(void);
} card;

static void *symbol(void *lib, const char *name)
{
    void *const p = dlsym(lib, name);
    CHECK(p != NULL);
    return p;
}

static bool have_card(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    weir_device_close(weir_device_open("cuda", NULL));
    void *const lib = dlopen(WEIR_TEST_PLUGINS "/libweir_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (!CHECK(lib != NULL))
        return false;
    *(void **)&card.fail = symbol(lib, "emulate_fail");
    *(void **)&card.failed = symbol(lib, "emulate_failed");
    *(void **)&card.calls = symbol(lib, "emulate_calls");
    *(void **)&card.allocated = symbol(lib, "emulate_allocated");
    *(void **)&card.handles = symbol(lib, "emulate_handles");
    *(void **)&card.queued = symbol(lib, "emulate_queued");
    *(void **)&card.recover = symbol(lib, "emulate_recover");
    return true;
}

CASE(memory)
{
    enum { N = 1000 };
    unsigned char in[N], out[N];
    void         *p = NULL;
    size_t        unused, total, less, end = 0;

    CHECK_OR_RETURN(have_card());
    weir_device *const d = weir_device_open("cuda", NULL);
    CHECK_OR_RETURN(d != NULL);
    for (int i = 0; i < N; i++)
        in[i] = (unsigned char)check_u64();
    d->ops->space(d, &unused, &total);
    CHECK(total == (size_t)2 << 30);
    CHECK_OK(d->ops->alloc(d, N, false, &p));
    CHECK((uintptr_t)p % d->ops->align == 0);
    d->ops->space(d, &less, &total);
    CHECK(unused - less == 1024);
    CHECK_OK(d->ops->upload(d, p, in, N));
    memset(in, 0, 10);                                  /* free again when upload is back */
    CHECK_OK(d->ops->fill(d, (char *)p + 10, 0x3c, 20));
    CHECK_OK(d->ops->download(d, out, p, N));
    for (int i = 10; i < 30; i++)
        CHECK(out[i] == 0x3c);
    CHECK_BITS(out + 30, in + 30, N - 30);
    CHECK_OK(d->ops->paint(d, p, N));
    CHECK_OK(d->ops->painted(d, p, N, &end));
    CHECK(end == 0);
    CHECK_OK(d->ops->fill(d, (char *)p + 700, 1, 3));
    CHECK_OK(d->ops->painted(d, p, N, &end));
    CHECK(end == 703);
    CHECK_OK(d->ops->sync(d));
    d->ops->free(d, p, N);
    d->ops->space(d, &less, &total);
    CHECK(unused == less);
    weir_device_close(d);
}

CASE(out_of_memory)
{
    CHECK_OR_RETURN(have_card());
    setenv("WEIR_EMULATED_BYTES", "4194304", 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    CHECK_OR_RETURN(d != NULL);
    void *p = &p;
    CHECK_STATUS(d->ops->alloc(d, 4194305, false, &p), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "out of memory");
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 1 << 19));
    weir_tensor *const y = weir_input(d, weir_1d(WEIR_F32, (1 << 19) + 1));
    float *const       host = calloc((1 << 19) + 1, sizeof *host);
    CHECK_OK(weir_write(x, host, sizeof *host << 19));
    CHECK_STATUS(weir_write(y, host, sizeof *host * ((1 << 19) + 1)), WEIR_ERR_NOMEM);
    weir_release(x);
    CHECK_OK(weir_write(y, host, sizeof *host * ((1 << 19) + 1)));
    free(host);
    weir_release(y);
    weir_device_close(d);
    CHECK(card.allocated() == 0);
    unsetenv("WEIR_EMULATED_BYTES");
}

CASE(no_card)
{
    CHECK_OR_RETURN(have_card());
    setenv("WEIR_EMULATED_CARDS", "0", 1);
    CHECK(weir_device_count("cuda") == 0);
    CHECK(!weir_device_open("cuda", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "card");
    unsetenv("WEIR_EMULATED_CARDS");
    card.fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
    CHECK(!weir_device_open("cuda", NULL));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "driver version is insufficient");
    card.recover();
}

/* ---- every call of CUDA fails in its turn ---- */

enum { ROWS = 4, COLUMNS = 5 };

/* What has been made so far goes, whatever happened. */
typedef struct bench {
    weir_device *d;
    weir_tensor *x, *w;
    weir_graph  *step;
} bench;

static weir_status bench_open(bench *b)
{
    float x[ROWS * COLUMNS], w[COLUMNS * ROWS];

    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)(i % 7);
        w[i] = (float)(i % 3 - 1);
    }
    if (!(b->d = weir_device_open("cuda", NULL)) ||
        !(b->x = weir_input(b->d, weir_2d(WEIR_F32, ROWS, COLUMNS))) ||
        !(b->w = weir_input(b->d, weir_2d(WEIR_F32, COLUMNS, ROWS))))
        return weir_error_status();
    WEIR_TRY(weir_write(b->x, x, sizeof x));
    return weir_write(b->w, w, sizeof w);
}

static weir_tensor *product_sum(const bench *b)
{
    return weir_sum(weir_matmul(b->x, b->w), 0, false);
}

/* The sum of all elements of a product: at once, and by a graph. */
static weir_status work(bench *b, float out[2])
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
    for (int i = 0; i < 2; i++)
        WEIR_TRY(weir_graph_run(b->step));
    return weir_read(y, &out[1], sizeof out[1]);
}

static weir_status whole(float out[2])
{
    bench             b = {0};
    const weir_status s = work(&b, out);

    weir_graph_free(b.step);
    weir_release(b.x);
    weir_release(b.w);
    weir_device_close(b.d);
    return s;
}

/* Functions whose failure may go unseen: what they were to do is over, or only asked, or is tried
 * again when unused memory has been given back. */
static bool may_be_silent(const char *function)
{
    static const char *const known[] = {
        "cudaStreamDestroy", "cudaEventDestroy", "cudaFree", "cudaFreeHost", "cudaGraphDestroy",
        "cudaGraphExecDestroy", "cudaHostUnregister", "cudaMemGetInfo", "cudaMalloc",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], function) == 0)
            return true;
    return false;
}

/* The nth call of the function fails. */
static bool fails_well(const char *function, long nth, cudaError_t error, const float want[2])
{
    float        out[2] = {-1, -1};
    const size_t bytes = card.allocated(), handles = card.handles();
    const int    before = check_failures;

    card.fail(function, nth, error);
    const weir_status s = whole(out);
    const bool        met = card.failed() > 0;
    const bool        lasting = error == cudaErrorIllegalAddress;
    if (s != WEIR_OK) {
        CHECK(s == WEIR_ERR_DEVICE || s == WEIR_ERR_NOMEM);
        CHECK(strstr(weir_error(), cudaGetErrorName(error)) ||
              strstr(weir_error(), "CUBLAS_STATUS"));
    } else {
        CHECK_BITS(out, want, sizeof out);
    }
    card.recover();
    if (strncmp(function, "cudaFree", 8) != 0 && !strstr(function, "Destroy") && !lasting) {
        CHECK(card.allocated() == bytes);
        CHECK(card.handles() == handles);
    }
    CHECK_OK(whole(out));
    CHECK_BITS(out, want, sizeof out);
    if (check_failures > before)
        printf("    so it was when call %ld of %s failed (%s)\n", nth, function,
               s == WEIR_OK ? "unseen" : weir_error());
    return met && s != WEIR_OK;
}

static const char *const functions[] = {
    "cudaGetDeviceCount", "cudaSetDevice", "cudaGetDeviceProperties", "cudaDeviceGetAttribute",
    "cudaDriverGetVersion", "cudaRuntimeGetVersion", "cudaMemGetInfo", "cudaMalloc", "cudaFree",
    "cudaHostAlloc", "cudaMallocHost", "cudaHostRegister", "cudaFreeHost", "cudaHostUnregister",
    "cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority",
    "cudaStreamDestroy", "cudaStreamSynchronize", "cudaStreamQuery", "cudaStreamWaitEvent",
    "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventRecordWithFlags",
    "cudaEventQuery", "cudaEventSynchronize", "cudaEventElapsedTime", "cudaDeviceSynchronize",
    "cudaMemcpyAsync", "cudaMemcpy", "cudaMemcpy2DAsync", "cudaMemsetAsync", "cudaMemset",
    "cudaLaunchKernel", "cudaLaunchHostFunc", "cudaStreamBeginCapture", "cudaStreamEndCapture",
    "cudaStreamIsCapturing", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags",
    "cudaGraphLaunch", "cudaGraphUpload", "cudaGraphDestroy", "cudaGraphExecDestroy",
    "cudaGraphGetNodes",
};

CASE(every_call_fails_in_its_turn)
{
    float want[2] = {0, 1};

    CHECK_OR_RETURN(have_card());
    CHECK_OK(whole(want));
    CHECK_OR_RETURN(want[0] == want[1]);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        float      out[2];
        const long before = card.calls(functions[f]);
        CHECK_OK(whole(out));
        const long calls = card.calls(functions[f]) - before;
        long       seen = 0;
        for (long nth = 1; nth <= calls; nth++)
            seen += fails_well(functions[f], nth, strstr(functions[f], "lloc")
                                                      ? cudaErrorMemoryAllocation
                                                      : cudaErrorUnknown, want);
        if (!may_be_silent(functions[f]) && calls > 0 && !CHECK(seen > 0))
            printf("    %ld failures of %s went unseen\n", calls, functions[f]);
    }
}

/* A kernel that fails while it runs is found by whoever waits next; the card is lost then. */
CASE(every_kernel_fails_in_its_turn)
{
    float want[2] = {0, 1};

    CHECK_OR_RETURN(have_card());
    CHECK_OK(whole(want));
    const long before = card.calls("cudaLaunchKernel");
    CHECK_OK(whole(want));
    const long kernels = card.calls("cudaLaunchKernel") - before;
    CHECK(kernels >= 6);
    for (long nth = 1; nth <= kernels; nth++)
        CHECK(fails_well("kernel", nth, cudaErrorIllegalAddress, want));
}
