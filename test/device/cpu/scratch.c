/* scratch.c - the workspaces of our own products and convolutions are small beside their operands,
 * so that a budget that works with libraries works without them. */
#include "device/cpu/conv_set.h"

/* The workspace takes at most the 1/share of what operands and results take. */
static void check_share(const char *what, weir_choose_fn choose, const weir_call *c, size_t share)
{
    drive       v;
    weir_kernel kernel;
    size_t      bytes = 0;
    for (int i = 0; i < c->nin; i++)
        bytes += weir_shape_bytes(&c->in[i].desc);
    for (int i = 0; i < c->nout; i++)
        bytes += weir_shape_bytes(&c->out[i].desc);
    if (!drive_open(&v, 2))
        return;
    if (CHECK_OK(choose(&v.d, c, &kernel))) {
        check_that(kernel.work <= bytes / share, __FILE__, __LINE__,
                   "%s by %s: %zu bytes of scratch beside %zu", what, kernel.impl, kernel.work,
                   bytes);
        weir_kernel_drop(&kernel);
    }
    drive_close(&v);
}

/* The gradient of a linear layer's weight: A^T B, of which both are packed. */
static void product(int64_t m, int64_t n, int64_t k)
{
    const weir_matmul_attr attr = {.ta = 1};
    weir_layout            in[2] = {{.desc = weir_2d(WEIR_F32, k, m)},
                                    {.desc = weir_2d(WEIR_F32, k, n)}};
    weir_layout            out = {.desc = weir_2d(WEIR_F32, m, n)};
    weir_shape_dense(&in[0]);
    weir_shape_dense(&in[1]);
    weir_shape_dense(&out);
    check_share("A^T B", weir_cpu_matmul,
                &(weir_call){.op = WEIR_OP_MATMUL, .nin = 2, .nout = 1, .in = in, .out = &out,
                             .attr = &attr, .attr_bytes = sizeof attr, .alias = -1},
                4);
}

CASE(gradients_of_weights)
{
    drive_env("WEIR_GEMM", "own");
    product(64, 64, 512);
    product(256, 256, 512);
    product(256, 64, 512);
    product(384, 384, 2048);
    drive_env("WEIR_GEMM", NULL);
}

/* The patch matrix of a block of pixels, and what its product packs. */
CASE(convolutions)
{
    set                          s = set_of(WEIR_F32, (geometry){.n = 64, .c = 32, .h = 8, .w = 8,
                                                        .o = 64, .kh = 3, .kw = 3, .sh = 1,
                                                        .sw = 1, .ph = 1, .pw = 1, .dh = 1,
                                                        .dw = 1, .groups = 1});
    const weir_conv2d_attr       a = attr_of(&s.g);
    const weir_conv2d_grad_attr  ax = {a, s.g.h, s.g.w};
    const weir_conv2d_gradw_attr aw = {a, s.g.kh, s.g.kw, 0};
    const weir_call              y = {.op = WEIR_OP_CONV2D, .nin = 2, .nout = 1,
                                      .in = (weir_layout[]){s.x.layout, s.w.layout},
                                      .out = &s.y.layout, .attr = &a, .attr_bytes = sizeof a,
                                      .alias = -1};
    const weir_call              dx = {.op = WEIR_OP_CONV2D_GRAD_X, .nin = 2, .nout = 1,
                                       .in = (weir_layout[]){s.dy.layout, s.w.layout},
                                       .out = &s.dx.layout, .attr = &ax, .attr_bytes = sizeof ax,
                                       .alias = -1};
    const weir_call              dw = {.op = WEIR_OP_CONV2D_GRAD_W, .nin = 2, .nout = 1,
                                       .in = (weir_layout[]){s.x.layout, s.dy.layout},
                                       .out = &s.dw.layout, .attr = &aw, .attr_bytes = sizeof aw,
                                       .alias = -1};
    drive_env("WEIR_CONV", "own");
    check_share("convolution", weir_cpu_conv2d, &y, 3);
    check_share("gradient by x", weir_cpu_conv2d_grad_x, &dx, 3);
    check_share("gradient by the weights", weir_cpu_conv2d_grad_w, &dw, 3);
    drive_env("WEIR_CONV", NULL);
    set_free(&s);
}
