/* reorder.c - steps in another order mean the same, and need no more memory. */
#include "graph/memory/search/reorder.h"

#include "core/text.h"
#include "graph/memory/policies/policy.h"
#include "temp_folder.h"
#include "graph/memory/problems.h"
#include "weir/plan.h"

/* How often task i's input k has been overwritten by tasks without results before it. */
static uint32_t version(const weir_problem *p, uint32_t i, uint32_t piece)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < i; j++)
        n += p->tasks.at[j].out.n == 0 && weir_among(p, p->tasks.at[j].changes, piece);
    return n;
}

/* Is it right to run task i anew when tasks up to `end` ran? All it reads is as it was then. */
static bool same_again(const weir_problem *p, uint32_t i, uint32_t end)
{
    const weir_task *t = &p->tasks.at[i];

    for (uint32_t k = 0; k < t->in.n - t->only; k++) {
        const uint32_t piece = weir_refs(p, t->in)[k];
        if (weir_piece_resident(p, piece) && version(p, i, piece) != version(p, end, piece))
            return false;
    }
    return true;
}

static size_t peak(const weir_problem *p)
{
    weir_policy_job job = {.p = p, .room = SIZE_MAX, .variant = ""};

    CHECK_OK(weir_policy_recycle(&job));
    const size_t bytes = job.s.peak;
    weir_schedule_free(&job.s);
    return bytes;
}

/* Every task reads what it read before: the pieces made by then, the versions of the others. */
static void check_meaning(const weir_problem *p, const weir_problem *q, const uint32_t *order)
{
    CHECK_OR_RETURN(q->tasks.n == p->tasks.n && q->pieces.n == p->pieces.n);
    for (uint32_t i = 0; i < q->tasks.n; i++) {
        const weir_task *t = &q->tasks.at[i], *was = &p->tasks.at[order[i]];
        CHECK(t->time == was->time && t->work == was->work && t->in.n == was->in.n);
        for (uint32_t k = 0; k < t->in.n; k++) {
            const uint32_t piece = weir_refs(q, t->in)[k], maker = q->pieces.at[piece].maker;
            CHECK(piece == weir_refs(p, was->in)[k]);
            CHECK(maker == WEIR_NO_TASK || maker < i);
            CHECK(version(q, i, piece) == version(p, order[i], piece));
        }
        if (t->out.n && t->until > i)
            CHECK(same_again(q, i, t->until));
        CHECK(was->until > 0 || t->until == 0);
    }
}

/* A step of n tasks with much freedom: each reads a few pieces, resident ones (the first four) and
 * others; every third is an update that overwrites a resident one. */
static void make_loose(weir_problem *p, uint32_t n)
{
    enum { RESIDENT = 4 };

    *p = (weir_problem){0};
    for (uint32_t k = 0; k < RESIDENT; k++)
        CHECK(weir_problem_piece(p, 64, 0, false));
    for (uint32_t i = 0; i < n; i++) {
        const bool     update = i % 3 == 2;
        const uint32_t out = p->pieces.n, in[3] = {below(out), below(out), below(RESIDENT)};
        const weir_task_def def = {
            .time = 1.0 + below(9), .until = update ? 0 : n, .nin = 3, .in = in,
            .nout = !update, .out = &out, .nchanges = update, .changes = &in[2]};
        CHECK(update || weir_problem_piece(p, 64 * (1 + below(16)), 0, below(8) == 0));
        CHECK(weir_problem_task(p, &def));
    }
    CHECK(weir_problem_end(p));
}

CASE(random_steps_mean_the_same)
{
    uint32_t moved = 0;

    for (int round = 0; round < 200; round++) {
        weir_problem p, q;
        uint32_t     order[MOST_TASKS], times[MOST_TASKS] = {0};
        bool         better;
        make_loose(&p, (uint32_t)check_int(6, MOST_TASKS));
        CHECK_OR_RETURN(weir_problem_reorder(&p, &q, order, &better));
        for (uint32_t i = 0; i < p.tasks.n; i++)
            times[order[i]]++;
        for (uint32_t i = 0; i < p.tasks.n; i++) {
            CHECK(times[i] == 1);
            moved += order[i] != i;
        }
        check_meaning(&p, &q, order);
        CHECK(better == (peak(&q) <= peak(&p)));
        weir_problem_free(&p);
        weir_problem_free(&q);
    }
    CHECK(moved > 0);
}

#ifdef WEIR_JANSSON
enum { LAYERS = 8, BYTES = 1000 };

/* A chain whose gradients all wait for the updates behind it. */
static char *late_updates(void)
{
    weir_string s = {0};

    weir_string_add(&s, "{\"tensors\": [");
    for (int i = 0; i < LAYERS; i++)
        weir_string_add(&s, "{\"id\": %d, \"bytes\": %d, \"kind\": \"param\"},"
                        "{\"id\": %d, \"bytes\": %d, \"kind\": \"gradient\"},"
                        "{\"id\": %d, \"bytes\": 8, \"kind\": \"gradient\"},", i, BYTES, 100 + i,
                        BYTES, 200 + i);
    weir_string_add(&s, "{\"id\": 300, \"bytes\": 8, \"kind\": \"input\"}], \"ops\": [");
    for (int i = 0; i < LAYERS; i++)
        weir_string_add(&s, "{\"id\": %d, \"time_us\": 1, \"inputs\": [%d, %d], \"outputs\": "
                        "[%d, %d]},", i, i, i ? 199 + i : 300, 100 + i, 200 + i);
    for (int i = 0; i < LAYERS; i++)
        weir_string_add(&s, "%s{\"id\": %d, \"time_us\": 1, \"inputs\": [%d, %d], "
                        "\"outputs\": [], \"mutates\": [%d]}", i ? "," : "", LAYERS + i, i,
                        100 + i, i);
    weir_string_add(&s, "]}");
    return weir_string_take(&s);
}

/* Plans within the budget by the policy, and has the plan judged. */
static bool plans(const folder *f, const weir_outline *o, const char *policy, const char *budget)
{
    const weir_outline_options how = {.budget = budget, .policy = policy};
    weir_outline_plan_stats    s;
    weir_outline_verdict       v;
    char *const                text = weir_outline_plan(o, &how, &s);

    if (!text)
        return false;
    CHECK_OK(weir_outline_check(o, file_write(f, 1, text, strlen(text)), &how, &v));
    CHECK(v.peak_bytes <= s.budget_bytes && s.extra_ms == 0);
    weir_text_free(text);
    return true;
}

CASE(updates_need_not_wait)
{
    folder      f;
    char *const text = late_updates();

    CHECK_OR_RETURN(text && folder_make(&f));
    weir_outline *const o = weir_outline_read(file_write(&f, 0, text, strlen(text)));
    CHECK_OR_RETURN(o != NULL);
    CHECK(plans(&f, o, "auto", "60%"));             /* all parameters and one gradient: 9 of 16 */
    CHECK(plans(&f, o, "auto:order", "60%"));
    CHECK(!plans(&f, o, "auto:recompute", "60%"));  /* in the given order gradients all wait: */
    CHECK(!plans(&f, o, "recycle", "60%"));         /* making one anew takes another of its kind */
    weir_outline_free(o);
    weir_mem_free(text);
    folder_remove(&f);
}
#endif
