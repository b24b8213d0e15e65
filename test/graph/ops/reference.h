/* reference.h - an independent answer to every operation: plain loops over doubles.
 *
 * Written from the mathematical definitions (op.h's sentences and the papers it names); it knows
 * the public header's types and nothing of the library's insides. Arrays are row-major whatever
 * their element type, values are held as doubles (exact for every integer that the tests draw). */
#ifndef WEIR_TEST_GRAPH_OPS_REFERENCE_H
#define WEIR_TEST_GRAPH_OPS_REFERENCE_H

#include <math.h>

#include "weir.h"

typedef struct ref_array {
    weir_desc desc;
    double   *at;           /* [count] */
} ref_array;

/* Everything an operation is told beside its inputs; each reads its own few fields. */
typedef struct ref_options {
    double                  s, t;           /* affine: factor, addend; dropout: p; fill: value;
                                             * draws: range, or mean and deviation */
    uint32_t                dims;           /* reductions */
    bool                    keep;
    bool                    ta, tb;         /* matmul */
    int                     ndim;           /* reshape, broadcast, transpose (0 here: reversed) */
    int64_t                 to[WEIR_MAX_DIMS];
    int64_t                 from[WEIR_MAX_DIMS], by[WEIR_MAX_DIMS];     /* slice: from, to, by */
    weir_dtype              cast;
    const char             *equation;       /* einsum */
    int64_t                 heads, kv_heads;        /* attention; s: its scale */
    bool                    causal, causal_last;
    int                     layers;         /* recurrent networks */
    bool                    both;           /* directions */
    weir_conv2d_options     conv;
    weir_conv1d_options     conv1d;
    weir_pool1d_options     pool1d;
    weir_conv_transpose2d_options conv_transpose;
    weir_pool2d_options     pool;
    weir_batch_norm_options norm;
    weir_sgd_options        sgd;
    weir_adam_options       adam;
    weir_adagrad_options    adagrad;
    weir_rmsprop_options    rmsprop;
    int                     axis;           /* argmax, softmax, joins; pad: the mode */
    int                     which;          /* norm: p; var: correction; lr_schedule: 0, 1, 2 */
    int64_t                 groups;         /* group_norm */
} ref_options;

typedef struct ref_call {
    const ref_options *o;
    weir_dtype         type;        /* element type of the float inputs */
    int                nin;
    ref_array         *in;          /* [nin]; updates write theirs */
    weir_desc          desc;        /* what a call without inputs is asked for */
    ref_array          out;         /* made by the reference */
    const double      *got;         /* the library's answer, may be NULL: tells what a draw hit */
} ref_call;

int64_t   ref_count(const weir_desc *d);
double    ref_number(const ref_call *c, int lr, int i, double option);
ref_array ref_new(weir_desc d);                 /* zeroed */
void      ref_free(ref_array *a);

/* Row-major position of element i of `d`, axis by axis, and back. */
void    ref_unravel(const weir_desc *d, int64_t i, int64_t *index);
int64_t ref_ravel(const weir_desc *d, const int64_t *index);

/* The larger and the smaller of two numbers; a NaN is both. */
static inline double ref_larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static inline double ref_smaller(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

/* Element by element over the broadcast inputs, v[k] of input k; the result has c->type. */
typedef double (*ref_scalar)(const double *v, const ref_options *o);
void ref_each(ref_call *c, ref_scalar f);

/* ref_<id> from an expression of a, b (and v[2]) and the options o. */
#define REF_EACH(id, expr)                                                                         \
    static double each_##id(const double *v, const ref_options *o)                                 \
    {                                                                                              \
        const double a = v[0], b = v[1];                                                           \
        (void)a, (void)b, (void)o;                                                                 \
        return expr;                                                                               \
    }                                                                                              \
    void ref_##id(ref_call *c)                                                                     \
    {                                                                                              \
        ref_each(c, each_##id);                                                                    \
    }

/* Of a reduction: the result's desc, and where in it element i of the input goes. */
weir_desc ref_reduced_desc(const ref_call *c);
weir_desc ref_counted_desc(const ref_call *c);     /* of a sum or product: i64 of integers */
int64_t   ref_reduced_place(const ref_call *c, int64_t i);

#define REF_LIST(X)                                                                                \
    X(slice) X(split) X(concat) X(stack) X(squeeze) X(unsqueeze) X(tile) X(repeat) X(pad)          \
    X(depth_to_space) X(space_to_depth) X(gather) X(scatter_add) X(one_hot) X(arange)              \
    X(take_along) X(topk) X(topk_places)                                                           \
    X(relu) X(sigmoid) X(tanh) X(exp) X(log) X(sqrt) X(rsqrt) X(abs) X(neg) X(square) X(affine)    \
    X(add) X(sub) X(mul) X(div) X(div_whole) X(max) X(min) X(div_floor) X(div_trunc) X(remainder)  \
    X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(shift_left) X(shift_right) X(bit_cast)           \
    X(sum) X(mean) X(amax) X(count_correct)                                                        \
    X(same) X(reshape) X(flatten) X(transpose) X(broadcast_to) X(cast) X(fill) X(drawn) X(dropout) \
    X(lstm) X(gru) X(batch_matmul) X(gemm) X(attention) X(einsum)                                  \
    X(conv_transpose2d) X(conv1d) X(max_pool1d) X(avg_pool1d)                                      \
    X(matmul) X(linear) X(conv2d) X(max_pool2d) X(avg_pool2d) X(global_avg_pool2d)                 \
    X(batch_norm) X(cross_entropy) X(sgd_update) X(adam_update) X(increment)        \
    X(amin) X(prod) X(argmax) X(argmin) X(var) X(norm) X(softmax) X(log_softmax)                   \
    X(mse_loss) X(bce_logits_loss) X(bce_loss) X(ranking_loss) X(cosine_similarity)                \
    X(layer_norm) X(group_norm) X(rms_norm)                                                        \
    X(adamw_update) X(adagrad_update) X(rmsprop_update) X(lr_schedule)                       \
    X(accumulate) X(accumulate_tree) X(reset) X(assign)

#define REF_MATH_LIST(X)                                                                           \
    X(leaky_relu) X(elu) X(prelu) X(clamp) X(pow) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)              \
    X(logical_and) X(logical_or) X(logical_xor) X(logical_not) X(where)

#define REF_PROTOTYPE(id) void ref_##id(ref_call *c);
REF_LIST(REF_PROTOTYPE)
REF_MATH_LIST(REF_PROTOTYPE)
#undef REF_PROTOTYPE

#endif
