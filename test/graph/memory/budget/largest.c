/* largest.c - tests of the search for the largest batch: with steps that only pretend, and with
 * small networks against a search of every batch. */
#include "graph/fixture.h"
#include "graph/train.h"
#include "weir/plan.h"

#include <math.h>
#include <stdlib.h>

enum { UNKNOWN = -1, MOST_BATCH = 400 };

typedef struct pretence {
    int64_t     answer;         /* the largest batch that fits */
    weir_status refusal;
    int64_t     broken;         /* from this batch on `needs` and `fits` fail; 0: never */
    double      fixed, each, power;     /* bytes: fixed + each * batch^power, ... */
    double      noise, gap;             /* ... times 1 +- noise; the floor is lower by gap */
    int         plans, probes;
    bool        accepted[MOST_BATCH + 2], refused[MOST_BATCH + 2];
} pretence;

static bool takes(const pretence *p, int64_t batch)
{
    return batch <= p->answer;
}

static weir_status fits(void *ctx, int64_t batch)
{
    pretence *const p = ctx;

    p->plans++;
    if (p->broken > 0 && batch >= p->broken)
        return weir_fail(WEIR_ERR_SHAPE, "%lld is broken", (long long)batch);
    if (batch <= MOST_BATCH)
        *(takes(p, batch) ? &p->accepted[batch] : &p->refused[batch]) = true;
    return takes(p, batch) ? WEIR_OK
                           : weir_fail(p->refusal, "%lld does not fit", (long long)batch);
}

static uint64_t mixed(uint64_t n)
{
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ^ n >> 31;
}

/* Bytes that grow with the batch, more or less. */
static double bytes_of(const pretence *p, int64_t batch)
{
    const double random = (double)(mixed((uint64_t)batch) >> 11) * 0x1p-52 - 1;

    return (p->fixed + p->each * pow((double)batch, p->power)) * (1 + p->noise * random);
}

static weir_status needs(void *ctx, int64_t batch, weir_graph_needs *n)
{
    pretence *const p = ctx;

    p->probes++;
    if (p->broken > 0 && batch >= p->broken)
        return weir_fail(WEIR_ERR_SHAPE, "%lld is broken", (long long)batch);
    const double least = bytes_of(p, batch);
    *n = (weir_graph_needs){(size_t)(3 * least), (size_t)least, (size_t)(least * (1 - p->gap))};
    if (batch <= MOST_BATCH && n->floor_bytes > 1000000)
        p->refused[batch] = true;
    return WEIR_OK;
}

static weir_batch_search plain(pretence *p, int64_t first, int64_t most)
{
    return (weir_batch_search){.fits = fits, .ctx = p, .first = first, .most = most};
}

static weir_batch_search probing(pretence *p, int64_t first, int64_t most)
{
    weir_batch_search s = plain(p, first, most);

    s.needs = needs;
    s.limit = 1000000;
    return s;
}

CASE(every_answer_is_found)
{
    enum { MOST = 70 };

    for (int64_t answer = 1; answer <= MOST; answer++)
        for (int64_t first = 1; first <= MOST; first++) {
            pretence p = {.answer = answer,
                          .refusal = first & 1 ? WEIR_ERR_BUDGET : WEIR_ERR_NOMEM};
            const weir_batch_search s = plain(&p, first, MOST);
            int64_t                 batch = 0;
            CHECK_OR_RETURN(weir_largest_batch(&s, &batch) == WEIR_OK);
            CHECK(batch == answer && p.accepted[batch]);
            CHECK(p.refused[batch + 1] || batch == MOST);
            CHECK(p.plans <= 14);
        }
}

/* The line is exact, or bends, or has noise; plans agree with it, or are better or worse. */
static const pretence shapes[] = {
    {.fixed = 0, .each = 1e4, .power = 1},      {.fixed = 3e5, .each = 2531, .power = 1},
    {.fixed = 3e5, .each = 2531, .power = 0.5}, {.fixed = 9e5, .each = 3, .power = 2},
    {.fixed = 1e5, .each = 1e5, .power = 0.3},  {.fixed = 2e5, .each = 5e3, .power = 1,
                                                 .noise = 0.002, .gap = 0.001},
    {.fixed = 2e5, .each = 5e3, .power = 1, .noise = 0.1, .gap = 0.3},
    {.fixed = 1e6, .each = 0, .power = 1, .noise = 0.3},
    {.fixed = 2e6, .each = 10, .power = 1},     {.fixed = 10, .each = 0, .power = 1}};

/* The largest batch that the bytes alone allow, up to most; the batches above are all too large if
 * there is no noise. */
static int64_t by_bytes(const pretence *p, int64_t most)
{
    int64_t best = 0;

    for (int64_t n = 1; n <= most && (size_t)bytes_of(p, n) <= 1000000; n++)
        best = n;
    return best;
}

static void find_from(const pretence *shape, int64_t first, int64_t off)
{
    pretence      p = *shape;
    int64_t       batch = -1;
    const int64_t estimate = by_bytes(&p, MOST_BATCH);

    p.answer = p.gap > 0 ? estimate + off : estimate;
    p.refusal = WEIR_ERR_BUDGET;
    const weir_batch_search s = probing(&p, first, MOST_BATCH);
    const weir_status       status = weir_largest_batch(&s, &batch);
    CHECK(p.plans + p.probes <= 50);
    CHECK(p.noise > 0 || (p.plans <= 2 && p.probes <= 20));
    if (status != WEIR_OK) {
        CHECK_STATUS(status, WEIR_ERR_BUDGET);
        CHECK_TEXT(weir_error(), "1 does not fit");
        CHECK(batch == 0 && p.answer < 1);
        return;
    }
    CHECK(batch >= 1 && batch <= MOST_BATCH && p.accepted[batch]);
    CHECK(batch == MOST_BATCH || p.refused[batch + 1]);
    CHECK(p.noise > 0 || batch == estimate);
}

CASE(needs_lead_to_the_answer)
{
    static const int64_t firsts[] = {1, 2, 16, 77, 399, 400}, off[] = {-40, -1, 0, 1, 40};

    for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++)
        for (size_t k = 0; k < ARRAY_LENGTH(firsts); k++)
            for (size_t j = 0; j < ARRAY_LENGTH(off); j++)
                find_from(&shapes[i], firsts[k], off[j]);
}

CASE(lines_take_few_probes_and_one_plan)
{
    for (int64_t answer = 100; answer < 60000; answer = answer * 7 / 4) {
        pretence p = {.answer = answer, .refusal = WEIR_ERR_BUDGET, .fixed = 2e5, .power = 1,
                      .each = 8e5 / ((double)answer + 0.5)};
        const weir_batch_search s = probing(&p, 16, 65536);
        int64_t                 batch = 0;
        CHECK_OK(weir_largest_batch(&s, &batch));
        CHECK(batch == answer && p.plans == 1);
        CHECK(p.probes <= 6);
    }
}

CASE(a_share_is_enough)
{
    for (int k = 0; k < 2; k++) {
        pretence          p = {.answer = 30000, .refusal = WEIR_ERR_BUDGET, .fixed = 2e5,
                               .power = 0.8, .each = 8e5 / pow(30000.5, 0.8)};
        weir_batch_search s = k ? probing(&p, 16, 65536) : plain(&p, 16, 65536);
        int64_t           batch = 0;
        s.within = 0.05;
        CHECK_OK(weir_largest_batch(&s, &batch));
        CHECK(batch <= 30000 && (double)batch * 1.05 >= 30000);
        CHECK(p.plans <= (k ? 2 : 20));
    }
}

CASE(failures_are_told)
{
    pretence none = {.answer = 0, .refusal = WEIR_ERR_BUDGET},
             broken = {.answer = 9, .refusal = WEIR_ERR_BUDGET, .broken = 6};
    int64_t  batch = 7;
    weir_batch_search s = plain(&none, 16, 64);

    CHECK_STATUS(weir_largest_batch(&s, &batch), WEIR_ERR_BUDGET);
    CHECK_TEXT(weir_error(), "1 does not fit");
    CHECK(batch == 0);
    s = plain(&broken, 1, 64);
    CHECK_STATUS(weir_largest_batch(&s, &batch), WEIR_ERR_SHAPE);
    CHECK(broken.plans == 4 && batch == 4);
    broken.each = broken.power = 1;
    s = probing(&broken, 1, 64);
    CHECK_STATUS(weir_largest_batch(&s, &batch), WEIR_ERR_SHAPE);
    CHECK(batch == 0);
}

CASE(wrong_searches_are_refused)
{
    pretence                p = {.answer = 3};
    int64_t                 batch = 7;
    const weir_batch_search good = plain(&p, 1, 64), wrong[] = {
        {.fits = fits, .ctx = &p, .first = 0, .most = 64},
        {.fits = fits, .ctx = &p, .first = 65, .most = 64},
        {.fits = fits, .ctx = &p, .first = 1, .most = INT64_MAX},
        {.fits = fits, .ctx = &p, .first = 1, .most = 64, .within = -0.1},
        {.fits = fits, .ctx = &p, .first = 1, .most = 64, .within = 1},
        {.fits = fits, .ctx = &p, .first = 1, .most = 64, .within = NAN},
        {.ctx = &p, .first = 1, .most = 64}};

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        CHECK_STATUS(weir_largest_batch(&wrong[i], &batch), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_largest_batch(NULL, &batch), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_largest_batch(&good, NULL), WEIR_ERR_INVALID);
    CHECK(p.plans == 0);
}

/* ---- real steps ---- */

typedef struct real {
    train_net   net;
    int64_t     side;
    const char *policy, *budget;
    int         plans, probes;
} real;

/* Records a step; ends it by a plan, or by what it needs. */
static weir_status record(real *r, int64_t batch, weir_graph_needs *needs)
{
    const weir_plan_options how = {.policy = r->policy, .budget = r->budget};
    train                   t;
    weir_status             s = train_open(&t, r->net, batch, r->side, &(weir_step_options){0});

    if (s != WEIR_OK)
        return s;
    weir_graph *const g = weir_graph_begin(t.d);
    s = g ? train_record(&t) : weir_error_status();
    if (s == WEIR_OK)
        s = needs ? weir_graph_end_needs(g, &how, needs) : weir_graph_end(g, &how);
    weir_graph_free(g);
    train_close(&t);
    return s;
}

static weir_status plan_real(void *ctx, int64_t batch)
{
    real *const r = ctx;

    r->plans++;
    return record(r, batch, NULL);
}

static weir_status probe_real(void *ctx, int64_t batch, weir_graph_needs *needs)
{
    real *const r = ctx;

    r->probes++;
    return record(r, batch, needs);
}

CASE(networks_agree_with_every_batch_tried)
{
    enum { MOST = 40 };
    static const char *const policies[] = {NULL, "auto:recompute", "checkpoint:memory", "dtr"};

    for (size_t i = 0; i < ARRAY_LENGTH(policies); i++) {
        real    r = {.net = TRAIN_DIGITS, .policy = policies[i], .budget = "800000"};
        int64_t linear = 0, batch = 0;
        while (linear < MOST && record(&r, linear + 1, NULL) == WEIR_OK)
            linear++;
        const weir_batch_search s = {.fits = plan_real, .needs = probe_real, .ctx = &r,
                                     .limit = 800000, .first = 1, .most = MOST};
        CHECK_OK(weir_largest_batch(&s, &batch));
        if (!CHECK(batch == linear))
            printf("    %s: %lld, %lld by trying all\n", policies[i] ? policies[i] : "auto",
                   (long long)batch, (long long)linear);
        CHECK(batch > 1 && batch < MOST);
        CHECK(r.plans <= 4 && r.probes <= 10);
    }
}
