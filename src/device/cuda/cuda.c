/* cuda.c - a card as a device: memory, copies, and the table of its kernels. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "device/common/half_inputs.h"
#include "device/cuda/codegen/compile.h"
#include "device/cuda/kernels/elementwise.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/update.h"
#include "device/cuda/lib/blas.h"
#include "device/cuda/lib/dnn.h"
#include "device/cuda/runtime/code.h"
#include "device/cuda/runtime/context.h"
#include "device/cuda/runtime/fault.h"
#include "device/cuda/runtime/host_abi.h"
#include "device/cuda/runtime/libs.h"
#include "device/cuda/runtime/offload.h"
#include "device/cuda/runtime/stream.h"
#include "device/cuda/runtime/transfer.h"

/* Bytes for what CUDA takes after a step's memory: modules that are loaded at their first launch,
 * handles of cuBLASLt and cuDNN, captured runs, streams. An estimate: no card has been asked. */
#define RESERVE ((size_t)768 << 20)

/* The runtime reports both a missing and an outdated driver as cudaErrorInsufficientDriver. */
static weir_status no_driver(void)
{
    int found = 0;

    if (cudaDriverGetVersion(&found) != cudaSuccess || found == 0)
        return weir_fail(WEIR_ERR_DEVICE, "device cuda: no card can be used: there is no NVIDIA "
                         "driver (libcuda.so.1)");
    return weir_fail(WEIR_ERR_DEVICE, "device cuda: no card can be used: the driver is for CUDA "
                     "%d.%d, this library for %d.%d", found / 1000, found % 1000 / 10,
                     CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

/* A machine whose driver finds no card has 0 cards; a missing or outdated driver is an error, whose
 * sentence says which. */
static weir_status cuda_count(int *n)
{
    const cudaError_t e = cudaGetDeviceCount(n);

    if (e == cudaSuccess)
        return WEIR_OK;
    *n = 0;
    (void)cudaGetLastError();
    if (e == cudaErrorInsufficientDriver)
        return no_driver();
    return e == cudaErrorNoDevice ? WEIR_OK : weir_cuda_status(e, NULL, "no card can be used");
}

/* Parses the card's number: "cuda" is card 0, "cuda:2" card 2. */
static weir_status ordinal_of(const char *spec, int *ordinal)
{
    char *end = NULL;
    int   cards = 0;

    WEIR_TRY(cuda_count(&cards));
    *ordinal = spec ? (int)strtol(spec, &end, 10) : 0;
    if (spec && (end == spec || *end))
        return weir_fail(WEIR_ERR_INVALID, "weir_device_open: unknown card 'cuda:%s' (expected "
                         "the number of a card after the colon)", spec);
    if (*ordinal < 0 || *ordinal >= cards)
        return weir_fail(WEIR_ERR_DEVICE, "weir_device_open: unknown card %d (this machine has "
                         "%d)", *ordinal, cards);
    return WEIR_OK;
}

static int attribute(int ordinal, enum cudaDeviceAttr which)
{
    int value = 0;

    if (cudaDeviceGetAttribute(&value, which, ordinal) != cudaSuccess)
        (void)cudaGetLastError();
    return value;
}

/* Is the environment variable 1? */
static bool is_on(const char *variable)
{
    const char *const value = getenv(variable);
    return value && strcmp(value, "1") == 0;
}

static weir_status describe(weir_cuda_context *u, int ordinal)
{
    struct cudaDeviceProp p;

    u->gpu.ordinal = ordinal;
    WEIR_CUDA_TRY(NULL, cudaGetDeviceProperties(&p, ordinal));
    u->gpu.major = p.major;
    u->gpu.minor = p.minor;
    u->gpu.processors = p.multiProcessorCount;
    memcpy(u->gpu.name, p.name, sizeof u->gpu.name - 1);
    u->gpu.clock = attribute(ordinal, cudaDevAttrClockRate);
    u->gpu.memory_clock = attribute(ordinal, cudaDevAttrMemoryClockRate);
    u->gpu.bus = attribute(ordinal, cudaDevAttrGlobalMemoryBusWidth);
    u->tf32 = is_on("WEIR_TF32");
    return WEIR_OK;
}

static void cuda_close(weir_device *d)
{
    weir_cuda_context *const u = weir_cuda_context_of(d);

    weir_cuda_here(d);
    if (u->compute)
        (void)cudaStreamSynchronize(weir_cuda_compute(d));
    weir_cuda_blas_close(u);
    weir_cuda_compile_close(u);
    weir_cuda_dnn_close(u);
    weir_cuda_offload_close(u);
    weir_cuda_transfers_close(u);
    weir_cuda_fault_close(u);
    weir_cuda_streams_close(u);
    weir_cuda_updates_close(u);
    weir_mem_free(u);
    d->impl = NULL;
}

static weir_status cuda_open(weir_device *d, const char *spec)
{
    int ordinal = 0;

    WEIR_TRY(ordinal_of(spec, &ordinal));
    WEIR_CUDA_TRY(NULL, cudaSetDevice(ordinal));
    weir_cuda_context *const u = d->impl = weir_mem_zalloc(1, sizeof *u);
    if (!u)
        return WEIR_ERR_NOMEM;
    d->checks = is_on("WEIR_CUDA_SYNC");
    weir_status s = describe(u, ordinal);
    if (s == WEIR_OK)
        s = weir_cuda_code_check(u);
    if (s == WEIR_OK)
        s = weir_cuda_streams_open(u);
    if (s != WEIR_OK)
        cuda_close(d);
    return s;
}

static weir_memory_limits cuda_space(const weir_device *d)
{
    weir_memory_limits m = {0};

    weir_cuda_here(d);
    if (cudaMemGetInfo(&m.unused, &m.total) != cudaSuccess)
        m = (weir_memory_limits){0};
    return m;
}

static weir_status cuda_alloc(weir_device *d, size_t bytes, bool huge, void **p)
{
    (void)huge;
    weir_cuda_here(d);
    return weir_cuda_status(cudaMalloc(p, bytes), NULL, "cudaMalloc");
}

static void cuda_free(weir_device *d, void *p, size_t bytes)
{
    (void)bytes;
    (void)cudaStreamSynchronize(weir_cuda_compute(d));
    (void)cudaFree(p);
}

static weir_status cuda_sync(weir_device *d)
{
    WEIR_CUDA_TRY(NULL, cudaStreamSynchronize(weir_cuda_compute(d)));
    WEIR_TRY(weir_cuda_late(d));
    WEIR_TRY(weir_cuda_fault_tell(weir_cuda_context_of(d)));
    return weir_cuda_offload_late(weir_cuda_context_of(d));
}

/* An error waits for the next call that can fail. */
static double cuda_clock(const weir_device *d)
{
    weir_cuda_set_late(weir_cuda_context_of(d), cudaStreamSynchronize(weir_cuda_compute(d)),
                       "work queued before the clock was read");
    return weir_now() - d->opened;
}

/* f32 units per multiprocessor. */
static int units(const weir_cuda_context *u)
{
    return u->gpu.major == 7 || (u->gpu.major == 8 && u->gpu.minor == 0) ? 64 : 128;
}

/* Peak rates of the card, reduced to what kernels reach; for numbers that the driver does not
 * report, those of a card of about 2018. */
static weir_rates cuda_rates(const weir_device *d)
{
    const weir_cuda_context *const u = weir_cuda_context_of(d);
    const double flops = 2.0 * u->gpu.clock * 1e3 * units(u) * u->gpu.processors;
    const double bytes = 2.0 * u->gpu.memory_clock * 1e3 * u->gpu.bus / 8;

    return (weir_rates){.flops = flops > 0 ? 0.7 * flops : 1e13,
                        .bytes = bytes > 0 ? 0.8 * bytes : 8e11,
                        .link_out = 1.2e10, .link_in = 1.2e10, .call = 4e-6, .copy = 1e-5,
                        .width = 2048.0 * u->gpu.processors};
}

static void cuda_info(weir_device *d, weir_string *s)
{
    const weir_cuda_context *const u = weir_cuda_context_of(d);

    weir_string_add(s, "card %d: %s, compute capability %d.%d, %d multiprocessors\n",
                    u->gpu.ordinal, u->gpu.name, u->gpu.major, u->gpu.minor, u->gpu.processors);
    weir_cuda_streams_info(d, s);
    weir_cuda_code_info(u, s);
    weir_cuda_libs_info(s);
    weir_cuda_compile_info(u, s);
    weir_cuda_offload_info(u, s);
}

/* For each operation the function that chooses its kernel. */
static const weir_choose_fn chooser[WEIR_OP_COUNT] = {
#define OP(ID, id) [WEIR_OP_##ID] = weir_cuda_##id,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) [WEIR_OP_##ID] = weir_cuda_elementwise,
#include "core/elementwise.def"
#undef ROW
};

/* Choosing may create handles of libraries, compile, and time kernels. */
static weir_status choose(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_cuda_here(d);
    return chooser[c->op](d, c, out);
}

static const weir_choose_fn kernels[WEIR_OP_COUNT] = {
#define OP(ID, id) [WEIR_OP_##ID] = choose,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) [WEIR_OP_##ID] = choose,
#include "core/elementwise.def"
#undef ROW
};

static const weir_device_ops table = {
    .name = "cuda",
    .align = WEIR_CUDA_ALIGN,
    .reserve = RESERVE,
    .spill_slots = true,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .space = cuda_space,
    .fill = weir_cuda_fill_bytes,
    .upload = weir_cuda_upload,
    .download = weir_cuda_download,
    .sync = cuda_sync,
    .paint = weir_cuda_paint,
    .painted = weir_cuda_painted,
    .clock = cuda_clock,
    .rates = cuda_rates,
    .info = cuda_info,
    .swap_reserve = weir_cuda_swap_reserve,
    .swap = weir_cuda_swap,
    .swap_wait = weir_cuda_swap_wait,
    .swap_settle = weir_cuda_swap_settle,
    .swap_speed = weir_cuda_swap_speed,
    .streams = &weir_cuda_stream_ops,
    .kernel = kernels,
    .widens = weir_widens,
    .rounds = weir_rounds,
};

WEIR_API const weir_device_ops *weir_plugin(const weir_plugin_host *host);

const weir_device_ops *weir_plugin(const weir_plugin_host *host)
{
    return weir_cuda_bind_host(host) ? &table : NULL;
}
