/* place_align.c - every address that any placement gives is aligned and nobody else's: random
 * items, planned steps of every policy, recorded training steps. $WEIR_TEST_COUNT: rounds of each.
 */
#include "graph/placement/placement.h"
#include "graph/placement/placement_check.h"
#include "graph/memory/verify/check.h"

#include "graph/fixture.h"
#include "graph/memory/policies/policies.h"
#include "graph/memory/policies/recycle.h"
#include "graph/memory/random_problem.h"

enum { MOST = 120 };

static const char *const placers[] = {"auto", "life", "size", "area", "start", "end", "life-best",
                                      "size-best", "area-best", "start-best", "tstack", "exact"};
static const size_t units[] = {64, 256};

static int rounds(int quick)
{
    const char *const asked = getenv("WEIR_TEST_COUNT");
    return asked && *asked ? atoi(asked) : quick;
}

/* By definition: multiples of the unit, apart while they live, the height that of the highest. */
static bool well_placed(const weir_item *item, uint32_t n, size_t unit, size_t height)
{
    size_t top = 0;
    bool   good = true;

    for (uint32_t i = 0; i < n; i++) {
        const weir_item *a = &item[i];
        good = good && a->offset % unit == 0;
        top = a->bytes && a->offset + a->bytes > top ? a->offset + a->bytes : top;
        for (uint32_t k = 0; k < i; k++) {
            const weir_item *b = &item[k];
            good = good && (a->last < b->first || b->last < a->first || !a->bytes || !b->bytes ||
                            a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
    return good && top == height;
}

/* ---- items ---- */

/* Odd sizes made multiples as planning makes them, some of 0; some live all the time, some as long
 * as the one before. */
static void random_items(weir_item *item, uint32_t n, uint32_t steps, size_t unit)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t a = (uint32_t)check_int(0, steps - 1), b = (uint32_t)check_int(0, steps - 1);
        const size_t   odd = check_int(0, 6) ? (size_t)check_int(1, 30000) : 0;
        item[i] = (weir_item){.first = a < b ? a : b, .last = a < b ? b : a,
                              .kind = check_int(0, 4) ? WEIR_KIND_ACTIVATION : WEIR_KIND_WORKSPACE};
        if (check_int(0, 9) == 0) {
            item[i].first = 0;
            item[i].last = steps - 1;
        } else if (i > 0 && check_int(0, 3) == 0) {
            item[i].first = item[i - 1].first;
            item[i].last = item[i - 1].last;
        }
        CHECK(weir_size_align(odd, unit, &item[i].bytes));
    }
}

/* Capacities are what a budget leaves, so seldom multiples. */
CASE(random_items_by_every_placement)
{
    for (int round = 0, n = rounds(600); round < n; round++) {
        const size_t          unit = units[round / (int)ARRAY_LENGTH(placers) % 2];
        const uint32_t        items = (uint32_t)check_int(0, round % 16 ? 40 : MOST);
        const uint32_t        steps = (uint32_t)check_int(1, 30);
        weir_item             item[MOST];
        weir_placement_result r;
        size_t                bound;

        random_items(item, items, steps, unit);
        CHECK_OK(weir_place_bound(item, items, steps, &bound));
        const weir_placement_options how = {
            .strategy = placers[round % (int)ARRAY_LENGTH(placers)],
            .nodes = 300,
            .capacity = round / 24 % 3 ? bound + (size_t)check_int(0, 9999) : 0};
        CHECK_OR_RETURN(weir_place_items(item, items, steps, &how, &r) == WEIR_OK);
        if (!CHECK(well_placed(item, items, unit, r.height)))
            printf("    %s, %u items of %zu\n", how.strategy, items, unit);
        CHECK_OK(weir_place_check(item, items, unit, r.height));
    }
}

/* ---- what the judge refuses ---- */

CASE(what_is_wrong_is_refused)
{
    weir_item good[] = {{.bytes = 128, .offset = 0, .first = 0, .last = 4},
                        {.bytes = 64, .offset = 128, .first = 0, .last = 1},
                        {.bytes = 64, .offset = 128, .first = 2, .last = 4},
                        {.bytes = 0, .offset = 64, .first = 1, .last = 3}};
    weir_item bad[4];

    CHECK_OK(weir_place_check(good, 4, 64, 192));
    CHECK_STATUS(weir_place_check(good, 4, 64, 191), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "beyond");
    CHECK_STATUS(weir_place_check(good, 4, 128, 192), WEIR_ERR_STATE);
    memcpy(bad, good, sizeof bad);
    bad[1].offset = 129;
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "offset 129 is no multiple of 64");
    memcpy(bad, good, sizeof bad);
    bad[3].offset = 1;                          /* of 0 bytes, but operands point there */
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
    memcpy(bad, good, sizeof bad);
    bad[2].first = 1;
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "bytes 128 to 192");
    memcpy(bad, good, sizeof bad);
    bad[2].offset = 64;
    CHECK_STATUS(weir_place_check(bad, 4, 64, 4096), WEIR_ERR_STATE);
}

/* One offset of a right placement is moved: refused exactly if it is wrong by definition. */
CASE(moved_items)
{
    int refused = 0;

    for (int round = 0, n = rounds(400); round < n; round++) {
        const size_t   unit = units[round % 2];
        const uint32_t items = (uint32_t)check_int(1, 40), k = (uint32_t)check_int(0, items - 1);
        weir_item      item[MOST];
        weir_placement_result r;

        random_items(item, items, 20, unit);
        CHECK_OK(weir_place_items(item, items, 20, NULL, &r));
        item[k].offset += (size_t)check_int(0, 3) * (check_int(0, 1) ? unit : unit / 2);
        const size_t limit = (size_t)1 << 40;
        const bool   right = well_placed(item, items, unit, 0) ||
                           well_placed(item, items, unit, r.height) ||
                           well_placed(item, items, unit, item[k].offset + item[k].bytes);
        const weir_status status = weir_place_check(item, items, unit, limit);
        refused += status != WEIR_OK;
        if (status == WEIR_OK)
            CHECK(right);
        else
            CHECK(!well_placed(item, items, unit, r.height));
    }
    CHECK(rounds(400) < 100 || refused > rounds(400) / 5);
}

/* ---- schedules ---- */

/* Sizes are no multiples: what planning must round. */
static void make_odd(weir_mem_problem *p)
{
    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (p->tensors.at[k].bytes > 40)
            p->tensors.at[k].bytes -= (size_t)check_int(0, 40);
}

static void check_offsets(const weir_schedule *s, const char *placer, const char *policy,
                          size_t unit)
{
    weir_offsets l = {0};
    bool         aligned = true;

    CHECK_OR_RETURN(weir_assign_offsets(s, unit, placer, &l) == WEIR_OK);
    for (uint32_t i = 0; i < s->ranges.n; i++)
        aligned = aligned && l.offset[i] % unit == 0;
    for (uint32_t e = 0; e < s->events.n; e++)
        aligned = aligned && l.work[e] % unit == 0;
    if (!CHECK(aligned) || !CHECK_OK(weir_schedule_check(s, &l, unit, l.height)))
        printf("    %s by %s, alignment %zu\n", policy, placer, unit);
    weir_offsets_free(&l);
}

static void check_placers(const weir_schedule *s, const char *policy)
{
    for (size_t u = 0; u < ARRAY_LENGTH(units); u++)
        for (size_t i = 0; i < ARRAY_LENGTH(placers); i++)
            check_offsets(s, placers[i], policy, units[u]);
}

CASE(every_policy_by_every_placement)
{
    for (int round = 0, n = rounds(3); round < n; round++)
        for (size_t k = 0; k < ARRAY_LENGTH(policies); k++) {
            weir_mem_problem p = {0};
            weir_schedule    s = {0};
            size_t           peak;

            problem_make(&p, 8 + below(24));
            make_odd(&p);
            CHECK_OK(weir_inplace_peak(&p, &peak));
            if (plan_with(policies[k].name, &p, peak - peak / 5, &s) == WEIR_OK && s.valid)
                check_placers(&s, policies[k].name);
            weir_schedule_free(&s);
            weir_mem_problem_free(&p);
        }
}

/* ---- recorded steps ---- */

typedef struct recorded {
    weir_device *d;
    weir_model  *m;
    weir_optim  *o;
    weir_tensor *x, *y;
    weir_graph  *g;
} recorded;

static void close_recorded(recorded *r)
{
    weir_graph_free(r->g);
    weir_optim_free(r->o);
    weir_model_free(r->m);
    weir_release(r->x);
    weir_release(r->y);
    weir_device_close(r->d);
}

/* A training step of a small residual network on the device, planned: offsets of 64
 * bytes on the CPU, of 256 on the simulated card. */
static weir_status open_recorded(recorded *r, const char *device, const weir_plan_options *o)
{
    const weir_device_options one = {.threads = 1, .seed = 3};

    *r = (recorded){.d = weir_device_open(device, &one)};
    CHECK(r->d != NULL);
    r->m = weir_model_new(r->d);
    weir_layer *const net = weir_resnet_cifar_new(r->m, 8, 10);
    r->o = weir_sgd_new(r->d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    r->x = weir_input(r->d, weir_4d(WEIR_F32, 3, 3, 16, 16));
    r->y = weir_input(r->d, weir_1d(WEIR_I32, 3));
    CHECK_OK(weir_write_fill(r->x, 0.5));
    CHECK_OK(weir_write_fill(r->y, 3));
    r->g = weir_graph_begin(r->d);
    weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(net, r->x), r->y));
    CHECK_OK(weir_minimize(r->o, loss));
    return weir_graph_end(r->g, o);
}

static void check_recorded(const char *device, const weir_plan_options *o)
{
    const size_t     unit = strcmp(device, "cpu") == 0 ? 64 : 256;
    recorded         r;
    weir_graph_stats s;
    size_t           measured = 0;

    const weir_status status = open_recorded(&r, device, o);
    if (status == WEIR_OK) {
        const weir_plan *const p = r.g->plan;
        const bool good = CHECK(well_placed(p->items.at, p->items.n, unit, p->arena));
        CHECK_OK(weir_graph_run(r.g));
        CHECK_OK(weir_graph_measure(r.g, &measured));
        CHECK_OK(weir_graph_stats_of(r.g, &s));
        if (!CHECK(measured == s.arena_bytes) || !good)
            printf("    %s: %s, %s by %s: measured %zu, planned %zu\n", device,
                   o->policy ? o->policy : "auto", o->budget ? o->budget : "no budget",
                   o->placement, measured, s.arena_bytes);
    } else {
        CHECK_STATUS(status, WEIR_ERR_BUDGET);
    }
    close_recorded(&r);
}

/* Every placement without a budget and within one; the policies in turn. */
CASE(recorded_steps_by_every_placement)
{
    static const char *const device[] = {"cpu", "sim"};
    static const char *const budget[] = {NULL, "90%", "75%", "60%"};
    static const char *const policy[] = {"dtr", "auto:recompute", "checkpoint", "sublinear",
                                         "recycle", "mincut", "vdnn:conv", "checkpoint:offload"};
    const int n = rounds(24);

    for (int i = 0; i < n; i++) {
        const int k = i / (int)ARRAY_LENGTH(placers);
        check_recorded(device[k % 2],
                       &(weir_plan_options){.placement = placers[i % (int)ARRAY_LENGTH(placers)],
                                            .budget = budget[(i + k + 1) % 4],
                                            .policy = policy[(i + k) % (int)ARRAY_LENGTH(policy)]});
    }
}
