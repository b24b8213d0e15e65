/* check.c - the checker of plans accepts good ones, whose simulated time is right, and refuses a
 * violation of each rule; whatever the planner makes of random steps is correct. */
#include "check.h"
#include "core/mem.h"
#include "graph/memory/verify/check.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/policies/mincut.h"
#include "graph/memory/search/search.h"
#include "graph/memory/verify/simulate.h"
#include "graph/memory/random_problem.h"

/* ---- a step in which every rule matters ---- */

enum { A, R, M, D, GD, GR, GA, GW, LOSS, X, W, STAT, TENSORS };

static bool make_op(weir_mem_problem *p, weir_mem_op_def d, uint32_t nin, const uint32_t *in,
                    uint32_t nout, const uint32_t *out)
{
    d.time = 1e-6;
    d.nin = nin;
    d.in = in;
    d.nout = nout;
    d.out = out;
    return weir_mem_problem_add_op(p, &d);
}

#define OP(def, in, out) make_op(p, (weir_mem_op_def)def, sizeof(in) / 4, in, sizeof(out) / 4, out)
#define LIST(...) ((const uint32_t[]){__VA_ARGS__})
#define DEF(...) {.rerun_before = 8, __VA_ARGS__}

/* x, w -> a; relu in place -> r; masked by m -> d, which updates a statistic; backward; w is
 * updated. */
static void make_step(weir_mem_problem *p)
{
    static const size_t bytes[TENSORS] = {128, 128, 128, 128, 128, 128, 128, 32, 4, 64, 32, 16};
    bool                ok = true;

    *p = (weir_mem_problem){.link_out = 1e9, .link_in = 2e9, .pack_bandwidth = 4e9};
    for (uint32_t k = 0; k < TENSORS; k++)
        ok = ok && weir_mem_problem_add_tensor(p, bytes[k], k == M ? 4 : 0, k == LOSS);
    const uint32_t stat = STAT, w = W, r = R;
    ok = ok && OP(DEF(.work = 64), LIST(X, W), LIST(A));
    ok = ok && OP(DEF(.npairs = 2, .pairs = LIST(A, R)), LIST(A), LIST(R));
    ok = ok && make_op(p, (weir_mem_op_def)DEF(.nin = 0), 0, NULL, 1, LIST(M));
    ok = ok &&
         OP(DEF(.nchanges = 1, .changes = &stat, .n_write_only = 1), LIST(R, M, STAT), LIST(D));
    ok = ok && OP(DEF(.nin = 0), LIST(D), LIST(LOSS, GD));
    ok = ok && OP(DEF(.npairs = 2, .pairs = LIST(GD, GR)), LIST(GD, M), LIST(GR));
    ok = ok && OP(DEF(.npairs = 2, .pairs = LIST(GR, GA), .nmasked = 1, .masked = &r), LIST(GR, R),
                  LIST(GA));
    ok = ok && OP(DEF(.nin = 0), LIST(X, GA), LIST(GW));
    ok = ok && make_op(p, (weir_mem_op_def){.nchanges = 1, .changes = &w}, 2, LIST(W, GW), 0, NULL);
    CHECK(ok && weir_mem_problem_end(p));
}

static void insert(weir_mem_plan *a, uint32_t at, weir_mem_step x)
{
    CHECK_OR_RETURN(weir_vec_push(&a->list, x));
    memmove(a->list.at + at + 1, a->list.at + at, (a->list.n - 1 - at) * sizeof x);
    a->list.at[at] = x;
}

static weir_mem_step take_out(weir_mem_plan *a, uint32_t at)
{
    const weir_mem_step x = a->list.at[at];
    a->list.n--;
    memmove(a->list.at + at, a->list.at + at + 1, (a->list.n - at) * sizeof x);
    return x;
}

static void add(weir_mem_plan *a, weir_event_kind kind, uint32_t what, uint8_t form, size_t offset)
{
    insert(a, a->list.n,
           (weir_mem_step){.kind = (uint8_t)kind, .what = what, .form = form, .offset = offset});
}

static void add_free(weir_mem_plan *a, uint32_t what, uint8_t form)
{
    add(a, (weir_event_kind)WEIR_EVENT_FREE, what, form, 0);
}

static weir_mem_step a_run(weir_mem_plan *a, uint32_t op, size_t work, size_t offset, uint32_t over)
{
    const weir_mem_step x = {
        .kind = WEIR_EVENT_RUN, .what = op, .work = true, .offset = work, .slots = a->slots.n};
    if (a->p->ops.at[op].out.n > 0)
        CHECK(weir_vec_push(&a->slots, (weir_output_slot){.offset = offset, .over = over}));
    return x;
}

static void run(weir_mem_plan *a, uint32_t op, size_t work, size_t offset, uint32_t over)
{
    insert(a, a->list.n, a_run(a, op, work, offset, over));
}

/* Indices of the steps that are broken below. */
enum { CONV, RELU, OUT_X = 2, MUL = 5, MARK_R, FREE_R, PACK_M, FREE_M, LOSSES, UNPACK_M = 12,
       MULB = 14, THRESHOLD = 16, IN_X = 18, UPDATE = 21, OUT_W = 22 };

/* 512 bytes: residents w and stat at 0 and 32; x is offloaded after its first use and
 * prefetched. */
static void make_plan(const weir_mem_problem *p, weir_mem_plan *a)
{
    CHECK(weir_mem_plan_init(a, p));
    a->addresses = true;
    a->align = 4;
    a->limit = 512 + 64;
    a->start[W] = 0;
    a->start[STAT] = 32;
    a->start[X] = 48;
    run(a, 0, 240, 112, WEIR_NO_TENSOR);        /* a at 112 */
    run(a, 1, 0, 112, A);                       /* r takes over its memory */
    add(a, WEIR_EVENT_OFFLOAD, X, WEIR_FORM_PLAIN, 0);
    add_free(a, X, WEIR_FORM_PLAIN);
    run(a, 2, 0, 240, WEIR_NO_TENSOR);           /* m at 240 */
    run(a, 3, 0, 368, WEIR_NO_TENSOR);           /* d at 368 */
    add(a, WEIR_EVENT_MASK, R, WEIR_FORM_PLAIN, 496);
    add_free(a, R, WEIR_FORM_PLAIN);
    add(a, WEIR_EVENT_COMPRESS, M, WEIR_FORM_PLAIN, 500);
    add_free(a, M, WEIR_FORM_PLAIN);
    run(a, 4, 0, 504, WEIR_NO_TENSOR);           /* loss at 504, gd at 112 */
    CHECK(weir_vec_push(&a->slots, (weir_output_slot){.offset = 112, .over = WEIR_NO_TENSOR}));
    add_free(a, D, WEIR_FORM_PLAIN);
    add(a, WEIR_EVENT_DECOMPRESS, M, WEIR_FORM_PLAIN, 240);
    add_free(a, M, WEIR_FORM_COMPRESSED);
    run(a, 5, 0, 112, GD);
    add_free(a, M, WEIR_FORM_PLAIN);
    run(a, 6, 0, 112, GR);
    a->list.at[a->list.n - 1].masks = (weir_index_range){a->masks.n, 1};
    CHECK(weir_vec_push(&a->masks, R));
    add_free(a, R, WEIR_FORM_MASK);
    add(a, WEIR_EVENT_PREFETCH, X, WEIR_FORM_PLAIN, 48);
    run(a, 7, 0, 240, WEIR_NO_TENSOR);           /* gw at 240 */
    add_free(a, GA, WEIR_FORM_PLAIN);
    run(a, 8, 0, 0, WEIR_NO_TENSOR);
    add(a, WEIR_EVENT_OFFLOAD, W, WEIR_FORM_PLAIN, 0);
    add_free(a, W, WEIR_FORM_PLAIN);
    add(a, WEIR_EVENT_PREFETCH, W, WEIR_FORM_PLAIN, 0);
}

CASE(a_good_plan_and_its_time)
{
    weir_mem_problem  p;
    weir_mem_plan     a;
    weir_check_result found;
    weir_sim_result   c;
    make_step(&p);
    make_plan(&p, &a);
    CHECK_OK(weir_mem_plan_check(&a, &found, NULL));
    CHECK(found.recomputed == 0 && found.height == 508);
    CHECK(found.live == 32 + 16 + 128 * 3 + 4);
    CHECK(weir_mem_plan_simulate(&a, &c));
    /* Compression: 132 bytes at 4 GB/s each time. w is offloaded (32 ns at 1 GB/s) and prefetched
     * (16 ns). */
    CHECK_NEAR(c.compute, 9e-6, 1e-18);
    CHECK_NEAR(c.compress, 99e-9, 1e-18);
    CHECK(fabs(c.time - (9e-6 + 99e-9 + 32e-9 + 16e-9)) < 1e-15 && c.stall < 1e-15);
    CHECK(c.out == 96 && c.in == 96 && c.host == 96);
    weir_mem_plan_free(&a);
    weir_mem_problem_free(&p);
}

/* Breaks one rule. Returns a part of the expected message; NULL if there are no more rules. */
static const char *break_rule(weir_mem_plan *a, int rule)
{
    weir_mem_step *const at = a->list.at;
    weir_output_slot *const   slot = a->slots.at;
    const weir_mem_step  gone = {.kind = WEIR_EVENT_FREE, .what = LOSS};

    switch (rule) {
    case 0: a->limit = 507; return "action 10: 4 bytes at 504 end beyond the 507 available";
    case 1: slot[at[MUL].slots].offset = 364;
        return "bytes 364 to 492 belong to tensor 2 at 240";
    case 2: at[CONV].offset = 112; return "are already used by this operation";
    case 3: slot[at[MUL].slots].offset = 370; return "offset 370 is not a multiple of 4";
    case 4: take_out(a, CONV); return "operation 1 reads tensor 0, which is not in memory";
    case 5:
        insert(a, MUL, (weir_mem_step){.kind = WEIR_EVENT_FREE, .what = M});
        return "reads tensor 2";
    case 6: slot[at[MUL].slots].over = R; return "may not put tensor 3 in place of tensor 1";
    case 7: slot[at[MULB].slots].offset = 368; return "takes over tensor 4, but not its bytes";
    case 8: at[MUL].masks = at[THRESHOLD].masks; return "needs more than a mask of tensor 1";
    case 9: take_out(a, MARK_R); return "reads tensor 1's mask, which is not in memory";
    case 10: insert(a, UPDATE, at[UPDATE]); return "operation 8, an update, runs a second time";
    case 11: insert(a, UPDATE + 1, a_run(a, 0, 240, 112, WEIR_NO_TENSOR));
        return "operation 0 reads tensor 10 after 1 updates, not after 0: it runs again too late";
    case 12: take_out(a, UPDATE); return "operation 8 never runs";
    case 13: insert(a, a->list.n, gone); return "tensor 8 is gone at the end";
    case 14: take_out(a, a->list.n - 1); return "tensor 10 is not back at 0 at the end";
    case 15: at[a->list.n - 1].offset = 400; return "tensor 10 is not back at 0 at the end";
    case 16: take_out(a, OUT_X); return "tensor 9 is not on the host";
    case 17: insert(a, IN_X, at[IN_X]); return "action 19: tensor 9 is already there";
    case 18: insert(a, UNPACK_M, at[UNPACK_M]); return "action 13: tensor 2 is already there";
    case 19: insert(a, FREE_M, at[FREE_M]); return "action 10: tensor 2 is not on the device";
    case 20: at[PACK_M].what = D; return "tensor 3 has no compressed form";
    case 21: insert(a, MUL, a_run(a, 0, 496, 368, WEIR_NO_TENSOR));
        return "operation 0 reads tensor 9, which is not in memory";
    case 22: insert(a, OUT_X, at[CONV]);
        return "action 2: bytes 112 to 240 belong to tensor 1 at 112";
    case 23: insert(a, MUL + 1, a->list.at[MUL]); return "produces tensor 3, which is already";
    case 24: at[CONV].work = false; return "has no memory for its workspace";
    case 25:
        at[OUT_W] = (weir_mem_step){.kind = WEIR_EVENT_FREE_HOST, .what = W};
        return "not on the host";
    case 26: at[UNPACK_M].what = R; return "tensor 1 has no compressed form";
    case 27: take_out(a, PACK_M); return "tensor 2, compressed, is not on the device";
    case 28: slot[at[RELU].slots].over = WEIR_NO_TENSOR; return "tensor 0 at 112";
    case 29: a->offloaded[X] = 1; take_out(a, FREE_R); return "reads tensor 9, which is not";
    case 30: a->start[STAT] = 28; return "bytes 28 to 44 belong to tensor 10 at 0";
    default: return NULL;
    }
}

CASE(every_rule_is_kept)
{
    weir_mem_problem p;
    int              rules = 0;
    make_step(&p);
    for (const char *says = ""; says; rules++) {
        weir_mem_plan     a;
        weir_check_result found;
        make_plan(&p, &a);
        says = break_rule(&a, rules);
        if (says) {
            CHECK_STATUS(weir_mem_plan_check(&a, &found, NULL), WEIR_ERR_INVALID);
            if (!CHECK_TEXT(weir_error(), says))
                printf("    rule %d\n", rules);
        }
        weir_mem_plan_free(&a);
    }
    CHECK(rules == 32);
    p.link_in = 0;
    weir_mem_plan     a;
    weir_check_result found;
    make_plan(&p, &a);
    CHECK_STATUS(weir_mem_plan_check(&a, &found, NULL), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "there is no link");
    weir_mem_plan_free(&a);
    weir_mem_problem_free(&p);
}

/* Unusual plans that are correct. */
CASE(plans_of_others)
{
    weir_mem_problem  p;
    weir_mem_plan     a;
    weir_check_result found;
    make_step(&p);
    make_plan(&p, &a);
    /* a late rerun that reads nothing */
    insert(&a, UPDATE + 1, a_run(&a, 2, 0, 240, WEIR_NO_TENSOR));
    a.slots.at[a.list.at[UPDATE + 1].slots].offset = 368;
    insert(&a, UPDATE + 2, a_run(&a, 2, 0, 496, WEIR_NO_TENSOR));
    a.slots.at[a.list.at[UPDATE + 2].slots] = (weir_output_slot){112, WEIR_NO_TENSOR, true};
    insert(&a, FREE_R,
           (weir_mem_step){.kind = WEIR_EVENT_OFFLOAD, .what = R, .form = WEIR_FORM_MASK});
    CHECK_OK(weir_mem_plan_check(&a, &found, NULL));
    CHECK(found.recomputed == 2);
    a.ordered = true;                           /* the checker is stricter with schedules */
    CHECK(weir_mem_plan_check(&a, &found, NULL) == WEIR_ERR_INVALID);
    weir_mem_plan_free(&a);
    weir_mem_problem_free(&p);
}

/* ---- schedules ---- */

/* Searches, places, checks and simulates. The time of the schedule is at least the simulated one,
 * and equal to it without copies. */
static void judge_search(const weir_mem_problem *p, size_t budget, unsigned levers, size_t *peak)
{
    weir_search  s = {.p = p, .seed = weir_mincut, .budget = budget, .levers = levers, .moves = 60};
    weir_offsets offsets = {0};
    weir_sim_result c;

    if (!CHECK_OK(weir_search_run(&s)))
        return;
    const weir_schedule *w = &s.lowered.s;
    *peak = w->valid ? w->peak : *peak;
    const size_t align = (size_t)1 << below(8);
    if (!w->valid || !CHECK_OK(weir_assign_offsets(w, align, NULL, &offsets)) ||
        !CHECK_OK(weir_schedule_check(w, &offsets, align, offsets.height)) ||
        !CHECK_OK(weir_schedule_check(w, NULL, 1, SIZE_MAX))) {
        weir_offsets_free(&offsets);
        weir_search_free(&s);
        return;
    }
    CHECK(w->peak <= budget || s.best_peak > budget);
    CHECK(weir_schedule_simulate(w, &offsets, &c));
    CHECK(c.time <= w->time * (1 + 1e-9) && (w->copies || c.time >= w->time * (1 - 1e-9)));
    CHECK(c.time >= p->time * (1 - 1e-12) && c.time >= c.compute * (1 - 1e-12));
    weir_offsets_free(&offsets);
    weir_search_free(&s);
}

CASE(random_steps_are_planned_right)
{
    static const unsigned levers[] = {WEIR_LEVER_RECOMPUTE, WEIR_LEVER_OFFLOAD,
                                      WEIR_LEVER_RECOMPUTE | WEIR_LEVER_COMPRESS | WEIR_LEVER_MASK,
                                      WEIR_LEVERS};
    for (int round = 0; round < 500 && check_failures < 10; round++) {
        weir_mem_problem p, settled;
        size_t           whole = 0, least = 0;
        problem_make(&p, 4 + below(26));
        CHECK(weir_mem_problem_pin_residents(&p, &settled));
        p.link_out = 1e6 * (double)(1 + below(200));
        p.link_in = 1e6 * (double)(1 + below(200));
        p.pack_bandwidth = 1e6 * (double)(1 + below(2000));
        settled.pack_bandwidth = p.pack_bandwidth;
        const unsigned          lever = levers[round % 4];
        const weir_mem_problem *one = round % 3 ? &p : &settled;
        judge_search(one, SIZE_MAX, lever, &whole);
        for (size_t tenth = 8; tenth > 0; tenth = tenth > 3 ? tenth - 3 : 0)
            judge_search(one, whole * tenth / 10, lever, &least);
        weir_mem_problem_free(&settled);
        weir_mem_problem_free(&p);
    }
}

/* Falsifies one number of a good schedule or of its offsets; false if it has no such number. */
static bool tamper(weir_schedule *s, weir_offsets *offsets, int how)
{
    const uint32_t         e = below(s->events.n), n = s->ranges.n;
    weir_live_range *const l = &s->ranges.at[below(n)];

    switch (how) {
    case 0: s->live.at[e] += 1; return true;
    case 1: s->peak -= 1; return true;
    case 2: s->events.at[e].recomputed ^= 1; return s->events.at[e].kind == WEIR_EVENT_RUN;
    case 3: l->last += 1; return weir_live_range_bytes(s->p, l) > 0;
    case 4: l->last -= 1; return weir_live_range_bytes(s->p, l) > 0;
    case 5: l->first += 1; return true;
    case 6: l->tensor += 1; return true;
    case 7: l->form = (uint8_t)((l->form + 1) % WEIR_FORM_COUNT); return true;
    case 8: l->before = !l->before; return true;
    case 9: s->events.at[e].what += 1; return true;
    case 10: s->events.n -= 1; return true;
    case 11: s->refs.at[below(s->refs.n)] += 1; return true;
    case 12: l->over = below(n); return true;
    case 13: offsets->offset[l - s->ranges.at] += 1; return weir_live_range_bytes(s->p, l) > 0;
    case 14:
        offsets->offset[l - s->ranges.at] += offsets->height;
        return weir_live_range_bytes(s->p, l) > 0;
    default: offsets->height -= 64; return true;
    }
}

CASE(untrue_schedules_are_found)
{
    int tried[16] = {0};
    for (int round = 0; round < 640; round++) {
        const int        how = round % 16;
        weir_mem_problem p;
        weir_offsets     offsets = {0};
        problem_make(&p, 6 + below(10));
        p.link_out = p.link_in = 2e8;
        p.pack_bandwidth = 1e9;
        weir_search s = {.p = &p, .seed = weir_mincut, .budget = 64 * 90, .moves = 30};
        if (CHECK_OK(weir_search_run(&s)) && s.lowered.s.valid &&
            CHECK_OK(weir_assign_offsets(&s.lowered.s, 64, NULL, &offsets)) &&
            CHECK_OK(weir_schedule_check(&s.lowered.s, &offsets, 64, offsets.height)) &&
            tamper(&s.lowered.s, &offsets, how)) {
            tried[how]++;
            if (CHECK_STATUS(weir_schedule_check(&s.lowered.s, &offsets, 64, offsets.height),
                             WEIR_ERR_STATE))
                CHECK_TEXT(weir_error(), "internal: the schedule");
            else
                printf("    round %d\n", round);
        }
        weir_offsets_free(&offsets);
        weir_search_free(&s);
        weir_mem_problem_free(&p);
    }
    for (int how = 0; how < 16; how++)
        CHECK(tried[how] >= 10);
}
