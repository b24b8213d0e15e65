/* saved_call.c - what the attributes of each op are, and checks of calls that a file describes.
 *
 * infer functions trust that a public function or a gradient recorded the call. A call from a file
 * comes from neither, so what those guarantee is checked here first. */
#include "graph/ops/saved_call.h"

#include <string.h>

#include "graph/ops/axes.h"
#include "graph/ops/window.h"

#define DIMS_S   "ssssssss"
#define DIMS_I   "iiiiiiii"
#define DESC     "tn" DIMS_S
#define SLICE    "n" DIMS_I DIMS_I DIMS_S "f"
#define REDUCE   "mbf"
#define CUMULATE "mbfb"
#define CONV     "kkkkkkkkk"
#define POOL     "kkkkkkkkb"

_Static_assert(WEIR_MAX_DIMS == 8, "DIMS_S and DIMS_I have a letter for each axis");

/* ---- what the forward call guarantees to its gradient ---- */

static weir_status check_4d(const weir_call *c, int n)
{
    for (int i = 0; i < n; i++)
        WEIR_TRY(weir_check_ndim(c, i, "an operand", 4));
    return WEIR_OK;
}

/* Runs the forward op's rules on x and w, and compares the result with y, all of them descs. */
static weir_status check_forward(const weir_call *c, weir_op op, const void *attr, size_t bytes,
                                 const weir_desc *x, const weir_desc *w, const weir_desc *y)
{
    weir_layout in[2], out[WEIR_MAX_OUT];
    weir_call   f = {.op = op, .def = weir_opdef_of(op), .nin = w ? 2 : 1, .in = in, .out = out,
                     .attr = attr, .attr_bytes = bytes, .alias = -1};
    char        want[WEIR_DESC_TEXT], have[WEIR_DESC_TEXT];

    f.nout = f.def->nout;
    in[0].desc = *x;
    WEIR_TRY(weir_shape_check(c->def->name, x));
    weir_shape_dense(&in[0]);
    if (w) {
        in[1].desc = *w;
        WEIR_TRY(weir_shape_check(c->def->name, w));
        weir_shape_dense(&in[1]);
    }
    WEIR_TRY(f.def->infer(&f));
    if (weir_shape_equal(&out[0].desc, y))
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_SHAPE, c, "the gradient is %s but %s returns %s",
                          weir_desc_text(y, have), weir_op_name(op),
                          weir_desc_text(&out[0].desc, want));
}

static weir_status check_conv_grad_x(const weir_call *c)
{
    const weir_conv2d_grad_attr *const a = c->attr;

    WEIR_TRY(check_4d(c, 2));
    const weir_desc *const dy = &c->in[0].desc, *const w = &c->in[1].desc;
    weir_desc              x = weir_4d(dy->dtype, dy->dim[0], 0, a->h, a->w);
    if (__builtin_mul_overflow(w->dim[1], a->conv.groups, &x.dim[1]))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld groups are too many",
                              (long long)a->conv.groups);
    return check_forward(c, WEIR_OP_CONV2D, &a->conv, sizeof a->conv, &x, w, dy);
}

static weir_status check_conv_grad_w(const weir_call *c)
{
    const weir_conv2d_gradw_attr *const a = c->attr;

    WEIR_TRY(check_4d(c, 2));
    const weir_desc *const x = &c->in[0].desc, *const dy = &c->in[1].desc;
    if (a->conv.groups < 1)
        return weir_call_fail(WEIR_ERR_INVALID, c, "has no groups");
    const weir_desc w = weir_4d(x->dtype, dy->dim[1], x->dim[1] / a->conv.groups, a->kh, a->kw);
    return check_forward(c, WEIR_OP_CONV2D, &a->conv, sizeof a->conv, x, &w, dy);
}

/* dy, and for maxima the winners. */
static weir_status check_pool_grad(const weir_call *c, weir_op op)
{
    const weir_pool2d_grad_attr *const a = c->attr;

    WEIR_TRY(check_4d(c, 1));
    const weir_desc *const dy = &c->in[0].desc;
    const weir_desc        x = weir_4d(dy->dtype, dy->dim[0], dy->dim[1], a->h, a->w);
    WEIR_TRY(check_forward(c, op, &a->pool, sizeof a->pool, &x, NULL, dy));
    if (op != WEIR_OP_MAX_POOL2D)
        return WEIR_OK;
    const weir_desc winners = weir_2d(WEIR_U8, dy->dim[0] * dy->dim[2] * dy->dim[3], dy->dim[1]);
    if (c->in[1].desc.dtype != WEIR_U8)
        return weir_call_fail(WEIR_ERR_DTYPE, c, "winners must be u8");
    return weir_check_dims(c, 1, "winners", &winners);
}

static weir_status check_max_grad(const weir_call *c)
{
    return check_pool_grad(c, WEIR_OP_MAX_POOL2D);
}

static weir_status check_avg_grad(const weir_call *c)
{
    return check_pool_grad(c, WEIR_OP_AVG_POOL2D);
}

static weir_status check_upsample_grad(const weir_call *c)
{
    const weir_upsample_attr *const a = c->attr;
    weir_desc                       x = c->in[0].desc;

    WEIR_TRY(check_4d(c, 1));
    for (int k = 0; k < 2; k++) {
        if (a->factor[k] < 1)
            return weir_call_fail(WEIR_ERR_INVALID, c, "a factor is 0");
        x.dim[2 + k] /= a->factor[k];
    }
    return check_forward(c, WEIR_OP_UPSAMPLE_BILINEAR, a, sizeof *a, &x, NULL, &c->in[0].desc);
}

static weir_status check_gather_grad(const weir_call *c)
{
    const weir_gather_attr *const a = c->attr;
    const weir_desc *const        dy = &c->in[1].desc;

    WEIR_TRY(weir_check_ndim(c, 1, "dy", 2));
    if (!weir_is_any_float(dy->dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "dy must be a float");
    const weir_desc table = weir_2d(dy->dtype, a->rows, dy->dim[1]);
    return check_forward(c, WEIR_OP_GATHER, a, sizeof *a, &table, &c->in[0].desc, dy);
}

/* gates (t,n,4w), w_hh (4w,w), c (t,n,w), c0 (n,w), dh, dc (t,n,w) */
static weir_status check_lstm_grad(const weir_call *c)
{
    WEIR_TRY(weir_check_ndim(c, 0, "gates", 3));
    WEIR_TRY(weir_check_ndim(c, 1, "w_hh", 2));
    const weir_desc *const gates = &c->in[0].desc;
    const int64_t          width = c->in[1].desc.dim[1];
    const weir_desc        state = weir_2d(gates->dtype, gates->dim[1], width);
    const weir_desc        all = {gates->dtype, 3, {gates->dim[0], gates->dim[1], width}};
    if (c->in[1].desc.dim[0] != 4 * width || gates->dim[2] != 4 * width)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "there must be 4 gates of %lld units",
                              (long long)width);
    WEIR_TRY(weir_check_dims(c, 3, "c0", &state));
    for (int i = 2; i < c->nin; i += i == 2 ? 2 : 1)
        WEIR_TRY(weir_check_dims(c, i, "a sequence", &all));
    return WEIR_OK;
}

/* ---- what public functions check ---- */

/* Elements begin + i step, 0 <= i < count, exist in an axis of size `size`. */
static bool fits(int64_t begin, int64_t step, int64_t count, int64_t size)
{
    int64_t last;

    if (count == 0)
        return true;
    return !__builtin_mul_overflow(count - 1, step, &last) &&
           !__builtin_add_overflow(last, begin, &last) && begin >= 0 && begin < size &&
           last >= 0 && last < size;
}

/* SLICE reads an input of a->dim elements; SLICE_SCATTER writes the input into them. */
static weir_status check_slice(const weir_call *c)
{
    const weir_slice_attr *const a = c->attr;
    const weir_desc *const       x = &c->in[0].desc;
    const bool                   scatter = c->op == WEIR_OP_SLICE_SCATTER;

    if (a->ndim != x->ndim)
        return weir_call_fail(WEIR_ERR_SHAPE, c, "%lld axes of %d", (long long)a->ndim, x->ndim);
    for (int i = 0; i < x->ndim; i++)
        if (!fits(a->begin[i], a->step[i], scatter ? x->dim[i] : a->dim[i],
                  scatter ? a->dim[i] : x->dim[i]) || a->step[i] == 0)
            return weir_call_fail(WEIR_ERR_INVALID, c, "axis %d has no elements from %lld by %lld",
                                  i, (long long)a->begin[i], (long long)a->step[i]);
    return WEIR_OK;
}

static weir_status check_one_axis(const weir_call *c)
{
    const weir_reduce_attr *const a = c->attr;

    if (a->dims != 0 && (a->dims & (a->dims - 1)) == 0)
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_INVALID, c, "runs along one axis");
}

/* A set of axes is empty only for a scalar. */
static weir_status check_set(const weir_call *c, int input)
{
    const weir_reduce_attr *const a = c->attr;

    if (a->dims != 0 || c->in[input].desc.ndim == 0)
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_INVALID, c, "reduces no axis");
}

static weir_status check_axes(const weir_call *c)
{
    return check_set(c, 0);
}

static weir_status check_grad_axes(const weir_call *c)
{
    return check_set(c, 1);
}

/* Its first and last number fit its type. */
static weir_status check_range(const weir_call *c)
{
    const weir_arange_attr *const a = c->attr;
    const double last = a->start + (double)(a->count > 0 ? a->count - 1 : 0) * a->step;
    const weir_dtype t = (weir_dtype)a->dtype;

    if (t != WEIR_BOOL && (weir_is_any_float(t) || (weir_integer_fits(t, a->start) &&
                                                    weir_integer_fits(t, last))))
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_INVALID, c, "%lld numbers from %g by %g do not fit the type",
                          (long long)a->count, a->start, a->step);
}

static weir_status check_schedule(const weir_call *c)
{
    const weir_lr_attr *const a = c->attr;

    if (a->kind <= WEIR_LR_COSINE && a->base >= 0 && a->to >= 0 && a->period > 0)
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_INVALID, c, "is no schedule of a learning rate");
}

static weir_status check_where(const weir_call *c)
{
    if (c->in[1].desc.dtype == c->in[2].desc.dtype)
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_DTYPE, c, "inputs 1 and 2 differ in type");
}

static weir_status check_square(const weir_call *c)
{
    const weir_rmsprop_attr *const a = c->attr;

    if (c->nin == 4 + (a->momentum != 0) + (a->centered != 0))
        return WEIR_OK;
    return weir_call_fail(WEIR_ERR_INVALID, c, "has %d operands, not those of its options", c->nin);
}

/* ---- the table ---- */

/* What is said of an op's calls; no line: a row with two doubles, or an op without attributes. */
typedef struct rule {
    const char   *attr;         /* letters of saved_call.h */
    weir_status (*check)(const weir_call *c);       /* after that of the attributes; NULL: none */
    bool          never;        /* no file holds such a call */
} rule;

static const rule rules[WEIR_OP_COUNT] = {
    [WEIR_OP_RESHAPE] = {.attr = "n" DIMS_S},
    [WEIR_OP_CAST] = {.attr = "t"},
    [WEIR_OP_BIT_CAST] = {.attr = "t"},
    [WEIR_OP_FILL] = {.attr = "f" DESC},
    [WEIR_OP_SLICE] = {.attr = SLICE, .check = check_slice},
    [WEIR_OP_SLICE_SCATTER] = {.attr = SLICE, .check = check_slice},
    [WEIR_OP_CONCAT] = {.attr = "a"},
    [WEIR_OP_GATHER] = {.attr = "fs"},
    [WEIR_OP_GATHER_GRAD] = {.attr = "fs", .check = check_gather_grad},
    [WEIR_OP_ONE_HOT] = {.attr = "ts"},
    [WEIR_OP_ARANGE] = {.attr = "ffts", .check = check_range},
    [WEIR_OP_SUM] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_AMAX] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_AMAX_GRAD] = {.attr = REDUCE, .check = check_grad_axes},
    [WEIR_OP_AMIN] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_PROD] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_PROD_GRAD] = {.attr = REDUCE, .check = check_grad_axes},
    [WEIR_OP_ARGMAX] = {.attr = REDUCE, .check = check_one_axis},
    [WEIR_OP_ARGMIN] = {.attr = REDUCE, .check = check_one_axis},
    [WEIR_OP_CUMSUM] = {.attr = CUMULATE, .check = check_one_axis},
    [WEIR_OP_CUMPROD] = {.attr = CUMULATE, .check = check_one_axis},
    [WEIR_OP_CUMPROD_GRAD] = {.attr = CUMULATE, .check = check_one_axis},
    [WEIR_OP_DOT] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_DIST] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_NORM1] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_NORM2] = {.attr = REDUCE, .check = check_axes},
    [WEIR_OP_SOFTMAX] = {.attr = "a"},
    [WEIR_OP_SOFTMAX_GRAD] = {.attr = "a"},
    [WEIR_OP_LOG_SOFTMAX] = {.attr = "a"},
    [WEIR_OP_LOG_SOFTMAX_GRAD] = {.attr = "a"},
    [WEIR_OP_MATMUL] = {.attr = "bb"},
    [WEIR_OP_BATCH_MATMUL] = {.attr = "bb"},
    [WEIR_OP_ATTENTION] = {.attr = "kkkbbbbff"},
    [WEIR_OP_ATTENTION_GRAD] = {.attr = "kkkbbbbff"},
    [WEIR_OP_LSTM] = {.attr = "b"},
    [WEIR_OP_LSTM_GRAD] = {.attr = "b", .check = check_lstm_grad},
    [WEIR_OP_CONV2D] = {.attr = CONV},
    [WEIR_OP_CONV2D_GRAD_X] = {.attr = CONV "kk", .check = check_conv_grad_x},
    [WEIR_OP_CONV2D_GRAD_W] = {.attr = CONV "kkb", .check = check_conv_grad_w},
    [WEIR_OP_CONV_TRANSPOSE2D] = {.attr = CONV "kk"},
    [WEIR_OP_MAX_POOL2D] = {.attr = POOL},
    [WEIR_OP_MAX_POOL2D_GRAD] = {.attr = POOL "kk", .check = check_max_grad},
    [WEIR_OP_AVG_POOL2D] = {.attr = POOL},
    [WEIR_OP_AVG_POOL2D_GRAD] = {.attr = POOL "kk", .check = check_avg_grad},
    [WEIR_OP_UPSAMPLE_BILINEAR] = {.attr = "kk"},
    [WEIR_OP_UPSAMPLE_BILINEAR_GRAD] = {.attr = "kk", .check = check_upsample_grad},
    [WEIR_OP_BN_STATS] = {.attr = "f"},
    [WEIR_OP_BN_UPDATE] = {.attr = "ff"},
    [WEIR_OP_LAYER_NORM] = {.attr = "f"},
    [WEIR_OP_CROSS_ENTROPY] = {.attr = "i"},
    [WEIR_OP_CROSS_ENTROPY_GRAD] = {.attr = "i"},
    [WEIR_OP_SGD_UPDATE] = {.attr = "fffb"},
    [WEIR_OP_ADAM_UPDATE] = {.attr = "ffff"},
    [WEIR_OP_ADAMW_UPDATE] = {.attr = "ffff"},
    [WEIR_OP_ADAGRAD_UPDATE] = {.attr = "ffb"},
    [WEIR_OP_RMSPROP_UPDATE] = {.attr = "ffffbb", .check = check_square},
    [WEIR_OP_LR_SCHEDULE] = {.attr = "kfff", .check = check_schedule},
    [WEIR_OP_INCREMENT] = {.attr = "f"},
    [WEIR_OP_RESET] = {.attr = "f"},
    [WEIR_OP_UNIFORM] = {.attr = "ff" DESC},
    [WEIR_OP_NORMAL] = {.attr = "ff" DESC},
    [WEIR_OP_BERNOULLI] = {.attr = "ff" DESC},
    [WEIR_OP_BN_APPLY] = {.attr = "ffb"},
    [WEIR_OP_LN_APPLY] = {.attr = "ffs"},
    [WEIR_OP_WHERE] = {.attr = "", .check = check_where},
    [WEIR_OP_TRANSPOSE] = {.never = true},
    [WEIR_OP_BROADCAST] = {.never = true},
    [WEIR_OP_DETACH] = {.never = true},
    [WEIR_OP_CALLBACK] = {.never = true},
    [WEIR_OP_CALLBACK_GRAD] = {.never = true},
    [WEIR_OP_ALL_REDUCE] = {.never = true},
    [WEIR_OP_REDUCE_SCATTER] = {.never = true},
    [WEIR_OP_ALL_GATHER] = {.never = true},
    [WEIR_OP_BROADCAST_FROM] = {.never = true},
    [WEIR_OP_REDUCE_TO] = {.never = true},
    [WEIR_OP_SEND_TO] = {.never = true},
    [WEIR_OP_RECV_FROM] = {.never = true},
    [WEIR_OP_FUSED] = {.never = true},
    [WEIR_OP_SIGN_PACK] = {.never = true},
    [WEIR_OP_SIGN_RELU_GRAD] = {.never = true},
    [WEIR_OP_ALL_REDUCE_START] = {.never = true},
    [WEIR_OP_ALL_REDUCE_WAIT] = {.never = true},
    [WEIR_OP_SPILL_OUT] = {.never = true},
    [WEIR_OP_SPILL_IN] = {.never = true},
    [WEIR_OP_SPILL_WAIT] = {.never = true},
    [WEIR_OP_PACK] = {.never = true},
    [WEIR_OP_UNPACK] = {.never = true},
    [WEIR_OP_QUANTIZE] = {.never = true},
    [WEIR_OP_DEQUANTIZE] = {.never = true},
};

const char *weir_saved_attr(weir_op op)
{
    const rule *const r = &rules[op];

    if (r->attr || r->never)
        return r->attr;
    return weir_opdef_of(op)->flags & WEIR_ELEMENTWISE ? "ff" : "";
}

weir_op weir_saved_op(const char *name)
{
    weir_op op = 0;

    while (op < WEIR_OP_COUNT && strcmp(weir_op_name(op), name) != 0)
        op++;
    return op;
}

/* ---- words ---- */

static weir_status check_word(const weir_call *c, char letter, int i, int64_t v)
{
    const int ndim = c->nin > 0 ? c->in[c->op == WEIR_OP_AMAX_GRAD || c->op == WEIR_OP_PROD_GRAD]
                                      .desc.ndim
                                : 0;
    const bool good = letter == 'b'   ? v == 0 || v == 1
                      : letter == 't' ? v >= 0 && weir_dtype_size((weir_dtype)v) > 0 && v < 256
                      : letter == 's' ? v >= 0
                      : letter == 'n' ? v >= 0 && v <= WEIR_MAX_DIMS
                      : letter == 'k' ? v >= 0 && v <= WEIR_WINDOW_MAX
                      : letter == 'a' ? v >= 0 && v < ndim
                      : letter == 'm' ? v >= 0 && v < 1 << ndim
                                      : true;

    return good ? WEIR_OK
                : weir_call_fail(WEIR_ERR_INVALID, c, "attribute %d is %lld, out of range", i,
                                 (long long)v);
}

static weir_status check_words(const weir_call *c)
{
    const char *const letters = weir_saved_attr(c->op);

    if (!letters || strlen(letters) * 8 != c->attr_bytes)
        return weir_call_fail(WEIR_ERR_INVALID, c, "is no call with %zu bytes of attributes that a "
                              "file may hold", c->attr_bytes);
    for (int i = 0; letters[i]; i++) {
        int64_t v;
        memcpy(&v, (const char *)c->attr + 8 * i, sizeof v);
        WEIR_TRY(check_word(c, letters[i], i, v));
    }
    return WEIR_OK;
}

weir_status weir_saved_check(const weir_call *c)
{
    WEIR_TRY(check_words(c));
    return rules[c->op].check ? rules[c->op].check(c) : WEIR_OK;
}
