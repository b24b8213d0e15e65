/* autocast.c - scopes of mixed precision: types, gradients, sharing of casts, bits. */
#include "graph/fixture.h"

#include "core/dtype.h"

static weir_dtype type_of(weir_tensor *t)
{
    return t ? weir_tensor_desc(t).dtype : WEIR_BOOL;
}

/* A parameter of this shape with values in [-1, 1). */
static weir_tensor *drawn(weir_device *d, weir_desc desc)
{
    weir_tensor *t = weir_param(d, desc, "p");
    CHECK_OK(weir_write_uniform(t, -1, 1));
    return t;
}

/* Calls on y that compute in f32 whatever its type is. */
static void check_f32(weir_tensor *y)
{
    weir_tensor *const wants_f32[] = {
        weir_softmax(y, 1), weir_log_softmax(y, 1), weir_sum(y, 0, false),
        weir_mean(y, 1, false), weir_prod(y, 0, false), weir_cumsum(y, 0, false),
        weir_var(y, 0, 0, false), weir_norm(y, 2, 0, false), weir_exp(y), weir_log(y),
        weir_pow(y, y),
        weir_cross_entropy(y, y), weir_mse_loss(y, y), weir_bce_logits_loss(y, y),
        weir_ranking_loss(y, y, 1), weir_cosine_similarity(y, y, 0),
    };
    for (size_t k = 0; k < ARRAY_LENGTH(wants_f32); k++)
        check_that(type_of(wants_f32[k]) == WEIR_F32, __FILE__, __LINE__, "result %zu is %s", k,
                   wants_f32[k] ? weir_dtype_name(type_of(wants_f32[k])) : weir_error());
}

CASE(calls_have_the_types_of_the_rules)
{
    weir_device *const d = fixture_open();
    weir_tensor *const a = drawn(d, weir_2d(WEIR_F32, 4, 6));
    weir_tensor *const b = drawn(d, weir_1d(WEIR_F32, 4));
    weir_tensor *const image = drawn(d, weir_4d(WEIR_F32, 2, 4, 5, 5));
    weir_tensor *const filter = drawn(d, weir_4d(WEIR_F32, 4, 4, 3, 3));
    weir_tensor *const rows = drawn(d, (weir_desc){WEIR_F32, 3, {2, 3, 4}});
    weir_tensor *const wide = drawn(d, weir_2d(WEIR_F64, 4, 6));
    weir_tensor *const mean = fixture_state(d, 4, NULL);
    weir_tensor *const var = fixture_state(d, 4, (float[]){1, 1, 1, 1});
    const weir_dtype   halves[] = {WEIR_BF16, WEIR_F16};

    for (int i = 0; i < 2; i++) {
        const weir_dtype half = halves[i];
        CHECK(weir_autocast_type(d) == WEIR_F32);
        CHECK_OK(weir_autocast_begin(d, half));
        CHECK(weir_autocast_type(d) == half);
        weir_tensor *const y = weir_linear(a, a, b);
        CHECK(type_of(y) == half);
        CHECK(type_of(weir_matmul_t(a, a, false, true)) == half);
        CHECK(type_of(weir_gemm(a, a, b, 1, 2, false, true)) == half);
        CHECK(type_of(weir_matmul(rows, weir_reshape(rows, 3, (int64_t[]){2, 4, 3}))) == half);
        CHECK(type_of(weir_einsum("ij,kj->ik", a, a)) == half);
        CHECK(type_of(weir_attention(rows, rows, rows, 2, true)) == half);
        const weir_attention_options packed = {.heads = 2, .kv_heads = 1};
        CHECK(type_of(weir_attention_packed(rows, &packed)) == half);
        weir_tensor *const c = weir_conv2d(image, filter, b, NULL);
        CHECK(type_of(c) == half);
        CHECK(type_of(weir_conv_transpose2d(image, filter, b, NULL)) == half);
        CHECK(type_of(weir_max_pool2d(c, &(weir_pool2d_options){.kernel = {2, 2}})) == half);
        CHECK(type_of(weir_relu(y)) == half);
        CHECK(type_of(weir_add(y, y)) == half);
        CHECK(type_of(weir_add(y, b)) == WEIR_F32);
        CHECK(type_of(weir_matmul_t(wide, wide, false, true)) == WEIR_F64);
        CHECK(!weir_matmul_t(wide, a, false, true));

        const weir_batch_norm_options training = {.train = true};
        CHECK(type_of(weir_batch_norm(c, b, b, mean, var, &training)) == half);
        CHECK(type_of(weir_layer_norm(y, b, b, 0)) == half);
        CHECK(type_of(weir_rms_norm(y, b, 0)) == half);
        CHECK(type_of(weir_group_norm(c, 2, b, b, 0)) == half);
        CHECK(type_of(weir_layer_norm(weir_cast(y, WEIR_F32), b, b, 0)) == WEIR_F32);
        check_f32(y);

        CHECK_OK(weir_autocast_begin(d, WEIR_F32));
        CHECK(type_of(weir_linear(a, a, b)) == WEIR_F32);
        CHECK_OK(weir_autocast_end(d));
        CHECK(type_of(weir_linear(a, a, b)) == half);
        CHECK_OK(weir_autocast_end(d));
        CHECK(type_of(weir_linear(a, a, b)) == WEIR_F32);
    }
    weir_tensor *const all[] = {a, b, image, filter, rows, wide, mean, var};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        weir_release(all[i]);
    weir_device_close(d);
}

/* Sums and losses of halves are halves outside a scope, whatever the parameters' types are. */
static void check_halves(weir_device *d, weir_dtype half, weir_dtype params)
{
    weir_tensor *const y = drawn(d, weir_2d(half, 4, 6));
    weir_tensor *const images = drawn(d, weir_4d(half, 2, 6, 3, 3));
    weir_tensor *const wide = drawn(d, weir_2d(WEIR_F32, 4, 6));
    weir_tensor *const b = drawn(d, weir_1d(params, 6));
    weir_tensor *const mean = weir_state(d, weir_1d(params, 6), "s");
    weir_tensor *const var = weir_state(d, weir_1d(params, 6), "s");
    CHECK_OK(weir_write_fill(mean, 0));
    CHECK_OK(weir_write_fill(var, 1));
    const weir_batch_norm_options training = {.train = true};
    weir_tensor *const            halves[] = {
        weir_layer_norm(y, b, b, 0), weir_rms_norm(y, b, 0), weir_group_norm(images, 2, b, b, 0),
        weir_batch_norm(images, b, b, mean, var, &training),
        weir_batch_norm(y, b, b, mean, var, NULL), weir_cross_entropy(y, y), weir_mse_loss(y, y),
        weir_bce_logits_loss(y, y), weir_bce_loss(y, y), weir_ranking_loss(y, y, 1),
        weir_cosine_similarity(y, y, 0), weir_var(y, 0, 0, false), weir_norm(y, 1, 0, false),
    };
    for (size_t k = 0; k < ARRAY_LENGTH(halves); k++)
        check_that(type_of(halves[k]) == half, __FILE__, __LINE__, "result %zu is %s", k,
                   halves[k] ? weir_dtype_name(type_of(halves[k])) : weir_error());
    CHECK(type_of(weir_mse_loss(y, wide)) == WEIR_F32);
    CHECK(weir_tensor_desc(mean).dtype == params);
    weir_tensor *const all[] = {y, images, wide, b, mean, var};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        weir_release(all[i]);
}

CASE(halves_outside_a_scope_stay_halves)
{
    weir_device *const d = fixture_open();
    const weir_dtype   halves[] = {WEIR_BF16, WEIR_F16};

    for (int i = 0; i < 2; i++) {
        check_halves(d, halves[i], halves[i]);
        check_halves(d, halves[i], WEIR_F32);
    }
    weir_device_close(d);
}

CASE(mistakes_are_told)
{
    weir_device *const d = fixture_open();

    CHECK_STATUS(weir_autocast_begin(d, WEIR_F64), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "not in f64");
    CHECK_STATUS(weir_autocast_begin(d, WEIR_I32), WEIR_ERR_DTYPE);
    CHECK_STATUS(weir_autocast_end(d), WEIR_ERR_STATE);
    CHECK(weir_autocast_begin(NULL, WEIR_BF16) != WEIR_OK);
    CHECK(weir_autocast_type(NULL) == WEIR_F32);
    weir_device_close(d);
}

/* ---- gradients ---- */

typedef struct net {
    weir_tensor *x, *w1, *w2, *b;
} net;

static net net_new(weir_device *d)
{
    return (net){drawn(d, weir_2d(WEIR_F32, 8, 16)), drawn(d, weir_2d(WEIR_F32, 32, 16)),
                 drawn(d, weir_2d(WEIR_F32, 10, 32)), drawn(d, weir_1d(WEIR_F32, 32))};
}

static void net_free(const net *n)
{
    weir_release(n->x);
    weir_release(n->w1);
    weir_release(n->w2);
    weir_release(n->b);
}

static weir_tensor *loss_by_scope(const net *n, weir_dtype half)
{
    weir_device *const d = weir_tensor_device(n->x);
    CHECK_OK(weir_autocast_begin(d, half));
    weir_tensor *const h = weir_relu(weir_linear(n->x, n->w1, n->b));
    weir_tensor *const p = weir_softmax(weir_linear(h, n->w2, NULL), 1);
    weir_tensor *const y = weir_sum(weir_square(p), 0, false);
    CHECK_OK(weir_autocast_end(d));
    return y;
}

/* The same with casts written out. */
static weir_tensor *loss_by_hand(const net *n, weir_dtype half)
{
    weir_tensor *const h = weir_relu(weir_linear(weir_cast(n->x, half), weir_cast(n->w1, half),
                                                 weir_cast(n->b, half)));
    weir_tensor *const logits = weir_linear(h, weir_cast(n->w2, half), NULL);
    return weir_sum(weir_square(weir_softmax(weir_cast(logits, WEIR_F32), 1)), 0, false);
}

/* Gradients of all four tensors, one after the other; how many floats. */
static size_t gradients(const net *n, weir_tensor *loss, float *to)
{
    weir_tensor *const wrt[] = {n->x, n->w1, n->w2, n->b};
    weir_tensor       *grad[4];
    size_t             count = 0;

    CHECK_OK(weir_gradients(loss, 4, wrt, grad));
    for (int i = 0; i < 4; i++) {
        if (!CHECK(grad[i] && type_of(grad[i]) == WEIR_F32))
            continue;
        const size_t bytes = weir_tensor_bytes(grad[i]);
        CHECK_OK(weir_read(grad[i], to + count, bytes));
        count += bytes / sizeof(float);
    }
    return count;
}

enum { FLOATS = 8 * 16 + 32 * 16 + 10 * 32 + 32 };

CASE(gradients_are_those_of_casts_written_out)
{
    weir_device *const d = fixture_open();
    const net          n = net_new(d);
    float              a[FLOATS], b[FLOATS], c[FLOATS];

    CHECK(gradients(&n, loss_by_scope(&n, WEIR_BF16), a) == FLOATS);
    CHECK(gradients(&n, loss_by_hand(&n, WEIR_BF16), b) == FLOATS);
    CHECK_BITS(a, b, sizeof a);

    /* Asked for inside a scope, of another type even. */
    weir_tensor *const loss = loss_by_scope(&n, WEIR_BF16);
    CHECK_OK(weir_autocast_begin(d, WEIR_F16));
    CHECK(gradients(&n, loss, c) == FLOATS);
    CHECK_OK(weir_autocast_end(d));
    CHECK_BITS(a, c, sizeof a);
    net_free(&n);
    weir_device_close(d);
}

static weir_status part(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    const net *const n = ctx;
    out[0] = weir_relu(weir_linear(in[0], n->w1, n->b));
    return WEIR_OK;
}

/* The function opens a scope and leaves it open, which ends with it. */
static weir_status part_of_its_own(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    const net *const n = ctx;
    CHECK_OK(weir_autocast_begin(weir_tensor_device(n->x), WEIR_BF16));
    out[0] = weir_relu(weir_linear(in[0], n->w1, n->b));
    return WEIR_OK;
}

CASE(a_checkpoint_runs_again_as_it_did)
{
    weir_device *const d = fixture_open();
    net                n = net_new(d);
    float              a[FLOATS], b[FLOATS];

    CHECK(gradients(&n, loss_by_scope(&n, WEIR_BF16), a) == FLOATS);
    for (int own = 0; own < 2; own++) {
        weir_tensor *h;
        if (!own)
            CHECK_OK(weir_autocast_begin(d, WEIR_BF16));
        CHECK_OK(weir_checkpoint(own ? part_of_its_own : part, &n, 1, &n.x, 1, &h));
        if (own) {
            CHECK(weir_autocast_type(d) == WEIR_F32);
            CHECK_OK(weir_autocast_begin(d, WEIR_BF16));
        }
        weir_tensor *const y = weir_softmax(weir_linear(h, n.w2, NULL), 1);
        weir_tensor *const loss = weir_sum(weir_square(y), 0, false);
        CHECK_OK(weir_autocast_end(d));
        CHECK(gradients(&n, loss, b) == FLOATS);
        CHECK_BITS(a, b, sizeof a);
    }
    net_free(&n);
    weir_device_close(d);
}

/* ---- in a graph ---- */

static int count_casts(const weir_graph *g)
{
    char *const text = weir_graph_text(g, WEIR_TEXT_GRAPH);
    int         n = 0;

    for (const char *at = text; at && (at = strstr(at, " cast ")); at++)
        n++;
    weir_text_free(text);
    return n;
}

/* Three uses of one weight and one input, and their gradients. */
static weir_tensor *tied(weir_tensor *x, weir_tensor *w)
{
    weir_tensor *y = x;
    for (int i = 0; i < 3; i++)
        y = i == 0 ? weir_matmul(x, w) : weir_matmul(weir_add(y, weir_matmul(x, w)), w);
    return weir_sum(weir_square(y), 0, false);
}

CASE(equal_casts_are_one_in_a_graph)
{
    weir_device *const d = fixture_open();
    weir_tensor *const x = drawn(d, weir_2d(WEIR_F32, 16, 16));
    weir_tensor *const w = drawn(d, weir_2d(WEIR_F32, 16, 16));
    int                casts[2];

    for (int shared = 0; shared < 2; shared++) {
        weir_graph *const g = weir_graph_begin(d);
        CHECK_OK(weir_autocast_begin(d, WEIR_BF16));
        weir_keep(tied(x, w));
        CHECK_OK(weir_autocast_end(d));
        CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT(shared ? "fuse" : "fuse,cse")));
        casts[shared] = count_casts(g);
        weir_graph_free(g);
    }
    CHECK(casts[0] > casts[1] && casts[1] >= 2);
    weir_release(x);
    weir_release(w);
    weir_device_close(d);
}

CASE(graph_off_on_and_budgets_have_the_same_bits)
{
    static const char *const budgets[] = {NULL, "90%", "85%"};
    weir_device *const       d = fixture_open();
    const net                n = net_new(d);
    float                    off[FLOATS], on[FLOATS];

    CHECK(gradients(&n, loss_by_scope(&n, WEIR_F16), off) == FLOATS);
    for (size_t i = 0; i < ARRAY_LENGTH(budgets); i++) {
        weir_tensor *const wrt[] = {n.x, n.w1, n.w2, n.b};
        weir_tensor       *grad[4];
        size_t             at = 0;
        weir_graph *const  g = weir_graph_begin(d);
        CHECK_OK(weir_gradients(loss_by_scope(&n, WEIR_F16), 4, wrt, grad));
        for (int k = 0; k < 4; k++)
            weir_keep(grad[k]);
        if (CHECK_OK(weir_graph_end(g, &(weir_plan_options){.budget = budgets[i]})) &&
            CHECK_OK(weir_graph_run(g))) {
            for (int k = 0; k < 4; k++) {
                CHECK_OK(weir_read(grad[k], on + at, weir_tensor_bytes(grad[k])));
                at += weir_tensor_bytes(grad[k]) / sizeof(float);
            }
            CHECK_BITS(off, on, sizeof off);
        }
        weir_graph_free(g);
    }
    net_free(&n);
    weir_device_close(d);
}

/* A norm of a product, and its gradients. */
static weir_status normalised(weir_device *d, weir_tensor *x, weir_tensor *w, weir_tensor *scale,
                              weir_tensor **grad)
{
    CHECK_OK(weir_autocast_begin(d, WEIR_BF16));
    weir_tensor *const y = weir_rms_norm(weir_matmul(x, w), scale, 0);
    weir_tensor *const loss = weir_sum(weir_square(weir_matmul(y, w)), 0, false);
    CHECK_OK(weir_autocast_end(d));
    return weir_gradients(loss, 1, &w, grad);
}

CASE(halves_wait_as_halves_and_are_widened_again)
{
    enum { N = 192 };
    static float       off[N * N], on[N * N];
    weir_device *const d = fixture_open();
    weir_tensor *const x = drawn(d, weir_2d(WEIR_F32, N, N));
    weir_tensor *const w = drawn(d, weir_2d(WEIR_F32, N, N));
    weir_tensor *const scale = drawn(d, weir_1d(WEIR_F32, N));
    weir_graph_stats   stats[2];
    weir_tensor       *grad;
    int                casts[2];

    CHECK_OK(normalised(d, x, w, scale, &grad));
    CHECK_OK(weir_read(grad, off, sizeof off));
    for (int i = 0; i < 2; i++) {
        weir_graph *const g = weir_graph_begin(d);
        CHECK_OK(normalised(d, x, w, scale, &grad));
        weir_keep(grad);
        CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT(i == 0 ? "remat_cast,fuse" : "fuse")));
        casts[i] = count_casts(g);
        CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_read(grad, on, sizeof on));
        CHECK_BITS(off, on, sizeof off);
        CHECK_OK(weir_graph_stats_of(g, &stats[i]));
        weir_graph_free(g);
    }
    CHECK(casts[1] == casts[0] + 3);        /* input, weight, result of the product */
    CHECK(stats[1].arena_bytes <= stats[0].arena_bytes);
    weir_release(x);
    weir_release(w);
    weir_release(scale);
    weir_device_close(d);
}

/* ---- fused ---- */

/* Operands of fused groups that are halves: read, written. */
static void count_halves(const weir_graph *g, int *in, int *out)
{
    *in = *out = 0;
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_call *const c = &g->plan->instr[i].call;
        for (int k = 0; k < c->nin && c->op == WEIR_OP_FUSED; k++)
            *in += weir_is_half(c->in[k].desc.dtype);
        for (int k = 0; k < c->nout && c->op == WEIR_OP_FUSED; k++)
            *out += weir_is_half(c->out[k].desc.dtype);
    }
}

/* Two residual blocks: y = x + w norm(x), and the gradient of the weight. */
static weir_tensor *blocks(weir_device *d, weir_tensor *x, weir_tensor *w, weir_tensor *scale,
                           weir_dtype half)
{
    weir_tensor *y = x, *grad = NULL;

    CHECK_OK(weir_autocast_begin(d, half));
    for (int i = 0; i < 2; i++)
        y = weir_add(y, weir_matmul(weir_rms_norm(y, scale, 0), w));
    CHECK_OK(weir_autocast_end(d));
    CHECK_OK(weir_gradients(weir_sum(weir_square(y), 0, false), 1, &w, &grad));
    return grad;
}

static void check_blocks(weir_dtype half)
{
    enum { N = 192 };
    static float       off[N * N], on[N * N];
    weir_device *const d = fixture_open();
    weir_tensor *const x = drawn(d, weir_2d(WEIR_F32, N, N));
    weir_tensor *const w = drawn(d, weir_2d(WEIR_F32, N, N));
    weir_tensor *const scale = drawn(d, weir_1d(WEIR_F32, N));
    uint32_t           n[2];
    size_t             arena[2];
    double             bytes[2] = {0, 0};
    int                casts[2], in[2], out[2];

    CHECK_OK(weir_read(blocks(d, x, w, scale, half), off, sizeof off));
    for (int i = 0; i < 2; i++) {
        weir_graph *const  g = weir_graph_begin(d);
        weir_tensor *const grad = weir_keep(blocks(d, x, w, scale, half));
        if (!fixture_finish(g, i == 0 ? OPTIONS_WITHOUT("fuse") : NULL))
            break;
        CHECK_OK(weir_read(grad, on, sizeof on));
        CHECK_BITS(off, on, sizeof off);
        n[i] = g->plan->n;
        arena[i] = g->plan->arena;
        casts[i] = count_casts(g);
        count_halves(g, &in[i], &out[i]);
        for (uint32_t k = 0; k < g->plan->n; k++)
            bytes[i] += weir_call_bytes(&g->plan->instr[k].call);
        weir_graph_free(g);
    }
    CHECK(in[0] == 0 && out[0] == 0 && in[1] >= 2 && out[1] >= 2);
    CHECK(casts[1] <= casts[0] - 4 && n[1] <= n[0] - 4);
    CHECK(bytes[1] < 0.9 * bytes[0] && arena[1] <= arena[0]);
    weir_release(x);
    weir_release(w);
    weir_release(scale);
    weir_device_close(d);
}

CASE(casts_are_edges_of_fused_groups)
{
    check_blocks(WEIR_BF16);
    check_blocks(WEIR_F16);
}
