/* reference_math.c - the reference of activations with options, pow, comparisons, where.
 *
 * Functions of one number have theirs in their rows: table_math.c. */
#include <math.h>

#include "graph/ops/reference.h"

REF_EACH(leaky_relu, a > 0 ? a : o->s * a)
REF_EACH(elu, a > 0 ? a : o->s * expm1(a))
REF_EACH(clamp, ref_smaller(ref_larger(a, o->s), o->t))
REF_EACH(pow, pow(a, b))
REF_EACH(where, a != 0 ? b : v[2])

/* x, slope: one for all, or one for each place on axis 1. */
void ref_prelu(ref_call *c)
{
    const ref_array *const x = &c->in[0], *const slope = &c->in[1];

    c->out = ref_new(x->desc);
    for (int64_t i = 0; i < ref_count(&x->desc); i++) {
        int64_t index[WEIR_MAX_DIMS] = {0};
        ref_unravel(&x->desc, i, index);
        const double s = slope->at[ref_count(&slope->desc) == 1 ? 0 : index[1]];
        c->out.at[i] = x->at[i] > 0 ? x->at[i] : s * x->at[i];
    }
}

/* The result is bool. */
#define TRUTH(id, expr)                                                                            \
    static double truth_##id(const double *v, const ref_options *o)                                \
    {                                                                                              \
        const double a = v[0], b = v[1];                                                           \
        (void)b, (void)o;                                                                          \
        return expr;                                                                               \
    }                                                                                              \
    void ref_##id(ref_call *c)                                                                     \
    {                                                                                              \
        ref_each(c, truth_##id);                                                                   \
        c->out.desc.dtype = WEIR_BOOL;                                                             \
    }

TRUTH(eq, a == b)
TRUTH(ne, a != b)
TRUTH(lt, a < b)
TRUTH(le, a <= b)
TRUTH(gt, a > b)
TRUTH(ge, a >= b)
TRUTH(logical_and, a != 0 && b != 0)
TRUTH(logical_or, a != 0 || b != 0)
TRUTH(logical_xor, (a != 0) != (b != 0))
TRUTH(logical_not, a == 0)
