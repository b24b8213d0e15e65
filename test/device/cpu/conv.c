/* conv.c - convolution and its gradients, all implementations, against plain loops in double. */
#include "conv_set.h"

static const geometry cases[] = {
    {1, 1, 5, 5, 1, 3, 3, 1, 1, 0, 0, 1, 1, 1},    {2, 3, 11, 9, 20, 5, 5, 1, 1, 0, 0, 1, 1, 1},
    {2, 3, 15, 13, 16, 7, 7, 2, 2, 3, 3, 1, 1, 1}, {3, 20, 8, 8, 50, 5, 5, 1, 1, 0, 0, 1, 1, 1},
    {2, 64, 7, 7, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1},  {2, 64, 7, 9, 20, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    {2, 17, 8, 7, 33, 1, 1, 2, 2, 0, 0, 1, 1, 1},  {1, 20, 9, 9, 20, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 4, 10, 12, 6, 3, 2, 2, 1, 1, 0, 1, 1, 1},  {2, 5, 12, 11, 7, 3, 3, 1, 2, 2, 2, 2, 2, 1},
    {1, 6, 13, 9, 4, 2, 5, 3, 1, 0, 4, 2, 1, 1},   {2, 8, 9, 9, 12, 3, 3, 1, 1, 1, 1, 1, 1, 2},
    {2, 12, 7, 8, 6, 3, 3, 2, 1, 1, 1, 1, 2, 3},   {2, 32, 9, 9, 32, 3, 3, 1, 1, 1, 1, 1, 1, 32},
    {1, 7, 6, 6, 14, 3, 3, 2, 2, 1, 1, 1, 1, 7},   {2, 16, 6, 5, 24, 1, 1, 1, 1, 0, 0, 1, 1, 4},
    {1, 3, 4, 4, 5, 4, 4, 1, 1, 0, 0, 1, 1, 1},    {1, 2, 3, 3, 3, 1, 1, 4, 4, 0, 0, 1, 1, 1},
    {1, 2, 3, 3, 3, 3, 3, 1, 1, 5, 5, 1, 1, 1},    {0, 3, 6, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {0, 4, 6, 6, 4, 1, 1, 1, 1, 0, 0, 1, 1, 2},    {2, 20, 9, 11, 19, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {3, 33, 12, 9, 17, 3, 2, 1, 1, 0, 1, 2, 1, 1}, {1, 16, 9, 14, 40, 5, 5, 1, 1, 2, 0, 1, 2, 1},
    {1, 18, 8, 8, 16, 3, 3, 1, 1, 3, 2, 1, 1, 1},  {1, 16, 8, 9, 16, 3, 3, 1, 1, 1, 3, 1, 1, 1},
    {1, 17, 3, 50, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {3, 40, 9, 8, 40, 7, 7, 1, 1, 3, 3, 1, 1, 40},
    {2, 32, 5, 5, 32, 7, 7, 1, 1, 3, 3, 1, 1, 32}, {2, 70, 11, 9, 70, 3, 5, 2, 3, 1, 4, 2, 1, 70},
    {1, 9, 4, 4, 9, 2, 2, 2, 1, 0, 3, 1, 5, 9},    {80, 8, 3, 3, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8},
};

/* Large enough for several blocks of the patch matrix. */
static const geometry blocks = {2, 40, 31, 33, 5, 5, 5, 1, 1, 2, 2, 1, 1, 1};

/* So wide that the packed rows form several chunks. */
static const geometry chunks = {1, 16, 24, 1100, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1};

/* Rows of the image as operands: strides, products in two parts, one row of taps, two blocks of
 * strips, unequal halves of padding. */
static const geometry rows[] = {{2, 20, 13, 17, 70, 3, 3, 2, 3, 1, 2, 1, 1, 1},
                                {1, 200, 9, 11, 24, 5, 3, 1, 1, 4, 2, 1, 1, 1},
                                {2, 16, 6, 30, 300, 1, 5, 1, 1, 0, 2, 1, 1, 1},
                                {1, 256, 8, 8, 130, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                                {3, 17, 7, 12, 19, 2, 4, 1, 1, 1, 1, 1, 1, 1},
                                {1, 16, 2, 9, 16, 3, 3, 1, 1, 2, 1, 1, 1, 1}};

/* Enough channels for the gradient by x to be computed as a convolution. */
static const geometry turned[] = {{1, 130, 10, 11, 127, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                                  {1, 128, 11, 10, 128, 3, 2, 1, 1, 0, 1, 2, 1, 1}};

/* y without a bias is y minus b. */
static void forward(drive *v, set *s, bool bias, double tol, const char *what)
{
    const weir_conv2d_attr a = attr_of(&s->g);
    operand                in[3] = {s->x, s->w, s->b};
    char                   impl[64] = "", text[256];
    CHECK_OK(drive_run(v, weir_cpu_conv2d, WEIR_OP_CONV2D, bias ? 3 : 2, in, 1, &s->y, &a, sizeof a,
                       impl));
    const double sign = bias ? 0 : 1;
    for (int64_t i = 0; i < s->y.n; i++)
        s->y.value[i] -= sign * s->b.value[i % s->g.o];
    snprintf(text, sizeof text, "%s, forward, bias %d: %s", what, bias, impl);
    operand_check(&s->y, tol, text);
    for (int64_t i = 0; i < s->y.n; i++)
        s->y.value[i] += sign * s->b.value[i % s->g.o];
}

static void gradients(drive *v, set *s, bool bias, double tol, const char *what)
{
    const weir_conv2d_grad_attr  ax = {attr_of(&s->g), s->g.h, s->g.w};
    const weir_conv2d_gradw_attr aw = {attr_of(&s->g), s->g.kh, s->g.kw, bias};
    operand                      inx[2] = {s->dy, s->w}, inw[2] = {s->x, s->dy};
    operand                      outw[2] = {s->dw, s->db};
    char                         impl[64] = "", text[256];
    CHECK_OK(drive_run(v, weir_cpu_conv2d_grad_x, WEIR_OP_CONV2D_GRAD_X, 2, inx, 1, &s->dx, &ax,
                       sizeof ax, impl));
    snprintf(text, sizeof text, "%s, grad_x: %s", what, impl);
    operand_check(&s->dx, tol, text);
    CHECK_OK(drive_run(v, weir_cpu_conv2d_grad_w, WEIR_OP_CONV2D_GRAD_W, 2, inw, bias ? 2 : 1, outw,
                       &aw, sizeof aw, impl));
    snprintf(text, sizeof text, "%s, grad_w, bias %d: %s", what, bias, impl);
    operand_check(&s->dw, tol, text);
    if (bias)
        operand_check(&s->db, tol, text);
}

static void one(drive *v, weir_dtype t, const geometry *g)
{
    set  s = set_of(t, *g);
    char what[100];
    expect(&s);
    snprintf(what, sizeof what, "%s (%d,%d,%d,%d) k %dx%d o %d groups %d", weir_dtype_name(t),
             (int)g->n, (int)g->c, (int)g->h, (int)g->w, (int)g->kh, (int)g->kw, (int)g->o,
             (int)g->groups);
    const double tol = t == WEIR_F32 ? 2e-5 : 1e-12;
    for (int bias = 0; bias < 2; bias++) {
        forward(v, &s, bias, tol, what);
        gradients(v, &s, bias, tol, what);
    }
    set_free(&s);
}

/* True if the implementation that the environment requests exists here. */
static bool granted(drive *v)
{
    set                    s = set_of(WEIR_F32, cases[0]);
    const weir_conv2d_attr a = attr_of(&s.g);
    operand                in[2] = {s.x, s.w};
    const weir_status      status =
        drive_run(v, weir_cpu_conv2d, WEIR_OP_CONV2D, 2, in, 1, &s.y, &a, sizeof a, NULL);
    set_free(&s);
    return status != WEIR_ERR_NOKERNEL;
}

static void everything(const char *wish, int threads)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_BF16};
    drive                   v;
    drive_env("WEIR_CONV", wish);
    if (drive_open(&v, threads)) {
        if (granted(&v)) {
            for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                    one(&v, types[t], &cases[i]);
            for (size_t t = 0; t < sizeof types / sizeof *types; t += 2) {
                one(&v, types[t], &blocks);
                one(&v, types[t], &chunks);
                for (size_t i = 0; i < sizeof turned / sizeof *turned; i++)
                    one(&v, types[t], &turned[i]);
                for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                    one(&v, types[t], &rows[i]);
            }
        }
        drive_close(&v);
    }
    drive_env("WEIR_CONV", NULL);
}

CASE(as_chosen)
{
    everything(NULL, 2);
    everything(NULL, 1);
    everything(NULL, 3);
}

CASE(own)
{
    everything("own", 2);
    everything("own", 1);
}

CASE(openblas)
{
    everything("openblas", 2);
}

CASE(onednn)
{
    everything("onednn", 2);
}

CASE(choosing_without_memory_fails_cleanly)
{
    set                          s = set_of(WEIR_F32, cases[4]);
    operand                      in[2] = {s.x, s.dy}, out[2] = {s.dw, s.db};
    const weir_conv2d_gradw_attr a = {attr_of(&s.g), s.g.kh, s.g.kw, 1};
    for (int64_t n = 0; n < 20; n++) {
        drive v;
        CHECK_OR_RETURN(drive_open(&v, 1));
        weir_mem_fail_nth(n, false);
        const weir_status status = drive_run(&v, weir_cpu_conv2d_grad_w, WEIR_OP_CONV2D_GRAD_W, 2,
                                             in, 2, out, &a, sizeof a, NULL);
        const bool        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(status == (failed ? WEIR_ERR_NOMEM : WEIR_OK));
        drive_close(&v);
        if (!failed)
            break;
    }
    set_free(&s);
}
