/* sign.c - tests of packing signs to bits, and of the gradient that reads them. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

static void check_signs(weir_dtype type, int64_t n)
{
    kernel_case pack = {.choose = weir_cpu_sign_pack, .op = WEIR_OP_SIGN_PACK};
    kernel_case grad = {.choose = weir_cpu_sign_relu_grad, .op = WEIR_OP_SIGN_RELU_GRAD};
    int64_t     bad = 0;

    kernel_in(&pack, kernel_dense(weir_1d(type, n)));
    const uint8_t *const bits = kernel_out(&pack, weir_1d(WEIR_U8, (n + 7) / 8));
    kernel_fill(&pack, 0, -1, 1);
    if (n > 4) {
        kernel_set(&pack.in[0], pack.src[0], 1, (double)NAN);
        kernel_set(&pack.in[0], pack.src[0], 2, 0.0);
        kernel_set(&pack.in[0], pack.src[0], 3, -0.0);
        kernel_set(&pack.in[0], pack.src[0], 4, HUGE_VAL);
    }
    kernel_run(&pack);
    for (int64_t i = 0; i < (n + 7) / 8 * 8; i++) {
        const bool want = i < n && !(kernel_get(&pack.in[0], pack.src[0], i) <= 0);
        bad += (bits[i / 8] >> (i % 8) & 1) != want;
    }
    kernel_in(&grad, kernel_dense(weir_1d(type, n)));
    memcpy(kernel_in(&grad, pack.out[0]), bits, (size_t)(n + 7) / 8);
    kernel_out(&grad, weir_1d(type, n));
    kernel_fill(&grad, 0, -1, 1);
    if (n > 4) {
        kernel_set(&grad.in[0], grad.src[0], 3, (double)NAN);
        kernel_set(&grad.in[0], grad.src[0], 4, (double)NAN);
    }
    kernel_run(&grad);
    for (int64_t i = 0; i < n; i++) {
        const bool positive = !(kernel_get(&pack.in[0], pack.src[0], i) <= 0);
        const double dy = kernel_get(&grad.in[0], grad.src[0], i);
        const double dx = kernel_get(&grad.out[0], grad.dst[0], i);
        bad += positive ? dx != dy && !(isnan(dx) && isnan(dy)) : dx != 0 || signbit(dx);
    }
    check_that(bad == 0, __FILE__, __LINE__, "%lld of %lld wrong", (long long)bad, (long long)n);
    kernel_free(&pack);
    kernel_free(&grad);
}

CASE(bits_are_signs)
{
    for (weir_dtype type = WEIR_F32; type <= WEIR_F64; type++)
        for (int i = 0; i < 9; i++)
            check_signs(type, (int64_t[]){0, 1, 7, 8, 9, 511, 513, 32768, 100003}[i]);
}

CASE(gradient_in_place)
{
    enum { N = 1000 };
    float             x[N];
    uint8_t           bits[N / 8];
    const weir_layout in[2] = {kernel_dense(weir_1d(WEIR_F32, N)),
                               kernel_dense(weir_1d(WEIR_U8, N / 8))};
    weir_layout       out[1] = {in[0]};
    weir_kernel       kernel = {0};
    void *const       src[2] = {x, bits};
    const weir_call   c = {.op = WEIR_OP_SIGN_RELU_GRAD, .nin = 2, .nout = 1, .in = in, .out = out,
                           .alias = -1};

    memset(bits, 0x5a, sizeof bits);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 1);
    CHECK_OK(weir_cpu_sign_relu_grad(NULL, &c, &kernel));
    weir_threads *const t = weir_threads_new(1);
    CHECK_OK(kernel.run(
        &(weir_kargs){.call = &c, .src = src, .dst = src, .state = kernel.state, .threads = t}));
    for (int i = 0; i < N; i++)
        CHECK(x[i] == ((0x5a >> (i % 8) & 1) != 0 ? (float)(i + 1) : 0));
    weir_threads_free(t);
    kernel.destroy(kernel.state);
}
