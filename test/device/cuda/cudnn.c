/* cudnn.c - the installed cuDNN makes our plans without a card: descriptors, heuristics, engines
 * and workspaces for cards described by text. Without cuDNN nothing is compared. */
#include "device/cuda/lib/dnn.h"

#include <unistd.h>

#include "check.h"

/* What cuDNN asks the driver about a card of this generation; published figures. */
static const char card_text[] =
    "{\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"totalGlobalMem\":%lld,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,\"l2CacheSize\":%d,"
    "\"deviceName\":\"%s\"}";

typedef struct card {
    int         version;
    long long   memory;
    int         processors, shared, clock, memory_clock, cache;
    const char *name;
} card;

static const card cards[] = {
    {800, 42949672960, 108, 166912, 1410000, 1215000, 41943040, "NVIDIA A100-SXM4-40GB"},
    {900, 85899345920, 132, 232448, 1980000, 2619000, 52428800, "NVIDIA H100 80GB HBM3"},
};

/* False without a cuDNN that accepts descriptions of cards (from 9.8 on). */
static bool describe(weir_cuda_dnn *d, const card *c)
{
    char text[1024];

    if (access(WEIR_CUDA_LIBRARY_FOLDERS "/libcudnn.so.9", R_OK) != 0 ||
        weir_cuda_open_dnn(&d->lib) != WEIR_OK) {
        printf("cuDNN is not installed: no plans are made\n");
        return false;
    }
    const int n = snprintf(text, sizeof text, card_text, c->version, c->memory, c->processors,
                           c->shared, c->clock, c->memory_clock, c->cache, c->name);
    const bool good =
        d->lib->cudnnGetVersion() >= 90800 &&
        d->lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d->card) ==
            CUDNN_STATUS_SUCCESS &&
        d->lib->cudnnBackendSetAttribute(d->card, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, n + 1, text) == CUDNN_STATUS_SUCCESS &&
        d->lib->cudnnBackendFinalize(d->card) == CUDNN_STATUS_SUCCESS;
    if (!good)
        printf("cuDNN %zu takes no such description of a card: no plans are made\n",
               d->lib->cudnnGetVersion());
    return good;
}

static weir_conv conv(weir_dtype t, int64_t c, int64_t size, int64_t o, int64_t k,
                           int64_t stride, int64_t groups)
{
    const int64_t out = (size + 2 * (k / 2) - k) / stride + 1;
    return (weir_conv){.dtype = t, .n = 32, .c = c, .h = size, .w = size, .o = o, .kh = k,
                            .kw = k, .groups = groups, .oh = out, .ow = out,
                            .stride = {stride, stride}, .pad = {k / 2, k / 2},
                            .dilation = {1, 1}};
}

/* All three passes have a plan, the first also with a bias; every plan has the expected name and a
 * workspace within the limit. */
static void check_plans(const weir_cuda_dnn *d, weir_conv g, const char *impl)
{
    for (int i = -1; i <= WEIR_CONV_GRAD_W; i++) {
        const bool    bias = i < 0 && g.dtype != WEIR_F64;
        const int     pass = i < 0 ? WEIR_CONV_FORWARD : i;
        weir_dnn_plan plan[4];
        weir_layout   y = {.desc = {.dtype = g.dtype}};
        weir_call     call = {.op = WEIR_OP_CONV2D, .out = &y, .nout = 1};
        int           n = -1;
        CHECK_OK(weir_dnn_plans(d, &call, &g, (weir_conv_pass)pass, bias, 4, plan, &n));
        check_that(n > 0, __FILE__, __LINE__, "pass %d, %s, %lld to %lld channels, %lld x %lld%s: "
                   "%d plans", pass, weir_dtype_name(g.dtype), (long long)g.c, (long long)g.o,
                   (long long)g.kh, (long long)g.kw, bias ? " and a bias" : "", n);
        for (int k = 0; k < n; k++) {
            CHECK(plan[k].work <= d->rules.work && plan[k].bias == bias);
            CHECK(strcmp(plan[k].impl, impl) == 0);
            weir_dnn_plan_drop(&plan[k]);
        }
    }
}

static void check_card(const card *c)
{
    weir_cuda_dnn d = {.rules = weir_dnn_rules_of(false, NULL, NULL, NULL)};

    if (!describe(&d, c))
        return;
    check_plans(&d, conv(WEIR_F32, 64, 56, 64, 3, 1, 1), "cudnn");
    check_plans(&d, conv(WEIR_F32, 3, 224, 64, 7, 2, 1), "cudnn");
    check_plans(&d, conv(WEIR_F32, 64, 28, 128, 1, 2, 1), "cudnn");
    check_plans(&d, conv(WEIR_F32, 64, 14, 64, 3, 1, 4), "cudnn");
    check_plans(&d, conv(WEIR_F64, 8, 9, 16, 3, 1, 1), "cudnn");
    check_plans(&d, conv(WEIR_F16, 64, 56, 64, 3, 1, 1), "cudnn");
    check_plans(&d, conv(WEIR_BF16, 64, 56, 64, 3, 2, 1), "cudnn");
    check_plans(&d, conv(WEIR_F16, 64, 56, 64, 3, 1, 64), "cudnn");
    d.rules.tf32 = true;
    check_plans(&d, conv(WEIR_F32, 64, 56, 64, 3, 1, 1), "cudnn tf32");
    d.lib->cudnnBackendDestroyDescriptor(d.card);
}

CASE(plans_for_a100)
{
    check_card(&cards[0]);
}

CASE(plans_for_h100)
{
    check_card(&cards[1]);
}

/* A limit of 0 bytes leaves the engines that need no workspace. */
CASE(plans_without_workspace)
{
    weir_cuda_dnn d = {.rules = weir_dnn_rules_of(false, NULL, NULL, "0")};

    if (!describe(&d, &cards[1]))
        return;
    check_plans(&d, conv(WEIR_F32, 64, 56, 64, 3, 1, 1), "cudnn");
    d.lib->cudnnBackendDestroyDescriptor(d.card);
}

/* A convolution that no engine supports is no failure. */
CASE(plans_for_nothing)
{
    weir_cuda_dnn d = {.rules = weir_dnn_rules_of(false, NULL, NULL, NULL)};
    weir_dnn_plan plan;
    weir_layout   y = {.desc = {.dtype = WEIR_F32}};
    weir_call     call = {.op = WEIR_OP_CONV2D, .out = &y, .nout = 1};
    int           n = -1;

    if (!describe(&d, &cards[1]))
        return;
    weir_conv g = conv(WEIR_F32, 64, 56, 64, 3, 1, 1);
    g.oh = 99;                                          /* more windows than there are */
    g.pad[0] = -500;
    CHECK_OK(weir_dnn_plans(&d, &call, &g, WEIR_CONV_FORWARD, false, 1, &plan, &n));
    CHECK(n == 0);
    d.lib->cudnnBackendDestroyDescriptor(d.card);
}
