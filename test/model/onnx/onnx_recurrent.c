/* onnx_recurrent.c - recurrent layers: Weir's own and those recorded step by step agree. */
#include "model/onnx/onnx_bytes.h"

enum { STEPS = 3, N = 2, COLUMNS = 2, HIDDEN = 2 };

/* A layer as a node: gates, directions, its inputs behind x, w, r, b. */
typedef struct shape {
    const char *op, *more, *direction;
    int64_t     gates, directions;
    bool        reset_behind;
} shape;

/* Weights that are the same in both directions. */
static void weights(pb *g, const char *name, const shape *s, int64_t rows, int64_t columns,
                    double by)
{
    float         v[128];
    const int64_t n = rows * (columns > 0 ? columns : 1);

    for (int64_t i = 0; i < s->directions * n; i++)
        v[i] = (float)(by * (double)(i % n * 29 % 17 - 8));
    net_init(g, name, PB_F32, columns > 0 ? 3 : 2, (int64_t[]){s->directions, rows, columns}, v,
             (size_t)(s->directions * n) * sizeof *v);
}

static weir_onnx *model_of(weir_device *d, const shape *s)
{
    static pb     m;
    pb            g = {0}, a = {0};
    char          in[40];
    const int64_t rows = s->gates * HIDDEN;

    net_input(&g, "x", PB_F32, 3, (int64_t[]){STEPS, N, COLUMNS});
    weights(&g, "w", s, rows, COLUMNS, 0.1);
    weights(&g, "r", s, rows, HIDDEN, -0.07);
    weights(&g, "b", s, 2 * rows, 0, 0.03);
    weights(&g, "p", s, 3 * HIDDEN, 0, 0);
    attr_int(&a, "hidden_size", HIDDEN);
    attr_text(&a, "direction", s->direction);
    if (s->reset_behind)
        attr_int(&a, "linear_before_reset", 1);
    snprintf(in, sizeof in, "x,w,r,b%s", s->more);
    net_node(&g, s->op, in, "y,h", &a);
    net_output(&g, "y");
    net_output(&g, "h");
    net_model(&m, &g, 14);
    return weir_onnx_open_bytes(d, m.at, m.n, NULL);
}

enum { OUT = STEPS * 2 * N * HIDDEN, WEIGHTS = 4 * HIDDEN * COLUMNS };

typedef struct outcome {
    float y[OUT], h[2 * N * HIDDEN], grad[2 * WEIGHTS];
} outcome;

static void run(weir_device *d, const shape *s, outcome *to)
{
    weir_tensor     *out[2] = {NULL}, *w, *grad = NULL;
    weir_tensor     *x = weir_input(d, weir_3d(WEIR_F32, STEPS, N, COLUMNS));
    float            v[STEPS * N * COLUMNS];
    weir_onnx *const net = model_of(d, s);

    if (!check_that(net != NULL, __FILE__, __LINE__, "%s: %s", s->op, weir_error()))
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(v); i++)
        v[i] = (float)i * 0.2f - 1;
    CHECK_OK(weir_write(x, v, sizeof v));
    w = weir_model_find(weir_onnx_model(net), "w");
    CHECK_OK(weir_scope_begin(d));
    if (CHECK_OK(weir_onnx_apply(net, 1, &x, 2, out))) {
        CHECK_OK(weir_gradients(weir_sum(weir_square(out[0]), 0, false), 1, &w, &grad));
        CHECK_OK(weir_read(out[0], to->y, weir_tensor_bytes(out[0])));
        CHECK_OK(weir_read(out[1], to->h, weir_tensor_bytes(out[1])));
        CHECK_OK(weir_read(grad, to->grad, weir_tensor_bytes(grad)));
    }
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_onnx_free(net);
}

static void check_close(const shape *s, const char *what, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_that(fabsf(a[i] - b[i]) < 1e-5f, __FILE__, __LINE__, "%s: %s %zu is %g, not %g",
                   s->op, what, i, (double)a[i], (double)b[i]);
}

/* Peepholes of 0 change nothing, but Weir's own layer has none. */
CASE(peepholes_of_zero)
{
    static outcome own, steps;
    const shape    a = {"LSTM", "", "forward", 4, 1, false};
    const shape    b = {"LSTM", ",,,,p", "forward", 4, 1, false};
    weir_device   *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    run(d, &a, &own);
    run(d, &b, &steps);
    CHECK(own.y[0] != 0 && own.grad[0] != 0);
    check_close(&a, "output", steps.y, own.y, STEPS * N * HIDDEN);
    check_close(&a, "last state", steps.h, own.h, N * HIDDEN);
    check_close(&a, "gradient", steps.grad, own.grad, 4 * HIDDEN * COLUMNS);
    weir_device_close(d);
}

/* The second of two directions is the reverse one, which is recorded step by step if alone. */
CASE(reverse_direction)
{
    static outcome both, back;
    const shape    two = {"GRU", "", "bidirectional", 3, 2, true};
    const shape    one = {"GRU", "", "reverse", 3, 1, true};
    weir_device   *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});

    run(d, &two, &both);
    run(d, &one, &back);
    CHECK(back.y[0] != 0 && back.grad[0] != 0);
    for (size_t t = 0; t < STEPS; t++)
        check_close(&one, "output", &back.y[t * N * HIDDEN], &both.y[(2 * t + 1) * N * HIDDEN],
                   N * HIDDEN);
    check_close(&one, "last state", back.h, both.h + N * HIDDEN, N * HIDDEN);
    check_close(&one, "gradient", back.grad, both.grad + 3 * HIDDEN * COLUMNS,
                3 * HIDDEN * COLUMNS);
    weir_device_close(d);
}
