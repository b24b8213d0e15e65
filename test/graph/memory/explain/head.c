/* head.c - the numbers of an explanation's head agree with the plan, and no proven floor is above a
 * peak that some policy reaches. $WEIR_TEST_COUNT: policies for each network. */
#include "graph/train.h"
#include "temp_folder.h"

typedef struct head {
    size_t live, planned, budget, floor; /* bytes */
    double extra, least;                 /* ms; 0 where the text names none */
} head;

/* Reads the number after `label` in the head of the text; `absent` if the head lacks the label. */
static double number_after(const char *text, const char *label, double absent)
{
    const char *const end = strstr(text, "\n\n"), *const at = strstr(text, label);
    double            value = absent;

    if (at && end && at < end)
        CHECK(sscanf(at + strlen(label), " %lf", &value) == 1);
    return value;
}

static bool read_head(const char *text, head *h)
{
    const char *const extra = strstr(text, " ms, ");

    if (!CHECK(extra != NULL))
        return false;
    *h = (head){.live = (size_t)number_after(text, "\n  peak ", 0),
                .budget = (size_t)number_after(text, "\n  budget ", 0),
                .floor = (size_t)number_after(text, "\n  floor ", -1),
                .extra = number_after(extra, " ms, ", -1),
                .least = number_after(text, " has less than ", 0)};
    const char *const gaps = strstr(text, " with gaps between addresses");
    if (CHECK(gaps != NULL)) {
        const char *at = gaps;
        while (at > text && at[-1] >= '0' && at[-1] <= '9')
            at--;
        h->planned = (size_t)strtoull(at, NULL, 10);
    }
    return true;
}

/* The text rounds times to 0.1 microseconds. */
static bool in_order(const head *h)
{
    return CHECK(h->floor <= h->live && h->live <= h->planned &&
                 (!h->budget || h->planned <= h->budget) && h->least <= h->extra + 2e-4);
}

/* ---- recorded steps ---- */

/* The smallest peak that a policy reached for one network, and the largest floor that was named. */
typedef struct extremes {
    size_t reached, floor;
} extremes;

static void note(extremes *x, size_t peak, size_t floor)
{
    x->reached = peak < x->reached ? peak : x->reached;
    x->floor = floor > x->floor ? floor : x->floor;
}

static bool explained(const train *t, extremes *x)
{
    const weir_graph *const g = weir_step_graph(t->step);
    weir_graph_stats        s;
    head                    h;
    char *const             text = weir_graph_text(g, WEIR_TEXT_EXPLAIN);

    CHECK_OK(weir_graph_stats_of(g, &s));
    const bool ok = CHECK(text != NULL) && read_head(text, &h) && in_order(&h) &&
                    CHECK(h.planned == s.planned_peak_bytes && h.budget == s.budget_bytes &&
                          fabs(h.extra - s.extra_ms) < 1e-3);
    if (ok)
        note(x, s.planned_peak_bytes, h.floor);
    weir_text_free(text);
    return ok;
}

/* "...: the smallest that works is 1234 (...); no plan of any kind needs less than 1000" */
static bool refused(extremes *x)
{
    const char *const works = strstr(weir_error(), "the smallest that works is ");
    const char *const least = strstr(weir_error(), "needs less than ");
    size_t            peak = 0, floor = SIZE_MAX;

    CHECK_STATUS(weir_error_status(), WEIR_ERR_BUDGET);
    if (!CHECK(works && least))
        return false;
    CHECK(sscanf(works, "the smallest that works is %zu", &peak) == 1);
    CHECK(sscanf(least, "needs less than %zu", &floor) == 1);
    note(x, peak, floor);
    return CHECK(floor <= peak);
}

static void check_step(train_net net, const weir_plan_options *o, extremes *x)
{
    train t;
    bool  ok = true;

    CHECK_OR_RETURN(train_open(&t, net, net == TRAIN_POOLED ? 2 : 16, 0,
                               &(weir_step_options){.graph = true, .plan = *o}) == WEIR_OK);
    for (int run = 0; run < 1 + o->profile_steps && ok; run++) {
        if (train_step(&t, run) != WEIR_OK) {
            ok = refused(x);
            break;
        }
        ok = explained(&t, x);
    }
    if (!ok)
        printf("    %s, budget %s, by %s, %d steps measured\n", train_name[net],
               o->budget ? o->budget : "none", o->policy ? o->policy : "auto", o->profile_steps);
    train_close(&t);
}

CASE(heads_agree_with_plans_of_recorded_steps)
{
    static const train_net   nets[] = {TRAIN_MLP, TRAIN_DIGITS, TRAIN_LENET, TRAIN_POOLED};
    static const char *const policies[] = {"auto", "auto:recompute", "auto:swap", "recycle", "dtr",
                                           "checkpoint", "vdnn", "mincut"};
    static const char *const budgets[] = {"95%", "80%", "65%", "50%", "30%"};
    const char *const        asked = getenv("WEIR_TEST_COUNT");
    const size_t             count = asked && *asked ? (size_t)atoi(asked) : 2;

    for (size_t n = 0; n < ARRAY_LENGTH(nets); n++) {
        extremes x = {.reached = SIZE_MAX};
        check_step(nets[n], &(weir_plan_options){.budget = NULL}, &x);
        for (size_t i = 0; i < count; i++)
            for (size_t b = 0; b < ARRAY_LENGTH(budgets); b++)
                check_step(nets[n], &(weir_plan_options){
                    .budget = budgets[b], .profile_steps = b == 1 ? 2 : 0,
                    .policy = policies[i ? 1 + (i - 1 + n) % (ARRAY_LENGTH(policies) - 1) : 0]},
                           &x);
        if (!CHECK(x.floor <= x.reached))
            printf("    %s: floor %zu, but a policy reaches %zu\n", train_name[nets[n]], x.floor,
                   x.reached);
    }
}

/* ---- step files ---- */

#ifdef WEIR_JANSSON
static void check_file(const weir_stepfile *o, const weir_stepfile_options *how, extremes *x)
{
    char                    *text = NULL, *svg = NULL;
    weir_stepfile_options    by = *how;
    weir_stepfile_plan_stats s;
    weir_stepfile_check_stats v;
    head                     h;

    by.moves = 100;
    by.explain = &text;
    by.picture = &svg;
    char *const plan = weir_stepfile_plan(o, &by, &s);
    if (plan && CHECK(text && svg) && read_head(text, &h)) {
        if (!in_order(&h) || !CHECK(h.live == s.live_bytes && h.planned == s.peak_bytes &&
                                    h.floor == s.floor_bytes && h.budget == s.budget_bytes))
            printf("    budget %s, by %s, link %g\n", by.budget, by.policy, by.link_out);
        folder f;
        if (CHECK(folder_make(&f))) {
            CHECK_OK(weir_stepfile_check(o, file_text(&f, 0, plan), &by, &v));
            CHECK(v.peak_bytes == s.peak_bytes && v.live_bytes <= s.live_bytes);
            folder_remove(&f);
        }
    }
    note(x, s.peak_bytes, s.floor_bytes);
    weir_text_free(plan);
    weir_text_free(text);
    weir_text_free(svg);
}

CASE(heads_agree_with_plans_of_step_files)
{
    static const char *const files[] = {WEIR_TEST_DIR "/data/chain.json",
                                        WEIR_TEST_DIR "/data/levers.json"};
    static const char *const policies[] = {"auto", "mincut", "dtr", "recycle", "gist"};
    static const char *const budgets[] = {NULL, "90%", "70%", "50%", "30%"};

    for (size_t f = 0; f < ARRAY_LENGTH(files); f++)
        for (int link = 0; link < 2; link++) {
            weir_stepfile *const o = weir_stepfile_read(files[f]);
            extremes             x = {.reached = SIZE_MAX};
            for (size_t i = 0; o && i < ARRAY_LENGTH(policies) * ARRAY_LENGTH(budgets); i++)
                check_file(o, &(weir_stepfile_options){.policy = policies[i % 5],
                                                       .budget = budgets[i / 5],
                                                       .link_out = link, .link_in = link}, &x);
            if (!CHECK(o && x.floor <= x.reached))
                printf("    %s: floor %zu, but a policy reaches %zu\n", files[f], x.floor,
                       x.reached);
            weir_stepfile_free(o);
        }
}
#endif
