/* conv.c - tests of the selection of convolutions on cards: rules for cuDNN's engines, padding,
 * slices; which engine of the emulated cuDNN is used, and how its failures are handled. */
#include "device/cuda/kernels/conv_suits.h"

#include <dlfcn.h>

#include "check.h"
#include "core/attr.h"
#include "core/mem.h"
#include "core/shape.h"
#include "device/cuda/card_fixture.h"
#include "device/kernel.h"
#include "graph/ops/op.h"
#include "emulator/inject.h"
#include "device/cuda/lib/dnn.h"
#include "weir.h"

/* ---- rules ---- */

static bool allows(const weir_dnn_rules *r, weir_dtype t, cudnnBackendNumericalNote_t note)
{
    const cudnnBackendNumericalNote_t notes[] = {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, note};

    return weir_dnn_allows(r, t, notes, 2);
}

CASE(rules_forbid_by_default)
{
    const weir_dnn_rules r = weir_dnn_rules_of(false, NULL, NULL, NULL);

    CHECK(r.work == WEIR_DNN_WORK);
    CHECK(weir_dnn_allows(&r, WEIR_F32, NULL, 0));
    CHECK(allows(&r, WEIR_F32, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP));
    CHECK(!allows(&r, WEIR_F32, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(allows(&r, WEIR_F64, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(allows(&r, WEIR_F16, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(allows(&r, WEIR_BF16, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    for (int t = WEIR_F32; t <= WEIR_BF16; t++) {
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_WINOGRAD));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_FFT));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
        CHECK(!allows(&r, (weir_dtype)t, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
    }
}

CASE(rules_allow_what_is_asked_for)
{
    const weir_dnn_rules all = weir_dnn_rules_of(true, "1", "1", "4096");
    const weir_dnn_rules none = weir_dnn_rules_of(false, "0", "", "12MB");

    CHECK(all.work == 4096 && none.work == WEIR_DNN_WORK);
    CHECK(weir_dnn_rules_of(false, NULL, NULL, "0").work == 0);
    CHECK(allows(&all, WEIR_F32, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    CHECK(allows(&all, WEIR_F32, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    CHECK(allows(&all, WEIR_F32, CUDNN_NUMERICAL_NOTE_FFT));
    CHECK(!allows(&all, WEIR_F32, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
    CHECK(!allows(&all, WEIR_F16, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
    CHECK(!allows(&none, WEIR_F32, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    CHECK(!allows(&none, WEIR_F32, CUDNN_NUMERICAL_NOTE_WINOGRAD));
}

CASE(rules_name_what_is_taken)
{
    const cudnnBackendNumericalNote_t core = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    const cudnnBackendNumericalNote_t both[] = {CUDNN_NUMERICAL_NOTE_WINOGRAD, core};
    const cudnnBackendNumericalNote_t unsteady = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;

    CHECK(strcmp(weir_dnn_impl(WEIR_F32, NULL, 0), "cudnn") == 0);
    CHECK(strcmp(weir_dnn_impl(WEIR_F32, &core, 1), "cudnn tf32") == 0);
    CHECK(strcmp(weir_dnn_impl(WEIR_F16, &core, 1), "cudnn") == 0);
    CHECK(strcmp(weir_dnn_impl(WEIR_F32, both, 2), "cudnn tf32 transform") == 0);
    CHECK(strcmp(weir_dnn_impl(WEIR_F64, &unsteady, 1), "cudnn nondeterministic") == 0);
}

CASE(padding_behind)
{
    /* Equal to the padding before, if that gives the same windows. */
    CHECK(weir_dnn_pad_end(5, 3, 1, 1, 5) == 1);
    CHECK(weir_dnn_pad_end(224, 7, 2, 3, 112) == 3);
    CHECK(weir_dnn_pad_end(8, 2, 2, 0, 4) == 0);
    CHECK(weir_dnn_pad_end(7, 2, 2, 0, 3) == 0);        /* the last cell is unused */
    CHECK(weir_dnn_pad_end(9, 3, 4, 1, 3) == 1);
    /* Else the least that works. */
    CHECK(weir_dnn_pad_end(8, 3, 2, 0, 4) == 1);
    CHECK(weir_dnn_pad_end(7, 3, 1, 2, 7) == 0);
    CHECK(weir_dnn_pad_end(6, 4, 1, 3, 6) == 0);
    for (int i = 0; i < 4000; i++) {
        const int64_t size = check_int(1, 20), stride = check_int(1, 4), reach = check_int(1, 7);
        const int64_t before = check_int(0, 4), after = check_int(0, 4);
        const int64_t places = (size + before + after - reach) / stride + 1;
        if (size + before + after < reach)
            continue;
        const int64_t end = weir_dnn_pad_end(size, reach, stride, before, places);
        CHECK_OR_RETURN(end >= 0 && end <= (after > before ? after : before) &&
                        (size + before + end - reach) / stride + 1 == places);
    }
}

CASE(slices_of_sums)
{
    CHECK(weir_cuda_conv_slices(1, 0) == 1);
    CHECK(weir_cuda_conv_slices(0, 0) == 1);
    CHECK(weir_cuda_conv_slices(1, 128) == 1);
    CHECK(weir_cuda_conv_slices(1, 129) == 2);
    CHECK(weir_cuda_conv_slices(1, 1 << 30) == 512);
    CHECK(weir_cuda_conv_slices(100, 1 << 30) == 5);
    CHECK(weir_cuda_conv_slices(1000, 1 << 30) == 1);
}

CASE(cudnn_is_asked_for_something_only)
{
    const weir_conv g = {.dtype = WEIR_F32, .n = 2, .c = 4, .h = 5, .w = 5, .o = 6, .kh = 3,
                         .kw = 3, .groups = 1, .oh = 3, .ow = 3, .stride = {1, 1},
                         .dilation = {1, 1}};
    weir_conv       none = g, depthwise = g;

    CHECK(weir_cuda_conv_suits_dnn(&g));
    none.c = 0;
    CHECK(!weir_cuda_conv_suits_dnn(&none));
    depthwise.groups = 4;
    depthwise.o = 8;
    CHECK(!weir_cuda_conv_suits_dnn(&depthwise));
    depthwise.dtype = WEIR_BF16;
    CHECK(weir_cuda_conv_suits_dnn(&depthwise));
    depthwise.groups = 2;
    depthwise.dtype = WEIR_F32;
    CHECK(weir_cuda_conv_suits_dnn(&depthwise));
}

CASE(sizes_that_are_counted)
{
    const weir_conv g = {.dtype = WEIR_F32, .n = 2, .c = 4, .h = 5, .w = 5, .o = 6, .kh = 3,
                         .kw = 3, .groups = 1, .oh = 3, .ow = 3, .stride = {1, 1},
                         .dilation = {1, 1}};
    weir_conv       none = g, many = g, far = g, wide = g;

    CHECK(weir_cuda_conv_fits(&g));
    none.n = none.c = 0;
    CHECK(weir_cuda_conv_fits(&none));
    many.n = INT64_C(1) << 26;
    CHECK(!weir_cuda_conv_fits(&many));
    far.dilation[1] = INT64_C(1) << 29;
    CHECK(!weir_cuda_conv_fits(&far));
    far.dilation[1] = 1;
    far.stride[0] = INT64_C(1) << 29;
    CHECK(!weir_cuda_conv_fits(&far));
    wide.c = wide.o = INT64_C(1) << 14;
    CHECK(!weir_cuda_conv_fits(&wide));
    wide.groups = wide.c;
    CHECK(weir_cuda_conv_fits(&wide));
}

/* ---- the emulated card ---- */

/* Chooses a kernel for a convolution of these sizes, for which there need be no memory. */
static weir_status choose(weir_device *d, weir_desc x, weir_desc w, const char **impl)
{
    const weir_conv2d_attr a = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    weir_layout            in[2] = {{.desc = x}, {.desc = w}}, out[WEIR_MAX_OUT];
    const weir_kernel     *kernel = NULL;
    weir_call c = {.op = WEIR_OP_CONV2D, .def = weir_opdef_of(WEIR_OP_CONV2D), .nin = 2, .nout = 1,
                   .in = in, .out = out, .attr = &a, .attr_bytes = sizeof a, .alias = -1};

    for (int i = 0; i < 2; i++)
        weir_shape_dense(&in[i]);
    WEIR_TRY(c.def->infer(&c));
    const weir_status s = weir_kernel_of(d, &c, &kernel);
    *impl = kernel ? kernel->impl : "";
    return s;
}

/* 2^23 rows of blocks times 256 or 255 columns. */
CASE(more_blocks_than_a_launch_has)
{
    const char *impl;

    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    setenv("WEIR_CONV", "own", 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    CHECK_OR_RETURN(d != NULL);
    const weir_desc x = weir_4d(WEIR_F32, 1, 1, (1 << 15) + 1, (1 << 14) + 1);
    CHECK_OK(choose(d, x, weir_4d(WEIR_F32, 16320, 1, 2, 2), &impl));
    CHECK(strcmp(impl, "cuda") == 0);
    CHECK_STATUS(choose(d, x, weir_4d(WEIR_F32, 16384, 1, 2, 2), &impl), WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "2147483648 blocks");
    weir_device_close(d);
    unsetenv("WEIR_CONV");
}

static long (*ran)(int);
static long (*live)(void);
static void (*fail)(long);

static weir_device *open_card(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    void *const        lib = dlopen(WEIR_TEST_PLUGINS "/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!CHECK(d && lib))
        return NULL;
    *(void **)&ran = dlsym(lib, "emulate_dnn_ran");
    *(void **)&live = dlsym(lib, "emulate_dnn_live");
    *(void **)&fail = dlsym(lib, "emulate_dnn_fail");
    CHECK(ran && live && fail);
    return d;
}

enum { N = 2, C = 16, SIZE = 6, O = 16, K = 3, X = N * C * SIZE * SIZE, W = O * C * K * K,
       Y = N * O * SIZE * SIZE };

typedef struct values {
    float x[X], w[W], y[Y];
} values;

/* y = conv2d(x, w), pad 1, with the graph off. */
static weir_status convolve(weir_device *d, values *v, bool asymmetric)
{
    weir_tensor *const x = weir_input(d, weir_4d(WEIR_F32, N, C, SIZE, SIZE));
    weir_tensor *const w = weir_input(d, weir_4d(WEIR_F32, O, C, K, K));
    weir_conv2d_options o = {.pad = {1, 1}};
    weir_status         s = WEIR_ERR_NOMEM;

    if (asymmetric)
        o = (weir_conv2d_options){.asymmetric = true, .pad_end = {2, 2}};
    if (x && w && weir_write(x, v->x, sizeof v->x) == WEIR_OK &&
        weir_write(w, v->w, sizeof v->w) == WEIR_OK) {
        weir_tensor *const y = weir_conv2d(x, w, NULL, &o);
        s = y ? weir_read(y, v->y, sizeof v->y) : weir_error_status();
    }
    weir_release(x);
    weir_release(w);
    return s;
}

/* The same by the CPU. */
static void expect(values *v, bool asymmetric)
{
    weir_device *const cpu = weir_device_open("cpu", NULL);

    check_floats(v->x, X, -1, 1);
    check_floats(v->w, W, -1, 1);
    CHECK_OK(convolve(cpu, v, asymmetric));
    weir_device_close(cpu);
}

/* Checks which engine runs with a variable set (NULL: none), and its result, to within `off`. */
static void check_engine(const char *name, const char *value, int engine, double off)
{
    values v, want;
    long   before[DNN_ENGINES];

    expect(&want, false);
    v = want;
    if (name)
        setenv(name, value, 1);
    weir_device *const d = open_card();
    CHECK_OR_RETURN(d != NULL);
    for (int i = 0; i < DNN_ENGINES; i++)
        before[i] = ran(i);
    CHECK_OK(convolve(d, &v, false));
    for (int i = 0; i < DNN_ENGINES; i++)
        check_that(ran(i) - before[i] == (i == engine), __FILE__, __LINE__,
                   "engine %d ran %ld times", i, ran(i) - before[i]);
    for (int i = 0; i < Y; i++)
        CHECK_NEAR(v.y[i], want.y[i], off);
    weir_device_close(d);
    CHECK(live() == 0);
    if (name)
        unsetenv(name);
}

CASE(first_allowed_engine)
{
    check_engine(NULL, NULL, DNN_GOOD, 1e-5);
}

CASE(options_allow_engines)
{
    check_engine("WEIR_TF32", "1", DNN_CORE, 0.05);
    check_engine("WEIR_WINOGRAD", "1", DNN_WINOGRAD, 1e-5);
    check_engine("WEIR_CUDNN_NONDETERMINISTIC", "1", DNN_UNSTEADY, 0.05);
    check_engine("WEIR_CUDNN_WORKSPACE", "1000", DNN_GOOD, 1e-5);
    check_engine("WEIR_CUDNN_WORKSPACE", "999", DNN_PLAIN, 1e-5);
    check_engine("WEIR_CONV", "own", -1, 1e-5);
    check_engine("WEIR_CONV", "cudnn", DNN_GOOD, 1e-5);
}

/* Every allowed engine runs a few times during selection, and the chosen one once more. */
CASE(autotuning_times_candidates)
{
    values v, want;

    expect(&want, false);
    v = want;
    setenv("WEIR_AUTOTUNE", "1", 1);
    weir_device *const d = open_card();
    CHECK_OR_RETURN(d != NULL);
    const long good = ran(DNN_GOOD), plain = ran(DNN_PLAIN), core = ran(DNN_CORE);
    const long unsteady = ran(DNN_UNSTEADY);
    CHECK_OK(convolve(d, &v, false));
    CHECK(ran(DNN_GOOD) - good >= 4 && ran(DNN_PLAIN) - plain >= 4);
    CHECK(ran(DNN_GOOD) - good + ran(DNN_PLAIN) - plain == 9);
    CHECK_OK(convolve(d, &v, false));
    CHECK(ran(DNN_GOOD) - good + ran(DNN_PLAIN) - plain == 10);
    CHECK(ran(DNN_UNSTEADY) == unsteady && ran(DNN_CORE) == core);
    for (int i = 0; i < Y; i++)
        CHECK_NEAR(v.y[i], want.y[i], 1e-5);
    unsetenv("WEIR_AUTOTUNE");
    weir_device_close(d);
    CHECK(live() == 0);
}

/* Padding that the library does not support: our own kernels, or a sentence. */
CASE(refused_by_the_library)
{
    values v, want;

    expect(&want, true);
    v = want;
    weir_device *d = open_card();
    CHECK_OR_RETURN(d != NULL);
    const long good = ran(DNN_GOOD), plain = ran(DNN_PLAIN);
    CHECK_OK(convolve(d, &v, true));
    CHECK(ran(DNN_GOOD) == good && ran(DNN_PLAIN) == plain && live() == 0);
    for (int i = 0; i < Y; i++)
        CHECK_NEAR(v.y[i], want.y[i], 1e-5);
    weir_device_close(d);
    setenv("WEIR_CONV", "cudnn", 1);
    CHECK_OR_RETURN((d = open_card()) != NULL);
    CHECK_STATUS(convolve(d, &v, true), WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "conv2d: WEIR_CONV=cudnn, but");
    unsetenv("WEIR_CONV");
    weir_device_close(d);
}

/* A new device convolves while the function fails from its nth call on, or in it alone. The result,
 * if there is one, is right. */
static weir_status convolve_failing(const char *function, long nth, bool once, cudnnStatus_t error)
{
    values       v, want;
    card_fixture card = {.fail = NULL};

    expect(&want, false);
    v = want;
    if (!card_fixture_of(&card))
        return WEIR_ERR_STATE;
    weir_device *const d = open_card();
    (once ? card.fail : card.fail_from)(function, nth, (cudaError_t)error);
    const weir_status s = convolve(d, &v, false);
    for (int i = 0; i < Y && s == WEIR_OK; i++)
        CHECK_NEAR(v.y[i], want.y[i], 1e-5);
    CHECK(card.failed() > 0);
    card.recover();
    weir_device_close(d);
    CHECK(live() == 0);
    return s;
}

/* An error while a plan is made is a sentence unless another engine has a plan: convolutions don't
 * become slow in silence. A refusal leaves our own kernels. */
CASE(errors_of_the_library)
{
    static const char *const functions[] = {
        "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendFinalize",
        "cudnnBackendGetAttribute"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        CHECK_STATUS(convolve_failing(functions[i], 1, false, CUDNN_STATUS_EXECUTION_FAILED),
                     WEIR_ERR_DEVICE);
        CHECK_TEXT(weir_error(), "conv2d: ");
        CHECK_TEXT(weir_error(), "no plan by cuDNN (WEIR_CONV=own does without): CUDNN_STATUS");
        CHECK_OK(convolve_failing(functions[i], 1, false, CUDNN_STATUS_NOT_SUPPORTED_SHAPE));
    }
    const long plain = ran(DNN_PLAIN);
    CHECK_OK(convolve_failing("cudnnBackendGetAttribute", 1, true, CUDNN_STATUS_INTERNAL_ERROR));
    CHECK(ran(DNN_PLAIN) == plain + 1);         /* found by another mode of the heuristics */
}

/* Images at any address: a part of a batch whose images are no multiple of 16 bytes. */
CASE(operands_that_are_not_aligned)
{
    enum { IMAGES = 3, EACH = 5 * 5, OUT = 3 * 3 };
    weir_device *const cpu = weir_device_open("cpu", NULL), *const d = open_card();
    weir_device *const on[] = {cpu, d};
    float              x[IMAGES * EACH], w[9], y[2][2 * OUT];

    CHECK_OR_RETURN(cpu && d);
    check_floats(x, IMAGES * EACH, -1, 1);
    check_floats(w, 9, -1, 1);
    const long good = ran(DNN_GOOD);
    for (int i = 0; i < 2; i++) {
        weir_tensor *const a = weir_input(on[i], weir_4d(WEIR_F32, IMAGES, 1, 5, 5));
        weir_tensor *const b = weir_input(on[i], weir_4d(WEIR_F32, 1, 1, 3, 3));
        CHECK_OK(weir_write(a, x, sizeof x));
        CHECK_OK(weir_write(b, w, sizeof w));
        weir_tensor *const part = weir_slice(a, (int64_t[]){1, 0, 0, 0}, (int64_t[]){3, 1, 5, 5},
                                             (int64_t[]){1, 1, 1, 1});
        CHECK_OK(weir_read(weir_conv2d(part, b, NULL, NULL), y[i], sizeof y[i]));
        weir_release(a);
        weir_release(b);
    }
    CHECK(ran(DNN_GOOD) == good);
    for (int i = 0; i < 2 * OUT; i++)
        CHECK_NEAR(y[1][i], y[0][i], 1e-6);
    weir_device_close(cpu);
    weir_device_close(d);
    CHECK(live() == 0);
}

/* The library runs out of memory at any call: a failure or another plan, and nothing leaks. */
CASE(library_without_memory)
{
    values v, want;
    int    failures = 0, n = 1;

    expect(&want, false);
    v = want;
    for (bool over = false; !over && n < 500; n++) {
        weir_device *const d = open_card();
        CHECK_OR_RETURN(d != NULL);
        fail(n);
        weir_status s = convolve(d, &v, false);
        if (s != WEIR_OK) {
            CHECK_STATUS(s, WEIR_ERR_NOMEM);
            CHECK_TEXT(weir_error(), "conv2d: ");
            failures++;
            s = convolve(d, &v, false);         /* memory is available again */
        }
        over = failures == n - 1;
        fail(0);
        CHECK_OK(s);
        for (int i = 0; i < Y; i++)
            CHECK_NEAR(v.y[i], want.y[i], 1e-5);
        weir_device_close(d);
        CHECK_OR_RETURN(live() == 0);
    }
    CHECK(failures > 60 && n < 500);
}

/* The same for our own memory. */
CASE(without_memory)
{
    values v, want;
    bool   failed = true;

    expect(&want, false);
    v = want;
    for (int n = 0; failed && n < 200; n++) {
        weir_device *const d = open_card();
        CHECK_OR_RETURN(d != NULL);
        weir_mem_fail_nth(n, false);
        const weir_status s = convolve(d, &v, false);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(failed ? s == WEIR_ERR_NOMEM || s == WEIR_OK : s == WEIR_OK);
        weir_device_close(d);
        CHECK_OR_RETURN(live() == 0);
    }
    CHECK(!failed);
    for (int i = 0; i < Y; i++)
        CHECK_NEAR(v.y[i], want.y[i], 1e-5);
}
