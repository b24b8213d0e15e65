/* pool2d.c - pooling and its gradients against plain loops in f64. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

typedef struct pool_case {
    int64_t          n, c, h, w;
    weir_pool2d_attr a;
} pool_case;

static const pool_case cases[] = {
    {2, 3, 6, 8, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, 0}},
    {8, 20, 24, 24, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, 0}},
    {2, 64, 15, 13, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 0}},
    {2, 64, 15, 13, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 1}},
    {1, 300, 7, 5, {{3, 2}, {1, 3}, {2, 1}, {2, 1}, 1}},
    {3, 1, 9, 9, {{5, 5}, {1, 1}, {4, 4}, {4, 4}, 0}},
    {2, 7, 5, 5, {{2, 2}, {3, 3}, {0, 0}, {0, 0}, 0}},
    {2, 37, 7, 10, {{2, 2}, {3, 3}, {0, 0}, {0, 0}, 0}},
    {1, 5, 20, 21, {{15, 17}, {2, 1}, {3, 8}, {3, 8}, 1}},
    {0, 5, 4, 4, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, 0}},
    {2, 0, 4, 4, {{2, 2}, {2, 2}, {0, 0}, {0, 0}, 0}},
};

static int64_t places(int64_t size, const weir_pool2d_attr *a, int k)
{
    return (size + 2 * a->pad[k] - a->kernel[k]) / a->stride[k] + 1;
}

static weir_desc image_of(const pool_case *p, weir_dtype t)
{
    return weir_4d(t, p->n, p->c, p->h, p->w);
}

static weir_desc pooled_of(const pool_case *p, weir_dtype t)
{
    return weir_4d(t, p->n, p->c, places(p->h, &p->a, 0), places(p->w, &p->a, 1));
}

static weir_desc winners_of(const weir_desc *y)
{
    return weir_2d(WEIR_U8, y->dim[0] * y->dim[2] * y->dim[3], y->dim[1]);
}

/* Logical indices of the window of element i of y: image[place], -1 in the padding; returns the
 * number of cells inside the image. */
static int64_t window(const pool_case *p, const weir_desc *y, int64_t i, int64_t *image)
{
    const int64_t q = i % y->dim[3], o = i / y->dim[3] % y->dim[2], nc = i / y->dim[3] / y->dim[2];
    int64_t       inside = 0;
    for (int64_t a = 0; a < p->a.kernel[0]; a++)
        for (int64_t b = 0; b < p->a.kernel[1]; b++) {
            const int64_t r = o * p->a.stride[0] - p->a.pad[0] + a;
            const int64_t s = q * p->a.stride[1] - p->a.pad[1] + b;
            const bool    in = r >= 0 && r < p->h && s >= 0 && s < p->w;
            image[a * p->a.kernel[1] + b] = in ? (nc * p->h + r) * p->w + s : -1;
            inside += in;
        }
    return inside;
}

static int64_t area(const pool_case *p)
{
    return p->a.kernel[0] * p->a.kernel[1];
}

/* Index of the winner of element i of y, in (n, oh, ow, c) order. */
static int64_t winner_index(const weir_desc *y, int64_t i)
{
    const int64_t spot = i % (y->dim[2] * y->dim[3]), nc = i / (y->dim[2] * y->dim[3]);
    return (nc / y->dim[1] * y->dim[2] * y->dim[3] + spot) * y->dim[1] + nc % y->dim[1];
}

static void max_case(const pool_case *p, weir_dtype type)
{
    const weir_desc y = pooled_of(p, type);
    kernel_case     k = {.choose = weir_cpu_max_pool2d, .op = WEIR_OP_MAX_POOL2D, .attr = &p->a,
                         .attr_bytes = sizeof p->a};
    int64_t         image[1000];
    (void)kernel_in(&k, kernel_dense(image_of(p, type)));
    (void)kernel_out(&k, y);
    const uint8_t *winner = kernel_out(&k, winners_of(&y));
    for (int64_t i = 0; i < weir_shape_count(&k.in[0].desc); i++)
        kernel_set(&k.in[0], k.src[0], i,
                   check_int(0, 60) == 0 ? (double)NAN : (double)check_int(-9, 3) / 4);
    kernel_run(&k);
    for (int64_t i = 0; i < weir_shape_count(&y); i++) {
        double  best = -INFINITY;
        int64_t place = -1;
        (void)window(p, &y, i, image);
        for (int64_t a = 0; a < area(p); a++) {
            const double v = image[a] < 0 ? 0 : kernel_get(&k.in[0], k.src[0], image[a]);
            if (image[a] >= 0 && (place < 0 || isnan(v) || v > best)) {
                best = v;
                place = a;
            }
        }
        if (!CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i), best, 0) ||
            !CHECK(winner[winner_index(&y, i)] == place))
            break;
    }
    kernel_free(&k);
}

CASE(maximum)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        max_case(&cases[i], WEIR_F32);
        max_case(&cases[i], WEIR_F64);
    }
}

static void average_case(const pool_case *p, weir_dtype type)
{
    const weir_desc y = pooled_of(p, type);
    kernel_case     k = {.choose = weir_cpu_avg_pool2d, .op = WEIR_OP_AVG_POOL2D, .attr = &p->a,
                         .attr_bytes = sizeof p->a};
    int64_t         image[1000];
    (void)kernel_in(&k, kernel_dense(image_of(p, type)));
    (void)kernel_out(&k, y);
    kernel_fill(&k, 0, -1, 1);
    kernel_run(&k);
    for (int64_t i = 0; i < weir_shape_count(&y); i++) {
        const int64_t inside = window(p, &y, i, image);
        double        sum = 0;
        for (int64_t a = 0; a < area(p); a++)
            sum += image[a] < 0 ? 0 : kernel_get(&k.in[0], k.src[0], image[a]);
        if (!CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i),
                        sum / (double)(p->a.exclude_pad ? inside : area(p)),
                        type == WEIR_F32 ? 1e-5 : 1e-13))
            break;
    }
    kernel_free(&k);
}

/* A window as large as the image, with more cells than a list holds. */
static const pool_case wide = {1, 3, 31, 30, {{31, 30}, {1, 1}, {0, 0}, {0, 0}, 0}};
static const pool_case dense = {1, 3, 40, 40, {{20, 20}, {1, 1}, {3, 3}, {3, 3}, 1}};

CASE(average)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        average_case(&cases[i], WEIR_F32);
        average_case(&cases[i], WEIR_F64);
    }
    average_case(&wide, WEIR_F32);
    average_case(&dense, WEIR_F32);
}

/* Both gradients of dy; for the maximum with random winners in the image, scattered in f64. */
static void grad_case(const pool_case *p, weir_dtype type, bool max)
{
    const weir_desc             x = image_of(p, type), y = pooled_of(p, type);
    const weir_pool2d_grad_attr a = {.pool = p->a, .h = p->h, .w = p->w};
    kernel_case k = {.choose = max ? weir_cpu_max_pool2d_grad : weir_cpu_avg_pool2d_grad,
                     .op = max ? WEIR_OP_MAX_POOL2D_GRAD : WEIR_OP_AVG_POOL2D_GRAD,
                     .attr = &a,
                     .attr_bytes = sizeof a};
    int64_t     image[1000];
    double     *want = calloc((size_t)weir_shape_count(&x) + 1, sizeof *want);
    (void)kernel_in(&k, kernel_dense(y));
    uint8_t *winner = max ? kernel_in(&k, kernel_dense(winners_of(&y))) : NULL;
    (void)kernel_out(&k, x);
    kernel_fill(&k, 0, -1, 1);
    for (int64_t i = 0; i < weir_shape_count(&y); i++) {
        const int64_t inside = window(p, &y, i, image);
        const double  dy = kernel_get(&k.in[0], k.src[0], i);
        int64_t       place = check_int(0, area(p) - 1);
        while (image[place] < 0)
            place = (place + 1) % area(p);
        if (max) {
            winner[winner_index(&y, i)] = (uint8_t)place;
            want[image[place]] += dy;
        }
        for (int64_t b = 0; b < area(p) && !max; b++)
            if (image[b] >= 0)
                want[image[b]] += dy / (double)(p->a.exclude_pad ? inside : area(p));
    }
    kernel_run(&k);
    const double tol = type == WEIR_F32 ? 1e-5 : 1e-13;
    for (int64_t i = 0; i < weir_shape_count(&x); i++)
        if (!CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i), want[i], tol))
            break;
    free(want);
    kernel_free(&k);
}

CASE(maximum_grad)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grad_case(&cases[i], WEIR_F32, true);
        grad_case(&cases[i], WEIR_F64, true);
    }
}

CASE(average_grad)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grad_case(&cases[i], WEIR_F32, false);
        grad_case(&cases[i], WEIR_F64, false);
    }
    grad_case(&wide, WEIR_F32, false);
    grad_case(&dense, WEIR_F32, false);
}
