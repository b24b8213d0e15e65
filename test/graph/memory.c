/* memory.c - elements written and looked at from outside: assignment, results that become states,
 * where elements lie. Graph off and on. */
#include "lab.h"

/* ---- assignment ---- */

/* Every pair of types, as weir_cast converts, into a tensor never written before. */
CASE(assign_converts_between_all_types)
{
    for (int from = WEIR_F32; from <= WEIR_BOOL; from++)
        for (int to = WEIR_F32; to <= WEIR_BOOL; to++) {
            weir_device *d = lab_open();
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

/* In its turn: what was read before keeps the old value, what is read after has the new one. */
CASE(assign_is_recorded_in_its_turn)
{
    for (int level = -1; level < 2; level++) {
        weir_device *d = lab_open();
        weir_tensor *s = lab_state(d, 2, (float[]){1, 2}), *x = lab_input(d, 2, (float[]){5, 6});
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *before = weir_keep(weir_affine(s, 1, 0));
        CHECK_OK(weir_assign(s, weir_affine(weir_add(s, x), 10, 0)));
        weir_tensor *after = weir_keep(weir_affine(s, 1, 0));
        CHECK_OK(weir_assign(s, weir_fill(d, weir_scalar(WEIR_F64), 3)));
        CHECK(lab_finish(g, &(weir_plan_options){.level = level}));
        CHECK(lab_value(before) == 1 && lab_value(after) == 60 && lab_value(s) == 3);
        CHECK_OK(weir_graph_run(g));
        CHECK(lab_value(before) == 3 && lab_value(after) == 80 && lab_value(s) == 3);
        weir_graph_free(g);
        weir_release(s);
        weir_release(x);
        weir_device_close(d);
    }
}

/* A state that nothing has written may be assigned first, but not read first. */
CASE(assign_to_what_was_never_written)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        weir_device *d = lab_open();
        weir_tensor *s = weir_state(d, weir_1d(WEIR_F32, 2), "s");
        weir_tensor *x = lab_input(d, 2, (float[]){5, 6});
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
            CHECK(lab_value(s) == 5 && lab_value(y) == 10);
        weir_graph_free(g);
        weir_release(s);
        weir_release(x);
        weir_device_close(d);
    }
}

CASE(assign_mistakes)
{
    weir_device *d = lab_open();
    weir_tensor *s = lab_state(d, 2, (float[]){1, 2}), *x = lab_input(d, 3, NULL);

    CHECK_STATUS(weir_assign(s, x), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "assign: input 1 does not broadcast to input 0");
    CHECK_STATUS(weir_assign(weir_affine(s, 1, 0), s), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "not a result or a view");
    CHECK_STATUS(weir_assign(s, weir_reshape(s, 2, (int64_t[]){1, 2})), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "share memory");
    CHECK_STATUS(weir_assign(s, NULL), weir_error_status());
    CHECK_STATUS(weir_assign(NULL, s), weir_error_status());
    CHECK(lab_value(s) == 1);
    weir_release(s);
    weir_release(x);
    weir_device_close(d);
}
