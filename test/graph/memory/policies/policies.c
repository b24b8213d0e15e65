/* policies.c - every policy: valid schedules for random steps, the claims of its paper on chains,
 * failures. */
#include <math.h>

#include "core/mem.h"
#include "graph/memory/policies.h"
#include "graph/memory/problems.h"
#include "graph/memory/search/checkpoint_set.h"
#include "graph/memory/search/transfers.h"
#include "graph/memory/verify/check.h"

CASE(random_steps_at_many_budgets)
{
    policy_case  policies[MOST_POLICIES];
    const size_t n = policy_cases(policies);

    for (int round = 0; round < 60; round++) {
        weir_mem_problem p;
        weir_schedule    plain, s, same;
        make_problem_with(&p, 6 + below(MAX_OPS - 6), round % 3 ? 0 : 1 + below(3));
        p.link_out = 16 << below(10);
        p.link_in = 16 << below(10);
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        for (size_t i = 0; i < n; i++)
            for (size_t tenth = 0; tenth <= 10; tenth += 2) {
                const size_t limit = plain.peak * tenth / 10;
                CHECK_OK(plan_with(policies[i].name, &p, limit, &s));
                if (!CHECK(s.valid))
                    printf("    %s, round %d, %zu/10\n", policies[i].name, round, tenth);
                else if (s.copies == 0)
                    replay(&p, &s, s.peak);
                if (!CHECK_OK(weir_schedule_check(&s, NULL, 1, s.peak)))
                    printf("    %s, round %d, %zu/10\n", policies[i].name, round, tenth);
                CHECK_OK(plan_with(policies[i].name, &p, limit, &same));
                CHECK(same_events(&s, &same));
                const bool idle = s.recomputed == 0 && s.copies == 0;
                if (!policies[i].asked && !CHECK(s.peak <= plain.peak && (tenth < 10 || idle)))
                    printf("    %s, round %d, %zu/10: peak %zu of %zu, again %g\n",
                           policies[i].name, round, tenth, s.peak, plain.peak, s.recomputed);
                weir_schedule_free(&s);
                weir_schedule_free(&same);
            }
        weir_schedule_free(&plain);
        weir_mem_problem_free(&p);
    }
}

/* ---- chains ---- */

enum { UNIT = 64 };

/* A chain of n layers, each one second and one unit of bytes; the gradient of layer i reads the
 * gradient of layer i + 1 and the layer's input. */
static void make_chain(weir_mem_problem *p, uint32_t n)
{
    *p = (weir_mem_problem){0};
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t in[2], nin = 0;
        CHECK(weir_mem_problem_add_tensor(p, UNIT, 0, i + 1 == 2 * n));
        if (i > 0)
            in[nin++] = i - 1;
        if (i >= n && 2 * n - 1 - i > 0)
            in[nin++] = 2 * n - 1 - i - 1;
        const weir_mem_op_def def = {.time = 1,
                                     .rerun_before = 2 * n,
                                     .nin = nin,
                                     .in = in,
                                     .nout = 1,
                                     .out = &i,
                                     .phase = i < n ? WEIR_FORWARD : WEIR_BACKWARD};
        CHECK(weir_mem_problem_add_op(p, &def));
    }
    CHECK(weir_mem_problem_end(p));
}

/* "Memory cost O(sqrt n) at one extra forward pass." */
CASE(checkpoints_take_the_square_root)
{
    for (uint32_t root = 4; root <= 32; root *= 2) {
        const uint32_t   n = root * root;
        weir_mem_problem p;
        weir_schedule    s;
        make_chain(&p, n);
        CHECK_OK(plan_with("checkpoint:memory", &p, (2 * root + 2) * UNIT, &s));
        CHECK(s.valid && s.peak <= (2 * root + 2) * UNIT);
        CHECK(s.recomputed <= n && s.recomputed >= n - 3 * root);
        weir_schedule_free(&s);
        CHECK_OK(plan_with("checkpoint:memory", &p, SIZE_MAX, &s));
        CHECK(s.recomputed == 0 && s.peak == (n + 1) * UNIT);
        weir_schedule_free(&s);
        weir_mem_problem_free(&p);
    }
}

/* All segments but the last run again, except for the ops that make their last tensors. */
CASE(segments_are_counted)
{
    enum { N = 60 };
    weir_mem_problem p;

    make_chain(&p, N);
    for (uint32_t n = 1; n <= 12; n++) {
        weir_schedule s;
        char          name[32];
        if (N % n)
            continue;
        snprintf(name, sizeof name, "checkpoint:sequential=%u", n);
        CHECK_OK(plan_with(name, &p, 0, &s));
        CHECK(s.recomputed == (n - 1) * (N / n - 1));
        weir_schedule_free(&s);
    }
    weir_mem_problem_free(&p);
}

/* "DTR trains an n-layer linear network within a budget of the order of sqrt n with O(n)
 * operations": the runs per layer do not grow. */
CASE(dtr_takes_a_few_runs_per_layer)
{
    static const char *const names[] = {"dtr", "dtr:eq", "dtr_lookahead"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        for (uint32_t root = 8; root <= 32; root *= 2) {
            const uint32_t   n = root * root;
            weir_mem_problem p;
            weir_schedule    s;
            make_chain(&p, n);
            CHECK_OK(plan_with(names[i], &p, (2 * root + 2) * UNIT, &s));
            if (!CHECK(s.valid && s.peak <= (2 * root + 2) * UNIT && s.recomputed <= 2 * n))
                printf("    %s, %u layers: peak %zu units, %g again\n", names[i], n,
                       s.peak / UNIT, s.recomputed);
            weir_schedule_free(&s);
            weir_mem_problem_free(&p);
        }
}

/* Some gradient ops without dependencies may run early, some forward ops late. */
CASE(where_the_forward_pass_is_over)
{
    weir_mem_problem p;

    make_chain(&p, 8);
    CHECK(weir_forward_end(&p) == 8 && weir_forward_end_interval(&p, 3, 8) == 1 &&
          weir_forward_end_interval(&p, 7, 8) == 0);
    p.ops.at[2].phase = p.ops.at[3].phase = WEIR_BACKWARD;
    p.ops.at[13].phase = WEIR_FORWARD;
    CHECK(weir_forward_end(&p) == 8);
    for (uint32_t i = 0; i < p.ops.n; i++)
        p.ops.at[i].phase = WEIR_BACKWARD;
    CHECK(weir_forward_end(&p) == 0);
    weir_mem_problem_free(&p);
}

/* Cheap ops run again, convolutions do not. */
CASE(speed_keeps_what_is_dear)
{
    for (int round = 0; round < 20; round++) {
        weir_mem_problem p;
        weir_schedule    s;
        make_problem(&p, MAX_OPS);
        for (uint32_t i = 0; i < p.ops.n; i++)
            p.ops.at[i].rerun_before = p.ops.n;
        CHECK_OK(plan_with("checkpoint:speed", &p, 0, &s));
        for (uint32_t e = 0; e < s.events.n; e++)
            CHECK(!s.events.at[e].recomputed ||
                  p.ops.at[s.events.at[e].what].kind == WEIR_OP_CLASS_OTHER);
        weir_schedule_free(&s);
        weir_mem_problem_free(&p);
    }
}

/* ---- the host ---- */

/* A chain of n layers with a link that copies a tensor in `seconds`. */
static void make_linked_chain(weir_mem_problem *p, uint32_t n, double seconds)
{
    make_chain(p, n);
    p->link_out = p->link_in = UNIT / seconds;
}

static uint32_t count(const weir_schedule *s, weir_event_kind kind, uint32_t tensor)
{
    uint32_t n = 0;

    for (uint32_t e = 0; e < s->events.n; e++)
        n += s->events.at[e].kind == kind && s->events.at[e].what == tensor;
    return n;
}

/* Each input of a convolution is offloaded and prefetched once; nothing else is. */
CASE(vdnn_copies_what_convolutions_read)
{
    enum { N = 12 };
    weir_mem_problem p;
    weir_schedule    s;

    make_linked_chain(&p, N, 0.5);
    for (uint32_t i = 0; i < 2 * N; i += 3)
        p.ops.at[i].kind = WEIR_OP_CLASS_CONV;
    CHECK_OK(plan_with("vdnn:conv", &p, 0, &s));
    for (uint32_t k = 0; k < 2 * N; k++) {
        const bool conv = k + 1 < N && (k + 1) % 3 == 0;
        CHECK(count(&s, WEIR_EVENT_OFFLOAD, k) == conv &&
              count(&s, WEIR_EVENT_PREFETCH, k) == conv);
    }
    weir_schedule_free(&s);
    CHECK_OK(plan_with("vdnn:all", &p, 0, &s));
    for (uint32_t k = 0; k < 2 * N; k++)
        CHECK(count(&s, WEIR_EVENT_OFFLOAD, k) == (k + 1 < N) &&
              count(&s, WEIR_EVENT_PREFETCH, k) == (k + 1 < N));
    CHECK(s.recomputed == 0);
    weir_schedule_free(&s);
    weir_mem_problem_free(&p);
}

/* vdnn:dyn offloads no more than necessary. */
CASE(vdnn_goes_as_far_as_it_has_to)
{
    enum { N = 12 };
    weir_mem_problem p;
    weir_schedule    conv, all_maps, s;

    make_linked_chain(&p, N, 0.5);
    for (uint32_t i = 0; i < 2 * N; i += 3)
        p.ops.at[i].kind = WEIR_OP_CLASS_CONV;
    CHECK_OK(plan_with("vdnn:conv", &p, 0, &conv));
    CHECK_OK(plan_with("vdnn:all", &p, 0, &all_maps));
    CHECK(all_maps.peak < conv.peak && conv.peak < (N + 1) * UNIT);
    CHECK_OK(plan_with("vdnn", &p, (N + 1) * UNIT, &s));
    CHECK(s.copies == 0);
    weir_schedule_free(&s);
    CHECK_OK(plan_with("vdnn:dyn", &p, conv.peak, &s));
    CHECK(s.copies == conv.copies && s.peak == conv.peak);
    weir_schedule_free(&s);
    CHECK_OK(plan_with("vdnn:dyn", &p, all_maps.peak, &s));
    CHECK(s.copies == all_maps.copies && s.peak == all_maps.peak);
    weir_schedule_free(&s);
    weir_schedule_free(&conv);
    weir_schedule_free(&all_maps);
    weir_mem_problem_free(&p);
}

/* Three layers, copies of 3 seconds: offloads with run 1 (from 1 to 4) and run 2 (from 4 to 7),
 * which begins at 4; prefetches for run 3 (from 7 to 10) and with it for run 4 (from 10 to 13); run
 * 5 ends at 15. */
CASE(layers_of_vdnn_wait_for_copies)
{
    weir_mem_problem p;
    weir_schedule    s;

    make_linked_chain(&p, 3, 3);
    CHECK_OK(plan_with("vdnn:all", &p, SIZE_MAX, &s));
    if (!CHECK(s.time == 15))
        printf("    %g\n", s.time);
    weir_schedule_free(&s);
    weir_mem_problem_free(&p);
}

/* "Swapping is hidden first, recomputation comes after": with an infinitely fast link nothing is
 * recomputed, with a very slow one nothing is copied. */
CASE(links_without_end_and_links_that_hardly_move)
{
    static const char *const names[] = {"capuchin", "delta"};
    enum { N = 24 };

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        weir_mem_problem p;
        weir_schedule    s;
        make_linked_chain(&p, N, 1e-9);
        CHECK_OK(plan_with(names[i], &p, N / 2 * UNIT, &s));
        CHECK(s.peak <= N / 2 * UNIT && s.recomputed == 0 && s.copies > 0);
        CHECK(s.time < p.time + 1e-6);
        weir_schedule_free(&s);
        p.link_out = p.link_in = UNIT * 1e-9;
        CHECK_OK(plan_with(names[i], &p, N / 2 * UNIT, &s));
        if (!CHECK(s.peak <= N / 2 * UNIT && s.recomputed > 0 && s.copies == 0))
            printf("    %s: %zu units, %g again, %u copies\n", names[i], s.peak / UNIT,
                   s.recomputed, s.copies);
        weir_schedule_free(&s);
        weir_mem_problem_free(&p);
    }
}

/* One copy at a time in each direction: the step waits for late offloads and early prefetches. */
CASE(trips_share_a_link)
{
    const weir_transfer early = {.ready = 0, .due = 20, .from = 4, .to = 16, .out = 2, .in = 2};
    weir_transfer       more = early;
    weir_transfer_list  t = {0};

    CHECK(weir_transfer_list_wait(&t, NULL) == 0 && weir_transfer_list_wait(&t, &early) == 0);
    CHECK(weir_transfer_list_add(&t, &early) && weir_transfer_list_add(&t, &early));
    /* offload from 0 to 4, prefetch from 16 to 20 */
    CHECK(weir_transfer_list_wait(&t, NULL) == 0);
    /* offload until 6, prefetch from 14 */
    CHECK(weir_transfer_list_wait(&t, &more) == 4);
    more.ready = 3;
    more.from = 7;
    more.due = 16;
    more.to = 13;
    CHECK(weir_transfer_list_wait(&t, &more) == 0);
    more.out = 5;
    CHECK(weir_transfer_list_wait(&t, &more) == 2);             /* from 4 to 9 */
    more.in = 4;
    CHECK(weir_transfer_list_wait(&t, &more) == 3);             /* from 12 to 16 */
    weir_transfer_list_free(&t);
}

/* Copies that take no longer than a layer cost nothing if memory allows. */
CASE(autotm_hides_copies)
{
    enum { N = 24 };
    weir_mem_problem p;
    weir_schedule    s;

    make_linked_chain(&p, N, 0.5);
    CHECK_OK(plan_with("autotm", &p, N / 2 * UNIT, &s));
    if (!CHECK(s.peak <= N / 2 * UNIT && s.recomputed == 0 && s.copies > 0 &&
               s.time <= p.time + 1e-6))
        printf("    %zu units in %g s\n", s.peak / UNIT, s.time);
    weir_schedule_free(&s);
    weir_mem_problem_free(&p);
}

/* A parameter that is read once is on the host between steps. */
CASE(autotm_leaves_parameters_at_home)
{
    enum { N = 16, LARGE = 8 * UNIT };
    weir_mem_problem p = {0};
    weir_schedule    s;

    for (uint32_t i = 0; i < N; i++) {
        const uint32_t      in[2] = {i == N / 2 ? N : i - 1, i - 1};
        const weir_mem_op_def def = {.time = 1,
                                     .rerun_before = N,
                                     .in = in,
                                     .out = &i,
                                     .nout = 1,
                                     .nin = i == 0       ? 0
                                            : i == N / 2 ? 2
                                                         : 1};
        CHECK(weir_mem_problem_add_tensor(&p, i == 2 || i == N - 2 ? LARGE : UNIT, 0, i + 1 == N));
        CHECK(weir_mem_problem_add_op(&p, &def));
    }
    CHECK(weir_mem_problem_add_tensor(&p, LARGE, 0, false));
    CHECK(weir_mem_problem_end(&p));
    p.link_out = p.link_in = LARGE;
    CHECK_OK(plan_with("autotm", &p, LARGE + 3 * UNIT, &s));
    CHECK(s.peak <= LARGE + 3 * UNIT && s.time <= p.time + 1e-6);
    CHECK(count(&s, WEIR_EVENT_PREFETCH, N) == 1 &&
          count(&s, WEIR_EVENT_OFFLOAD, N) == 0); /* it never changes */
    weir_schedule_free(&s);
    weir_mem_problem_free(&p);
}

/* The inputs of segments are on the host between the two passes: less memory, the same reruns. */
CASE(offloaded_checkpoints_take_no_memory)
{
    enum { N = 60, S = 6 };
    weir_mem_problem p;
    weir_schedule    kept, s;

    make_linked_chain(&p, N, 0.25);
    CHECK_OK(plan_with("checkpoint:sequential=6", &p, 0, &kept));
    CHECK_OK(plan_with("checkpoint:offload=6", &p, kept.peak - (S - 2) * UNIT, &s));
    CHECK(s.recomputed == kept.recomputed && s.peak <= kept.peak - (S - 2) * UNIT);
    for (uint32_t k = 0; k < 2 * N; k++) {
        const bool checkpoint = k + 1 < N && (k + 1) % (N / S) == 0;
        CHECK(count(&s, WEIR_EVENT_OFFLOAD, k) == (checkpoint && k + 1 < N - N / S));
        CHECK((count(&s, WEIR_EVENT_PREFETCH, k) > 0) == (checkpoint && k + 1 < N - N / S));
    }
    weir_schedule_free(&kept);
    weir_schedule_free(&s);
    weir_mem_problem_free(&p);
}

CASE(copying_needs_a_link)
{
    static const char *const names[] = {"vdnn", "vdnn:all", "capuchin", "capuchin:passive", "delta",
                                        "autotm", "checkpoint:offload"};
    weir_mem_problem p;

    make_chain(&p, 4);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        weir_schedule s;
        CHECK_STATUS(plan_with(names[i], &p, 0, &s), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), "needs a link speed");
        weir_schedule_free(&s);
    }
    weir_mem_problem_free(&p);
}

/* ---- mistakes, failures ---- */

CASE(wrong_names)
{
    static const char *const wrong[] = {
        "nope", "", ":", "dtr:e", "dtr:eq2", "dtr:a very long name of a score",
        "checkpoint:fast", "checkpoint:sequential=",
        "checkpoint:sequential=0", "checkpoint:sequential=-1", "checkpoint:sequential=2x",
        "checkpoint:sequential=99999999999", "checkpoint:speed=2", "checkpoint:offload=0",
        "checkpoint:offload=x", "dtr_look"};
    size_t                   rows;
    const weir_policy *const row = weir_policies(&rows);
    weir_mem_problem         p;

    make_chain(&p, 4);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        weir_schedule s;
        if (!CHECK_STATUS(plan_with(wrong[i], &p, 0, &s), WEIR_ERR_INVALID))
            printf("    %s\n", wrong[i]);
        weir_schedule_free(&s);
    }
    for (size_t i = 0; i < rows; i++) {
        weir_schedule s;
        char          name[40];
        snprintf(name, sizeof name, "%s:nope", row[i].name);
        if (!CHECK_STATUS(plan_with(name, &p, 0, &s), WEIR_ERR_INVALID))
            printf("    %s\n", name);
        weir_schedule_free(&s);
    }
    weir_mem_problem_free(&p);
}

CASE(fails_at_every_point)
{
    weir_mem_problem p;
    weir_schedule    s;
    policy_case      policies[MOST_POLICIES];
    const size_t     n = policy_cases(policies);

    make_problem_with(&p, 24, 2);
    CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &s));
    const size_t limit = s.peak * 6 / 10;
    p.link_out = p.link_in = 256;
    weir_schedule_free(&s);
    for (size_t i = 0; i < n; i++)
        for (int64_t nth = 0;; nth++) {
            weir_mem_fail_nth(nth, false);
            const weir_status status = plan_with(policies[i].name, &p, limit, &s);
            const bool        failed = weir_mem_failed();
            weir_mem_fail_nth(-1, false);
            weir_schedule_free(&s);
            if (!failed) {
                CHECK_OK(status);
                break;
            }
            CHECK_STATUS(status, WEIR_ERR_NOMEM);
        }
    weir_mem_problem_free(&p);
}
