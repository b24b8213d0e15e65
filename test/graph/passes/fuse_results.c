/* fuse_results.c - kernels that round their results write halves themselves: casts that alone read
 * a result are gone from the plan, the bits stay. */
#include "graph/fixture.h"

enum { ROWS = 40, WIDTH = 24 };

static const weir_plan_options apart = {.disable = "fuse"};

static weir_tensor *param(weir_device *d, weir_desc desc, double low, double high)
{
    static float v[ROWS * WIDTH];
    weir_tensor *t = weir_param(d, desc, "p");

    check_floats(v, weir_tensor_bytes(t) / sizeof *v, low, high);
    CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

/* Casts from f32 to the half type in the plan. */
static int rounding_casts(const weir_graph *g)
{
    int n = 0;

    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_call *const c = &g->plan->instr[i].call;
        n += c->op == WEIR_OP_CAST && c->in[0].desc.dtype == WEIR_F32;
    }
    return n;
}

/* The loss and its gradient by x of a norm before a product in `half`; `both`: the norm's result is
 * also read as it is. Returns the casts. */
static int norm_before_product(const weir_plan_options *o, weir_dtype half, bool both,
                               float *result)
{
    weir_device *d = fixture_open();

    check_random = 3;
    weir_tensor *const x = param(d, weir_3d(WEIR_F32, 2, ROWS / 2, WIDTH), -1, 3);
    weir_tensor *const scale = param(d, weir_1d(WEIR_F32, WIDTH), 0.5, 2);
    weir_tensor *const bias = param(d, weir_1d(WEIR_F32, WIDTH), -1, 1);
    weir_tensor *const w = param(d, weir_2d(WEIR_F32, WIDTH, WIDTH), -0.2, 0.2);
    weir_graph *const  g = weir_graph_begin(d);
    CHECK_OK(weir_autocast_begin(d, half));
    weir_tensor *const y = weir_layer_norm(x, scale, bias, 0);
    weir_tensor *const rows = weir_reshape(y, 2, (int64_t[]){ROWS, WIDTH});
    weir_tensor *const p = weir_cast(weir_matmul(rows, w), WEIR_F32);
    weir_tensor *const loss = weir_sum(weir_square(both ? weir_add(p, rows) : p), 0, false);
    CHECK_OK(weir_autocast_end(d));
    weir_tensor       *wrt[] = {x, scale, bias, w}, *grad[4] = {NULL};
    CHECK_OK(weir_gradients(loss, 4, wrt, grad));
    weir_keep(loss);
    for (int i = 0; i < 4; i++)
        weir_keep(grad[i]);
    if (fixture_finish(g, o))
        CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(loss, result++, sizeof *result));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weir_read(grad[i], result, weir_tensor_bytes(grad[i])));
        result += weir_tensor_bytes(grad[i]) / sizeof *result;
    }
    const int casts = rounding_casts(g);
    weir_graph_free(g);
    for (int i = 0; i < 4; i++)
        weir_release(wrt[i]);
    weir_device_close(d);
    return casts;
}

CASE(norms_round_what_products_read)
{
    enum { ALL = 1 + ROWS * WIDTH + 2 * WIDTH + WIDTH * WIDTH };
    static float fused[ALL], separate[ALL];

    for (weir_dtype half = WEIR_F16; half <= WEIR_BF16; half++)
        for (int both = 0; both < 2; both++) {
            const int left = norm_before_product(NULL, half, both != 0, fused);
            const int all = norm_before_product(&apart, half, both != 0, separate);
            CHECK(both ? left > 0 : left < all);
            CHECK_BITS(fused, separate, sizeof fused);
        }
}
