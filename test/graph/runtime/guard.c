/* guard.c - guard zones round operands and workspaces: what kernels and callbacks write outside
 * is found and named, graph off and on, in budgets and copies; steps keep bits and figures. */
#include <stdlib.h>

#include "core/attr.h"
#include "graph/fixture.h"
#include "graph/train.h"

static weir_device *opened(void)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = 2, .seed = 7, .guard = 1});
}

/* Devices opened without a wish have guard zones, or not, until it is called with "". */
static void guards(const char *text)
{
    static char kept[8];
    if (*text) {
        const char *const before = getenv("WEIR_GUARD");
        snprintf(kept, sizeof kept, "%s", before ? before : "");
    }
    if (*text || *kept)
        setenv("WEIR_GUARD", *text ? text : kept, 1);
    else
        unsetenv("WEIR_GUARD");
}

/* ---- a kernel that writes one byte outside ---- */

static struct {
    weir_status (*run)(const weir_kargs *k);
    int           operand;          /* inputs, outputs, the workspace */
    ptrdiff_t     at;               /* from its first byte */
    bool          as_input;         /* an output in place of an input, which is named */
} injected;

static weir_status overrun(const weir_kargs *k)
{
    const int         nin = k->call->nin, i = injected.operand;
    char *const       p = i < nin ? k->src[i] : i < nin + k->call->nout ? k->dst[i - nin] : k->work;
    const weir_status status = injected.run(k);
    injected.as_input = false;
    for (int j = 0; i >= nin && j < nin; j++)
        injected.as_input |= k->src[j] == (void *)p;
    p[injected.at] = (char)~p[injected.at];
    return status;
}

static const weir_layout *layout(const weir_call *c, int i)
{
    return i < c->nin ? &c->in[i] : &c->out[i - c->nin];
}

/* Plants it into a frozen choice: one byte before or after an operand. */
static void inject(const weir_kernel *kernel, const weir_call *c, int operand, bool after)
{
    weir_kernel *const mine = (weir_kernel *)(uintptr_t)kernel;
    const size_t bytes = operand < c->nin + c->nout ? weir_shape_bytes(&layout(c, operand)->desc)
                                                    : kernel->work;
    injected.run = mine->run;
    injected.operand = operand;
    injected.at = after ? (ptrdiff_t)bytes : -1;
    mine->run = overrun;
}

static void weed(const weir_kernel *kernel)
{
    ((weir_kernel *)(uintptr_t)kernel)->run = injected.run;
}

/* The last error names operation, operand, side and offset; `place`: where in the plan, or "". */
static void check_sentence(const weir_call *c, const char *place)
{
    char      text[128];
    const int i = injected.operand, out = i - c->nin;

    snprintf(text, sizeof text, "%s%s: the kernel wrote outside", c->def->name, place);
    CHECK_TEXT(weir_error(), text);
    snprintf(text, sizeof text, "1 byte changed %s %s", injected.at < 0 ? "before" : "after",
             out >= c->nout                 ? "its workspace"
             : out < 0 || injected.as_input ? "input "
                                            : "output ");
    CHECK_TEXT(weir_error(), text);
    snprintf(text, sizeof text, "at offsets %td to %td", injected.at, injected.at);
    CHECK_TEXT(weir_error(), text);
}

/* ---- graph off ---- */

static weir_status doubled(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    for (int i = 0; i < 2 * 3 * 4 * 5; i++)
        ((float *)y[0].data)[i] = 2 * ((const float *)x[0].data)[i];
    return WEIR_OK;
}

static const weir_callback_def doubles = {.name = "double", .forward = doubled};

/* Images lie channels-last, so the copies that the function sees are a workspace. */
static weir_tensor *call_double(weir_tensor *x)
{
    const weir_desc desc = weir_tensor_desc(x);
    weir_tensor    *y = NULL;
    (void)weir_callback(&doubles, NULL, 1, &x, 1, &desc, &y);
    return y;
}

/* The one callback among the device's frozen choices, by recording it. */
static const weir_instr *callback_of(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->plan->n; i++)
        if (g->plan->instr[i].call.op == WEIR_OP_CALLBACK)
            return &g->plan->instr[i];
    return NULL;
}

/* Parameter -> exp -> callback, recorded; the plan's callback runs the kernel of graph off, too. */
static weir_graph *record_double(weir_tensor *x, bool kept, weir_tensor **y)
{
    weir_graph  *g = weir_graph_begin(weir_tensor_device(x));
    weir_tensor *z = call_double(kept ? x : weir_exp(x));
    *y = weir_keep(weir_affine(z, 2, 1));
    CHECK_OK(weir_graph_end(g, NULL));
    return g;
}

CASE(graph_off)
{
    float        v[120], first[120], recomputed[120];
    weir_device *d = opened();
    weir_tensor *x = weir_param(d, weir_4d(WEIR_F32, 2, 3, 4, 5), "x"), *unused;
    check_floats(v, ARRAY_LENGTH(v), -1, 1);
    CHECK_OK(weir_write(x, v, sizeof v));
    CHECK_OK(weir_read(call_double(x), first, sizeof first));
    weir_graph             *g = record_double(x, true, &unused);
    const weir_instr *const ins = callback_of(g);
    if (CHECK(ins && ins->kernel->work > 0))
        for (int i = 0; i < 6; i++) {
            inject(ins->kernel, &ins->call, i / 2, i % 2);
            CHECK(call_double(x) == NULL && weir_error_status() == WEIR_ERR_DEVICE);
            weed(ins->kernel);
            check_sentence(&ins->call, "");
            CHECK_OK(weir_read(call_double(x), recomputed, sizeof recomputed));
            CHECK_BITS(recomputed, first, sizeof first);
        }
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- recorded ---- */

/* Operands outside the arena (kept) and in it. */
CASE(graph_on)
{
    char         place[64];
    float        v[120], first[120], recomputed[120];
    weir_device *d = opened();
    weir_tensor *x = weir_param(d, weir_4d(WEIR_F32, 2, 3, 4, 5), "x"), *y;
    check_floats(v, ARRAY_LENGTH(v), -1, 1);
    CHECK_OK(weir_write(x, v, sizeof v));
    for (int kept = 0; kept < 2; kept++) {
        weir_graph *g = record_double(x, kept, &y);
        CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_read(y, first, sizeof first));
        const weir_instr *const ins = callback_of(g);
        for (int i = 0; CHECK(ins != NULL) && i < 6; i++) {
            inject(ins->kernel, &ins->call, i / 2, i % 2);
            CHECK_STATUS(weir_graph_run(g), WEIR_ERR_DEVICE);
            weed(ins->kernel);
            snprintf(place, sizeof place, " (instruction %td of %u)", ins - g->plan->instr,
                     g->plan->n);
            check_sentence(&ins->call, place);
            CHECK_OK(weir_graph_run(g));
            CHECK_OK(weir_read(y, recomputed, sizeof recomputed));
            CHECK_BITS(recomputed, first, sizeof first);
        }
        weir_graph_free(g);
    }
    weir_release(x);
    weir_device_close(d);
}

/* A function of the program's own sees the memory itself. */
static weir_status one_more(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    for (int i = 0; i < 10 + *(const int *)ctx; i++)
        ((float *)y[0].data)[i] = 3 * ((const float *)x[0].data)[i % 10];
    return WEIR_OK;
}

CASE(a_callback_writes_one_element_more)
{
    static const weir_callback_def def = {.name = "triple", .forward = one_more};
    const weir_desc                desc = weir_1d(WEIR_F32, 10);
    int                            more = 1;
    weir_device *d = opened();
    weir_tensor *x = weir_param(d, desc, "x"), *y = NULL;
    CHECK_OK(weir_write_fill(x, 1));
    CHECK_STATUS(weir_callback(&def, &more, 1, &x, 1, &desc, &y), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "4 bytes changed after output 0 f32(10) of 40 bytes, at offsets 40 to "
                             "43");
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_callback(&def, &more, 1, &x, 1, &desc, &y));
    weir_keep(y);
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "(instruction 0 of 1)");
    CHECK_TEXT(weir_error(), "4 bytes changed after output 0 f32(10)");
    more = 0;
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 3);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* A write by the program itself, through an address that it was given, is not reported for the next
 * call. */
CASE(nobody_is_blamed_for_what_was_there)
{
    weir_device *d = opened();
    weir_tensor *x = weir_param(d, weir_1d(WEIR_F32, 10), "x");
    int64_t      stride[WEIR_MAX_DIMS];
    void        *data;
    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OR_RETURN(weir_tensor_memory(x, &data, stride) == WEIR_OK);
    ((char *)data)[-3] = 5;
    CHECK(weir_exp(x) == NULL);
    CHECK_TEXT(weir_error(), "something wrote around its operands before it ran: 1 byte changed "
                             "before input 0 f32(10) of 40 bytes, at offsets -3 to -3");
    CHECK(weir_exp(x) != NULL);
    weir_release(x);
    weir_device_close(d);
}

/* ---- training ---- */

/* Every operand and workspace of every instruction of a plan, on either side. */
static uint32_t inject_everywhere(train *t)
{
    weir_graph *const g = weir_step_graph(t->step);
    char              place[64];
    uint32_t          copies = 0;

    for (uint32_t i = 0; CHECK(g != NULL) && i < g->plan->n; i++) {
        weir_instr *const ins = &g->plan->instr[i];
        const int         n = ins->call.nin + ins->call.nout + (ins->kernel->work > 0);
        const bool        copy = weir_op_moves(ins->call.op);
        copies += copy;
        for (int k = 0; k < 2 * n; k++) {
            weir_kernel        bad = *ins->kernel;
            const weir_kernel *real = ins->kernel;
            if (k / 2 < n - (real->work > 0) && layout(&ins->call, k / 2)->desc.ndim > 0 &&
                !weir_shape_is_dense(layout(&ins->call, k / 2)))
                continue;               /* a view: its ends are not those of its memory */
            inject(&bad, &ins->call, k / 2, k % 2);
            ins->kernel = &bad;
            CHECK_STATUS(weir_graph_run(g), WEIR_ERR_DEVICE);
            ins->kernel = real;
            snprintf(place, sizeof place, " (instruction %u of %u)", i, g->plan->n);
            check_sentence(&ins->call, place);
        }
    }
    return copies;
}

CASE(in_every_operand_of_a_step)
{
    if (!check_on_cpu())        /* no zones where the host cannot look */
        return;
    static const struct { const char *budget, *policy; } how[] = {
        {NULL, NULL}, {"75%", NULL}, {"75%", "auto:swap"}};

    for (size_t i = 0; i < ARRAY_LENGTH(how); i++) {
        const weir_step_options o = {
            .graph = true, .plan = {.budget = how[i].budget, .policy = how[i].policy,
                                    .disable = "fuse"}};
        train t;
        guards("1");
        const weir_status status = train_open(&t, TRAIN_MLP, 64, 0, &o);
        guards("");
        if (!CHECK_OK(status))
            continue;
        CHECK_OK(train_step(&t, 0));
        CHECK(t.d->guard > 0);
        const uint32_t copies = inject_everywhere(&t);
        CHECK(how[i].policy ? copies > 0 : how[i].budget || copies == 0);
        CHECK_OK(train_step(&t, 1));
        train_close(&t);
    }
}

/* Planned = measured within the budget; the bits are those of a device without zones. */
static void same_training(train_net net, int64_t batch, int64_t side, const weir_step_options *how)
{
    uint64_t bits[2] = {0};
    size_t   peak[2] = {0};

    for (int with = 0; with < 2; with++) {
        train            t;
        weir_graph_stats s;
        size_t           measured = 0;
        guards(with ? "1" : "0");
        const weir_status status = train_open(&t, net, batch, side, how);
        guards("");
        if (!CHECK_OK(status))
            return;
        CHECK((t.d->guard > 0) == with);
        for (int i = 0; i < 2; i++)
            CHECK_OK(train_step(&t, i));
        bits[with] = train_bits(&t);
        weir_graph *const g = weir_step_graph(t.step);
        if (how->graph && CHECK(g) && CHECK_OK(weir_graph_stats_of(g, &s)) &&
            CHECK_OK(weir_graph_measure(g, &measured))) {
            CHECK(measured == s.arena_bytes && s.guard_bytes == t.d->guard);
            CHECK(s.budget_bytes == 0 || s.planned_peak_bytes <= s.budget_bytes);
            peak[with] = s.planned_peak_bytes;
        }
        train_close(&t);
    }
    CHECK(bits[0] == bits[1]);
    CHECK(!how->graph || peak[1] > peak[0]);
}

CASE(steps_keep_their_bits)
{
    if (!check_on_cpu())        /* no zones where the host cannot look */
        return;
    static const struct { train_net net; int64_t batch, side; } steps[] = {
        {TRAIN_MLP, 16, 0}, {TRAIN_DIGITS, 16, 0}, {TRAIN_RESNET18, 2, 16}};
    static const weir_step_options how[] = {
        {.graph = false}, {.graph = true},
        {.graph = true, .plan = {.budget = "85%", .policy = "mincut"}}};

    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        for (size_t k = 0; k < ARRAY_LENGTH(how); k++)
            if (k < 2 || steps[i].net == TRAIN_DIGITS)
                same_training(steps[i].net, steps[i].batch, steps[i].side, &how[k]);
}

/* With the graph off, values are evicted and recomputed; live bytes count the zones. */
CASE(within_a_budget_graph_off)
{
    if (!check_on_cpu())        /* no zones where the host cannot look */
        return;
    const weir_step_options how = {.graph = false};
    uint64_t                bits[2] = {0};
    size_t                  budget = 0;
    weir_memory             m;
    char                    text[32];

    for (int limited = 0; limited < 2; limited++) {
        train t;
        guards("1");
        const weir_status status = train_open(&t, TRAIN_DIGITS, 16, 0, &how);
        guards("");
        if (!CHECK_OK(status))
            return;
        snprintf(text, sizeof text, "%zu", budget);
        if (limited)
            CHECK_OK(weir_device_set_budget(t.d, text));
        for (int i = 0; i < 3; i++)
            CHECK_OK(train_step(&t, i));
        bits[limited] = train_bits(&t);
        weir_device_memory(t.d, &m);
        CHECK(!limited || (m.live_peak <= budget && m.recomputed > 0));
        budget = m.live_peak / 100 * 85;
        train_close(&t);
    }
    CHECK(bits[0] == bits[1] && bits[0] != 0);
}
