/* stream.c - tests of runs that are captured: a capture that fails leaves launches one by one, with
 * the same bits and the reason kept. */
#include "device/cuda/card_fixture.h"

#include "core/status.h"
#include "device/cuda/card_work.h"

static card_fixture card;

/* A training step on a card of its own. */
typedef struct step {
    weir_device *d;
    weir_model  *net;
    weir_optim  *sgd;
    weir_tensor *x, *y, *loss;
    weir_graph  *g;
} step;

/* Two branches, which run on streams of their own, with dropout. */
static step step_new(const weir_plan_options *options)
{
    step s = {.d = weir_device_open("cuda", NULL)};

    s.net = weir_model_new(s.d);
    s.sgd = weir_sgd_new(s.d, 0.3, &(weir_sgd_options){.momentum = 0.9});
    s.x = weir_input(s.d, weir_2d(WEIR_F32, ROWS, WIDTH));
    s.y = weir_input(s.d, weir_1d(WEIR_I32, ROWS));
    CHECK_OK(write_floats(s.x, ROWS * WIDTH));
    CHECK_OK(write_classes(s.y));
    weir_layer *const a = weir_mlp_new(s.net, 4, (int64_t[]){WIDTH, 48, 32, CLASSES});
    weir_layer *const b = weir_mlp_new(s.net, 4, (int64_t[]){WIDTH, 64, 48, CLASSES});
    s.g = weir_graph_begin(s.d);
    weir_tensor *const both = weir_add(weir_apply(a, weir_dropout(s.x, 0.2)), weir_apply(b, s.x));
    s.loss = weir_keep(weir_cross_entropy(both, s.y));
    CHECK_OK(weir_minimize(s.sgd, s.loss));
    CHECK_OK(weir_graph_end(s.g, options));
    return s;
}

static void step_free(const step *s)
{
    weir_graph_free(s->g);
    weir_optim_free(s->sgd);
    weir_model_free(s->net);
    weir_release(s->x);
    weir_release(s->y);
    weir_device_close(s->d);
}

static weir_status run(const step *s, float *loss)
{
    const weir_status status = weir_graph_run(s->g);
    return status == WEIR_OK ? weir_read(s->loss, loss, sizeof *loss) : status;
}

/* The losses of a training in which nothing fails. */
static void losses(const weir_plan_options *options, float out[STEPS])
{
    const step s = step_new(options);

    for (int i = 0; i < STEPS; i++)
        CHECK_OK(run(&s, &out[i]));
    CHECK(out[STEPS - 1] < out[0]);
    step_free(&s);
}

static long begun(void)
{
    return card.calls("cudaStreamBeginCapture");
}

static long replayed(void)
{
    return card.calls("cudaGraphLaunch");
}

/* ---- captures that fail ---- */

typedef enum end { INSIDE, OUTSIDE, PASSED } end;

/* Fails the nth call of any function in the second run. INSIDE: between the beginning of the
 * capture and the launch of its graph; PASSED: the run has fewer calls. */
static end fail_second_run(const weir_plan_options *options, long nth, const float want[STEPS])
{
    const step s = step_new(options);
    float      out[STEPS];

    CHECK_OK(run(&s, &out[0]));
    const long b = begun(), r = replayed();
    card.fail("*", nth, cudaErrorUnknown);
    const weir_status status = weir_graph_run(s.g);
    const end         e = card.failed() == 0              ? PASSED
                          : begun() > b && replayed() == r ? INSIDE
                                                           : OUTSIDE;
    card.recover();
    if (e == INSIDE) {
        CHECK_OK(status);
        CHECK_OK(weir_read(s.loss, &out[1], sizeof out[1]));
        for (int i = 2; i < STEPS; i++)
            CHECK_OK(run(&s, &out[i]));
        CHECK_BITS(out, want, sizeof out);
        CHECK(begun() == b + 1 && replayed() == r);
    }
    step_free(&s);
    return e;
}

static void each_call_of_a_capture_fails(const weir_plan_options *options)
{
    float want[STEPS];
    int   n[PASSED + 1] = {0};

    CHECK_OR_RETURN(card_fixture_of(&card));
    losses(options, want);
    for (long nth = 1; !n[PASSED]; nth++) {
        const int before = check_failures;
        n[fail_second_run(options, nth, want)]++;
        if (check_failures > before)
            printf("    when call %ld of the second run failed\n", nth);
    }
    CHECK(n[INSIDE] > 20);
}

CASE(each_call_of_a_capture_fails)
{
    each_call_of_a_capture_fails(NULL);
}

CASE(each_call_of_a_capture_with_copies_fails)
{
    each_call_of_a_capture_fails(&narrow);
}

/* An error that nobody has read yet survives a capture that fails; the reason of that is told by
 * the device and the plan. */
CASE(a_failed_capture_is_told)
{
    static const char *const calls[] = {"cudaStreamBeginCapture", "cudaStreamEndCapture",
                                        "cudaGraphInstantiate", "cudaGraphUpload"};
    float                    want[STEPS], out[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    losses(NULL, want);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        const step s = step_new(NULL);
        CHECK_OK(run(&s, &out[0]));
        CHECK(weir_input(s.d, (weir_desc){.ndim = -1}) == NULL);
        char before[300];
        snprintf(before, sizeof before, "%s", weir_error());
        const weir_status failed = weir_error_status();
        card.fail(calls[c], 1, cudaErrorMemoryAllocation);
        for (int i = 1; i < STEPS; i++)
            CHECK_OK(run(&s, &out[i]));
        CHECK(card.failed() == 1);
        card.recover();
        CHECK_BITS(out, want, sizeof out);
        CHECK_TEXT(weir_error(), before);
        CHECK(weir_error_status() == failed && failed != WEIR_OK);
        char *const info = weir_info_text(s.d), *const plan = weir_graph_text(s.g, WEIR_TEXT_PLAN);
        CHECK_TEXT(info, "1 plans are launched one by one");
        CHECK_TEXT(info, calls[c]);
        CHECK_TEXT(plan, "# launched one by one, because recording a run failed: device cuda: ");
        CHECK_TEXT(plan, "out of memory");
        weir_text_free(info);
        weir_text_free(plan);
        step_free(&s);
    }
}

/* Checks that nothing is captured, with the wanted losses, and that weir_info_text says why.
 * Returns a planned step. */
static step step_without_captures(const float want[STEPS], const char *why)
{
    const long b = begun();
    float      out[STEPS];

    losses(NULL, out);
    CHECK_BITS(out, want, sizeof out);
    losses(&narrow, out);
    CHECK_BITS(out, want, sizeof out);
    CHECK(begun() == b);
    const step  s = step_new(NULL);
    char *const info = weir_info_text(s.d);
    CHECK_TEXT(info, why);
    weir_text_free(info);
    return s;
}

CASE(captures_can_be_turned_off)
{
    float want[STEPS], out[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    losses(NULL, want);
    setenv("WEIR_GRAPHS", "0", 1);
    const long b = begun();
    const step s = step_without_captures(want, "not captured (WEIR_GRAPHS=0)");
    step_free(&s);
    unsetenv("WEIR_GRAPHS");
    losses(NULL, out);
    CHECK(begun() == b + 1);
}

/* ---- calls that are waited for ---- */

/* The sum of a softmax of a product. In a run nobody has read yet, so failures may still wait. */
static weir_tensor *product_chain(weir_tensor *x)
{
    return weir_sum(weir_softmax(weir_matmul_t(x, x, false, true), 1), 0, false);
}

static const char *const chain[] = {"matmul", "softmax", "sum"};

/* The place in `chain` of the operation that the last failure names, with its shapes; -1: none. */
static int named_op(void)
{
    const char *const said = weir_error();

    for (int i = 0; i < (int)(sizeof chain / sizeof *chain); i++)
        if (strncmp(said, chain[i], strlen(chain[i])) == 0 && said[strlen(chain[i])] == ':')
            return strstr(said, "the card failed in this call: an illegal memory access") &&
                           strstr(said, i == 0 ? "(inputs f32(8,24)" : "(inputs f32(8,8)")
                       ? i
                       : -1;
    return -1;
}

/* Runs the chain while the nth kernel fails. recorded: by a graph; watched: with a trace. Returns
 * WEIR_OK once there are fewer kernels. */
static weir_status run_chain(long nth, bool recorded, bool watched)
{
    weir_device *const d = weir_device_open("cuda", NULL);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, ROWS, WIDTH));
    const float        at[ROWS * WIDTH] = {1};
    weir_graph        *g = NULL;
    weir_status        status;

    CHECK_OK(weir_write(x, at, sizeof at));
    if (recorded) {
        g = weir_graph_begin(d);
        (void)weir_keep(product_chain(x));
        CHECK_OK(weir_graph_end(g, NULL));
    }
    if (watched)
        CHECK_OK(weir_device_trace_start(d));
    card.fail("kernel", nth, cudaErrorIllegalAddress);
    CHECK_OK(weir_scope_begin(d));
    status = recorded ? weir_graph_run(g) : product_chain(x) ? WEIR_OK : weir_error_status();
    if (status == WEIR_OK)
        status = weir_device_sync(d);
    weir_failure f;
    weir_failure_get(&f);
    card.recover();
    weir_scope_end(d);
    if (watched)
        weir_text_free(weir_device_trace_stop(d));
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
    weir_failure_set(&f);
    return status;
}

/* Each kernel of the chain fails in its turn: the operations named are those of the chain, in its
 * order, all of them. */
static void each_kernel_is_named(bool recorded, bool watched)
{
    int last = 0, seen = 0;

    for (long nth = 1; run_chain(nth, recorded, watched) != WEIR_OK; nth++) {
        const int op = named_op();
        if (!CHECK(op >= last))
            printf("    when kernel %ld failed: %s\n", nth, weir_error());
        seen |= 1 << (op < 0 ? 31 : op);
        last = op;
    }
    CHECK(seen == (1 << sizeof chain / sizeof *chain) - 1);
}

CASE(a_fault_names_its_operation)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    CHECK_STATUS(run_chain(1, true, false), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "an earlier operation caused it: WEIR_CUDA_SYNC=1 names it");
    each_kernel_is_named(true, true);
    setenv("WEIR_CUDA_SYNC", "1", 1);
    each_kernel_is_named(true, false);
    each_kernel_is_named(false, false);
    unsetenv("WEIR_CUDA_SYNC");
}

CASE(waiting_changes_no_bit)
{
    float want[STEPS];

    CHECK_OR_RETURN(card_fixture_of(&card));
    losses(NULL, want);
    setenv("WEIR_CUDA_SYNC", "1", 1);
    const step s = step_without_captures(want, "each call is waited for (WEIR_CUDA_SYNC=1)");
    const int32_t wrong[ROWS] = {CLASSES};
    CHECK_OK(weir_write(s.y, wrong, sizeof wrong));
    CHECK_STATUS(weir_graph_run(s.g), WEIR_ERR_INDEX);
    CHECK_TEXT(weir_error(), "cross_entropy");
    step_free(&s);
    unsetenv("WEIR_CUDA_SYNC");
}

/* A clock returns no status, so its failure is that of the next call. */
CASE(a_clock_keeps_its_error)
{
    CHECK_OR_RETURN(card_fixture_of(&card));
    weir_device *const d = weir_device_open("cuda", NULL);
    card.fail("cudaStreamSynchronize", 1, cudaErrorUnknown);
    CHECK(weir_device_clock(d) > 0);
    CHECK(card.failed() == 1);
    CHECK_STATUS(weir_device_sync(d), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "work queued before the clock was read: unknown error");
    CHECK_OK(weir_device_sync(d));
    card.recover();
    weir_device_close(d);
}

/* ---- parts that are opened when they are needed ---- */

enum { SLOT = WEIR_SPILL_ALIGN, BYTES = 3 * SLOT };

/* Copies `bytes` out and back, twice in the store, with tickets. */
static weir_status copy_both_ways(weir_device *d, char *at)
{
    WEIR_TRY(d->ops->swap_reserve(d, BYTES, 2));
    WEIR_TRY(d->ops->swap(d, &(weir_swap){.slot = SLOT, .bytes = SLOT, .at = at, .ticket = 0}));
    WEIR_TRY(d->ops->swap_wait(d, NULL, 0));
    WEIR_TRY(d->ops->fill(d, at, 0, SLOT));
    WEIR_TRY(d->ops->swap(d, &(weir_swap){.in = true, .slot = SLOT, .bytes = SLOT, .at = at,
                                          .ticket = 1}));
    WEIR_TRY(d->ops->swap_wait(d, NULL, 1));
    return d->ops->swap_settle(d, WEIR_OK);
}

/* Writes, copies out and in, and reads, on a new device, while the nth call fails; repeats what
 * failed. False once there are fewer calls. */
static bool parts_open_later(long nth, const unsigned char want[SLOT])
{
    unsigned char      out[SLOT] = {0};
    void              *at = NULL;
    weir_device *const d = weir_device_open("cuda", NULL);
    const long         before = card.legacy();

    CHECK_OK(d->ops->alloc(d, SLOT, false, &at));
    card.fail("*", nth, cudaErrorUnknown);
    if (d->ops->upload(d, at, want, SLOT) != WEIR_OK)
        CHECK_OK(d->ops->upload(d, at, want, SLOT));
    weir_status status = copy_both_ways(d, at);
    if (status != WEIR_OK) {
        (void)d->ops->swap_settle(d, status);
        CHECK_TEXT(weir_error(), "unknown error");
        CHECK_OK(d->ops->upload(d, at, want, SLOT));
        CHECK_OK(copy_both_ways(d, at));
    }
    status = d->ops->download(d, out, at, SLOT);
    if (status != WEIR_OK)
        CHECK_OK(d->ops->download(d, out, at, SLOT));
    CHECK_BITS(out, want, SLOT);
    CHECK(card.legacy() == before);
    const bool failed = card.failed() > 0;
    card.recover();
    d->ops->free(d, at, SLOT);
    weir_device_close(d);
    return failed;
}

CASE(half_open_parts_are_closed)
{
    unsigned char want[SLOT];
    long          nth = 1;

    CHECK_OR_RETURN(card_fixture_of(&card));
    for (int i = 0; i < SLOT; i++)
        want[i] = (unsigned char)check_u64();
    const size_t handles = card.handles(), bytes = card.allocated();
    for (int before = check_failures; parts_open_later(nth, want); nth++)
        if (check_failures > before) {
            printf("    when call %ld failed\n", nth);
            before = check_failures;
        }
    CHECK(nth > 20);
    CHECK(card.handles() == handles && card.allocated() == bytes);
}
