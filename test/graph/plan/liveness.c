/* liveness.c - lifetimes and results in place: which outputs may take over an input's memory. */
#include "graph/fixture.h"

enum { N = 4096, BUFFER = N * 4 };

static weir_graph *planned(weir_device *d, weir_tensor *(*body)(weir_tensor *x),
                           const char *disable, weir_tensor **out)
{
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, N));
    CHECK_OK(weir_write_uniform(x, -1, 1));
    weir_graph *g = weir_graph_begin(d);
    *out = weir_keep(body(x));
    CHECK(fixture_finish(g, OPTIONS_WITHOUT(disable)));
    weir_release(x);
    return g;
}

/* Arena without and with in place, all unfused and in the recorded order; bits must agree. Returns
 * what one buffer takes. */
static size_t arenas(weir_tensor *(*body)(weir_tensor *x), size_t *without, size_t *with)
{
    float *v[2];
    size_t one = 0;

    for (int i = 0; i < 2; i++) {
        weir_device *d = fixture_open();
        weir_tensor *out;
        weir_graph  *g = planned(d, body, i ? "fuse,order,cse" : "fuse,order,cse,inplace", &out);
        const size_t bytes = weir_tensor_bytes(out);
        *(i ? with : without) = g->plan->arena;
        one = fixture_bytes_taken(d, BUFFER);
        v[i] = weir_host_alloc(bytes);
        CHECK_OK(weir_read(out, v[i], bytes));
        if (i)
            CHECK_BITS(v[0], v[1], bytes);
        weir_graph_free(g);
        weir_device_close(d);
    }
    weir_host_free(v[0]);
    weir_host_free(v[1]);
    return one;
}

static weir_tensor *relu_chain(weir_tensor *x)
{
    for (int i = 0; i < 10; i++)
        x = weir_relu(weir_affine(x, 1.5, -0.1));
    return weir_sum(x, 0, false);
}

CASE(a_chain_uses_one_buffer)
{
    size_t without, with;
    const size_t one = arenas(relu_chain, &without, &with);
    CHECK(without == 2 * one);
    CHECK(with == one);
}

/* The first value is read again at the end: nobody may overwrite it. */
static weir_tensor *reread(weir_tensor *x)
{
    weir_tensor *a = weir_exp(x), *b = weir_neg(weir_square(a));
    return weir_sum(weir_mul(a, b), 0, false);
}

CASE(a_value_that_is_read_again_is_kept)
{
    size_t       without, with;
    const size_t one = arenas(reread, &without, &with);
    CHECK(with == 2 * one);
}

/* x op x^T: the output must not overwrite what it still reads from another side. */
static weir_tensor *with_its_transpose(weir_tensor *x)
{
    weir_tensor *m = weir_reshape(weir_exp(x), 2, (int64_t[]){64, 64});
    return weir_sum(weir_sub(m, weir_transpose(m, NULL)), 1, false);
}

CASE(not_over_another_view)
{
    size_t without, with;
    arenas(with_its_transpose, &without, &with);
    CHECK(with >= 2 * BUFFER);
}

/* An input smaller than the result, or seen through a broadcast, has no room for it. */
static weir_tensor *broadcasting(weir_tensor *x)
{
    weir_tensor *row = weir_reshape(weir_exp(x), 2, (int64_t[]){1, N});
    weir_tensor *m = weir_mul(row, weir_fill(weir_tensor_device(x), weir_2d(WEIR_F32, 3, 1), 2));
    return weir_sum(weir_tanh(weir_add(m, weir_broadcast_to(row, weir_tensor_desc(m)))), 1, false);
}

CASE(not_over_a_smaller_input)
{
    size_t without, with;
    arenas(broadcasting, &without, &with);
    CHECK(with >= 4 * BUFFER && with < without);
}

/* An external tensor is never taken over. */
static weir_tensor *of_an_input(weir_tensor *x)
{
    return weir_sum(weir_relu(x), 0, false);
}

CASE(inputs_stay_as_they_are)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 3, (float[]){-1, -2, -3});
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(of_an_input(x));
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(x) == -1 && fixture_value(y) == 0);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* What is alive at the same time does not overlap, for every pair of items of a real plan. */
CASE(items_of_a_plan_do_not_overlap)
{
    weir_device     *d = fixture_open();
    weir_tensor     *out;
    weir_graph      *g = planned(d, broadcasting, "", &out);
    const weir_plan *p = g->plan;
    for (uint32_t i = 0; i < p->items.n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const weir_item *a = &p->items.at[i], *b = &p->items.at[k];
            const bool together = a->first <= b->last && b->first <= a->last;
            CHECK(!together || a->offset + a->bytes <= b->offset ||
                  b->offset + b->bytes <= a->offset);
        }
    weir_graph_free(g);
    weir_device_close(d);
}
