/* overrun.c - convolutions and products of random shapes by each library and our own code: every
 * run of a call gives the same, correct bits, and nothing outside operands and scratch is written.
 *
 * Few channels, odd batches, strides, dilations, groups and odd sizes on 1 to 4 threads are where
 * code made for vectors and equal shares fails. Shapes are drawn in a fixed order;
 * WEIR_TEST_SHAPES=2000 tries more of them, WEIR_TEST_FULL=1 many. */
#include "conv_set.h"

#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/onednn_defect.h"

enum { RUNS = 20, THREADS = 4, FEW = 60, MANY = 3000, MULTIPLY_ADDS = 200 * 1000 };

static const char *const wishes[] = {NULL, "own", "openblas", "onednn"};

/* Halves reach the library where the processor multiplies them. */
static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F16};

enum { TYPES = sizeof types / sizeof *types };

enum { WISHES = sizeof wishes / sizeof *wishes };

/* A device for each number of threads and each requested implementation, which prepares
 * primitives. */
typedef struct devices {
    drive v[THREADS];
    bool  open[THREADS];
} devices;

static int shapes_wanted(void)
{
    const char *const count = getenv("WEIR_TEST_SHAPES");
    return count ? atoi(count) : check_full() ? MANY : FEW;
}

static bool devices_open(devices *d)
{
    *d = (devices){0};
    for (int i = 0; i < THREADS; i++) {
        if (!drive_open(&d->v[i], i + 1))
            return false;
        d->open[i] = true;
        d->v[i].runs = RUNS;
    }
    return true;
}

static void devices_close(devices *d)
{
    for (int i = 0; i < THREADS; i++)
        if (d->open[i])
            drive_close(&d->v[i]);
}

/* False if a requested library is missing: there is nothing to check. */
static bool ran(weir_status s)
{
    return !(s == WEIR_ERR_NOKERNEL && strstr(weir_error(), "WEIR_")) && CHECK_OK(s);
}

static int64_t one_of(int n, const int64_t *from)
{
    return from[check_int(0, n - 1)];
}

#define ONE_OF(...)                                                                                \
    one_of((int)(sizeof(const int64_t[]){__VA_ARGS__} / sizeof(int64_t)),                          \
           (const int64_t[]){__VA_ARGS__})

/* f32 twice as often as each half. */
static weir_dtype draw_type(void)
{
    return types[check_int(0, TYPES) % TYPES];
}

/* ---- convolution ---- */

/* All three passes of a set on v, by the requested implementation. */
static void passes(drive *v, set *s, bool bias, const char *wish)
{
    const geometry *const        g = &s->g;
    const weir_conv2d_attr       a = attr_of(g);
    const weir_conv2d_grad_attr  ax = {a, g->h, g->w};
    const weir_conv2d_gradw_attr aw = {a, g->kh, g->kw, bias};
    operand                      forward[3] = {s->x, s->w, s->b}, inx[2] = {s->dy, s->w};
    operand                      inw[2] = {s->x, s->dy}, outw[2] = {s->dw, s->db};
    char                         text[160], what[200];
    snprintf(text, sizeof text,
             "x (%d,%d,%d,%d) w (%d,%d,%d,%d) stride %d,%d pad %d,%d dilation %d,%d groups %d, %s",
             (int)g->n, (int)g->c, (int)g->h, (int)g->w, (int)g->o, (int)(g->c / g->groups),
             (int)g->kh, (int)g->kw, (int)g->sh, (int)g->sw, (int)g->ph, (int)g->pw, (int)g->dh,
             (int)g->dw, (int)g->groups, wish ? wish : "chosen");
    snprintf(text + strlen(text), sizeof text - strlen(text), ", %s",
             weir_dtype_name(s->x.layout.desc.dtype));
    snprintf(what, sizeof what, "conv2d %s", text);
    if (!ran(drive_named(v, weir_cpu_conv2d, WEIR_OP_CONV2D, bias ? 3 : 2, forward, 1, &s->y, &a,
                         sizeof a, NULL, what)))
        return;
    for (int64_t i = 0; i < s->y.n && !bias; i++)
        s->y.value[i] -= s->b.value[i % g->o];
    operand_check(&s->y, 1e-6, what);
    for (int64_t i = 0; i < s->y.n && !bias; i++)
        s->y.value[i] += s->b.value[i % g->o];
    snprintf(what, sizeof what, "conv2d_grad_x %s", text);
    if (ran(drive_named(v, weir_cpu_conv2d_grad_x, WEIR_OP_CONV2D_GRAD_X, 2, inx, 1, &s->dx, &ax,
                        sizeof ax, NULL, what)))
        operand_check(&s->dx, 1e-6, what);
    snprintf(what, sizeof what, "conv2d_grad_w %s", text);
    if (ran(drive_named(v, weir_cpu_conv2d_grad_w, WEIR_OP_CONV2D_GRAD_W, 2, inw, bias ? 2 : 1,
                        outw, &aw, sizeof aw, NULL, what)))
        operand_check(&s->dw, 1e-6, what);
    if (bias)
        operand_check(&s->db, 1e-6, what);
}

static void convolve(devices *d, weir_dtype t, const geometry *g, int threads, bool bias)
{
    set s = set_of(t, *g);
    expect(&s);
    for (int i = 0; i < WISHES; i++) {
        drive_env("WEIR_CONV", wishes[i]);
        passes(&d->v[threads - 1], &s, bias, wishes[i]);
    }
    drive_env("WEIR_CONV", NULL);
    set_free(&s);
}

static int64_t multiply_adds(const geometry *g)
{
    const int64_t oh = out_size(g->h, g->kh, g->sh, g->ph, g->dh);
    const int64_t ow = out_size(g->w, g->kw, g->sw, g->pw, g->dw);
    return g->n * g->o * (g->c / g->groups) * g->kh * g->kw * oh * ow;
}

/* Sizes are mostly multiples of the stride, for which libraries have special cases. */
static geometry draw(void)
{
    geometry g = {.n = ONE_OF(1, 2, 3, 3, 5, 7, 9),
                  .c = ONE_OF(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17, 24),
                  .o = ONE_OF(1, 2, 3, 5, 8, 16, 17, 32),
                  .kh = ONE_OF(1, 1, 1, 3, 5),
                  .sh = ONE_OF(1, 2, 2, 3),
                  .h = ONE_OF(4, 5, 8, 9, 14, 16, 28, 30),
                  .dh = ONE_OF(1, 1, 1, 2),
                  .groups = 1};
    g.kw = check_int(0, 7) > 0 ? g.kh : 1;
    g.sw = check_int(0, 7) > 0 ? g.sh : 1;
    g.dw = g.dh;
    g.w = check_int(0, 3) > 0 ? g.h : g.h + 3;
    if (check_int(0, 3) > 0)
        g.h -= g.h % g.sh, g.w -= g.w % g.sw;
    g.ph = check_int(0, 1) * (g.dh * (g.kh - 1) / 2), g.pw = g.ph;
    if (check_int(0, 4) == 0)
        g.groups = check_int(0, 1) ? g.c : g.c % 2 == 0 ? 2 : 1;
    g.o = (g.o + g.groups - 1) / g.groups * g.groups;
    const int64_t rows = g.dh * (g.kh - 1) + 1, columns = g.dw * (g.kw - 1) + 1;
    g.h = g.h + 2 * g.ph < rows ? rows : g.h;
    g.w = g.w + 2 * g.pw < columns ? columns : g.w;
    while (g.n > 1 && multiply_adds(&g) > MULTIPLY_ADDS)
        g.n = g.n > 3 ? 3 : 1;
    while (g.o > g.groups && multiply_adds(&g) > MULTIPLY_ADDS)
        g.o = g.o > 8 * g.groups ? 8 * g.groups : g.groups;
    return g;
}

/* oneDNN's own code overran its scratchpad in the gradient of these weights on two threads or, in
 * the last case, on one. */
static const geometry bad[] = {
    {3, 3, 14, 14, 2, 1, 1, 2, 2, 0, 0, 1, 1, 1},  {7, 3, 16, 16, 16, 1, 1, 2, 2, 0, 0, 1, 1, 1},
    {5, 8, 28, 28, 16, 1, 1, 2, 2, 0, 0, 1, 1, 1}, {3, 15, 28, 28, 8, 1, 1, 2, 2, 0, 0, 1, 1, 1},
    {3, 4, 8, 12, 16, 1, 1, 1, 2, 0, 0, 1, 1, 1},  {3, 4, 12, 8, 16, 1, 1, 3, 1, 0, 0, 1, 1, 1},
    {2, 4, 128, 128, 8, 1, 1, 2, 2, 0, 0, 1, 1, 1}};

CASE(convolutions_that_were_bad)
{
    devices d;
    if (CHECK(devices_open(&d)))
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            for (int threads = 1; threads <= THREADS; threads++)
                for (size_t t = 0; t < TYPES; t++)
                    convolve(&d, types[t], &bad[i], threads, threads % 2 == 0);
    devices_close(&d);
}

/* Channels in whole vectors, rare among drawn shapes: oneDNN makes gradients of halves for no
 * others, by AMX or AVX512_BF16 where the processor has them. */
static const geometry whole[] = {
    {3, 16, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {2, 64, 5, 7, 32, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    {3, 32, 8, 8, 16, 3, 3, 2, 2, 1, 1, 1, 1, 1}, {1, 16, 6, 6, 32, 5, 5, 1, 1, 2, 2, 1, 1, 1},
    {2, 48, 4, 4, 16, 1, 1, 2, 2, 0, 0, 1, 1, 1}, {3, 32, 7, 7, 32, 3, 3, 1, 1, 0, 0, 2, 2, 1}};

CASE(halves_of_channels_in_whole_vectors)
{
    devices d;
    if (CHECK(devices_open(&d)))
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
            for (int threads = 1; threads <= 3; threads += 2)
                for (size_t t = 1; t < TYPES; t++)
                    convolve(&d, types[t], &whole[i], threads, threads > 1);
    devices_close(&d);
}

CASE(drawn_convolutions)
{
    const int n = shapes_wanted();
    devices   d;
    if (CHECK(devices_open(&d)))
        for (int i = 0; i < n; i++) {
            const geometry   g = draw();
            const weir_dtype t = draw_type();
            convolve(&d, t, &g, (int)ONE_OF(1, 2, 2, 3, 4), check_int(0, 1) != 0);
        }
    devices_close(&d);
}

/* ---- products ---- */

typedef struct product {
    weir_dtype type;
    int64_t m, n, k, batch; /* batch: 0 for a plain product */
    bool    ta, tb, linear, bias;
} product;

static double element(const operand *o, int64_t batch, bool turned, int64_t row, int64_t column)
{
    const int            nd = o->layout.desc.ndim;
    const int64_t *const d = o->layout.desc.dim;
    const int64_t        at = turned ? column * d[nd - 1] + row : row * d[nd - 1] + column;
    return o->value[batch * d[nd - 2] * d[nd - 1] + at];
}

static void expect_product(const product *p, const operand in[3], operand *c)
{
    for (int64_t b = 0; b < (p->batch ? p->batch : 1); b++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                double sum = p->bias ? in[2].value[j] : 0;
                for (int64_t k = 0; k < p->k; k++)
                    sum += element(&in[0], b, p->ta, i, k) * element(&in[1], b, p->tb, k, j);
                c->value[(b * p->m + i) * p->n + j] = sum;
            }
}

static operand matrix(const product *p, int64_t rows, int64_t columns, bool turned)
{
    const int64_t r = turned ? columns : rows, c = turned ? rows : columns;
    weir_desc     d = weir_2d(p->type, r, c);
    if (p->batch)
        d = (weir_desc){.dtype = p->type, .ndim = 3, .dim = {p->batch, r, c}};
    operand o = operand_of(d);
    operand_random(&o);
    return o;
}

static void multiply(drive *v, const product *p)
{
    operand in[3] = {matrix(p, p->m, p->k, p->ta), matrix(p, p->k, p->n, p->tb),
                     operand_of(weir_1d(p->type, p->n))};
    operand c = matrix(p, p->m, p->n, false);
    operand_random(&in[2]);
    expect_product(p, in, &c);
    const weir_matmul_attr attr = {p->ta, p->tb};
    const weir_choose_fn   choose = p->linear  ? weir_cpu_linear
                                    : p->batch ? weir_cpu_batch_matmul
                                               : weir_cpu_matmul;
    const weir_op          op = p->linear  ? WEIR_OP_LINEAR
                                : p->batch ? WEIR_OP_BATCH_MATMUL
                                           : WEIR_OP_MATMUL;
    char                   what[160];
    for (int i = 0; i < WISHES; i++) {
        drive_env("WEIR_GEMM", wishes[i]);
        snprintf(what, sizeof what, "%s %s %d x %d x %d batch %d ta %d tb %d bias %d, %s",
                 p->linear ? "linear" : "matmul", weir_dtype_name(p->type), (int)p->m, (int)p->n,
                 (int)p->k, (int)p->batch, p->ta, p->tb, p->bias, wishes[i] ? wishes[i] : "chosen");
        if (ran(drive_named(v, choose, op, p->bias ? 3 : 2, in, 1, &c, p->linear ? NULL : &attr,
                            p->linear ? 0 : sizeof attr, NULL, what)))
            operand_check(&c, 1e-6, what);
    }
    drive_env("WEIR_GEMM", NULL);
    for (int i = 0; i < 3; i++)
        operand_free(&in[i]);
    operand_free(&c);
}

static int64_t size(void)
{
    return check_int(0, 2) > 0 ? check_int(1, 9) : ONE_OF(15, 16, 17, 31, 48, 65, 100);
}

static product draw_product(void)
{
    product       p = {.type = draw_type(), .m = size(), .n = size(), .k = size()};
    const int64_t kind = check_int(0, 3);
    p.linear = kind == 0;
    p.batch = kind == 1 ? ONE_OF(1, 3, 7, 9) : 0;
    p.ta = !p.linear && check_int(0, 1);
    p.tb = p.linear || check_int(0, 1);
    p.bias = p.linear && check_int(0, 1);
    return p;
}

CASE(drawn_products)
{
    const int n = shapes_wanted() * 3;
    devices   d;
    if (CHECK(devices_open(&d)))
        for (int i = 0; i < n; i++) {
            const product p = draw_product();
            multiply(&d.v[ONE_OF(1, 2, 2, 3, 4) - 1], &p);
        }
    devices_close(&d);
}

/* ---- which calls are refused ---- */

static weir_conv plain(int64_t c, int64_t h, int64_t k, int64_t stride)
{
    const int64_t pad = k / 2, oh = (h + 2 * pad - k) / stride + 1;
    return (weir_conv){.dtype = WEIR_F32,
                       .n = 3,
                       .c = c,
                       .h = h,
                       .w = h,
                       .o = 16,
                       .kh = k,
                       .kw = k,
                       .groups = 1,
                       .oh = oh,
                       .ow = oh,
                       .stride = {stride, stride},
                       .pad = {pad, pad},
                       .dilation = {1, 1}};
}

/* Only calls with the broken copy are refused: strided 1 x 1 gradients by the weights with fewer
 * channels than a vector. ResNet's (64 channels and more) stay with the library. */
CASE(a_call_is_refused_where_the_library_is_wrong_and_nowhere_else)
{
    static const char *const wide = "jit_1x1:avx512_core", *const narrow = "jit_1x1:avx2";
    const struct {
        weir_conv      c;
        weir_conv_pass pass;
        const char    *impl;
        bool           refused;
    } calls[] = {
        {plain(3, 16, 1, 2), WEIR_CONV_GRAD_W, wide, true},
        {plain(15, 16, 1, 2), WEIR_CONV_GRAD_W, wide, true},
        {plain(15, 16, 1, 2), WEIR_CONV_GRAD_W, "jit_bf16_1x1:avx512_core_bf16", true},
        {plain(16, 16, 1, 2), WEIR_CONV_GRAD_W, "jit_bf16_1x1:avx512_core_bf16", false},
        {plain(7, 15, 1, 3), WEIR_CONV_GRAD_W, narrow, true},
        {plain(16, 16, 1, 2), WEIR_CONV_GRAD_W, wide, false},
        {plain(8, 16, 1, 2), WEIR_CONV_GRAD_W, narrow, false},
        {plain(64, 56, 1, 2), WEIR_CONV_GRAD_W, wide, false},
        {plain(3, 15, 1, 2), WEIR_CONV_GRAD_W, wide, false}, /* the copy is not made */
        {plain(3, 16, 1, 1), WEIR_CONV_GRAD_W, wide, false},
        {plain(3, 16, 3, 2), WEIR_CONV_GRAD_W, wide, false},
        {plain(3, 16, 1, 2), WEIR_CONV_GRAD_W, "jit:avx512_core", false},
        {plain(3, 16, 1, 2), WEIR_CONV_GRAD_X, wide, false},
        {plain(3, 16, 1, 2), WEIR_CONV_FORWARD, wide, false},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        check_that(
            weir_onednn_defect(&calls[i].c, calls[i].pass, calls[i].impl) == calls[i].refused,
            __FILE__, __LINE__, "call %zu should%s be refused", i, calls[i].refused ? "" : " not");
}

/* Gradients in halves go to the library where channels fill vectors; forward passes always. */
CASE(halves_stay_away_from_gradients_of_odd_channels)
{
    for (int half = 0; half < 2; half++)
        for (int64_t channels = 15; channels <= 16; channels++) {
            weir_conv  c = plain(channels, 16, 3, 1);
            const bool refused = half && channels % 16 != 0;
            c.dtype = half ? WEIR_BF16 : WEIR_F32;
            CHECK(!weir_onednn_half_defect(&c, WEIR_CONV_FORWARD));
            CHECK(weir_onednn_half_defect(&c, WEIR_CONV_GRAD_X) == refused);
            CHECK(weir_onednn_half_defect(&c, WEIR_CONV_GRAD_W) == refused);
            c.groups = 16; /* depthwise */
            CHECK(weir_onednn_half_defect(&c, WEIR_CONV_GRAD_W) == (half == 1));
        }
}

/* If the library would use its broken code for a shape, another implementation runs; similar shapes
 * stay with the library. */
CASE(other_calls_keep_the_library)
{
    const geometry        kept = {3, 64, 16, 16, 32, 1, 1, 2, 2, 0, 0, 1, 1, 1};
    const geometry *const both[] = {&bad[1], &kept};
    char                  impl[2][64] = {"", ""};
    drive                 v;
    CHECK_OR_RETURN(drive_open(&v, 2));
    drive_env("WEIR_CONV", weir_onednn_present() ? "onednn" : NULL);
    for (int i = 0; i < 2; i++) {
        set                          s = set_of(WEIR_F32, *both[i]);
        const weir_conv2d_gradw_attr a = {attr_of(&s.g), 1, 1, false};
        operand                      in[2] = {s.x, s.dy};
        CHECK_OK(drive_run(&v, weir_cpu_conv2d_grad_w, WEIR_OP_CONV2D_GRAD_W, 2, in, 1, &s.dw, &a,
                           sizeof a, impl[i]));
        set_free(&s);
    }
    drive_env("WEIR_CONV", NULL);
    check_that(!strstr(impl[0], "jit_1x1"), __FILE__, __LINE__, "%s runs the broken shape",
               impl[0]);
    if (weir_onednn_present())
        CHECK(strncmp(impl[1], "onednn", 6) == 0);
    drive_close(&v);
}
