/* kernel.c - tests of the table of selected kernels, with kernels defined here. */
#include "device/kernel.h"
#include "check.h"
#include "core/mem.h"
#include "device/device.h"

static int chosen, destroyed;

static void free_state(void *state)
{
    destroyed++;
    weir_mem_free(state);
}

static weir_status choose_relu(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    (void)c;
    void *state = weir_mem_alloc(8);
    if (!state)
        return WEIR_ERR_NOMEM;
    chosen++;
    *out = (weir_kernel){.work = 64, .state = state, .destroy = free_state, .impl = "test"};
    return WEIR_OK;
}

/* Composed of another kernel, which it selects first. */
static weir_status choose_tanh(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_call          inner = *c;
    const weir_kernel *relu;
    inner.op = WEIR_OP_RELU;
    WEIR_TRY(weir_kernel_of(d, &inner, &relu));
    *out = (weir_kernel){.work = relu->work, .impl = "relu inside"};
    return WEIR_OK;
}

static const weir_choose_fn kernels[WEIR_OP_COUNT] = {
    [WEIR_OP_RELU] = choose_relu, [WEIR_OP_TANH] = choose_tanh};

/* A device with only these kernels. */
typedef struct bench {
    weir_device    *d;
    weir_device_ops ops;
} bench;

static bool bench_open(bench *b)
{
    chosen = destroyed = 0;
    b->d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    if (!CHECK(b->d != NULL))
        return false;
    b->ops = *b->d->ops;
    b->ops.kernel = kernels;
    b->d->ops = &b->ops;
    return true;
}

/* A unary call on rows x 3 elements. */
static weir_status choose(bench *b, weir_op op, int64_t rows, int64_t attr, const weir_kernel **out)
{
    weir_layout in = {.desc = weir_2d(WEIR_F32, rows, 3)}, result;
    weir_shape_dense(&in);
    result = in;
    in.desc.dim[5] = in.stride[7] = (int64_t)check_u64();   /* beyond ndim: no part of the key */
    const weir_call c = {.op = op, .nin = 1, .nout = 1, .in = &in, .out = &result, .attr = &attr,
                         .attr_bytes = sizeof attr};
    return weir_kernel_of(b->d, &c, out);
}

CASE(made_once)
{
    bench              b;
    const weir_kernel *p, *q, *r;
    if (!bench_open(&b))
        return;
    CHECK_OK(choose(&b, WEIR_OP_RELU, 2, 7, &p));
    const uint64_t calls = weir_mem_calls();
    CHECK_OK(choose(&b, WEIR_OP_RELU, 2, 7, &q));
    CHECK(p == q && chosen == 1 && p->work == 64 && weir_mem_calls() == calls);
    CHECK_OK(choose(&b, WEIR_OP_RELU, 2, 8, &q));
    CHECK_OK(choose(&b, WEIR_OP_RELU, 3, 7, &r));
    CHECK(p != q && p != r && q != r && chosen == 3);
    weir_device_close(b.d);
    CHECK(destroyed == 3);
}

CASE(many)
{
    enum { N = 500 };
    bench              b;
    const weir_kernel *first[N], *second;
    if (!bench_open(&b))
        return;
    for (int i = 0; i < N; i++)
        CHECK_OK(choose(&b, WEIR_OP_RELU, i, i % 3, &first[i]));
    for (int i = 0; i < N; i++)
        CHECK(choose(&b, WEIR_OP_RELU, i, i % 3, &second) == WEIR_OK && second == first[i]);
    CHECK(chosen == N);
    weir_device_close(b.d);
    CHECK(destroyed == N);
}

CASE(kernels_made_of_kernels)
{
    bench              b;
    const weir_kernel *p, *q;
    if (!bench_open(&b))
        return;
    for (int i = 0; i < 100; i++) {
        CHECK_OK(choose(&b, WEIR_OP_TANH, i, 0, &p));
        CHECK_OK(choose(&b, WEIR_OP_RELU, i, 0, &q));
        CHECK(chosen == i + 1 && p != q);
    }
    weir_device_close(b.d);
}

CASE(no_kernel)
{
    bench              b;
    const weir_kernel *p;
    if (!bench_open(&b))
        return;
    CHECK_STATUS(choose(&b, WEIR_OP_EXP, 2, 0, &p), WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "exp: device cpu has no kernel");
    CHECK_TEXT(weir_error(), "(inputs f32(2,3))");
    weir_device_close(b.d);
}

CASE(short_memory)
{
    bench              b;
    const weir_kernel *p;
    if (!bench_open(&b))
        return;
    weir_status s = WEIR_ERR_NOMEM;
    for (int n = 0; n < 10 && s != WEIR_OK; n++) {
        weir_mem_fail_nth(n, true);
        s = choose(&b, WEIR_OP_RELU, 2, 0, &p);
        weir_mem_fail_nth(-1, false);
        CHECK(s == WEIR_OK || (s == WEIR_ERR_NOMEM && b.d->kernels.n == 0));
    }
    CHECK_OK(s);
    weir_device_close(b.d);
    CHECK(destroyed == chosen);
}
