/* gradient_sum.c - gradients of slices that cover a value are joined, others are added. */
#include "graph/fixture.h"

#include <string.h>

enum { ROWS = 3, COLS = 24, COUNT = ROWS * COLS, MOST = 12 };

/* Slices [begin, begin + size) of the columns with a step, each multiplied by a number of its
 * own. */
typedef struct cut {
    const char *what;
    int         n;
    int64_t     begin[MOST], size[MOST], step;
    bool        joined;     /* without padding or additions */
    bool        whole;      /* the value is used as a whole besides */
    bool        target;     /* its own gradient is asked for */
    bool        checkpoint; /* the slices are computed twice */
} cut;

static const cut cuts[] = {
    {"thirds", 3, {0, 8, 16}, {8, 8, 8}, 1, true, false, false, false},
    {"any order", 3, {20, 0, 5}, {4, 5, 15}, 1, true, false, false, false},
    {"many", 12, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
     1, true, false, false, false},
    {"a gap", 2, {0, 16}, {8, 8}, 1, false, false, false, false},
    {"an end missing", 2, {0, 8}, {8, 8}, 1, false, false, false, false},
    {"an overlap", 3, {0, 7, 16}, {8, 9, 8}, 1, false, false, false, false},
    {"one twice", 3, {0, 0, 8}, {8, 8, 16}, 1, false, false, false, false},
    {"one alone", 1, {4}, {6}, 1, false, false, false, false},
    {"steps", 2, {0, 1}, {12, 12}, 2, false, false, false, false},
    {"whole besides", 2, {0, 12}, {12, 12}, 1, false, true, false, false},
    {"target", 2, {0, 12}, {12, 12}, 1, false, false, true, false},
    {"in a checkpoint", 3, {0, 8, 16}, {8, 8, 8}, 1, true, false, false, true},
};

/* The loss: sum over slices i of (i + 2) * sum(slice^2), and of the whole value if asked. */
static weir_status loss_of(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    const cut *const   c = ctx;
    weir_tensor *const h = in[0];
    weir_tensor       *sum = c->whole ? weir_sum(weir_square(h), 0, false) : NULL;

    for (int i = 0; i < c->n; i++) {
        const int64_t begin[] = {0, c->begin[i]};
        const int64_t end[] = {ROWS, c->begin[i] + (c->size[i] - 1) * c->step + 1};
        weir_tensor *const part = weir_slice(h, begin, end, (int64_t[]){1, c->step});
        weir_tensor *const term =
            weir_affine(weir_sum(weir_square(part), 0, false), i + 2, 0);
        sum = sum ? weir_add(sum, term) : term;
    }
    out[0] = sum;
    return sum ? WEIR_OK : weir_error_status();
}

static void want_of(const cut *c, const float *x, float *dx)
{
    for (int k = 0; k < COUNT; k++)
        dx[k] = c->whole ? 4 * x[k] * 2 : 0;
    for (int i = 0; i < c->n; i++)
        for (int r = 0; r < ROWS; r++)
            for (int64_t j = 0; j < c->size[i]; j++) {
                const int64_t at = r * COLS + c->begin[i] + j * c->step;
                dx[at] += (float)(i + 2) * 4 * x[at] * 2;
            }
}

/* h = 2 x, so dx = 2 dh, and dh = 2 (i + 2) h = 4 (i + 2) x. */
static void check_cut(const cut *c, bool on)
{
    weir_device *const d = fixture_open();
    weir_tensor *const x = weir_param(d, weir_2d(WEIR_F32, ROWS, COLS), "x");
    float              value[COUNT], want[COUNT], have[COUNT];

    for (int i = 0; i < COUNT; i++)
        value[i] = (float)(i % 17 - 8) / 4;
    CHECK_OK(weir_write(x, value, sizeof value));
    weir_graph *const  g = on ? weir_graph_begin(d) : NULL;
    weir_tensor *const h = weir_affine(x, 2, 0);
    weir_tensor       *loss = NULL, *grad[2] = {NULL};
    CHECK_OK(c->checkpoint
                 ? weir_checkpoint(loss_of, (void *)(uintptr_t)c, 1, &h, 1, &loss)
                 : loss_of((void *)(uintptr_t)c, &h, &loss));
    CHECK_OK(weir_gradients(loss, c->target ? 2 : 1, (weir_tensor *[]){x, h}, grad));
    weir_keep(grad[0]);
    if (c->target)
        weir_keep(grad[1]);
    if (g && fixture_finish(g, OPTIONS_AS_RECORDED)) {
        const bool scattered = fixture_count(g, WEIR_OP_SLICE_SCATTER) > 0;
        const bool joined = fixture_count(g, WEIR_OP_CONCAT) > 0;
        check_that(joined == c->joined && scattered != joined, __FILE__, __LINE__,
                   "%s: joined %d, scattered %d", c->what, joined, scattered);
    }
    want_of(c, value, want);
    CHECK_OK(weir_read(grad[0], have, sizeof have));
    for (int i = 0; i < COUNT; i++)
        check_that(have[i] == want[i], __FILE__, __LINE__, "%s: element %d is %g, not %g", c->what,
                   i, (double)have[i], (double)want[i]);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(gradients_of_slices_that_cover_a_value_are_joined)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cuts); i++)
        for (int on = 0; on < 2; on++)
            check_cut(&cuts[i], on != 0);
}
