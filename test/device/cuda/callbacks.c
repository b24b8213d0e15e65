/* callbacks.c - tests of the user's own ops on a card: their functions receive and return what they
 * would on the CPU, and every failure is a status. */
#include "check.h"
#include "device/cuda/card.h"

enum { MOST = 3 * 4 * 5 * 2 };

/* y = x k + position, so that the order of elements matters. */
static weir_status scaled(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const float *const v = x[0].data, *const k = x[1].data;
    float *const       to = y[0].data;
    int64_t            n = 1;

    if (*(const bool *)ctx)
        return weir_fail(WEIR_ERR_IO, "scaled: not today");
    for (int i = 0; i < y[0].desc.ndim; i++)
        n *= y[0].desc.dim[i];
    for (int64_t i = 0; i < n; i++)
        to[i] = v[i] * k[0] + (float)i;
    return WEIR_OK;
}

static weir_status scaled_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                               const weir_host_in *dy, const weir_host_out *dx)
{
    const float *const v = x[0].data, *const k = x[1].data, *const g = dy[0].data;
    float *const       dv = dx[0].data, *const dk = dx[1].data;
    int64_t            n = 1;

    (void)ctx;
    (void)y;
    for (int i = 0; i < dy[0].desc.ndim; i++)
        n *= dy[0].desc.dim[i];
    if (dk)
        dk[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (dv)
            dv[i] = g[i] * k[0];
        if (dk)
            dk[0] += g[i] * v[i];
    }
    return WEIR_OK;
}

static const weir_callback_def def = {
    .name = "scaled", .forward = scaled, .backward = scaled_back, .backward_without_y = true};

typedef struct answer {
    float y[MOST], dv[MOST], dk;
} answer;

static weir_device *open(bool card)
{
    return card ? card_open() : weir_device_open("cpu", NULL);
}

/* Two runs with different numbers reuse the host memory. */
static void run(bool card, bool on, bool turn, answer out[2])
{
    const weir_desc    image = weir_4d(WEIR_F32, 3, 4, 5, 2), one = weir_1d(WEIR_F32, 1);
    weir_device *const d = open(card);
    if (!CHECK(d != NULL))
        return;
    weir_tensor *const v = weir_param(d, image, "v"), *const k = weir_param(d, one, "k");
    weir_tensor *const from = weir_param(d, image, "dy");
    bool               fail = false;

    memset(out, 0, 2 * sizeof *out);
    for (int round = 0; round < 2; round++) {
        float number[3][MOST];
        for (int i = 0; i < 3 * MOST; i++)
            number[i / MOST][i % MOST] = (float)((i * 37 + round * 11) % 101) / 8 - 5;
        CHECK_OK(weir_write(v, number[0], sizeof number[0]));
        CHECK_OK(weir_write(from, number[1], sizeof number[1]));
        CHECK_OK(weir_write(k, number[2], sizeof number[2][0]));
        weir_graph *const g = on ? weir_graph_begin(d) : NULL;
        weir_tensor      *y = NULL, *x = turn ? weir_transpose(v, NULL) : v, *grad[2];
        weir_tensor      *dy = turn ? weir_transpose(from, NULL) : from;
        const weir_desc   to = weir_tensor_desc(x);
        CHECK_OK(weir_callback(&def, &fail, 2, (weir_tensor *[]){x, k}, 1, &to, &y));
        weir_keep(y);
        CHECK_OK(weir_gradients_from(y, dy, 2, (weir_tensor *[]){v, k}, grad));
        weir_keep(grad[0]);
        weir_keep(grad[1]);
        if (g) {
            CHECK_OK(weir_graph_end(g, NULL));
            CHECK_OK(weir_graph_run(g));
        }
        CHECK_OK(weir_read(y, out[round].y, sizeof out[round].y));
        CHECK_OK(weir_read(grad[0], out[round].dv, sizeof out[round].dv));
        CHECK_OK(weir_read(grad[1], &out[round].dk, sizeof out[round].dk));
        weir_graph_free(g);
    }
    weir_release(v);
    weir_release(k);
    weir_release(from);
    weir_device_close(d);
}

CASE(as_on_the_cpu)
{
    for (int way = 0; way < 4; way++) {
        answer cpu[2], card[2];
        run(false, way % 2 != 0, way / 2 != 0, cpu);
        run(true, way % 2 != 0, way / 2 != 0, card);
        CHECK(cpu[0].dk != 0 && cpu[0].dk != cpu[1].dk);
        CHECK_BITS(card, cpu, sizeof cpu);
    }
}

/* A call on an open card, whose function fails if *fail is set. */
static weir_status call(weir_tensor *x, weir_tensor *k, bool *fail, float *first)
{
    weir_tensor    *y = NULL;
    const weir_desc to = weir_tensor_desc(x);

    WEIR_TRY(weir_callback(&def, fail, 2, (weir_tensor *[]){x, k}, 1, &to, &y));
    float all[MOST];
    WEIR_TRY(weir_read(y, all, weir_tensor_bytes(y)));
    *first = all[0];
    return WEIR_OK;
}

CASE(failures_are_statuses)
{
    static const char *const functions[] = {"cudaMallocHost", "cudaMemcpyAsync",
                                            "cudaStreamSynchronize"};
    const float              three = 3;

    for (size_t f = 0; f <= sizeof functions / sizeof *functions; f++) {
        weir_device *const d = card_open();
        CHECK_OR_RETURN(d != NULL);
        weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 1));
        weir_tensor *const k = weir_input(d, weir_1d(WEIR_F32, 1));
        bool               fail = f == 0;
        float              first = 0;
        CHECK_OK(weir_write(x, &three, sizeof three));
        CHECK_OK(weir_write(k, &three, sizeof three));
        if (f == 0) {
            CHECK_STATUS(call(x, k, &fail, &first), WEIR_ERR_IO);
            CHECK_TEXT(weir_error(), "scaled: not today");
        } else {
            card_fail(functions[f - 1], 1);
            CHECK_STATUS(call(x, k, &fail, &first), WEIR_ERR_DEVICE);
            CHECK_TEXT(weir_error(), functions[f - 1]);
            CHECK_TEXT(weir_error(), "callback");
        }
        fail = false;
        CHECK_OK(call(x, k, &fail, &first));
        CHECK(first == 9);
        weir_release(x);
        weir_release(k);
        weir_device_close(d);
    }
}
