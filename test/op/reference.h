/* reference.h - an independent answer to every operation: plain loops over doubles.
 *
 * Written from the mathematical definitions (op.h's sentences and the papers it names); it knows
 * the public header's types and nothing of the library's insides. Arrays are row-major whatever
 * their element type, values are held as doubles (exact for every integer that the tests draw). */
#ifndef WEIR_TEST_OP_REFERENCE_H
#define WEIR_TEST_OP_REFERENCE_H

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
    weir_dtype              cast;
    weir_conv2d_options     conv;
    weir_pool2d_options     pool;
    weir_batch_norm_options norm;
    weir_sgd_options        sgd;
    weir_adam_options       adam;
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
ref_array ref_new(weir_desc d);                 /* zeroed */
void      ref_free(ref_array *a);

/* Row-major position of element i of `d`, axis by axis, and back. */
void    ref_unravel(const weir_desc *d, int64_t i, int64_t *index);
int64_t ref_ravel(const weir_desc *d, const int64_t *index);

#define REF_LIST(X)                                                                                \
    X(relu) X(sigmoid) X(tanh) X(exp) X(log) X(sqrt) X(rsqrt) X(abs) X(neg) X(square) X(affine)    \
    X(add) X(sub) X(mul) X(div) X(max) X(min)                                                      \
    X(sum) X(mean) X(amax) X(count_correct)                                                        \
    X(same) X(reshape) X(flatten) X(transpose) X(broadcast_to) X(cast) X(fill) X(drawn) X(dropout) \
    X(matmul) X(linear) X(conv2d) X(max_pool2d) X(avg_pool2d) X(global_avg_pool2d)                 \
    X(batch_norm) X(cross_entropy) X(sgd_update) X(adam_update) X(increment)

#define REF_PROTOTYPE(id) void ref_##id(ref_call *c);
REF_LIST(REF_PROTOTYPE)
#undef REF_PROTOTYPE

#endif
