/* planning_progress.c - planning tells how far it is and stops when it is told to; plans don't
 * depend on it. */
#include "graph/fixture.h"
#include "graph/train.h"

typedef struct told {
    uint64_t calls, stop_at;            /* stop_at 0: never */
    uint64_t plans;
    size_t   best;
    double   seconds;
    unsigned parts;                     /* a bit for each part that was met */
    bool     ordered;                   /* counts and time never fell */
} told;

static const char *const part[] = {"passes", "kernels", "search", "placement"};

static bool note(void *context, const weir_progress *p)
{
    told *const t = context;

    for (unsigned i = 0; i < ARRAY_LENGTH(part); i++)
        if (strcmp(p->phase, part[i]) == 0)
            t->parts |= 1u << i;
    t->ordered = t->ordered && p->seconds >= t->seconds && p->plans >= t->plans &&
                 p->fraction <= 1 && (p->fraction >= 0 || p->fraction == -1);
    t->seconds = p->seconds;
    t->plans = p->plans;
    t->best = p->best_bytes ? p->best_bytes : t->best;
    return ++t->calls != t->stop_at;
}

/* Text of the plan of the trainer's step, which is planned now; NULL if that fails. */
static char *plan_of(train *t, weir_status *status)
{
    *status = train_step(t, 0);
    return *status == WEIR_OK ? weir_graph_text(weir_step_graph(t->step), WEIR_TEXT_PLAN) : NULL;
}

static weir_status open_net(train *t, const char *budget, const char *policy)
{
    const weir_step_options how = {.graph = true,
                                   .plan = {.budget = budget, .policy = policy}};
    return train_open(t, TRAIN_DIGITS, 16, 0, &how);
}

CASE(planning_tells_how_far_it_is)
{
    told        met = {.ordered = true};
    train       t;
    weir_status status;

    CHECK_OR_RETURN(open_net(&t, "70%", NULL) == WEIR_OK);
    CHECK_OK(weir_device_set_progress(t.d, note, &met));
    char *const text = plan_of(&t, &status);
    CHECK(text && met.ordered && met.calls > 100 && met.plans > 100 && met.best > 0);
    CHECK(met.parts == (1u << 0 | 1u << 2 | 1u << 3));
    const uint64_t calls = met.calls;
    CHECK_OK(train_step(&t, 1));
    CHECK(met.calls == calls);          /* a run plans nothing */
    weir_text_free(text);
    train_close(&t);
}

CASE(timing_kernels_is_a_part)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = "96%", .measure = true}};
    told                    met = {.ordered = true};
    train                   t;

    CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
    CHECK_OK(weir_device_set_progress(t.d, note, &met));
    CHECK_OK(train_step(&t, 0));
    CHECK(met.parts & 1u << 1);
    train_close(&t);
}

/* Stops at a growing number of polls. The device is usable afterwards: the same step, planned again
 * without a callback, has the undisturbed plan; the harness looks for leaks. */
static void stop_everywhere(const char *budget, const char *policy)
{
    told        met = {.ordered = true};
    train       t;
    weir_status status;

    CHECK_OR_RETURN(open_net(&t, budget, policy) == WEIR_OK);
    char *const wanted = plan_of(&t, &status);
    train_close(&t);
    CHECK_OR_RETURN(wanted != NULL);
    CHECK_OR_RETURN(open_net(&t, budget, policy) == WEIR_OK);
    CHECK_OK(weir_device_set_progress(t.d, note, &met));
    char *const watched = plan_of(&t, &status);
    CHECK(watched && strcmp(watched, wanted) == 0);
    weir_text_free(watched);
    train_close(&t);
    for (uint64_t k = 1; k <= met.calls; k += 1 + 3 * k) {
        told stop = {.stop_at = k, .ordered = true};
        CHECK_OR_RETURN(open_net(&t, budget, policy) == WEIR_OK);
        CHECK_OK(weir_device_set_progress(t.d, note, &stop));
        char *text = plan_of(&t, &status);
        CHECK(!text && status == WEIR_ERR_CANCELLED && stop.calls == k);
        CHECK_TEXT(weir_error(), "planning was stopped by its progress callback");
        CHECK_OK(weir_device_set_progress(t.d, NULL, NULL));
        text = plan_of(&t, &status);
        if (!CHECK(text && strcmp(text, wanted) == 0))
            printf("    stopped at poll %llu: another plan\n", (unsigned long long)k);
        weir_text_free(text);
        train_close(&t);
    }
    weir_text_free(wanted);
}

CASE(a_stop_at_any_poll_leaves_the_device_as_it_was)
{
    stop_everywhere("70%", NULL);
    stop_everywhere(NULL, NULL);
}

CASE(a_stop_in_any_policy)
{
    static const char *const policy[] = {"mincut", "dtr", "sublinear"};

    for (size_t i = 0; i < ARRAY_LENGTH(policy); i++)
        stop_everywhere("96%", policy[i]);
}

CASE(closed_device)
{
    train t;

    CHECK_OR_RETURN(open_net(&t, NULL, NULL) == WEIR_OK);
    weir_error_clear();
    CHECK_STATUS(weir_device_set_progress(NULL, note, NULL), WEIR_ERR_INVALID);
    weir_device_close(t.d);
    CHECK_STATUS(weir_device_set_progress(t.d, note, NULL), WEIR_ERR_DEVICE);
    t.d = NULL;
    train_close(&t);
}
