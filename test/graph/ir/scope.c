/* scope.c - scopes: which values they free, which escape or are retained, with and without a
 * graph. */
#include "graph/fixture.h"

static const float two[] = {1, 2};

static size_t live(weir_device *d)
{
    weir_memory m;
    weir_device_memory(d, &m);
    return m.live;
}

CASE(results_die_with_their_scope)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 4096));
    CHECK_OK(weir_write_fill(x, 1));
    const size_t before = live(d);

    CHECK_OK(weir_scope_begin(d));
    weir_tensor *y = weir_relu(x);
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *z = weir_escape(weir_relu(y)), *kept = weir_retain(weir_relu(z));
    weir_relu(z);
    CHECK(live(d) >= before + 4 * 16384);
    CHECK_OK(weir_scope_end(d));
    CHECK(live(d) < before + 4 * 16384);
    float first[4096];
    CHECK_OK(weir_read(z, first, sizeof first));
    CHECK_OK(weir_scope_end(d));
    CHECK(live(d) < before + 2 * 16384);
    CHECK_OK(weir_read(kept, first, sizeof first));
    weir_release(kept);
    CHECK(live(d) == before);
    weir_release(x);
    weir_device_close(d);
}

CASE(escape_twice_and_from_nowhere)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);

    CHECK(weir_escape(x) == x);             /* held by no scope */
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *a = weir_relu(x), *b = weir_relu(a), *c = weir_relu(b);
    CHECK(weir_escape(b) == b && weir_escape(b) == b);
    CHECK(weir_escape(c) == c);
    CHECK_OK(weir_scope_end(d));
    CHECK(fixture_value(b) == 1 && fixture_value(c) == 1);
    CHECK_OK(weir_scope_end(d));
    CHECK(weir_escape(weir_relu(x)) != NULL);
    weir_release(x);
    weir_device_close(d);
}

CASE(ends_must_match)
{
    weir_device *d = fixture_open();

    CHECK_STATUS(weir_scope_end(d), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "no scope is open");
    CHECK_STATUS(weir_no_grad_end(d), WEIR_ERR_STATE);
    CHECK_OK(weir_scope_begin(d));
    weir_graph *g = weir_graph_begin(d);
    CHECK_STATUS(weir_scope_end(d), WEIR_ERR_STATE);    /* would close what is outside the graph */
    CHECK_TEXT(weir_error(), "inside the graph");
    CHECK_OK(weir_scope_begin(d));
    CHECK_OK(weir_scope_end(d));
    CHECK_STATUS(weir_scope_end(d), WEIR_ERR_STATE);
    CHECK_OK(weir_scope_begin(d));                      /* the end of the graph closes it */
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_scope_end(d));
    CHECK_STATUS(weir_scope_end(d), WEIR_ERR_STATE);
    weir_graph_free(g);
    weir_device_close(d);
}

/* Inside a graph a closed scope makes values the planner's; escaped and retained ones are outputs
 * only if they outlive the recording. */
CASE(scopes_inside_a_graph)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);
    weir_graph  *g = weir_graph_begin(d);

    CHECK_OK(weir_scope_begin(d));
    weir_tensor *a = weir_relu(x);
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *b = weir_escape(weir_affine(a, 2, 0));
    CHECK_OK(weir_scope_end(d));
    weir_tensor *c = weir_escape(weir_add(a, b)), *out = weir_retain(weir_affine(b, 1, 5));
    CHECK_OK(weir_scope_end(d));
    weir_tensor *sum = weir_keep(weir_sum(c, 0, false));
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(sum) == 9 && fixture_value(out) == 7);
    weir_release(out);
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(sum) == 9);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* A result moved out of the graph's own scope belongs to the scope around it. */
CASE(escape_from_a_graph)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);

    CHECK_OK(weir_scope_begin(d));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_escape(weir_affine(x, 4, 0));
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(y) == 4);
    weir_graph_free(g);
    CHECK(fixture_value(y) == 4);
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_device_close(d);
}

/* Clearing frees only what the innermost scope holds, not outer or retained values. */
CASE(clearing_keeps_the_scope_open)
{
    if (!check_on_cpu())        /* its sizes are those of the CPU's alignment */
        return;
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two);
    const size_t before = live(d);

    weir_relu(x);
    weir_tensor *root = weir_retain(weir_affine(x, 3, 0));
    CHECK_OK(weir_scope_clear(d));                      /* the root */
    CHECK(live(d) == before + fixture_bytes_taken(d, 4) && fixture_value(root) == 3);
    weir_tensor *outer = weir_affine(x, 5, 0);
    CHECK_OK(weir_scope_begin(d));
    weir_relu(x);
    CHECK(live(d) == before + 3 * fixture_bytes_taken(d, 4));
    CHECK_OK(weir_scope_clear(d));
    CHECK_OK(weir_scope_clear(d));
    CHECK(live(d) == before + 2 * fixture_bytes_taken(d, 4) && fixture_value(outer) == 5);
    CHECK_OK(weir_scope_end(d));                        /* it was still open */
    CHECK_OK(weir_scope_clear(d));
    CHECK(live(d) == before + fixture_bytes_taken(d, 4));
    weir_release(root);
    weir_release(x);
    CHECK_STATUS(weir_scope_clear(NULL), weir_error_status());
    weir_device_close(d);
}

CASE(clearing_inside_a_graph)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, two), *outside = weir_affine(x, 7, 0);
    weir_graph  *g = weir_graph_begin(d);

    weir_tensor *y = weir_retain(weir_affine(x, 2, 0));
    weir_affine(x, 9, 0);                               /* nobody's: no output */
    CHECK_OK(weir_scope_clear(d));
    weir_tensor *z = weir_retain(weir_affine(y, 2, 0));
    CHECK_OK(weir_scope_clear(d));
    weir_release(y);
    CHECK(fixture_finish(g, NULL));
    CHECK(fixture_value(z) == 4 && fixture_value(outside) == 7);
    weir_graph_stats s;
    CHECK_OK(weir_graph_stats_of(g, &s));
    CHECK(s.instructions <= 2);                         /* that of 9 is dead */
    weir_release(z);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(no_grad_nests)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, two);

    CHECK_OK(weir_no_grad_begin(d));
    CHECK_OK(weir_no_grad_begin(d));
    CHECK_OK(weir_no_grad_end(d));
    CHECK(!weir_tensor_needs_grad(weir_relu(x)));
    CHECK_OK(weir_no_grad_end(d));
    CHECK(weir_tensor_needs_grad(weir_relu(x)));
    weir_release(x);
    weir_device_close(d);
}
