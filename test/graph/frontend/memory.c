/* memory.c - elements written and looked at from outside: assignment, results that become states,
 * where elements lie. Graph off and on. */
#include "graph/fixture.h"

/* ---- assignment ---- */

/* Every pair of types, as weir_cast converts, into a tensor never written before. */
CASE(assign_converts_between_all_types)
{
    for (int from = WEIR_F32; from <= WEIR_BOOL; from++)
        for (int to = WEIR_F32; to <= WEIR_BOOL; to++) {
            weir_device *d = fixture_open();
            const float  v[6] = {0, 1, 2.75f, 3, 100, 77};
            weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, 2, 3));
            CHECK_OK(weir_write(x, v, sizeof v));
            weir_tensor *a = weir_cast(x, (weir_dtype)from), *want = weir_cast(a, (weir_dtype)to);
            weir_tensor *s = weir_state(d, weir_2d((weir_dtype)to, 2, 3), "s");
            double       got[6], right[6];
            CHECK_OK(weir_assign(s, a));
            CHECK_OK(weir_read(weir_cast(s, WEIR_F64), got, sizeof got));
            CHECK_OK(weir_read(weir_cast(want, WEIR_F64), right, sizeof right));
            CHECK_BITS(got, right, sizeof got);
            weir_release(x);
            weir_release(s);
            weir_device_close(d);
        }
}

/* Recorded in order: reads before the assignment get the old value, reads after it the new one. */
CASE(assign_is_recorded_in_its_turn)
{
    for (int level = -1; level < 2; level++) {
        weir_device *d = fixture_open();
        weir_tensor *s = fixture_state(d, 2, (float[]){1, 2}),
                    *x = fixture_input(d, 2, (float[]){5, 6});
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *before = weir_keep(weir_affine(s, 1, 0));
        CHECK_OK(weir_assign(s, weir_affine(weir_add(s, x), 10, 0)));
        weir_tensor *after = weir_keep(weir_affine(s, 1, 0));
        CHECK_OK(weir_assign(s, weir_fill(d, weir_scalar(WEIR_F64), 3)));
        CHECK(fixture_finish(g, &(weir_plan_options){.level = level}));
        CHECK(fixture_value(before) == 1 && fixture_value(after) == 60 && fixture_value(s) == 3);
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(before) == 3 && fixture_value(after) == 80 && fixture_value(s) == 3);
        weir_graph_free(g);
        weir_release(s);
        weir_release(x);
        weir_device_close(d);
    }
}

/* An unwritten state may be assigned to, but not read, first. */
CASE(assign_to_what_was_never_written)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        weir_device *d = fixture_open();
        weir_tensor *s = weir_state(d, weir_1d(WEIR_F32, 2), "s");
        weir_tensor *x = fixture_input(d, 2, (float[]){5, 6});
        weir_graph  *g = weir_graph_begin(d);
        if (wrong)
            weir_keep(weir_exp(s));
        CHECK_OK(weir_assign(s, x));
        weir_tensor *y = weir_keep(weir_affine(s, 2, 0));
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_STATUS(weir_graph_run(g), wrong ? WEIR_ERR_STATE : WEIR_OK);
        if (wrong)
            CHECK_TEXT(weir_error(), "never been written");
        else
            CHECK(fixture_value(s) == 5 && fixture_value(y) == 10);
        weir_graph_free(g);
        weir_release(s);
        weir_release(x);
        weir_device_close(d);
    }
}

CASE(assign_mistakes)
{
    weir_device *d = fixture_open();
    weir_tensor *s = fixture_state(d, 2, (float[]){1, 2}), *x = fixture_input(d, 3, NULL);

    CHECK_STATUS(weir_assign(s, x), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "assign: input 1 does not broadcast to input 0");
    CHECK_STATUS(weir_assign(weir_affine(s, 1, 0), s), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "not a result or a view");
    CHECK_STATUS(weir_assign(s, weir_reshape(s, 2, (int64_t[]){1, 2})), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "share memory");
    CHECK_STATUS(weir_assign(s, NULL), weir_error_status());
    CHECK_STATUS(weir_assign(NULL, s), weir_error_status());
    CHECK(fixture_value(s) == 1);
    weir_release(s);
    weir_release(x);
    weir_device_close(d);
}

/* ---- results that become states ---- */

static size_t persistent(const weir_device *d)
{
    weir_memory m;
    weir_device_memory(d, &m);
    return m.persistent;
}

/* Updated at once and by runs of a graph, seen through an earlier view, counted, given back. */
CASE(a_result_becomes_a_state)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2});
    const size_t before = persistent(d);

    weir_tensor *r = weir_retain(weir_affine(x, 10, 0));
    weir_tensor *view = weir_retain(weir_reshape(r, 2, (int64_t[]){1, 2}));
    CHECK_OK(weir_scope_clear(d));
    CHECK(persistent(d) == before);
    CHECK_STATUS(weir_increment(r, 1), WEIR_ERR_INVALID);
    CHECK_OK(weir_tensor_make_state(r));
    CHECK(persistent(d) == before + fixture_bytes_taken(d, 8));
    CHECK_OK(weir_increment(r, 1));
    CHECK(fixture_value(r) == 11 && fixture_value(view) == 11);
    CHECK_OK(weir_tensor_make_state(r));                /* it stays one */
    CHECK(persistent(d) == before + fixture_bytes_taken(d, 8));

    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_increment(r, 100));
    weir_tensor *y = weir_keep(weir_affine(r, 2, 0));
    CHECK(fixture_finish(g, NULL));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(r) == 211 && fixture_value(view) == 211 && fixture_value(y) == 422);
    CHECK_OK(weir_write(r, (float[]){7, 8}, 8));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 214);
    weir_graph_free(g);
    weir_release(r);
    weir_release(view);
    CHECK(persistent(d) == before);
    weir_release(x);
    weir_device_close(d);
}

/* A graph that was recorded before reads the same memory. */
CASE(a_planned_graph_sees_the_updates)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2}), *r = weir_affine(x, 10, 0);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_affine(r, 2, 0));

    CHECK(fixture_finish(g, NULL));
    CHECK_OK(weir_tensor_make_state(r));
    CHECK_OK(weir_increment(r, 1));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 22);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(what_cannot_become_a_state)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, (float[]){1, 2}), *h = weir_hollow(x);

    CHECK_OK(weir_tensor_make_state(x));
    CHECK_STATUS(weir_tensor_make_state(weir_exp(x)), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "a gradient flows through");
    weir_tensor *r = weir_copy(weir_detach(x));
    CHECK_STATUS(weir_tensor_make_state(weir_broadcast_to(r, weir_2d(WEIR_F32, 3, 2))),
                 WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "f32(3,2) is a view");
    CHECK_STATUS(weir_tensor_make_state(h), WEIR_ERR_STATE);
    CHECK_STATUS(weir_tensor_make_state(NULL), weir_error_status());
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_detach(weir_exp(x)));
    CHECK_STATUS(weir_tensor_make_state(y), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "the result of a graph");
    CHECK(fixture_finish(g, NULL));
    CHECK_STATUS(weir_tensor_make_state(y), WEIR_ERR_STATE);
    CHECK_OK(weir_tensor_make_state(weir_copy(y)));
    weir_graph_free(g);
    weir_release(h);
    weir_release(x);
    weir_device_close(d);
}

/* ---- where elements lie ---- */

/* Element (n, c, h, w) through the strides is element i of the row-major host order. */
CASE(memory_of_an_image)
{
    if (!check_on_cpu())        /* no other device's memory can be looked at */
        return;
    weir_device *d = fixture_open();
    weir_tensor *x = weir_input(d, weir_4d(WEIR_F32, 2, 3, 4, 5));
    float        v[120], back[120];
    void        *at;
    int64_t      s[WEIR_MAX_DIMS];

    check_floats(v, 120, -1, 1);
    CHECK_OK(weir_write(x, v, sizeof v));
    CHECK_OK(weir_tensor_memory(x, &at, s));
    CHECK_OR_RETURN(at != NULL);
    for (int i = 0; i < 120; i++) {
        float *const e = (float *)at + i / 60 * s[0] + i / 20 % 3 * s[1] + i / 5 % 4 * s[2] +
                         i % 5 * s[3];
        CHECK(*e == v[i]);
        *e = (float)i;
    }
    CHECK_OK(weir_read(x, back, sizeof back));
    for (int i = 0; i < 120; i++)
        CHECK(back[i] == (float)i);
    weir_tensor *turned = weir_transpose(x, NULL);
    int64_t      t[WEIR_MAX_DIMS];
    void        *same;
    CHECK_OK(weir_tensor_memory(turned, &same, t));
    CHECK(same == at && t[0] == s[3] && t[1] == s[2] && t[2] == s[1] && t[3] == s[0]);
    weir_release(x);
    weir_device_close(d);
}

/* Untouched memory is zero, and written then; a view begins where its first element lies. */
CASE(memory_that_nothing_has_written)
{
    if (!check_on_cpu())        /* no other device's memory can be looked at */
        return;
    weir_device *d = fixture_open();
    weir_tensor *s = weir_state(d, weir_1d(WEIR_F32, 6), "s"), *part[2];
    weir_tensor *none = weir_input(d, weir_2d(WEIR_F32, 0, 4));
    void        *at, *second;
    int64_t      stride[WEIR_MAX_DIMS];

    CHECK_OK(weir_tensor_memory(s, &at, stride));
    for (int i = 0; i < 6; i++)
        CHECK(((const float *)at)[i] == 0);
    ((float *)at)[4] = 9;
    CHECK_OK(weir_split(s, 0, 2, (int64_t[]){4, 2}, part));
    CHECK_OK(weir_tensor_memory(part[1], &second, stride));
    CHECK(second == (char *)at + 16 && fixture_value(part[1]) == 9);
    CHECK_OK(weir_tensor_memory(none, &at, stride));
    weir_release(none);
    weir_release(s);
    weir_device_close(d);
}

/* Results: at once; of a graph once it is planned, before its first run too; never in the arena. */
CASE(memory_of_results)
{
    if (!check_on_cpu())        /* no other device's memory can be looked at */
        return;
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2});
    void        *at = NULL, *later = NULL;
    int64_t      stride[WEIR_MAX_DIMS];
    float        v[2];

    CHECK_OK(weir_tensor_memory(weir_affine(x, 3, 0), &at, stride));
    CHECK(((const float *)at)[1] == 6 && stride[0] == 1);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_affine(x, 3, 0));
    CHECK_STATUS(weir_tensor_memory(y, &at, stride), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_keep it before weir_graph_end");
    CHECK(at == NULL);
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_tensor_memory(y, &at, stride));
    CHECK_STATUS(weir_read(y, v, sizeof v), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_tensor_memory(y, &later, stride));
    CHECK(later == at && ((const float *)at)[1] == 6);
    weir_tensor *h = weir_hollow(y);
    CHECK_STATUS(weir_tensor_memory(h, &at, stride), WEIR_ERR_STATE);
    CHECK_STATUS(weir_tensor_memory(y, NULL, stride), weir_error_status());
    CHECK_STATUS(weir_tensor_memory(NULL, &at, stride), weir_error_status());
    weir_release(h);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}
