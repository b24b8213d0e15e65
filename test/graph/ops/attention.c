/* attention.c - dropout inside attention, and operands of attention that are read in place. */
#include <math.h>

#include "check.h"
#include "weir.h"

enum { B = 2, H = 4, KV = 2, T = 70, S = 67, D = 3, E = 2, SCORES = B * H * T * S };

static weir_desc cube(int64_t a, int64_t b, int64_t c)
{
    return (weir_desc){WEIR_F64, 3, {a, b, c}};
}

/* A parameter of numbers in [-1, 1] that `seed` determines. */
static weir_tensor *numbers(weir_device *d, weir_desc desc, int seed)
{
    static double v[SCORES];
    int64_t       n = 1;

    for (int i = 0; i < desc.ndim; i++)
        n *= desc.dim[i];
    for (int64_t i = 0; i < n; i++)
        v[i] = sin((double)(i + 1) * (1.3 + seed));
    weir_tensor *const t = weir_param(d, desc, "p");
    CHECK_OK(weir_write(t, v, (size_t)n * sizeof *v));
    return t;
}

/* The factors of dropout of all scores (b,h,t,s) as the device's next attention draws them: with
 * equal scores and v the identity, y shows the weights. */
static void factors(weir_device *d, double p, double *out)
{
    static double                eye[B * S * KV * S], zeros[B * T * H * D];
    const weir_attention_options o = {.heads = H, .kv_heads = KV, .dropout = p};
    weir_tensor *const           q = weir_input(d, cube(B, T, H * D));
    weir_tensor *const           k = weir_input(d, cube(B, S, KV * D));
    weir_tensor *const           v = weir_input(d, cube(B, S, KV * S));

    for (int i = 0; i < B * S * KV * S; i++)
        eye[i] = i % S == i / (KV * S) % S;
    CHECK_OK(weir_write(q, zeros, weir_tensor_bytes(q)));
    CHECK_OK(weir_write(k, zeros, weir_tensor_bytes(k)));
    CHECK_OK(weir_write(v, eye, sizeof eye));
    weir_tensor *const y = weir_attention_with(q, k, v, &o);
    weir_tensor *const heads = weir_reshape(y, 4, (const int64_t[]){B, T, H, S});
    weir_tensor *const scores = weir_transpose(heads, (const int[]){0, 2, 1, 3});
    CHECK_OK(weir_read(weir_affine(scores, S, 0), out, SCORES * sizeof *out));
    weir_release(q);
    weir_release(k);
    weir_release(v);
}

CASE(dropout_hits_each_weight_alike)
{
    static double first[SCORES], again[SCORES];
    const double  ps[] = {0.25, 0.9, 1};

    for (int i = 0; i < 3; i++) {
        const double p = ps[i];
        double       hits = 0, pairs = 0;
        for (int threads = 1; threads <= 3; threads++) {
            const weir_device_options o = {.threads = threads, .seed = 3};
            weir_device *const        d = weir_device_open(check_device(), &o);
            factors(d, p, threads == 1 ? first : again);
            if (threads > 1)
                CHECK_BITS(again, first, sizeof first);
            factors(d, p, again);       /* the next call draws other numbers */
            if (p < 1)
                CHECK(memcmp(again, first, sizeof first) != 0);
            weir_device_close(d);
        }
        for (int j = 0; j < SCORES; j++) {
            if (first[j] == 0)
                hits++;
            else
                CHECK_NEAR(first[j], 1 / (1 - p), 1e-12);
            pairs += j >= S && (first[j] == 0) == (first[j - S] == 0);  /* rows differ */
        }
        const double deviation = sqrt(p * (1 - p) / SCORES);
        CHECK_NEAR(hits / SCORES, p, 5 * deviation);
        CHECK_NEAR(pairs / (SCORES - S), p * p + (1 - p) * (1 - p), 5 * deviation + 1e-12);
    }
}

/* softmax(scale q k^T + mask) * kept v, composed. */
static weir_tensor *composed(weir_tensor *const *in, weir_tensor *kept, double scale)
{
    const int        swap[] = {0, 2, 1, 3};
    const int64_t    dims[3][5] = {{B, T, H, 1, D}, {B, S, KV, 1, D}, {B, S, KV, 1, E}};
    weir_tensor     *x[3];

    for (int i = 0; i < 3; i++) {
        weir_desc d = {WEIR_F64, 5, {0}};
        memcpy(d.dim, dims[i], sizeof dims[i]);
        x[i] = weir_reshape(in[i], 5, dims[i]);
        if (i > 0) {
            d.dim[3] = H / KV;
            x[i] = weir_broadcast_to(x[i], d);
        }
        x[i] = weir_reshape(x[i], 4, (const int64_t[]){B, i ? S : T, H, dims[i][4]});
        x[i] = weir_transpose(x[i], swap);
    }
    weir_tensor *const keys = weir_transpose(x[1], (const int[]){0, 1, 3, 2});
    weir_tensor *const s = weir_add(weir_affine(weir_matmul(x[0], keys), scale, 0), in[3]);
    weir_tensor *const y = weir_matmul(weir_mul(weir_softmax(s, 3), kept), x[2]);
    return weir_reshape(weir_transpose(y, swap), 3, (const int64_t[]){B, T, H * E});
}

/* y and the gradients of the sum of its squares. */
static void outcome(weir_tensor *y, weir_tensor *const *in, double *out)
{
    weir_tensor *grad[4] = {NULL};

    CHECK_OK(weir_read(y, out, weir_tensor_bytes(y)));
    out += B * T * H * E;
    CHECK_OK(weir_gradients(weir_sum(weir_square(y), 0, false), 4, in, grad));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weir_read(grad[i], out, weir_tensor_bytes(grad[i])));
        out += weir_tensor_bytes(grad[i]) / sizeof *out;
    }
}

enum { OUTCOME = B * T * H * E + B * T * H * D + B * S * KV * (D + E) + H * T * S };

CASE(dropout_has_the_gradient_of_its_composition)
{
    static double      kept[SCORES], got[OUTCOME], want[OUTCOME];
    const double       scale = 0.7;
    weir_device *const d = weir_device_open(check_device(), &(weir_device_options){.seed = 5});
    weir_tensor       *in[] = {numbers(d, cube(B, T, H * D), 0), numbers(d, cube(B, S, KV * D), 1),
                               numbers(d, cube(B, S, KV * E), 2), numbers(d, cube(H, T, S), 3)};
    weir_tensor *const factor = weir_input(d, (weir_desc){WEIR_F64, 4, {B, H, T, S}});
    const weir_attention_options o = {.heads = H, .kv_heads = KV, .scale = scale, .dropout = 0.3,
                                      .mask = in[3]};

    CHECK_OK(weir_device_seed(d, 11));
    factors(d, 0.3, kept);
    CHECK_OK(weir_write(factor, kept, sizeof kept));
    CHECK_OK(weir_device_seed(d, 11));
    outcome(weir_attention_with(in[0], in[1], in[2], &o), in, got);
    outcome(composed(in, factor, scale), in, want);
    for (int i = 0; i < OUTCOME; i++)
        CHECK_NEAR(got[i], want[i], 1e-9 * (1 + fabs(want[i])));
    for (int i = 0; i < 4; i++)
        weir_release(in[i]);
    weir_release(factor);
    weir_device_close(d);
}

/* Lengths, a mask and dropout together: the mask hides what is beyond the lengths. */
CASE(lengths_mask_and_dropout_together)
{
    static double      got[B * T * H * E], want[B * T * H * E];
    weir_device *const d = weir_device_open(check_device(), &(weir_device_options){.seed = 5});
    weir_tensor *const q = numbers(d, cube(B, T, H * D), 0);
    weir_tensor *const k = numbers(d, cube(B, S, H * D), 1);
    weir_tensor *const v = numbers(d, cube(B, S, H * E), 2);
    weir_tensor *const add = numbers(d, cube(H, T, S), 3);
    weir_tensor *const n = weir_input(d, (weir_desc){WEIR_I32, 1, {B}});
    weir_attention_options o = {.heads = H, .dropout = 0.3, .mask = add, .lengths = n};

    CHECK_OK(weir_write(n, (const int32_t[]){13, S + 5}, B * sizeof(int32_t)));
    CHECK_OK(weir_device_seed(d, 11));
    CHECK_OK(weir_read(weir_attention_with(q, k, v, &o), got, sizeof got));
    /* the same keys hidden by the mask alone */
    static double hidden[B * H * T * S], own[H * T * S];
    CHECK_OK(weir_read(add, own, sizeof own));
    for (int i = 0; i < SCORES; i++)
        hidden[i] = i < SCORES / B && i % S >= 13 ? -(double)INFINITY : own[i % (H * T * S)];
    weir_tensor *const all = weir_input(d, (weir_desc){WEIR_F64, 4, {B, H, T, S}});
    CHECK_OK(weir_write(all, hidden, sizeof hidden));
    o.mask = all;
    o.lengths = NULL;
    CHECK_OK(weir_device_seed(d, 11));
    CHECK_OK(weir_read(weir_attention_with(q, k, v, &o), want, sizeof want));
    CHECK_BITS(got, want, sizeof want);
    o.lengths = n;
    o.causal = WEIR_ATTENTION_FROM_LAST;
    CHECK(weir_attention_with(q, k, v, &o) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "do not go with WEIR_ATTENTION_FROM_LAST");
    weir_tensor *const all_of[] = {q, k, v, add, n, all};
    for (int i = 0; i < 6; i++)
        weir_release(all_of[i]);
    weir_device_close(d);
}

/* A row that sees no key is 0, and so are its gradients, whatever hides the keys. */
CASE(a_row_without_keys_is_zero)
{
    static double      y[T * E], g[T * D];
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor       *q = numbers(d, cube(1, T, D), 0), *grad = NULL;
    weir_tensor *const k = numbers(d, cube(1, S, D), 1), *const v = numbers(d, cube(1, S, E), 2);
    static double      add[T * S];
    static uint8_t     seen[T * S];

    for (int i = 0; i < T * S; i++) {
        seen[i] = i / S != 3 && i / S != 65;
        add[i] = seen[i] ? 0.5 : -(double)INFINITY;
    }
    for (int kind = 0; kind < 2; kind++) {
        weir_tensor *const m =
            weir_input(d, (weir_desc){kind ? WEIR_BOOL : WEIR_F64, 2, {T, S}});
        const weir_attention_options o = {.heads = 1, .mask = m};
        CHECK_OK(kind ? weir_write(m, seen, sizeof seen) : weir_write(m, add, sizeof add));
        weir_tensor *const a = weir_attention_with(q, k, v, &o);
        CHECK_OK(weir_gradients(weir_sum(weir_square(weir_affine(a, 1, 1)), 0, false), 1, &q,
                                &grad));
        CHECK_OK(weir_read(a, y, sizeof y));
        CHECK_OK(weir_read(grad, g, sizeof g));
        for (int i = 0; i < T; i++)
            CHECK((y[i * E] == 0) == (i == 3 || i == 65) &&
                  (g[i * D] == 0) == (i == 3 || i == 65) && isfinite(y[i * E]));
        weir_release(m);
    }
    weir_release(q);
    weir_release(k);
    weir_release(v);
    weir_device_close(d);
}

/* The graph's instructions as text contain `word`. */
static bool plan_has(weir_graph *g, const char *word)
{
    char *const text = weir_graph_text(g, WEIR_TEXT_PLAN);
    const bool  has = CHECK(text) && strstr(text, word) != NULL;

    weir_text_free(text);
    return has;
}

/* The parts of a projection are read where they are, and the gradients of packed operands are
 * written where they belong. */
CASE(nothing_is_copied)
{
    weir_device *const           d = weir_device_open(check_device(), NULL);
    const weir_attention_options o = {.heads = 2, .causal = WEIR_ATTENTION_FROM_FIRST};
    weir_tensor                 *x = numbers(d, cube(B, T, 24), 0), *part[3];

    for (int packed = 0; packed < 2; packed++) {
        weir_graph *const  g = weir_graph_begin(d);
        weir_tensor *const h = weir_tanh(x);
        weir_tensor       *grad = NULL, *y;
        CHECK_OK(weir_split(h, 2, 3, NULL, part));
        y = packed ? weir_attention_packed(h, &o)
                   : weir_attention_with(part[0], part[1], part[2], &o);
        CHECK_OK(weir_gradients(weir_sum(weir_square(y), 0, false), 1, &x, &grad));
        weir_keep(grad);
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
        CHECK(!plan_has(g, " copy"));
        CHECK(!plan_has(g, "slice_scatter"));
        CHECK(plan_has(g, " concat ") == !packed);
        weir_graph_free(g);
    }
    weir_release(x);
    weir_device_close(d);
}

/* ---- long sequences, which are computed in larger blocks ---- */

enum { LONG = 530, WIDTH = 6, KEYS = 400 };     /* KEYS: what lengths say */

/* softmax(q k^T / sqrt(d)) v of one head; causal by position, keys from KEYS on hidden. */
static weir_tensor *composed_long(weir_device *d, weir_tensor *const *in, bool causal)
{
    const weir_desc    one = {WEIR_F64, 0, {0}};
    weir_tensor *const keys = weir_transpose(in[1], (const int[]){0, 2, 1});
    weir_tensor *const s = weir_affine(weir_matmul(in[0], keys), 1 / sqrt(WIDTH), 0);
    weir_tensor *const at = weir_arange(d, WEIR_I64, LONG, 0, 1);
    weir_tensor *const row = weir_reshape(at, 2, (const int64_t[]){LONG, 1});
    weir_tensor       *seen = weir_lt(at, weir_fill_int(d, (weir_desc){WEIR_I64, 0, {0}}, KEYS));

    if (causal)
        seen = weir_logical_and(seen, weir_ge(row, at));
    return weir_matmul(weir_softmax(weir_where(seen, s, weir_fill(d, one, -1e300)), 2), in[2]);
}

/* y and the gradients of the sum of its squares. */
static void outcome_long(weir_tensor *y, weir_tensor *const *in, double (*out)[LONG * WIDTH])
{
    weir_tensor *grad[3] = {NULL};

    CHECK_OK(weir_read(y, out[3], sizeof out[3]));
    CHECK_OK(weir_gradients(weir_sum(weir_square(y), 0, false), 3, in, grad));
    for (int i = 0; i < 3; i++)
        CHECK_OK(weir_read(grad[i], out[i], sizeof out[i]));
}

CASE(long_sequences_as_composed)
{
    static double      got[4][LONG * WIDTH], want[4][LONG * WIDTH];
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const n = weir_input(d, (weir_desc){WEIR_I32, 1, {1}});
    weir_tensor       *in[3];

    for (int i = 0; i < 3; i++)
        in[i] = numbers(d, cube(1, LONG, WIDTH), i);
    CHECK_OK(weir_write(n, &(const int32_t){KEYS}, sizeof(int32_t)));
    for (int causal = 0; causal < 2; causal++) {
        const weir_attention_options o = {
            .heads = 1, .lengths = n,
            .causal = causal ? WEIR_ATTENTION_FROM_FIRST : WEIR_ATTENTION_ALL};
        outcome_long(weir_attention_with(in[0], in[1], in[2], &o), in, got);
        outcome_long(composed_long(d, in, causal), in, want);
        for (int i = 0; i < 4 * LONG * WIDTH; i++)
            CHECK_NEAR((&got[0][0])[i], (&want[0][0])[i], 1e-10);
    }
    for (int i = 0; i < 3; i++)
        weir_release(in[i]);
    weir_release(n);
    weir_device_close(d);
}

/* The first rows of a long and of a short sequence of queries drop the same keys. */
CASE(dropout_is_the_same_in_any_block)
{
    enum { SHORT = 100 };
    static double                all[LONG * WIDTH], some[SHORT * WIDTH];
    weir_device *const           d = weir_device_open(check_device(), NULL);
    const weir_attention_options o = {.heads = 1, .dropout = 0.5};
    weir_tensor                 *in[3];

    for (int i = 0; i < 3; i++)
        in[i] = numbers(d, cube(1, LONG, WIDTH), i);
    CHECK_OK(weir_device_seed(d, 9));
    CHECK_OK(weir_read(weir_attention_with(in[0], in[1], in[2], &o), all, sizeof all));
    CHECK_OK(weir_device_seed(d, 9));
    weir_tensor *const first = weir_narrow(in[0], 1, 0, SHORT);
    CHECK_OK(weir_read(weir_attention_with(first, in[1], in[2], &o), some, sizeof some));
    for (int i = 0; i < SHORT * WIDTH; i++)
        CHECK_NEAR(some[i], all[i], 1e-12);
    for (int i = 0; i < 3; i++)
        weir_release(in[i]);
    weir_device_close(d);
}
