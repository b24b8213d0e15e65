/* draw.c - the distribution of random numbers, their seed, and new numbers in each run. */
#include <stdlib.h>

#include "check.h"
#include "weir.h"

enum { COUNT = 20000, BINS = 20 };

static weir_device *open(void)
{
    const weir_device_options o = {.threads = 2, .seed = 3};
    weir_device *const d = weir_device_open(check_device(), &o);
    CHECK(d != NULL);
    return d;
}

static void read_floats(const weir_tensor *t, float *v)
{
    memset(v, 0, COUNT * sizeof *v);
    CHECK_OK(weir_read(t, v, COUNT * sizeof *v));
}

/* Mean and standard deviation lie within five standard errors. */
static void check_moments(const float *v, double mean, double deviation, double kurtosis)
{
    const double n = COUNT;
    double       sum = 0, squares = 0;

    for (int i = 0; i < COUNT; i++)
        sum += (double)v[i];
    for (int i = 0; i < COUNT; i++)
        squares += ((double)v[i] - mean) * ((double)v[i] - mean);
    CHECK_NEAR(sum / n - mean, 0, 5 * deviation / sqrt(n));
    CHECK_NEAR(squares / n / (deviation * deviation), 1, 5 * sqrt((kurtosis - 1) / n));
}

/* Chi square over equally likely bins; u[i] in [0, 1). 19 degrees of freedom: 51 is 1 in 10,000. */
static void check_even(const double *u)
{
    double count[BINS] = {0}, chi = 0;

    for (int i = 0; i < COUNT; i++)
        if (CHECK(u[i] >= 0 && u[i] < 1))
            count[(int)(u[i] * BINS)]++;
    for (int i = 0; i < BINS; i++)
        chi += (count[i] - COUNT / BINS) * (count[i] - COUNT / BINS) / (COUNT / BINS);
    CHECK(chi < 51);
}

static void check_uniform(const float *v, double lo, double hi)
{
    double *const u = malloc(COUNT * sizeof *u);

    for (int i = 0; i < COUNT; i++) {
        CHECK((double)v[i] >= lo && (double)v[i] < hi);
        u[i] = ((double)v[i] - lo) / (hi - lo);
    }
    check_even(u);
    check_moments(v, (lo + hi) / 2, (hi - lo) / sqrt(12), 1.8);
    free(u);
}

static void check_normal(const float *v, double mean, double deviation)
{
    double *const u = malloc(COUNT * sizeof *u);

    for (int i = 0; i < COUNT; i++)
        u[i] = 0.5 * erfc(-((double)v[i] - mean) / deviation / sqrt(2));
    check_even(u);
    check_moments(v, mean, deviation, 3);
    free(u);
}

CASE(spread)
{
    const weir_desc    desc = weir_1d(WEIR_F32, COUNT);
    weir_device *const d = open();
    weir_tensor *const t = weir_state(d, desc, "t");
    float *const       v = malloc(COUNT * sizeof *v);

    read_floats(weir_uniform(d, desc, -2, 6), v);
    check_uniform(v, -2, 6);
    read_floats(weir_normal(d, desc, 3, 0.5), v);
    check_normal(v, 3, 0.5);
    CHECK_OK(weir_write_uniform(t, 0, 1));
    read_floats(t, v);
    check_uniform(v, 0, 1);
    CHECK_OK(weir_write_normal(t, -1, 2));
    read_floats(t, v);
    check_normal(v, -1, 2);
    weir_release(t);
    weir_device_close(d);
    free(v);
}

CASE(dropout_rate)
{
    weir_device *const d = open();
    weir_tensor *const ones = weir_fill(d, weir_1d(WEIR_F32, COUNT), 1);
    float *const       v = malloc(COUNT * sizeof *v);

    for (int tenth = 1; tenth < 10; tenth += 4) {
        const double p = tenth / 10.0;
        double       dropped = 0;
        read_floats(weir_dropout(ones, p), v);
        for (int i = 0; i < COUNT; i++) {
            CHECK(v[i] == 0 || fabs((double)v[i] * (1 - p) - 1) < 1e-6);
            dropped += v[i] == 0;
        }
        CHECK_NEAR(dropped / COUNT, p, 5 * sqrt(p * (1 - p) / COUNT));
    }
    weir_device_close(d);
    free(v);
}

/* Two draws differ; the same seed draws the same again, also when the first draw is left out. */
CASE(follow_the_seed)
{
    const weir_desc    desc = weir_1d(WEIR_F32, COUNT);
    weir_device *const d = open();
    float *const       v = malloc(4 * COUNT * sizeof *v);

    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_device_seed(d, 11));
        for (int k = 0; k < 2; k++)
            read_floats(weir_normal(d, desc, 0, 1), v + (2 * i + k) * COUNT);
    }
    CHECK_BITS(v, v + 2 * COUNT, 2 * COUNT * sizeof *v);
    CHECK(memcmp(v, v + COUNT, COUNT * sizeof *v) != 0);
    CHECK_OK(weir_device_seed(d, 12));
    read_floats(weir_normal(d, desc, 0, 1), v + COUNT);
    CHECK(memcmp(v, v + COUNT, COUNT * sizeof *v) != 0);
    weir_device_close(d);
    free(v);
}

/* Each run moves on in the stream, by as much as the calls of a run draw, used or not. */
CASE(runs_draw_new_numbers)
{
    const weir_desc    desc = weir_1d(WEIR_F32, COUNT);
    weir_device *const d = open();
    float *const       v = malloc(4 * COUNT * sizeof *v);

    CHECK_OK(weir_device_seed(d, 9));
    for (int run = 0; run < 2; run++) {
        CHECK(weir_uniform(d, desc, 5, 6) != NULL);
        read_floats(weir_uniform(d, desc, 0, 1), v + run * COUNT);
    }
    weir_graph *const g = weir_graph_begin(d);
    CHECK(weir_uniform(d, desc, 5, 6) != NULL);
    const weir_tensor *const y = weir_keep(weir_uniform(d, desc, 0, 1));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_device_seed(d, 9));
    for (int run = 2; run < 4; run++) {
        CHECK_OK(weir_graph_run(g));
        read_floats(y, v + run * COUNT);
    }
    CHECK_BITS(v, v + 2 * COUNT, 2 * COUNT * sizeof *v);
    CHECK(memcmp(v, v + COUNT, COUNT * sizeof *v) != 0);
    weir_graph_free(g);
    weir_device_close(d);
    free(v);
}

/* With p = 1 nothing is left: zeros, no 0 times infinity, and no gradient. */
/* Draws of two parts, of which the first draws `more` numbers beside; then the stream is at the
 * start of part 4. */
static void draw_parts(bool graph, int64_t more, float *v)
{
    weir_device *const d = open();
    weir_graph        *g = NULL;

    CHECK_OK(weir_device_set_random(d, (weir_random){.seed = 8, .position = (2ull << 32) +
                                                                             (graph ? 0 : 5)}));
    CHECK_OK(weir_scope_begin(d));
    if (graph)
        g = weir_graph_begin(d);
    if (more > 0)
        weir_keep(weir_uniform(d, weir_1d(WEIR_F32, more), 0, 1));
    CHECK_OK(weir_random_advance(d, 1));
    weir_tensor *const x = weir_keep(weir_uniform(d, weir_1d(WEIR_F32, COUNT), 0, 1));
    CHECK_OK(weir_random_advance(d, 1));
    if (graph) {
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
    }
    read_floats(x, v);
    CHECK(weir_device_random(d).position == 4ull << 32);
    CHECK_STATUS(weir_random_advance(d, 0), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_random_advance(NULL, 1), WEIR_ERR_INVALID);
    CHECK_OK(weir_scope_end(d));
    weir_graph_free(g);
    weir_device_close(d);
}

CASE(parts_do_not_depend_on_what_others_draw)
{
    float *const a = malloc(COUNT * sizeof *a), *const b = malloc(COUNT * sizeof *b);

    draw_parts(false, 0, a);
    draw_parts(false, 999, b);
    CHECK(memcmp(a, b, COUNT * sizeof *a) == 0);
    draw_parts(true, 0, b);
    CHECK(memcmp(a, b, COUNT * sizeof *a) == 0);
    draw_parts(true, 999, b);
    CHECK(memcmp(a, b, COUNT * sizeof *a) == 0);
    free(a);
    free(b);
}

CASE(dropout_of_all)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};
    weir_device *const      d = open();
    weir_tensor *const      p = weir_param(d, weir_1d(WEIR_F32, 100), "p");

    CHECK_OK(weir_write_fill(p, 3));
    for (int i = 0; i < 4; i++) {
        weir_tensor       *dp = NULL;
        weir_tensor *const y = weir_cast(weir_dropout(weir_cast(p, types[i]), 1), WEIR_F32);
        float              v[100];
        CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &p, &dp));
        CHECK_OK(weir_read(y, v, sizeof v));
        for (int k = 0; k < 100; k++)
            CHECK(v[k] == 0);
        CHECK_OK(weir_read(dp, v, sizeof v));
        for (int k = 0; k < 100; k++)
            CHECK(v[k] == 0);
    }
    weir_release(p);
    weir_device_close(d);
}

CASE(numbers_that_are_no_distribution)
{
    static const double wrong_p[] = {-0.1, 1.0000001, (double)NAN, (double)INFINITY};
    static const double range[][2] = {{1, 0}, {(double)NAN, 1}, {0, (double)NAN},
                                      {0, (double)INFINITY}, {-(double)INFINITY, 0}, {0, 1e39},
                                      {-3e38, 3e38}};
    static const double bell[][2] = {{0, -1e-9}, {0, (double)NAN}, {(double)NAN, 1},
                                     {0, (double)INFINITY}, {(double)INFINITY, 1}};
    const weir_desc     desc = weir_1d(WEIR_F32, 3);
    weir_device *const  d = open();
    weir_tensor *const  t = weir_state(d, desc, "t"), *const h = weir_state(d, desc, "h");

    for (int i = 0; i < 7; i++) {
        CHECK(weir_uniform(d, desc, range[i][0], range[i][1]) == NULL);
        CHECK_STATUS(weir_write_uniform(t, range[i][0], range[i][1]), WEIR_ERR_INVALID);
    }
    CHECK_TEXT(weir_error(), "weir_write_uniform: from -3e+38 to 3e+38 does not fit f32");
    CHECK(weir_uniform(d, desc, 1, 0) == NULL);
    CHECK_TEXT(weir_error(), "uniform: the range from 1 to 0 is reversed");
    CHECK(weir_uniform(d, weir_1d(WEIR_F16, 3), 0, 1e5) == NULL);
    for (int i = 0; i < 5; i++) {
        CHECK(weir_normal(d, desc, bell[i][0], bell[i][1]) == NULL);
        CHECK_STATUS(weir_write_normal(t, bell[i][0], bell[i][1]), WEIR_ERR_INVALID);
    }
    CHECK(weir_normal(d, desc, 0, -1) == NULL);
    CHECK_TEXT(weir_error(), "normal: the mean is 0, the deviation -1");
    for (int i = 0; i < 4; i++) {
        CHECK(weir_dropout(t, wrong_p[i]) == NULL);
        CHECK_TEXT(weir_error(), "dropout: p must be in [0, 1]");
    }
    CHECK_OK(weir_write_uniform(t, 2, 2));      /* one number is a range */
    CHECK_OK(weir_write_normal(h, 2, 0));
    CHECK(weir_uniform(d, desc, -1e38, 2e38) && weir_normal(d, desc, 0, 0));
    weir_release(t);
    weir_release(h);
    weir_device_close(d);
}

CASE(refused)
{
    weir_device *const d = open();
    weir_tensor *const t = weir_state(d, weir_1d(WEIR_I64, 3), "t");

    CHECK(weir_uniform(d, weir_1d(WEIR_I32, 3), 0, 1) == NULL);
    CHECK_TEXT(weir_error(), "uniform: makes f32, f64, f16 or bf16, not i32");
    CHECK(weir_normal(d, weir_1d(WEIR_BOOL, 3), 0, 1) == NULL);
    CHECK_TEXT(weir_error(), "normal: makes f32, f64, f16 or bf16, not bool");
    CHECK_STATUS(weir_write_uniform(t, 0, 1), WEIR_ERR_DTYPE);
    CHECK_STATUS(weir_write_normal(t, 0, 1), WEIR_ERR_DTYPE);
    CHECK_OK(weir_write_fill(t, 5));
    weir_release(t);
    weir_device_close(d);
}
