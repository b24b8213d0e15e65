/* update.c - tests that updates of many parameters are few launches, in the order of the calls,
 * with the CPU's bits. */
#include "check.h"
#include "device/cuda/card.h"

enum { MANY = 150, STEPS = 3, MOST = 9001 };

/* Reading waits for all queued work. */
static weir_status sync(weir_tensor *t)
{
    char element[8];
    return weir_read(t, element, weir_tensor_bytes(t));
}

typedef weir_status (*updater)(weir_tensor *const *x, int row);

/* Elements of parameter i: with a remainder, several chunks, none. */
static int64_t size_of(int i)
{
    static const int64_t sizes[] = {1, 7, 64, 0, 1000, 4096, 4099, MOST};
    return sizes[i % 8];
}

static weir_tensor *tensor(weir_device *d, weir_dtype type, int64_t n, const double *from)
{
    static float  f32[MOST];
    weir_tensor  *t = weir_state(d, weir_1d(type, n), NULL);
    for (int64_t i = 0; i < n; i++)
        f32[i] = (float)from[i];
    const bool wide = type == WEIR_F64;
    CHECK_OK(weir_write(t, wide ? (const void *)from : f32, (size_t)n * (wide ? 8 : 4)));
    return t;
}

/* ---- each kind; x: parameter, gradient, three states, rate, rate with options, step ---- */

enum { P, G, S0, S1, S2, LR, NUMBERS, STEP, TENSORS };

static weir_status sgd(weir_tensor *const *x, int row)
{
    static const weir_sgd_options o[] = {{0}, {.weight_decay = 0.1}, {.momentum = 0.9},
                                         {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}};
    return weir_sgd_update(x[P], x[G], o[row].momentum != 0 ? x[S0] : NULL, x[LR], &o[row]);
}

static weir_status sgd_numbers(weir_tensor *const *x, int row)
{
    return weir_sgd_update(x[P], x[G], row == 0 ? NULL : x[S0], x[NUMBERS], NULL);
}

static weir_status adam(weir_tensor *const *x, int row)
{
    return weir_adam_update(x[P], x[G], x[S0], x[S1], x[STEP], x[LR],
                            &(weir_adam_options){.weight_decay = row * 0.1});
}

static weir_status adamw(weir_tensor *const *x, int row)
{
    return weir_adamw_update(x[P], x[G], x[S0], x[S1], x[STEP], x[LR],
                             &(weir_adam_options){.weight_decay = row * 0.1});
}

static weir_status adagrad(weir_tensor *const *x, int row)
{
    return weir_adagrad_update(x[P], x[G], x[S0], x[LR],
                               &(weir_adagrad_options){.eps_inside = row == 1});
}

static weir_status rmsprop(weir_tensor *const *x, int row)
{
    const weir_rmsprop_options o = {.momentum = row & 1 ? 0.9 : 0, .centered = (row & 2) != 0};
    return weir_rmsprop_update(x[P], x[G], x[S0], x[S1], x[S2], x[LR], &o);
}

static weir_status counters(weir_tensor *const *x, int row)
{
    return row == 0   ? weir_increment(x[P], 0.1)
           : row == 1 ? weir_accumulate(x[P], x[G])
                      : weir_reset(x[P], 0.3);
}

static const struct {
    updater update;
    int     rows;
} kinds[] = {
    {sgd, 4}, {sgd_numbers, 2}, {adam, 2}, {adamw, 2}, {adagrad, 2}, {rmsprop, 4}, {counters, 3},
};

static double rate = 0.05;

/* STEPS updates of `count` parameters; copies all their elements to `to`. Returns the launches of
 * the last step if `launches` counts them. */
static long train(weir_device *d, weir_dtype type, updater update, int row, int count,
                  bool launches, char *to)
{
    static double values[MOST];
    weir_tensor  *x[MANY][TENSORS];
    long          last = 0;

    check_random = 7;
    for (int i = 0; i < MOST; i++)
        values[i] = check_real(0.1, 1);
    for (int i = 0; i < count; i++) {
        for (int k = P; k <= S2; k++)
            x[i][k] = tensor(d, type, size_of(i), values + (k > S0 ? 0 : (3 * k) % 2));
        x[i][LR] = i ? x[0][LR] : tensor(d, WEIR_F32, 1, &rate);
        x[i][NUMBERS] =
            i ? x[0][NUMBERS] : tensor(d, type, 4, (const double[]){rate, 0.8, 0.02, 0.3});
        x[i][STEP] = i ? x[0][STEP] : tensor(d, WEIR_F64, 1, (const double[]){0});
    }
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(weir_increment(x[0][STEP], 1));
        CHECK_OK(sync(x[0][STEP]));
        const long before = launches ? card_calls("cudaLaunchKernel") : 0;
        for (int i = 0; i < count; i++)
            CHECK_OK(update(x[i], row));
        CHECK_OK(sync(x[0][STEP]));
        last = launches ? card_calls("cudaLaunchKernel") - before : 0;
    }
    for (int i = 0; i < count; i++)
        for (int k = P; k <= S2; k++) {
            const size_t bytes = weir_tensor_bytes(x[i][k]);
            CHECK_OK(weir_read(x[i][k], to, bytes));
            to += bytes;
            weir_release(x[i][k]);
        }
    for (int k = LR; k <= STEP; k++)
        weir_release(x[0][k]);
    return last;
}

static size_t bytes_of(int count, weir_dtype type)
{
    int64_t n = 0;
    for (int i = 0; i < count; i++)
        n += size_of(i) * (S2 + 1);
    return (size_t)n * (type == WEIR_F64 ? 8 : 4);
}

static void compare_all(int rows)
{
    weir_device *const cpu = weir_device_open("cpu", NULL), *const card = card_open();
    CHECK_OR_RETURN(cpu && card);
    const size_t buffer_bytes = bytes_of(16, WEIR_F64);
    char *const  a = malloc(buffer_bytes), *const b = malloc(buffer_bytes);

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int row = 0; row < kinds[i].rows && row < rows; row++)
            for (int wide = 0; wide < 2; wide++) {
                const weir_dtype type = wide ? WEIR_F64 : WEIR_F32;
                train(cpu, type, kinds[i].update, row, 16, false, a);
                train(card, type, kinds[i].update, row, 16, false, b);
                CHECK(memcmp(a, b, bytes_of(16, type)) == 0);
                const void *const at = b;
                CHECK(isfinite(wide ? *(const double *)at : (double)*(const float *)at));
            }
    free(a);
    free(b);
    weir_device_close(card);
    weir_device_close(cpu);
}

CASE(updates_have_the_cpus_bits)
{
    compare_all(INT32_MAX);
}

CASE(a_rate_that_is_nan_updates_nothing)
{
    rate = NAN;
    compare_all(1);
    rate = 0.05;
}

CASE(many_updates_are_few_launches)
{
    weir_device *const card = card_open();
    CHECK_OR_RETURN(card != NULL);
    char *const       a = malloc(bytes_of(MANY, WEIR_F32));
    CHECK_OR_RETURN(a != NULL);

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        CHECK(train(card, WEIR_F32, kinds[i].update, 0, MANY, true, a) == 3);
    free(a);
    weir_device_close(card);
}

static float value_of(weir_tensor *t)
{
    float v = NAN;
    CHECK_OK(weir_read(t, &v, sizeof v));
    return v;
}

/* Calls whose order matters, one element each; the last one's result is in x[P]. */
static weir_status again(weir_tensor *const *x)
{
    WEIR_TRY(weir_sgd_update(x[P], x[G], NULL, x[LR], NULL));
    return weir_sgd_update(x[P], x[G], NULL, x[LR], NULL);
}

/* The second call's gradient is the first one's parameter, and vice versa. */
static weir_status reads_written(weir_tensor *const *x)
{
    WEIR_TRY(weir_accumulate(x[G], x[S0]));
    WEIR_TRY(weir_accumulate(x[P], x[G]));
    return weir_accumulate(x[G], x[P]);
}

static weir_status writes_read(weir_tensor *const *x)
{
    WEIR_TRY(weir_accumulate(x[P], x[G]));
    WEIR_TRY(weir_accumulate(x[G], x[S0]));
    return weir_accumulate(x[S0], x[G]);
}

/* The second update's rate is written by the first. */
static weir_status writes_rate(weir_tensor *const *x)
{
    WEIR_TRY(weir_sgd_update(x[S1], x[S0], NULL, x[LR], NULL));
    WEIR_TRY(weir_sgd_update(x[LR], x[S0], NULL, x[S2], NULL));
    return weir_sgd_update(x[P], x[G], NULL, x[LR], NULL);
}

static weir_status resets_rate(weir_tensor *const *x)
{
    WEIR_TRY(weir_sgd_update(x[S1], x[S0], NULL, x[LR], NULL));
    WEIR_TRY(weir_sgd_update(x[S2], x[LR], NULL, x[LR], NULL));
    WEIR_TRY(weir_reset(x[LR], 0.125));
    return weir_sgd_update(x[P], x[G], NULL, x[LR], NULL);
}

/* Two calls share a gradient, and a third reads what another reads: no conflict. */
static weir_status shares(weir_tensor *const *x)
{
    WEIR_TRY(weir_accumulate(x[P], x[G]));
    return weir_accumulate(x[S0], x[G]);
}

/* Number of launches of the calls, if `launches` counts them. */
static long order_on(weir_device *d, weir_status (*calls)(weir_tensor *const *x),
                     bool launches, float *to)
{
    weir_tensor *x[TENSORS];

    for (int k = 0; k < TENSORS; k++)
        x[k] = tensor(d, WEIR_F32, 1, (const double[]){0.25 + k});
    const long before = launches ? card_calls("cudaLaunchKernel") : 0;
    CHECK_OK(calls(x));
    for (int k = 0; k < TENSORS; k++) {
        to[k] = value_of(x[k]);
        weir_release(x[k]);
    }
    return launches ? card_calls("cudaLaunchKernel") - before : 0;
}

CASE(updates_that_depend_on_another_keep_their_order)
{
    /* The emulator runs the blocks of a launch in order, so only the count tells. */
    static const struct {
        weir_status (*calls)(weir_tensor *const *x);
        long launches;
    } cases[] = {{again, 2}, {reads_written, 3}, {writes_read, 3}, {writes_rate, 3},
                 {resets_rate, 3}, {shares, 1}};
    weir_device *const cpu = weir_device_open("cpu", NULL), *const card = card_open();
    CHECK_OR_RETURN(cpu && card);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float a[TENSORS], b[TENSORS];
        order_on(cpu, cases[i].calls, false, a);
        CHECK(order_on(card, cases[i].calls, true, b) == cases[i].launches);
        CHECK_BITS(a, b, sizeof a);
    }
    weir_device_close(card);
    weir_device_close(cpu);
}

CASE(what_waits_is_launched_before_anything_else)
{
    weir_device *const card = card_open();
    CHECK_OR_RETURN(card != NULL);
    weir_tensor *const p = tensor(card, WEIR_F32, 1, (const double[]){3});

    CHECK_OK(weir_increment(p, 1));
    CHECK(value_of(p) == 4);
    CHECK_OK(weir_increment(p, 1));
    CHECK_OK(weir_write(p, &(float){7}, sizeof(float)));
    CHECK(value_of(p) == 7);
    CHECK_OK(weir_increment(p, 1));
    CHECK_OK(weir_write_fill(p, 11));
    CHECK(value_of(p) == 11);
    CHECK_OK(weir_increment(p, 1));
    weir_release(p);
    weir_device_close(card);
}

CASE(a_launch_that_fails_late_is_told)
{
    weir_device *const card = card_open();
    CHECK_OR_RETURN(card != NULL);
    weir_tensor *const p = tensor(card, WEIR_F32, 1, (const double[]){3});
    weir_tensor *const q = tensor(card, WEIR_F32, 1, (const double[]){3});

    card_fail("cudaLaunchKernel", 1);
    CHECK_OK(weir_increment(p, 1));
    CHECK_STATUS(sync(q), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "pending updates");
    CHECK_OK(sync(q));
    card_fail("cudaLaunchKernel", 1);
    CHECK_OK(weir_increment(p, 1));
    CHECK_STATUS(weir_increment(p, 1), WEIR_ERR_DEVICE);        /* which launches the first */
    CHECK_OK(weir_increment(q, 1));
    CHECK(value_of(q) == 4);
    CHECK(value_of(p) == 3);
    weir_release(p);
    weir_release(q);
    weir_device_close(card);
}
