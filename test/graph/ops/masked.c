/* masked.c - what a mask or lengths hide reaches nothing: whatever stands there, NaN and infinity
 * included, results and gradients keep every bit. */
#include <math.h>

#include "check.h"
#include "weir.h"

enum { STEPS = 4, ROWS = 3, COLUMNS = 4, HIDDEN = 2, PARAMS = 7, OUTCOMES = 10, MAX_VALUES = 128 };

/* How steps are hidden. */
enum { BY_MASK, BY_I32, BY_I64, WAYS };

typedef struct masked_case {
    bool       gru, deep, graph;        /* deep: 2 layers in both directions */
    int        way;
    weir_dtype type;
} masked_case;

/* Results and gradients of a case, in f64: outputs, last states, then one per parameter. */
typedef struct outcome {
    double at[OUTCOMES][MAX_VALUES];
} outcome;

static const double  fillers[] = {7, -1e30, (double)NAN, (double)INFINITY, -(double)INFINITY};
static const int32_t length[ROWS] = {2, 4, 0};

/* Numbers that look random, the same for each seed. */
static void numbers(double *v, int n, int seed)
{
    for (int i = 0; i < n; i++)
        v[i] = sin(i * 37 + seed * 101) * 0.9;
}

static weir_desc cube(int64_t a, int64_t b, int64_t c)
{
    return (weir_desc){WEIR_F64, 3, {a, b, c}};
}

static weir_tensor *made(weir_device *d, bool param, weir_desc desc, const double *v)
{
    weir_tensor *const t = param ? weir_param(d, desc, "p") : weir_input(d, desc);

    if (CHECK(t))
        CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

static weir_tensor *drawn(weir_device *d, weir_desc desc, int n, int seed)
{
    double v[MAX_VALUES];

    numbers(v, n, seed);
    return made(d, true, desc, v);
}

/* x, whose steps beyond the lengths hold `filler`. */
static weir_tensor *sequences(weir_device *d, double filler)
{
    double v[STEPS * ROWS * COLUMNS];

    numbers(v, STEPS * ROWS * COLUMNS, 1);
    for (int i = 0; i < STEPS * ROWS * COLUMNS; i++)
        if (i / (ROWS * COLUMNS) >= length[i / COLUMNS % ROWS])
            v[i] = filler;
    return made(d, true, cube(STEPS, ROWS, COLUMNS), v);
}

/* The mask or the lengths. */
static weir_tensor *hiding(weir_device *d, int way)
{
    double         mask[STEPS * ROWS];
    const int64_t  wide[ROWS] = {length[0], length[1], length[2]};
    weir_tensor   *t;

    for (int i = 0; i < STEPS * ROWS; i++)
        mask[i] = i / ROWS < length[i % ROWS];
    if (way == BY_MASK)
        return made(d, false, weir_2d(WEIR_F64, STEPS, ROWS), mask);
    t = weir_input(d, weir_1d(way == BY_I32 ? WEIR_I32 : WEIR_I64, ROWS));
    CHECK_OK(weir_write(t, way == BY_I32 ? (const void *)length : wide, weir_tensor_bytes(t)));
    return t;
}

/* Stores outputs and last states, in f64, in y. p: x, weights, first states. */
static void layers(const masked_case *c, weir_tensor *const *p, weir_tensor *hide, weir_tensor **y)
{
    weir_tensor *t[PARAMS];

    for (int i = 0; i < PARAMS; i++)
        t[i] = weir_cast(p[i], c->type);
    const weir_rnn_weights one = {t[1], t[2], t[3], NULL}, w[] = {one, one, one, one};
    const weir_rnn_options o = {.layers = c->deep ? 2 : 1, .bidirectional = c->deep,
                                .mask = c->way == BY_MASK ? weir_cast(hide, c->type) : NULL,
                                .lengths = c->way == BY_MASK ? NULL : hide};
    y[2] = NULL;
    y[0] = c->gru ? weir_gru(t[0], w, t[4], &o, &y[1])
                  : weir_lstm(t[0], w, t[4], t[5], &o, &y[1], &y[2]);
    for (int i = 0; i < 3; i++)
        y[i] = y[i] ? weir_cast(y[i], WEIR_F64) : NULL;
}

/* Runs the layers on x with the filler; stores the results and the gradients of a weighted sum. */
static void outcome_of(weir_device *d, const masked_case *c, double filler, outcome *to)
{
    const int64_t      gates = (c->gru ? 3 : 4) * HIDDEN, states = c->deep ? 4 : 1;
    const int64_t      in = COLUMNS;
    const int          k = (int)(gates * HIDDEN), s = (int)(states * ROWS * HIDDEN);
    weir_tensor *const hide = hiding(d, c->way);
    weir_tensor       *p[PARAMS] = {
        sequences(d, filler),
        drawn(d, weir_2d(WEIR_F64, gates, in), (int)(gates * in), 2),
        drawn(d, weir_2d(WEIR_F64, gates, HIDDEN), k, 3),
        drawn(d, weir_1d(WEIR_F64, gates), (int)gates, 4),
        drawn(d, cube(states, ROWS, HIDDEN), s, 5),
        drawn(d, cube(states, ROWS, HIDDEN), s, 6),
        drawn(d, weir_1d(WEIR_F64, 1), 1, 7)};
    weir_tensor       *y[3], *dp[PARAMS] = {NULL}, *loss = NULL;
    weir_graph *const  g = c->graph ? weir_graph_begin(d) : NULL;

    memset(to, 0, sizeof *to);
    layers(c, p, hide, y);
    for (int i = 0; i < 3; i++)
        if (y[i])
            loss = loss ? weir_add(loss, weir_sum(weir_square(y[i]), 0, false))
                        : weir_sum(weir_sin(y[i]), 0, false);
    CHECK_OK(weir_gradients(loss, c->gru ? 5 : 6, p, dp));
    for (int i = 0; i < OUTCOMES - 1 && g; i++)
        if (i < 3 ? y[i] : dp[i - 3])
            CHECK(weir_keep(i < 3 ? y[i] : dp[i - 3]) != NULL);
    if (g) {
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
    }
    for (int i = 0; i < OUTCOMES - 1; i++) {
        weir_tensor *const t = i < 3 ? y[i] : dp[i - 3];
        if (t && CHECK(weir_tensor_bytes(t) <= sizeof to->at[i]))
            CHECK_OK(weir_read(t, to->at[i], weir_tensor_bytes(t)));
    }
    for (int i = 0; i < PARAMS; i++)
        weir_release(p[i]);
    weir_release(hide);
    weir_graph_free(g);
}

static void try_fillers(const masked_case *c)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    outcome            clean, got;
    char               name[96];

    snprintf(name, sizeof name, "%s, %s, way %d, %s, graph %s", c->gru ? "gru" : "lstm",
             c->deep ? "deep" : "1 layer", c->way, weir_dtype_name(c->type),
             c->graph ? "on" : "off");
    outcome_of(d, c, 0, &clean);
    for (int i = 0; i < OUTCOMES * MAX_VALUES; i++)
        if (!isfinite((&clean.at[0][0])[i]))
            check_that(false, __FILE__, __LINE__, "%s: not finite", name);
    for (size_t f = 0; f < sizeof fillers / sizeof *fillers; f++) {
        outcome_of(d, c, fillers[f], &got);
        for (int i = 0; i < OUTCOMES; i++)
            check_that(memcmp(got.at[i], clean.at[i], sizeof got.at[i]) == 0, __FILE__, __LINE__,
                       "%s: beyond the lengths stands %g: outcome %d differs", name, fillers[f], i);
    }
    weir_device_close(d);
}

CASE(nothing_beyond_the_lengths_of_a_recurrent_layer_counts)
{
    for (int i = 0; i < 8 * WAYS; i++) {
        masked_case c = {.gru = i & 1, .deep = i >> 1 & 1, .graph = i >> 2 & 1, .way = i / 8,
                         .type = WEIR_F64};
        try_fillers(&c);
        c.type = i % 3 == 0 ? WEIR_BF16 : WEIR_F32;
        try_fillers(&c);
    }
}

/* Operands that `where` does not select. */
CASE(nothing_that_is_not_chosen_counts)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    const double       a[] = {1, 2, 3};

    for (size_t f = 0; f < sizeof fillers / sizeof *fillers; f++) {
        const double       b[] = {fillers[f], 5, fillers[f]};
        const uint8_t      pick[] = {1, 0, 1};
        double             y[3], da[3], db[3];
        weir_tensor       *p[] = {made(d, true, weir_1d(WEIR_F64, 3), a),
                                  made(d, true, weir_1d(WEIR_F64, 3), b)}, *dp[2] = {NULL};
        weir_tensor *const cond = weir_input(d, weir_1d(WEIR_BOOL, 3));
        CHECK_OK(weir_write(cond, pick, sizeof pick));
        weir_tensor *const r = weir_where(cond, p[0], p[1]);
        CHECK_OK(weir_gradients(weir_sum(weir_square(r), 0, false), 2, p, dp));
        CHECK_OK(weir_read(r, y, sizeof y));
        CHECK_OK(weir_read(dp[0], da, sizeof da));
        CHECK_OK(weir_read(dp[1], db, sizeof db));
        CHECK_BITS(y, ((double[]){1, 5, 3}), sizeof y);
        CHECK_BITS(da, ((double[]){2, 0, 6}), sizeof da);
        CHECK_BITS(db, ((double[]){0, 10, 0}), sizeof db);
        weir_release(p[0]);
        weir_release(p[1]);
        weir_release(cond);
    }
    weir_device_close(d);
}

/* ---- attention ---- */

enum { MOST = 70 * 270 };       /* elements of an operand, at most */

typedef struct attended {
    int        queries, keys, width, heads;
    weir_dtype type;
    int        length;      /* keys that there are, no causal mask; 0: all keys, causal */
} attended;

/* Of q, k, v: gradients; then y, all in f64. */
typedef struct attention_outcome {
    double at[4][MOST];
} attention_outcome;

/* Attention and the gradients of the sum of its squares. Operand i of q, k and v holds
 * `filler` in rows from[i] to to[i]. */
static void attend(weir_device *d, const attended *c, const int *from, const int *to,
                   double filler, attention_outcome *out)
{
    static double v[MOST];
    weir_tensor  *p[3], *dp[3] = {NULL};

    memset(out, 0, sizeof *out);
    for (int i = 0; i < 3; i++) {
        const int rows = i == 0 ? c->queries : c->keys;
        numbers(v, rows * c->width, i);
        for (int j = from[i] * c->width; j < to[i] * c->width; j++)
            v[j] = filler;
        p[i] = made(d, true, cube(1, rows, c->width), v);
    }
    const int32_t          keys = c->length;
    weir_attention_options o = {.heads = c->heads, .causal = WEIR_ATTENTION_FROM_FIRST};
    if (keys > 0) {
        o.causal = WEIR_ATTENTION_ALL;
        o.lengths = weir_input(d, (weir_desc){WEIR_I32, 1, {1}});
        CHECK_OK(weir_write(o.lengths, &keys, sizeof keys));
    }
    weir_tensor *const y = weir_attention_with(weir_cast(p[0], c->type), weir_cast(p[1], c->type),
                                               weir_cast(p[2], c->type), &o);
    weir_tensor *const wide = weir_cast(y, WEIR_F64);
    CHECK_OK(weir_gradients(weir_sum(weir_square(wide), 0, false), 3, p, dp));
    CHECK_OK(weir_read(wide, out->at[3], weir_tensor_bytes(wide)));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_read(dp[i], out->at[i], weir_tensor_bytes(dp[i])));
        weir_release(p[i]);
    }
    weir_release(o.lengths);
}

/* Rows first to last of outcome i are the same to the bit. */
static void same_rows(const attended *c, const attention_outcome *got,
                      const attention_outcome *want, int i, int first, int last, double filler)
{
    const size_t at = (size_t)(first * c->width), n = (size_t)((last - first) * c->width);

    check_that(memcmp(&got->at[i][at], &want->at[i][at], n * sizeof(double)) == 0, __FILE__,
               __LINE__, "attention in %s, %d queries, %d keys: with %g out of sight, rows %d to "
               "%d of outcome %d differ", weir_dtype_name(c->type), c->queries, c->keys, filler,
               first, last, i);
}

/* Less than a block; several; such that products are packed. */
static const attended attentions[] = {
    {3, 6, 4, 2, WEIR_F32, 0}, {70, 150, 80, 2, WEIR_F32, 0}, {66, 70, 270, 1, WEIR_F32, 0}};

/* Keys from the number of queries on are seen by none. */
CASE(nothing_that_attention_hides_counts)
{
    static attention_outcome clean, got;
    weir_device *const       d = weir_device_open(check_device(), NULL);

    for (int n = 0; n < 3 * 4; n++) {
        attended  c = attentions[n / 4];
        const int from[] = {0, c.queries, c.queries}, to[] = {0, c.keys, c.keys};
        c.type = (weir_dtype[]){WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16}[n % 4];
        attend(d, &c, from, to, 0, &clean);
        for (int i = c.queries * c.width; i < c.keys * c.width; i++)
            CHECK(clean.at[1][i] == 0 && clean.at[2][i] == 0);
        for (size_t f = 0; f < sizeof fillers / sizeof *fillers; f++) {
            attend(d, &c, from, to, fillers[f], &got);
            for (int i = 0; i < 4; i++)
                same_rows(&c, &got, &clean, i, 0, i == 0 || i == 3 ? c.queries : c.keys,
                          fillers[f]);
        }
    }
    weir_device_close(d);
}

/* Keys from a batch's length on count for nothing, and neither does dy reach them. */
CASE(nothing_beyond_the_lengths_counts)
{
    static attention_outcome clean, got;
    weir_device *const       d = weir_device_open(check_device(), NULL);

    for (int n = 0; n < 3 * 4; n++) {
        attended c = attentions[n / 4];
        c.length = c.keys / 2;
        const int from[] = {0, c.length, c.length}, to[] = {0, c.keys, c.keys};
        c.type = (weir_dtype[]){WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16}[n % 4];
        attend(d, &c, from, to, 0, &clean);
        for (int i = c.length * c.width; i < c.keys * c.width; i++)
            CHECK(clean.at[1][i] == 0 && clean.at[2][i] == 0);
        for (size_t f = 0; f < sizeof fillers / sizeof *fillers; f++) {
            attend(d, &c, from, to, fillers[f], &got);
            for (int i = 0; i < 4; i++)
                same_rows(&c, &got, &clean, i, 0, i == 0 || i == 3 ? c.queries : c.keys,
                          fillers[f]);
        }
        attend(d, &c, (int[]){1, 0, 0}, (int[]){2, 0, 0}, (double)NAN, &got);
        same_rows(&c, &got, &clean, 1, c.length, c.keys, (double)NAN);
        same_rows(&c, &got, &clean, 2, c.length, c.keys, (double)NAN);
    }
    weir_device_close(d);
}

/* A key reaches no query before it, a query no key behind it, in the blocks on the diagonal, too:
 * one is NaN or infinite. */
CASE(attention_looks_back_only)
{
    static attention_outcome clean, got;
    weir_device *const       d = weir_device_open(check_device(), NULL);

    for (int n = 0; n < 3 * 4; n++) {
        attended  c = attentions[n / 4];
        const int at = c.queries * 2 / 3, none[3] = {0};
        c.type = (weir_dtype[]){WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16}[n % 4];
        attend(d, &c, none, none, 0, &clean);
        for (size_t f = 2; f < sizeof fillers / sizeof *fillers; f++) {
            attend(d, &c, (int[]){0, at, at}, (int[]){0, at + 1, at + 1}, fillers[f], &got);
            same_rows(&c, &got, &clean, 3, 0, at, fillers[f]);
            same_rows(&c, &got, &clean, 0, 0, at, fillers[f]);
            CHECK(!isfinite(got.at[3][at * c.width]));
            attend(d, &c, (int[]){at, 0, 0}, (int[]){at + 1, 0, 0}, fillers[f], &got);
            same_rows(&c, &got, &clean, 3, 0, at, fillers[f]);
            same_rows(&c, &got, &clean, 3, at + 1, c.queries, fillers[f]);
            same_rows(&c, &got, &clean, 0, at + 1, c.queries, fillers[f]);
            same_rows(&c, &got, &clean, 1, at + 1, c.keys, fillers[f]);
            same_rows(&c, &got, &clean, 2, at + 1, c.keys, fillers[f]);
            CHECK(!isfinite(got.at[1][0]));
        }
    }
    weir_device_close(d);
}
