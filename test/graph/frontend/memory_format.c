/* memory_format.c - operations on row-major tensors of four axes give row-major results, with the
 * values, gradients and mistakes that they have otherwise. */
#include "graph/fixture.h"

#include <string.h>

#include "core/tensor.h"

enum { N = 2, H = 3, W = 4, C = 5, ROWS = N * H * W, COUNT = ROWS * C };

/* A parameter of rows, whose view (n,h,w,c) is row-major. */
static weir_tensor *rows_of(weir_device *d, int seed)
{
    float v[COUNT];

    for (int i = 0; i < COUNT; i++)
        v[i] = (float)((i * 37 + seed * 11) % 29) / 14 - 1;
    weir_tensor *const t = weir_param(d, weir_2d(WEIR_F32, ROWS, C), "rows");
    CHECK_OK(weir_write(t, v, sizeof v));
    return t;
}

static weir_tensor *tokens(weir_tensor *rows)
{
    return weir_reshape(rows, 4, (int64_t[]){N, H, W, C});
}

static bool is_row_major(const weir_tensor *t)
{
    const weir_layout *const l = &t->layout;

    return l->stride[3] < l->stride[2] && l->stride[2] < l->stride[1] &&
           l->stride[1] < l->stride[0];
}

typedef weir_tensor *(*operation)(weir_tensor *a, weir_tensor *b);

static weir_tensor *gelu(weir_tensor *a, weir_tensor *b)
{
    (void)b;
    return weir_gelu(a);
}

static weir_tensor *scores(weir_tensor *a, weir_tensor *b)
{
    return weir_add(weir_softmax(a, 3), weir_log_softmax(b, 1));
}

static weir_tensor *masked(weir_tensor *a, weir_tensor *b)
{
    return weir_where(weir_gt(a, b), a, weir_affine(b, 2, 1));
}

static weir_tensor *padded(weir_tensor *a, weir_tensor *b)
{
    (void)b;
    return weir_pad(a, (int64_t[]){0, 1, 0, 2}, (int64_t[]){0, 0, 3, 1}, WEIR_PAD_CONSTANT, 0.5);
}

static weir_tensor *joined(weir_tensor *a, weir_tensor *b)
{
    return weir_concat(3, (weir_tensor *[]){a, b, a}, 2);
}

/* Windows (n,h/1,1,w/2,2,c), reordered: four axes that a reshape must copy. */
static weir_tensor *windows(weir_tensor *a, weir_tensor *b)
{
    (void)b;
    weir_tensor *const parts = weir_reshape(a, 5, (int64_t[]){N, H, 2, 2, C});
    return weir_reshape(weir_transpose(parts, (int[]){0, 2, 1, 3, 4}), 4,
                        (int64_t[]){N * 2, H, 2, C});
}

static weir_tensor *scaled(weir_tensor *a, weir_tensor *b)
{
    /* one number for each channel and one for each pixel: the last axes of b */
    weir_tensor *const channel = weir_reshape(weir_narrow(weir_reshape(b, 2, (int64_t[]){ROWS, C}),
                                                          0, 0, 1), 1, (int64_t[]){C});
    return weir_mul(weir_add(a, channel), weir_mean(b, 1u << 3, true));
}

static weir_tensor *normalised(weir_tensor *a, weir_tensor *b)
{
    weir_tensor *const scale =
        weir_reshape(weir_narrow(weir_reshape(b, 1, (int64_t[]){COUNT}), 0, 3, C), 1,
                     (int64_t[]){C});
    return weir_add(weir_layer_norm(a, scale, scale, 0), weir_rms_norm(b, scale, 0));
}

static weir_tensor *halved(weir_tensor *a, weir_tensor *b)
{
    return weir_cast(weir_mul(weir_cast(a, WEIR_BF16), weir_cast(b, WEIR_BF16)), WEIR_F32);
}

static const operation operations[] = {gelu,   scores, masked,     padded, joined,
                                       windows, scaled, normalised, halved};

typedef struct answer {
    float  y[4 * COUNT], da[COUNT], db[COUNT];
    size_t count;
    bool   row_major, copies;
} answer;

/* The operation on views, or on channels-last copies of them. */
static void compute(operation f, bool copied, bool on, answer *out)
{
    weir_device *const d = fixture_open();
    weir_tensor *const a = rows_of(d, 0), *const b = rows_of(d, 1), *grad[2] = {NULL};
    weir_graph *const  g = on ? weir_graph_begin(d) : NULL;
    weir_tensor       *x[2] = {tokens(a), tokens(b)};

    for (int i = 0; i < 2 && copied; i++)
        x[i] = weir_copy(x[i]);
    weir_tensor *const y = f(x[0], x[1]);
    if (CHECK(y != NULL)) {
        out->row_major = is_row_major(y);
        CHECK_OK(weir_gradients(weir_sum(weir_square(y), 0, false), 2, (weir_tensor *[]){a, b},
                                grad));
        weir_keep(y);
        weir_keep(grad[0]);
        if (grad[1])
            weir_keep(grad[1]);
    }
    if (g && fixture_finish(g, OPTIONS_AS_RECORDED))
        out->copies = fixture_count(g, WEIR_OP_COPY) + fixture_count(g, WEIR_OP_RESHAPE) > 0;
    out->count = weir_tensor_bytes(y) / sizeof(float);
    CHECK_OK(weir_read(y, out->y, weir_tensor_bytes(y)));
    CHECK_OK(weir_read(grad[0], out->da, sizeof out->da));
    memset(out->db, 0, sizeof out->db);
    if (grad[1])
        CHECK_OK(weir_read(grad[1], out->db, sizeof out->db));
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

static void near(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(a[i], b[i], 2e-6 * (1 + fabs((double)b[i])));
}

CASE(results_of_row_major_operands_are_row_major)
{
    static answer view, recorded, copy;

    for (size_t i = 0; i < ARRAY_LENGTH(operations); i++) {
        compute(operations[i], false, false, &view);
        compute(operations[i], false, true, &recorded);
        compute(operations[i], true, false, &copy);
        CHECK(view.row_major && recorded.row_major);
        CHECK(view.count == copy.count);
        near(view.y, copy.y, view.count);
        near(view.da, copy.da, COUNT);
        near(view.db, copy.db, COUNT);
        CHECK(memcmp(view.y, recorded.y, view.count * sizeof(float)) == 0);
        CHECK(memcmp(view.da, recorded.da, sizeof view.da) == 0);
        CHECK(memcmp(view.db, recorded.db, sizeof view.db) == 0);
        /* The gradients of two are slices of larger ones. */
        const bool cut = operations[i] == padded || operations[i] == joined;
        check_that(recorded.copies == (cut || operations[i] == windows), __FILE__, __LINE__,
                   "operation %zu: copies %d", i, recorded.copies);
    }
}

/* The mask is drawn by position, in the forward and in the backward pass. */
CASE(dropout_of_row_major_tokens_has_the_gradient_of_its_mask)
{
    for (int on = 0; on < 2; on++) {
        weir_device *const d = fixture_open();
        weir_tensor *const a = rows_of(d, 0);
        weir_graph *const  g = on ? weir_graph_begin(d) : NULL;
        weir_tensor       *grad, *const y = weir_dropout(tokens(a), 0.5);
        float              mask[COUNT], value[COUNT], x[COUNT];

        CHECK(is_row_major(y));
        CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &a, &grad));
        weir_keep(y);
        weir_keep(grad);
        if (g)
            fixture_finish(g, NULL);
        CHECK_OK(weir_read(y, value, sizeof value));
        CHECK_OK(weir_read(grad, mask, sizeof mask));
        CHECK_OK(weir_read(a, x, sizeof x));
        for (int i = 0; i < COUNT; i++)
            CHECK(value[i] == x[i] * mask[i]);
        weir_graph_free(g);
        weir_release(a);
        weir_device_close(d);
    }
}

/* Images stay channels-last, also beside as many row-major elements. */
CASE(results_of_channels_last_operands_are_dense)
{
    weir_device *const d = fixture_open();
    weir_tensor *const a = rows_of(d, 0), *const rows = tokens(a);
    weir_tensor *const image = weir_copy(rows);

    CHECK(!weir_shape_is_dense(&rows->layout) && weir_shape_is_dense(&image->layout));
    CHECK(weir_shape_is_dense(&weir_gelu(image)->layout));
    CHECK(weir_shape_is_dense(&weir_add(image, rows)->layout));
    CHECK(weir_shape_is_dense(&weir_softmax(image, 3)->layout));
    CHECK(weir_shape_is_dense(&weir_copy(rows)->layout));
    weir_release(a);
    weir_device_close(d);
}

CASE(mistakes_name_the_shapes_that_the_user_sees)
{
    weir_device *const d = fixture_open();
    weir_tensor *const a = rows_of(d, 0), *const x = tokens(a);

    CHECK(weir_add(x, weir_reshape(x, 2, (int64_t[]){C, ROWS})) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_SHAPE);
    check_that(strstr(weir_error(), "f32(2,3,4,5)") && !strstr(weir_error(), "(2,3,4,5,1)"),
               __FILE__, __LINE__, "%s", weir_error());
    CHECK(weir_bitwise_and(x, x) == NULL);
    check_that(!strstr(weir_error(), "(2,3,4,5,1)"), __FILE__, __LINE__, "%s", weir_error());
    weir_release(a);
    weir_device_close(d);
}
