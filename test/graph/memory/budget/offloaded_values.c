/* offloaded_values.c - offloading and prefetching values: the ops inserted by hand into small
 * graphs and whole training steps keep the bits; failures on the way; treatment by passes and
 * dumps. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/attr.h"
#include "device/kernel.h"
#include "graph/ops/op.h"
#include "graph/passes/passes.h"
#include "graph/fixture.h"
#include "graph/train.h"

enum { N = 50000 };

/* A list of nodes that replaces the graph's. */
typedef struct nodes {
    WEIR_VEC(weir_node) list;
    weir_graph *g;
} nodes;

/* Appends a spill node; `in` or `out` is WEIR_NONE if the op has none. */
static void push(nodes *to, weir_op op, const weir_node *like, uint32_t in, uint32_t out,
                 weir_spill_attr attr)
{
    weir_node n = {.op = op, .def = weir_opdef_of(op), .phase = like->phase,
                   .attr_bytes = sizeof attr, .nin = in != WEIR_NONE, .nout = out != WEIR_NONE};

    n.in[0] = in;
    n.out[0] = out;
    n.attr = weir_mem_alloc(sizeof attr);
    memcpy(n.attr, &attr, sizeof attr);
    CHECK(weir_vec_push(&to->list, n));
}

static bool replace(nodes *by)
{
    weir_mem_free(by->g->nodes.at);
    by->g->nodes.at = by->list.at;
    by->g->nodes.n = by->list.n;
    by->g->nodes.cap = by->list.cap;
    return CHECK_OK(weir_graph_check(by->g)) &&
           CHECK_OK(weir_plan_build(by->g, by->g->plan->passes)) &&
           CHECK_OK(weir_plan_settle(by->g));
}

/* Returns all bytes of a storage as one value. */
static uint32_t bytes_of(weir_graph *g, uint32_t storage)
{
    const weir_layout l = {.desc = weir_1d(WEIR_U8, (int64_t)g->storages.at[storage].bytes),
                           .stride = {1}};
    return weir_graph_value_of(g, storage, &l, 0);
}

/* A storage that is offloaded between nodes `from` and `to`, its copy, and the attributes of
 * both. */
typedef struct offloaded {
    uint32_t        storage, copy, from, to;
    weir_spill_attr out, in;
} offloaded;

/* Finds the longest interval between two accesses of a temporary storage. */
static offloaded widest(const weir_graph *g, uint32_t storage)
{
    offloaded a = {.storage = storage};
    uint32_t  last = WEIR_NONE;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        bool             here = false;
        for (int k = 0; k < n->nin; k++)
            here = here || weir_storage_of(g, n->in[k]) == storage;
        for (int k = 0; k < n->nout; k++)
            here = here || weir_storage_of(g, n->out[k]) == storage;
        if (here && last != WEIR_NONE && i - last > a.to - a.from) {
            a.from = last;
            a.to = i;
        }
        last = here ? i : last;
    }
    return a;
}

/* Returns the node for the new list: readers of a prefetched storage read its copy. */
static weir_node mapped(weir_graph *g, uint32_t i, const offloaded *a, uint32_t n)
{
    weir_node node = g->nodes.at[i];

    for (int k = 0; k < node.nin; k++)
        for (uint32_t j = 0; j < n; j++)
            if (weir_storage_of(g, node.in[k]) == a[j].storage && i >= a[j].to) {
                const weir_layout l = g->values.at[node.in[k]].layout;
                node.in[k] = weir_graph_value_of(g, a[j].copy, &l,
                                                 g->values.at[node.in[k]].offset);
            }
    return node;
}

/* Offloads every temporary storage that is idle for more than `gap` nodes, as early as possible,
 * and prefetches it one node before its use. Returns the number of storages. */
static uint32_t spill_all(weir_graph *g, uint32_t decisions)
{
    WEIR_VEC(offloaded) list = {0};
    nodes               by = {.g = g};
    uint64_t            slot = 0;

    for (uint32_t s = 0, storages = g->storages.n; s < storages; s++) {
        offloaded a = widest(g, s);
        if (g->storages.at[s].external || a.to - a.from <= decisions ||
            g->storages.at[s].bytes == 0)
            continue;
        const uint64_t bytes = g->storages.at[s].bytes;
        a.copy = weir_graph_storage_new(g, bytes, g->storages.at[s].kind);
        a.out = (weir_spill_attr){slot, bytes, 2 * list.n, 0};
        a.in = (weir_spill_attr){slot, bytes, 2 * list.n + 1, 0};
        slot += (bytes + WEIR_SPILL_ALIGN - 1) / WEIR_SPILL_ALIGN * WEIR_SPILL_ALIGN;
        CHECK(weir_vec_push(&list, a));
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *like = &g->nodes.at[i];
        for (uint32_t j = 0; j < list.n; j++) {
            const offloaded *a = &list.at[j];
            if (i + 1 == a->to)
                push(&by, WEIR_OP_SPILL_IN, like, WEIR_NONE, bytes_of(g, a->copy), a->in);
            if (i == a->to)
                push(&by, WEIR_OP_SPILL_WAIT, like, bytes_of(g, a->copy), WEIR_NONE,
                     (weir_spill_attr){.ticket = a->in.ticket});
        }
        CHECK(weir_vec_push(&by.list, mapped(g, i, list.at, list.n)));
        for (uint32_t j = 0; j < list.n; j++) {
            const offloaded *a = &list.at[j];
            if (i == a->from)
                push(&by, WEIR_OP_SPILL_OUT, like, bytes_of(g, a->storage), WEIR_NONE, a->out);
            if (i == a->from + 1)
                push(&by, WEIR_OP_SPILL_WAIT, like, bytes_of(g, a->storage), WEIR_NONE,
                     (weir_spill_attr){.ticket = a->out.ticket});
        }
    }
    const uint32_t n = list.n;
    weir_vec_free(&list);
    return replace(&by) ? n : 0;
}

/* ---- a small graph ---- */

/* What the callback in the middle of the step does. */
typedef struct trouble {
    weir_device *d;
    bool         corrupt, fail;
    int          calls;
} trouble;

static weir_status middle(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    trouble *const t = ctx;
    const char     wrong = 77;

    t->calls++;
    memcpy(y[0].data, x[0].data, N * sizeof(float));
    if (t->corrupt)
        CHECK(pwrite(weir_spill_file(t->d->spill), &wrong, 1, 1234) == 1);
    return t->fail ? weir_fail(WEIR_ERR_STATE, "middle: no") : WEIR_OK;
}

static const weir_callback_def middle_def = {.name = "middle", .forward = middle};

/* a = exp(x) is read at both ends: y = sum(a * middle(sin(cos(square(a))))). */
static weir_graph *record(weir_device *d, trouble *t, weir_tensor **x, weir_tensor **y)
{
    const weir_desc desc = weir_1d(WEIR_F32, N);

    *x = weir_input(d, desc);
    CHECK_OK(weir_write_uniform(*x, -1, 1));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *a = weir_exp(*x), *b = weir_sin(weir_cos(weir_square(a))), *c = NULL;
    CHECK_OK(weir_callback(&middle_def, t, 1, &b, 1, &desc, &c));
    *y = weir_keep(weir_mul(a, weir_neg(c)));
    CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT("fuse")));
    return g;
}

CASE(out_and_in_by_hand)
{
    if (!check_on_cpu())        /* the test reads the spill file */
        return;
    weir_device *d = fixture_open();
    trouble      t = {.d = d};
    weir_tensor *x, *y;
    weir_graph  *g = record(d, &t, &x, &y);
    float       *plain = malloc(N * sizeof *plain), *spilled = malloc(N * sizeof *spilled);
    size_t       peak;

    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(y, plain, N * sizeof *plain));
    const size_t arena = g->plan->arena;
    CHECK(d->spill == NULL);
    CHECK(spill_all(g, 3) == 1);
    CHECK(fixture_count(g, WEIR_OP_SPILL_OUT) == 1 && fixture_count(g, WEIR_OP_SPILL_IN) == 1 &&
          fixture_count(g, WEIR_OP_SPILL_WAIT) == 2);
    CHECK_OR_RETURN(d->spill != NULL && weir_spill_bytes(d->spill) >= N * sizeof(float));
    CHECK(g->plan->arena < arena);
    for (int run = 0; run < 5; run++) {
        memset(spilled, 0, N * sizeof *spilled);
        CHECK_OK(run == 3 ? weir_graph_measure(g, &peak) : weir_graph_run(g));
        CHECK_OK(weir_read(y, spilled, N * sizeof *spilled));
        CHECK_BITS(plain, spilled, N * sizeof *plain);
    }
    CHECK(peak == g->plan->arena);
    CHECK(weir_spill_finished(d->spill, false) == 5 && weir_spill_finished(d->spill, true) == 5);
    /* bytes of the arena are written to the file directly */
    CHECK(weir_spill_staging(d->spill) == 0);
    CHECK(weir_spill_memory(d->spill) <
          (128 << 10) + weir_spill_bytes(d->spill) / 4096 + 8 * weir_spill_places(d->spill));
    const uint64_t calls = weir_mem_calls();
    CHECK_OK(weir_graph_run(g));
    CHECK(weir_mem_calls() == calls);
    free(plain);
    free(spilled);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(dumps_show_them)
{
    static const weir_text what[] = {WEIR_TEXT_GRAPH, WEIR_TEXT_PLAN, WEIR_TEXT_COST, WEIR_TEXT_DOT,
                                     WEIR_TEXT_TIMELINE_SVG, WEIR_TEXT_JSON};
    weir_device           *d = fixture_open();
    trouble                t = {.d = d};
    weir_tensor           *x, *y;
    weir_graph            *g = record(d, &t, &x, &y);

    CHECK(spill_all(g, 3) == 1);
    for (size_t i = 0; i < ARRAY_LENGTH(what); i++) {
        char *const text = weir_graph_text(g, what[i]);
        CHECK_TEXT(text, "spill_out");
        CHECK_TEXT(text, "spill_in");
        CHECK_TEXT(text, "spill_wait");
        weir_text_free(text);
    }
    char *const plan = weir_graph_text(g, WEIR_TEXT_PLAN);
    CHECK_TEXT(plan, "[spill, 200000 bytes at 0, ticket 1]");
    weir_text_free(plan);
    CHECK_OK(weir_device_trace_start(d));
    weir_device_set_verbosity(d, 2);
    weir_device_set_skip(d, 0);
    CHECK_OK(weir_graph_run(g));
    char *const profile = weir_device_profile_text(d), *const trace = weir_device_trace_stop(d);
    CHECK_TEXT(profile, "spill_wait");
    CHECK_TEXT(trace, "spill_in");
    weir_text_free(profile);
    weir_text_free(trace);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* The planner inserts these nodes after the passes; passes that remove nodes leave them alone. */
CASE(passes_keep_them)
{
    weir_device *d = fixture_open();
    trouble      t = {.d = d};
    weir_tensor *x, *y;
    weir_graph  *g = record(d, &t, &x, &y);

    CHECK(spill_all(g, 3) == 1);
    const uint32_t n = g->nodes.n;
    CHECK_OK(weir_pass_dce(g));
    CHECK_OK(weir_pass_cse(g));
    CHECK_OK(weir_pass_copies(g));
    weir_graph_compact(g);
    CHECK(g->nodes.n == n);
    CHECK_OK(weir_plan_build(g, 0));
    CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(attributes_must_fit)
{
    weir_device       *d = fixture_open();
    const weir_layout  l = {.desc = weir_1d(WEIR_F32, 10), .stride = {1}};
    weir_layout        out = l;
    weir_spill_attr    a = {0, 40, 0, 0};
    weir_call          c = {.op = WEIR_OP_SPILL_OUT, .nin = 1, .in = &l, .attr = &a,
                            .attr_bytes = sizeof a, .alias = -1};
    const weir_kernel *kernel;

    CHECK_OK(weir_kernel_of(d, &c, &kernel));
    CHECK_STATUS(kernel->run(&(weir_kargs){.call = &c}), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "spill_out: runs in a plan only (inputs f32(10))");
    a.bytes = 36;
    CHECK_STATUS(weir_kernel_of(d, &c, &kernel), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "spill_out: 40 bytes do not fill a copy of 36 (inputs f32(10))");
    c = (weir_call){.op = WEIR_OP_SPILL_IN, .nout = 1, .out = &out, .attr = &a,
                    .attr_bytes = sizeof a, .alias = -1};
    CHECK_STATUS(weir_kernel_of(d, &c, &kernel), WEIR_ERR_SHAPE);
    c.attr_bytes = 0;
    CHECK_STATUS(weir_kernel_of(d, &c, &kernel), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_op_spill_in.infer(&c), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "inserted by planners only");
    weir_device_close(d);
}

/* ---- failures ---- */

CASE(a_changed_block_fails_the_run)
{
    if (!check_on_cpu())        /* the test reads the spill file */
        return;
    weir_device *d = fixture_open();
    trouble      t = {.d = d};
    weir_tensor *x, *y;
    weir_graph  *g = record(d, &t, &x, &y);

    CHECK(spill_all(g, 3) == 1);
    CHECK_OK(weir_graph_run(g));
    t.corrupt = true;
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "is not what was written");
    t.corrupt = false;
    CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* A slow write. */
static ssize_t slow_write(void *ctx, int fd, const void *p, size_t n, off_t at)
{
    usleep(50000);
    atomic_fetch_add((atomic_int *)ctx, 1);
    return pwrite(fd, p, n, at);
}

/* The callback fails just after a copy has started: the copy is complete when the run returns. */
CASE(a_run_that_fails_leaves_no_copy_in_flight)
{
    if (!check_on_cpu())        /* the test reads the spill file */
        return;
    atomic_int              written = 0;
    const weir_spill_system y = {.ctx = &written, .write = slow_write};
    weir_device            *d = fixture_open();
    trouble                 t = {.d = d, .fail = true};
    const weir_desc         desc = weir_1d(WEIR_F32, N);
    weir_tensor            *x = weir_input(d, desc), *c = NULL;

    CHECK_OK(weir_write_uniform(x, -1, 1));
    CHECK_OK(weir_spill_new(&(weir_spill_options){.system = &y}, &d->spill));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *a = weir_exp(x), *b = weir_square(a);
    CHECK_OK(weir_callback(&middle_def, &t, 1, &b, 1, &desc, &c));
    weir_keep(weir_mul(a, weir_neg(weir_sin(c))));
    CHECK_OK(weir_graph_end(g, OPTIONS_AS_RECORDED));
    CHECK(spill_all(g, 3) == 1);        /* offloaded after square, awaited after the callback */
    for (int run = 1; run <= 3; run++) {
        CHECK_STATUS(weir_graph_run(g), WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "middle: no");
        CHECK(atomic_load(&written) == run && t.calls == run);
    }
    t.fail = false;
    CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- training ---- */

static uint64_t trained(train_net net, int64_t batch, int64_t side, int steps, bool spill)
{
    train    t;
    uint64_t bits = 0;

    if (!CHECK_OK(train_open(&t, net, batch, side, &(weir_step_options){.graph = true})))
        return 0;
    CHECK_OK(train_step(&t, 0));
    weir_graph *const g = weir_step_graph(t.step);
    const size_t      arena = g->plan->arena;
    if (spill) {
        const uint32_t n = spill_all(g, 4);
        CHECK(n > 3 && g->plan->arena <= arena);   /* equal where one node makes the peak */
        printf("    %s: %u values spilled, arena %zu -> %zu\n", train_name[net], n, arena,
               g->plan->arena);
    }
    for (int i = 1; i < steps; i++)
        CHECK_OK(train_step(&t, i));
    bits = train_bits(&t);
    train_close(&t);
    return bits;
}

CASE(training_with_everything_spilled)
{
    static const struct { train_net net; int64_t batch, side; int steps; } nets[] = {
        {TRAIN_DIGITS, 16, 0, 20}, {TRAIN_LENET, 8, 0, 20}, {TRAIN_RESNET18, 2, 32, 3}};

    for (size_t i = 0; i < ARRAY_LENGTH(nets); i++) {
        const uint64_t plain = trained(nets[i].net, nets[i].batch, nets[i].side, nets[i].steps,
                                       false);
        CHECK(plain == trained(nets[i].net, nets[i].batch, nets[i].side, nets[i].steps, true));
    }
}
