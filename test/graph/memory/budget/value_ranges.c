/* value_ranges.c - values that are compressed between their uses: the inferred ranges hold for all
 * possible values; training keeps its bits, planned = measured; policies auto:pack, gist, actnn. */
#include <stdlib.h>

#include "core/half.h"
#include "device/cpu/kernels.h"
#include "graph/memory/verify/check.h"
#include "graph/memory/budget/value_ranges.h"
#include "graph/memory/policies/table.h"
#include "graph/fixture.h"
#include "graph/train.h"

/* ---- what operations can make ---- */

enum { ALL = 65536 };

/* Every 16-bit pattern as a number of each type, every byte as a bool, and special f32 numbers. */
typedef struct sources {
    weir_device *d;
    weir_tensor *f32, *f16, *bf16, *u8, *flag, *i32;
} sources;

static weir_tensor *source(weir_device *d, weir_dtype type, const void *data)
{
    weir_tensor *const t = weir_input(d, weir_1d(type, ALL));

    if (CHECK(t != NULL))
        CHECK_OK(weir_write(t, data, weir_tensor_bytes(t)));
    return t;
}

static bool sources_open(sources *s)
{
    static uint16_t half[ALL];
    static uint8_t  byte[ALL];
    static float    real[ALL];
    static int32_t  whole[ALL];

    for (int32_t i = 0; i < ALL; i++) {
        half[i] = (uint16_t)i;
        byte[i] = (uint8_t)i;
        real[i] = weir_half_float((uint32_t)i * 65537u);
        whole[i] = i % 1000;
    }
    s->d = fixture_open();
    s->f32 = source(s->d, WEIR_F32, real);
    s->f16 = source(s->d, WEIR_F16, half);
    s->bf16 = source(s->d, WEIR_BF16, half);
    s->u8 = source(s->d, WEIR_U8, byte);
    s->flag = source(s->d, WEIR_BOOL, byte);
    s->i32 = source(s->d, WEIR_I32, whole);
    return s->i32 != NULL;
}

static void sources_close(sources *s)
{
    weir_tensor *const all[] = {s->f32, s->f16, s->bf16, s->u8, s->flag, s->i32};

    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        weir_release(all[i]);
    weir_device_close(s->d);
}

static weir_tensor *bits_f32(const sources *s)
{
    return weir_cast(weir_gt(s->f32, weir_fill(s->d, weir_scalar(WEIR_F32), 0)), WEIR_F32);
}

static weir_tensor *image(weir_tensor *x)
{
    return weir_reshape(x, 4, (int64_t[]){1, 4, 128, 128});
}

#define MAKER(name, value)                                                                         \
    static weir_tensor *name(const sources *s) { return value; }

MAKER(compared, weir_lt(s->f32, weir_reshape(s->f32, 1, (int64_t[]){ALL})))
MAKER(negated, weir_logical_not(s->flag))
MAKER(flag_to_f32, weir_cast(s->flag, WEIR_F32))
MAKER(flag_to_f16, weir_cast(s->flag, WEIR_F16))
MAKER(byte_to_f32, weir_cast(s->u8, WEIR_F32))
MAKER(byte_to_i64, weir_cast(s->u8, WEIR_I64))
MAKER(byte_to_bf16, weir_cast(s->u8, WEIR_BF16))
MAKER(half_to_f32, weir_cast(s->f16, WEIR_F32))
MAKER(brain_to_f32, weir_cast(s->bf16, WEIR_F32))
MAKER(brain_to_f64, weir_cast(s->bf16, WEIR_F64))
MAKER(half_to_f64, weir_cast(s->f16, WEIR_F64))
MAKER(single_to_f64, weir_cast(s->f32, WEIR_F64))
MAKER(int_to_f64, weir_cast(s->i32, WEIR_F64))
MAKER(real_to_half, weir_cast(s->f32, WEIR_F16))
MAKER(int_to_f32, weir_cast(s->i32, WEIR_F32))
MAKER(hot, weir_one_hot(weir_cast(s->flag, WEIR_I32), 3, WEIR_F32))
MAKER(drawn, weir_bernoulli(s->d, weir_1d(WEIR_F32, ALL), 0.3))
MAKER(counted, weir_arange(s->d, WEIR_F32, ALL, -3, 1))
MAKER(counted_by_half, weir_arange(s->d, WEIR_F32, ALL, 0, 0.5))
MAKER(best, weir_argmax(weir_reshape(s->f32, 2, (int64_t[]){ALL / 16, 16}), 1, false))
MAKER(chosen, weir_where(s->flag, bits_f32(s), weir_fill(s->d, weir_scalar(WEIR_F32), 3)))
MAKER(joined, weir_concat(2, (weir_tensor *[]){bits_f32(s), weir_cast(s->u8, WEIR_F32)}, 0))
MAKER(added, weir_add(bits_f32(s), bits_f32(s)))
MAKER(subtracted, weir_sub(bits_f32(s), weir_cast(s->u8, WEIR_F32)))
MAKER(multiplied, weir_mul(bits_f32(s), weir_cast(s->u8, WEIR_F32)))
MAKER(unmasked, weir_affine(bits_f32(s), -1, 1))
MAKER(minus, weir_affine(bits_f32(s), -1, 0))
MAKER(scaled, weir_affine(bits_f32(s), 0.5, 0))
MAKER(clipped, weir_relu(weir_sub(bits_f32(s), weir_cast(s->u8, WEIR_F32))))
MAKER(clipped_half, weir_relu(weir_cast(s->bf16, WEIR_F32)))
MAKER(summed_bytes, weir_add(s->u8, s->u8))
MAKER(pooled, weir_max_pool2d(image(weir_cast(s->u8, WEIR_F32)),
                              &(weir_pool2d_options){.kernel = {2, 2}}))
MAKER(padded, weir_pad(bits_f32(s), (int64_t[]){3}, (int64_t[]){5}, WEIR_PAD_CONSTANT, 0))
MAKER(larger, weir_max(weir_cast(s->u8, WEIR_F32), bits_f32(s)))
MAKER(real, weir_exp(s->f32))
MAKER(signs, weir_sign(s->f32))

static const struct {
    const char *name;
    weir_tensor *(*make)(const sources *s);
    int bits;                   /* 0: not compressed */
} producers[] = {
    {"compared", compared, 1}, {"negated", negated, 1}, {"flag_to_f32", flag_to_f32, 1},
    {"flag_to_f16", flag_to_f16, 1}, {"byte_to_f32", byte_to_f32, 8},
    {"byte_to_i64", byte_to_i64, 8}, {"byte_to_bf16", byte_to_bf16, 8},
    {"half_to_f32", half_to_f32, 16}, {"brain_to_f32", brain_to_f32, 16},
    {"brain_to_f64", brain_to_f64, 16}, {"half_to_f64", half_to_f64, 16},
    {"single_to_f64", single_to_f64, 32}, {"int_to_f64", int_to_f64, 32},
    {"real_to_half", real_to_half, 0}, {"int_to_f32", int_to_f32, 0}, {"hot", hot, 1},
    {"drawn", drawn, 1}, {"counted", counted, 16}, {"counted_by_half", counted_by_half, 0},
    {"best", best, 4}, {"chosen", chosen, 2}, {"joined", joined, 8}, {"added", added, 2},
    {"subtracted", subtracted, 16}, {"multiplied", multiplied, 8}, {"unmasked", unmasked, 1},
    {"minus", minus, 0}, {"scaled", scaled, 0}, {"clipped", clipped, 1},
    {"clipped_half", clipped_half, 16}, {"summed_bytes", summed_bytes, 0}, {"pooled", pooled, 8},
    {"padded", padded, 1}, {"larger", larger, 8}, {"real", real, 0}, {"signs", signs, 0}};

/* Compresses and decompresses n bytes of elements on one thread. */
static void there_and_back(const weir_pack_attr *a, void *from, size_t n)
{
    uint8_t *const    code = malloc(weir_pack_bytes(a) + 1), *back = malloc(n + 1);
    const weir_layout plain = {.desc = weir_1d((weir_dtype)a->dtype, a->count), .stride = {1}};
    weir_layout       bytes = {.desc = weir_1d(WEIR_U8, (int64_t)weir_pack_bytes(a)),
                               .stride = {1}};
    weir_layout       recomputed = plain;
    const weir_call   pack = {.op = WEIR_OP_PACK, .nin = 1, .nout = 1, .in = &plain, .out = &bytes,
                              .attr = a, .attr_bytes = sizeof *a};
    const weir_call   unpack = {.op = WEIR_OP_UNPACK, .nin = 1, .nout = 1, .in = &bytes,
                                .out = &recomputed, .attr = a, .attr_bytes = sizeof *a};
    weir_threads *const t = weir_threads_new(1);
    weir_kernel         to, of;

    CHECK(n == weir_shape_bytes(&plain.desc));
    if (CHECK_OK(weir_cpu_pack(NULL, &pack, &to)) &&
        CHECK_OK(weir_cpu_unpack(NULL, &unpack, &of))) {
        CHECK_OK(to.run(&(weir_kargs){.call = &pack, .src = (void *[]){from},
                                      .dst = (void *[]){code}, .threads = t}));
        CHECK_OK(of.run(&(weir_kargs){.call = &unpack, .src = (void *[]){code},
                                      .dst = (void *[]){back}, .threads = t}));
        CHECK_BITS(from, back, n);
    }
    weir_threads_free(t);
    free(code);
    free(back);
}

/* Makes the value and, kept, two copies of it; checks the inferred range on the elements of the
 * first copy. Returns the number of fused groups. */
static uint32_t check_maker(const sources *s, size_t i, const weir_plan_options *passes)
{
    weir_graph *const  g = weir_graph_begin(s->d);
    weir_tensor *const y = producers[i].make(s);
    weir_tensor *const kept = weir_keep(weir_concat(2, (weir_tensor *[]){y, y}, 0));
    weir_pack_attr    *pack = NULL;
    uint32_t           fused = 0;

    if (CHECK(kept != NULL) && CHECK_OK(weir_graph_end(g, passes)) &&
        CHECK_OK(weir_graph_run(g)) && CHECK_OK(weir_value_ranges_pack(g, &pack))) {
        uint32_t bits = 0, at = 0;
        for (uint32_t k = 0; k < g->nodes.n; k++)
            if (!g->storages.at[weir_storage_of(g, g->nodes.at[k].out[0])].external)
                at = weir_storage_of(g, g->nodes.at[k].out[0]);
        bits = (uint32_t)pack[at].bits;
        fused = fixture_count(g, WEIR_OP_FUSED);
        const size_t bytes = weir_tensor_bytes(kept);
        void *const  data = malloc(bytes);
        CHECK_OK(weir_read(kept, data, bytes));
        if (!CHECK((int)bits == producers[i].bits))
            printf("    %s: %u bits, not %d\n", producers[i].name, bits, producers[i].bits);
        if (bits > 0)
            there_and_back(&pack[at], data, bytes / 2);
        free(data);
    }
    weir_mem_free(pack);
    weir_graph_free(g);
    return fused;
}

CASE(what_is_known_holds)
{
    sources  s;
    uint32_t fused = 0;

    if (CHECK(sources_open(&s)))
        for (size_t i = 0; i < ARRAY_LENGTH(producers); i++) {
            CHECK(check_maker(&s, i, OPTIONS_AS_RECORDED) == 0);
            fused += check_maker(&s, i, OPTIONS_WITHOUT("cse,fold,copies"));
        }
    CHECK(fused > 0);
    sources_close(&s);
}

/* ---- training ---- */

enum { BATCH = 4, STEPS = 20, MASKS = 3 };

/* A convolution, dropout with explicit masks, max-pooling, a selection by comparison, a linear
 * layer. */
static weir_status record(void *ctx)
{
    train *const       t = ctx;
    weir_tensor *const zero = weir_fill(t->d, weir_scalar(WEIR_F32), 0.1);
    weir_tensor       *h = weir_relu(weir_apply(t->layer, t->x));

    if (!h)
        return weir_error_status();
    for (int i = 0; i < MASKS; i++)
        h = weir_mul(h, weir_bernoulli(t->d, weir_tensor_desc(h), 0.8));
    h = weir_max_pool2d(h, &(weir_pool2d_options){.kernel = {4, 4}});
    h = weir_where(weir_gt(h, zero), h, weir_affine(h, 0.1, 0));
    t->loss = weir_keep(weir_cross_entropy(weir_apply(t->head, weir_flatten(h)), t->y));
    return t->loss ? weir_minimize(t->o, t->loss) : weir_error_status();
}

static bool net_open(train *t, const weir_step_options *how)
{
    if (!CHECK_OK(train_open(t, TRAIN_POOLED, BATCH, 0, how)))
        return false;
    weir_step_free(t->step);
    t->step = weir_step_new(t->d, record, t, how);
    return CHECK(t->step != NULL);
}

/* Trains within the budget: bits, planned = measured <= budget. *packs: compressing
 * instructions. */
static weir_status train_within(const char *policy, const char *budget, uint64_t bits,
                                uint32_t *packs)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = budget, .policy = policy,
                                                     .disable = "fuse"}};
    train                   t;
    weir_graph_stats        s;
    size_t                  measured = 0;
    weir_status             status = WEIR_OK;
    const bool only_packs = strcmp(policy, "gist") == 0 || strcmp(policy, "auto:pack") == 0;

    if (!net_open(&t, &how))
        return WEIR_ERR_NOMEM;
    for (int k = 0; k < STEPS && status == WEIR_OK; k++)
        status = train_step(&t, k);
    if (status == WEIR_OK) {
        weir_graph *const g = weir_step_graph(t.step);
        CHECK(train_bits(&t) == bits);
        CHECK_OK(weir_graph_stats_of(g, &s));
        CHECK(s.planned_peak_bytes <= s.budget_bytes);
        *packs = fixture_count(g, WEIR_OP_PACK);
        CHECK(fixture_count(g, WEIR_OP_UNPACK) >= *packs);
        CHECK(s.recomputed == 0 || !only_packs);
        CHECK_OK(weir_graph_measure(g, &measured));
        CHECK(measured == s.arena_bytes);
    }
    train_close(&t);
    return status;
}

/* Returns the bits of training without a budget. */
static uint64_t free_bits(void)
{
    train t;

    if (!net_open(&t, &(weir_step_options){.graph = false}))
        return 0;
    for (int k = 0; k < STEPS; k++)
        CHECK_OK(train_step(&t, k));
    const uint64_t bits = train_bits(&t);
    train_close(&t);
    return bits;
}

/* Returns the smallest budget in percent, in steps of 4, that the policy meets; *packs: in its
 * plan. */
static int smallest(const char *policy, uint64_t bits, uint32_t *packs)
{
    int least = 100;

    for (int percent = 98; percent > 40; percent -= 4) {
        char     budget[16];
        uint32_t some = 0;
        snprintf(budget, sizeof budget, "%d%%", percent);
        const weir_status status = train_within(policy, budget, bits, &some);
        if (status == WEIR_ERR_BUDGET)
            break;
        CHECK_OK(status);
        least = percent;
        *packs = some;
    }
    return least;
}

CASE(training_keeps_the_bits)
{
    static const char *const policies[] = {"gist", "auto:pack"};
    const uint64_t           bits = free_bits();

    for (size_t i = 0; i < ARRAY_LENGTH(policies); i++) {
        uint32_t  packs = 0;
        const int least = smallest(policies[i], bits, &packs);
        if (!CHECK(least < 92 && packs > 0))
            printf("    %s: %d %%, %u packed\n", policies[i], least, packs);
    }
}

/* ---- packing as an option of any policy ---- */

CASE(any_policy_packs)
{
    static const char *const policies[] = {"recycle", "dtr", "checkpoint:speed", "sublinear",
                                           "capuchin", "delta", "vdnn:conv", "mincut"};
    const uint64_t           bits = free_bits();
    uint32_t                 packs = 0, all = 0, tried = 0;
    const int                alone = smallest("gist", bits, &packs);

    for (size_t i = 0; i < ARRAY_LENGTH(policies); i += check_full() ? 1 : 2) {
        char      text[32];
        snprintf(text, sizeof text, "%s/gist", policies[i]);
        const int with = smallest(text, bits, &packs);
        if (!CHECK(with <= smallest(policies[i], bits, &(uint32_t){0}) && with <= alone))
            printf("    %s: down to %d %%, gist alone %d %%\n", text, with, alone);
        all += packs > 0;
        tried++;
    }
    CHECK(all > tried / 2);
}

/* ---- failures ---- */

CASE(every_allocation_fails)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = "80%", .policy = "gist",
                                                     .disable = "fuse"}};

    for (int64_t nth = 0, step = 1;; nth += step) {
        const int64_t alive = weir_mem_alive();
        train         t;
        if (!net_open(&t, &how) || !CHECK_OK(weir_write_fill(t.x, 0.5)) ||
            !CHECK_OK(weir_write_fill(t.y, 3)))
            break;
        weir_mem_fail_nth(nth, false);
        const weir_status status = weir_step_run(t.step);
        const bool        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        train_close(&t);
        CHECK(weir_mem_alive() == alive);
        if (!failed)
            break;
        CHECK(status == WEIR_OK || status == WEIR_ERR_NOMEM);
        step = 1 + nth / 16;
    }
}

/* ---- gist's decisions ---- */

CASE(gist_packs_what_crosses)
{
    weir_mem_problem p = {.pack_bandwidth = 1e9};
    weir_schedule    s;
    const struct { uint32_t nin, in[2]; weir_phase phase; } ops[] = {
        {0, {0}, WEIR_FORWARD}, {1, {0}, WEIR_FORWARD}, {1, {1}, WEIR_FORWARD},
        {2, {2, 1}, WEIR_BACKWARD}, {2, {3, 0}, WEIR_BACKWARD}};
    const weir_policy *policy;
    weir_policy_job    job = {.p = &p, .limit = SIZE_MAX};

    for (uint32_t i = 0; i < ARRAY_LENGTH(ops); i++) {
        const weir_mem_op_def def = {.time = 1,
                                     .rerun_before = 9,
                                     .nin = ops[i].nin,
                                     .in = ops[i].in,
                                     .nout = 1,
                                     .out = &i,
                                     .phase = ops[i].phase};
        CHECK(weir_mem_problem_add_tensor(&p, 1024, i == 0 ? 128 : 0, i == 4));
        CHECK(weir_mem_problem_add_op(&p, &def));
    }
    CHECK(weir_mem_problem_end(&p));
    CHECK_OK(weir_policy_find("gist", &policy, &job.variant));
    CHECK_OK(policy->plan(&job));
    s = job.s;
    CHECK(s.valid && s.n_compressions == 2 && s.recomputed == 0 && s.copies == 0);
    CHECK_OK(weir_schedule_check(&s, NULL, 1, SIZE_MAX));
    weir_schedule_free(&s);
    weir_mem_problem_free(&p);
}

/* ---- actnn: results are about the same ---- */

/* Returns the last loss after STEPS steps on the same few images; *s: statistics of the plan. */
static double loss_with(const char *policy, const char *budget, weir_graph_stats *s)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = budget, .policy = policy,
                                                     .disable = "fuse"}};
    train  t;
    size_t measured = 0;
    float  loss = NAN;

    if (!net_open(&t, &how))
        return NAN;
    for (int k = 0; k < STEPS; k++)
        CHECK_OK(train_step(&t, 0));
    weir_graph *const g = weir_step_graph(t.step);
    if (CHECK(g != NULL) && CHECK_OK(weir_read(t.loss, &loss, sizeof loss)) &&
        CHECK_OK(weir_graph_stats_of(g, s)) && CHECK_OK(weir_graph_measure(g, &measured)))
        CHECK(measured == s->arena_bytes);
    train_close(&t);
    return (double)loss;
}

CASE(quantised_training_converges)
{
    static const struct { const char *policy; double within; } ways[] = {
        {"actnn:16", 0.01}, {"actnn:8", 0.02}, {"actnn", 0.1}, {"actnn:2", 0.5},
        {"recycle/actnn:8", 0.02}};
    weir_graph_stats s;
    const double     exact = loss_with(NULL, NULL, &s);

    CHECK(s.lossy == 0 && exact < 1.5);         /* it was about 2.3 initially */
    for (size_t i = 0; i < ARRAY_LENGTH(ways); i++) {
        const double loss = loss_with(ways[i].policy, "80%", &s);
        CHECK(s.lossy > 0 && s.planned_peak_bytes <= s.budget_bytes);
        if (!CHECK(fabs(loss - exact) < ways[i].within))
            printf("    %s: loss %g, exact %g\n", ways[i].policy, loss, exact);
        CHECK(loss == loss_with(ways[i].policy, "80%", &s));
    }
}

CASE(packings_that_there_are_none_of)
{
    static const struct { const char *policy, *says; } wrong[] = {
        {"actnn:3", "2, 4, 8 or 16"},
        {"dtr/actnn:5", "2, 4, 8 or 16"},
        {"dtr/", "gist, actnn"},
        {"auto/zip", "gist, actnn"},
        {"checkpoint:speed/gist/gist", "gist, actnn"},
        {"nobody/gist", "unknown policy"}};

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        const weir_step_options how = {.graph = true, .plan = {.budget = "80%",
                                                         .policy = wrong[i].policy}};
        train t;
        CHECK_OR_RETURN(net_open(&t, &how));
        CHECK_STATUS(weir_step_run(t.step), WEIR_ERR_INVALID);
        if (!CHECK(strstr(weir_error(), wrong[i].says) != NULL))
            printf("    %s\n", weir_error());
        train_close(&t);
    }
}
