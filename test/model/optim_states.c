/* optim_states.c - sums of gradients where memory runs out. */
#include "check.h"
#include "core/mem.h"
#include "weir.h"

enum { N = 3 };

typedef struct accumulation {
    weir_device *dev;
    weir_tensor *w[2];
    weir_optim  *optim;
} accumulation;

static accumulation accumulation_new(void)
{
    accumulation a = {.dev = weir_device_open(check_device(), NULL)};

    a.optim = weir_sgd_new(a.dev, 0.5, &(weir_sgd_options){.weight_decay = 0.25});
    for (int i = 0; i < 2; i++) {
        a.w[i] = weir_param(a.dev, weir_1d(WEIR_F32, N), i == 0 ? "a" : "b");
        CHECK_OK(weir_write_fill(a.w[i], 1 + i));
    }
    return a;
}

static void accumulation_free(accumulation *a)
{
    for (int i = 0; i < 2; i++)
        weir_release(a->w[i]);
    weir_optim_free(a->optim);
    weir_device_close(a->dev);
}

/* Adds the gradients 2 w of sum(w^2). */
static weir_status add_gradients(const accumulation *a)
{
    weir_status s = weir_scope_begin(a->dev);

    if (s != WEIR_OK)
        return s;
    weir_tensor *const loss = weir_add(weir_sum(weir_square(a->w[0]), 0, false),
                                       weir_sum(weir_square(a->w[1]), 0, false));
    s = loss ? weir_optim_accumulate(a->optim, loss) : weir_error_status();
    const weir_status end = weir_scope_end(a->dev);
    return s == WEIR_OK ? end : s;
}

/* Whether both parameters are `start` times w0: w - 0.5 (2 k w + 0.25 w) after k sums. */
static bool are(const accumulation *a, float times)
{
    float v[2][N];

    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_read(a->w[i], v[i], sizeof v[i]));
        for (int k = 0; k < N; k++)
            if (v[i][k] != (float)(1 + i) * times)
                return false;
    }
    return true;
}

/* Whichever allocation of an accumulation fails: apply adds whole gradients, or is refused once and
 * changes no parameter. */
CASE(failing_memory_tears_no_sum)
{
    int refused = 0, kept = 0;

    for (int before = 0; before < 2; before++) {
        bool failed = true;
        for (int64_t n = 0; failed && n < 300; n++) {
            accumulation a = accumulation_new();
            if (before)
                CHECK_OK(add_gradients(&a));
            weir_mem_fail_nth(n, false);
            weir_status s = add_gradients(&a);
            failed = weir_mem_failed();
            weir_mem_fail_nth(-1, false);
            const bool good = s == WEIR_OK;     /* some failures only make a later call slower */
            CHECK(good || (failed && s == WEIR_ERR_NOMEM));
            s = weir_optim_apply(a.optim);
            if (s == WEIR_OK) {
                const int sums = before + good;
                CHECK(sums > 0 && are(&a, 1 - 0.5f * (2 * (float)sums + 0.25f)));
                kept += !good;
            } else {
                CHECK_STATUS(s, WEIR_ERR_STATE);
                CHECK(are(&a, 1));
                refused += strstr(weir_error(), "is discarded") != NULL;
                CHECK_OK(add_gradients(&a));
                CHECK_OK(weir_optim_apply(a.optim));
                CHECK(are(&a, 1 - 0.5f * 2.25f));
            }
            accumulation_free(&a);
        }
    }
    CHECK(refused > 0 && kept > 0);
}
