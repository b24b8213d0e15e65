/* einsum.c - Einstein summation of one or two operands, composed of views, sums and one product.
 *
 * Labels that occur in one operand only and not in the result are summed first. The others occur in
 * both operands and the result (batch), in one operand and the result (left, right), or in both
 * operands only (inner). With inner labels the operands become matrices (batch, left, inner) and
 * (batch, inner, right), and a batched product does the rest; without, they broadcast and
 * multiply. */
#include <string.h>

#include "graph/ops/define.h"

/* Axis i is called at[i]. */
typedef struct weir_labels {
    int  n;
    char at[WEIR_MAX_DIMS];
} weir_labels;

enum { OPERANDS = 2, RESULT = OPERANDS };

typedef struct weir_einsum_terms {
    const char  *text;                      /* the equation */
    int          n;                         /* operands */
    weir_labels  side[OPERANDS + 1];        /* of the operands and the result */
    weir_tensor *x[OPERANDS];
} weir_einsum_terms;

static bool has(const weir_labels *l, char label)
{
    return l->n > 0 && memchr(l->at, label, (size_t)l->n) != NULL;
}

/* The labels of `of` that are (in) or are not (!in) in `with`, in the order of `of`. */
static weir_labels pick(const weir_labels *of, const weir_labels *with, bool in)
{
    weir_labels r = {0};

    for (int i = 0; i < of->n; i++)
        if (has(with, of->at[i]) == in)
            r.at[r.n++] = of->at[i];
    return r;
}

/* a followed by b; together they are the labels of one tensor, so they fit. */
static weir_labels joined(const weir_labels *a, const weir_labels *b)
{
    weir_labels r = *a;

    for (int i = 0; i < b->n; i++)
        r.at[r.n++] = b->at[i];
    return r;
}

static bool same_order(const weir_labels *a, const weir_labels *b)
{
    return a->n == b->n && memcmp(a->at, b->at, (size_t)a->n) == 0;
}

/* ---- the equation ---- */

static weir_status add_label(const char *text, weir_labels *side, char label)
{
    if (!((label >= 'a' && label <= 'z') || (label >= 'A' && label <= 'Z')))
        return weir_fail(WEIR_ERR_INVALID, "'%s': '%c' is not a label (expected a letter)", text,
                         label);
    if (has(side, label))
        return weir_fail(WEIR_ERR_INVALID, "'%s': the label %c occurs twice in one term", text,
                         label);
    if (side->n == WEIR_MAX_DIMS)
        return weir_fail(WEIR_ERR_INVALID, "'%s': more than %d labels in one term", text,
                         WEIR_MAX_DIMS);
    side->at[side->n++] = label;
    return WEIR_OK;
}

/* Parses "ab, bc -> ac" into t->side; sets t->n, the number of operands. */
static weir_status parse(weir_einsum_terms *t)
{
    int  at = 0;
    bool arrow = false;

    t->n = 1;
    for (const char *p = t->text; *p; p++) {
        if (*p == ' ') {
            continue;
        } else if (*p == ',' && !arrow) {
            if (t->n++ == OPERANDS)
                return weir_fail(WEIR_ERR_INVALID, "'%s': more than %d operands", t->text,
                                 OPERANDS);
            at++;
        } else if (p[0] == '-' && p[1] == '>' && !arrow) {
            arrow = true;
            at = RESULT;
            p++;
        } else {
            WEIR_TRY(add_label(t->text, &t->side[at], *p));
        }
    }
    if (!arrow)
        return weir_fail(WEIR_ERR_INVALID, "'%s': the result must be given after ->", t->text);
    return WEIR_OK;
}

/* The size of a label; -1 if no operand has it. */
static int64_t size_of(const weir_einsum_terms *t, char label)
{
    for (int k = 0; k < t->n; k++)
        for (int i = 0; i < t->side[k].n; i++)
            if (t->side[k].at[i] == label)
                return t->x[k]->layout.desc.dim[i];
    return -1;
}

static weir_status check_terms(const weir_einsum_terms *t)
{
    const weir_dtype a = t->x[0]->layout.desc.dtype, b = t->x[t->n - 1]->layout.desc.dtype;

    if (a != b)
        return weir_fail(WEIR_ERR_DTYPE, "'%s': operand 0 is %s but operand 1 %s", t->text,
                         weir_dtype_name(a), weir_dtype_name(b));
    for (int k = 0; k < t->n; k++) {
        const weir_desc *const d = &t->x[k]->layout.desc;
        if (t->side[k].n != d->ndim)
            return weir_fail(WEIR_ERR_SHAPE, "'%s': %d labels for operand %d of %d axes", t->text,
                             t->side[k].n, k, d->ndim);
        for (int i = 0; i < d->ndim; i++)
            if (size_of(t, t->side[k].at[i]) != d->dim[i])
                return weir_fail(WEIR_ERR_SHAPE, "'%s': %c is %lld in operand 0, %lld in operand "
                                 "%d", t->text, t->side[k].at[i],
                                 (long long)size_of(t, t->side[k].at[i]), (long long)d->dim[i], k);
    }
    for (int i = 0; i < t->side[RESULT].n; i++)
        if (size_of(t, t->side[RESULT].at[i]) < 0)
            return weir_fail(WEIR_ERR_INVALID, "'%s': no operand has the label %c of the result",
                             t->text, t->side[RESULT].at[i]);
    return WEIR_OK;
}

/* ---- the parts of the sum; NULL inputs give NULL ---- */

/* Sums operand k over the labels that occur nowhere else. */
static void sum_alone(weir_einsum_terms *t, int k)
{
    weir_labels *const own = &t->side[k];
    weir_labels        kept = {0};
    uint32_t           axes = 0;

    for (int i = 0; i < own->n; i++) {
        if (has(&t->side[RESULT], own->at[i]) || (t->n == 2 && has(&t->side[1 - k], own->at[i])))
            kept.at[kept.n++] = own->at[i];
        else
            axes |= 1u << i;
    }
    if (axes != 0)
        t->x[k] = weir_sum(t->x[k], axes, false);
    *own = kept;
}

/* x with its axes, labelled `from`, in the order `to`. */
static weir_tensor *arranged(weir_tensor *x, const weir_labels *from, const weir_labels *to)
{
    int axes[WEIR_MAX_DIMS] = {0};

    if (!x || same_order(from, to))
        return x;
    for (int i = 0; i < to->n; i++)
        axes[i] = (int)((const char *)memchr(from->at, to->at[i], (size_t)from->n) - from->at);
    return weir_transpose(x, axes);
}

static int64_t elements(const weir_einsum_terms *t, const weir_labels *l)
{
    int64_t n = 1;

    for (int i = 0; i < l->n; i++)
        n *= size_of(t, l->at[i]);
    return n;
}

/* Operand k as matrices (batch, rows, columns). *turned: they are stored transposed, which avoids a
 * copy. */
static weir_tensor *matrices(const weir_einsum_terms *t, int k, const weir_labels *batch,
                             const weir_labels *rows, const weir_labels *columns, bool *turned)
{
    const weir_labels lead = joined(batch, columns), across = joined(&lead, rows);

    *turned = rows->n > 0 && columns->n > 0 && same_order(&t->side[k], &across);
    const weir_labels *const first = *turned ? columns : rows;
    const weir_labels *const last = *turned ? rows : columns;
    const weir_labels        begin = joined(batch, first), order = joined(&begin, last);
    const int64_t dim[] = {elements(t, batch), elements(t, first), elements(t, last)};
    const int     skip = batch->n == 0;

    return weir_reshape(arranged(t->x[k], &t->side[k], &order), 3 - skip, dim + skip);
}

/* y reshaped to the sizes of the labels. */
static weir_tensor *unfolded(const weir_einsum_terms *t, weir_tensor *y, const weir_labels *l)
{
    int64_t dim[WEIR_MAX_DIMS];

    for (int i = 0; i < l->n; i++)
        dim[i] = size_of(t, l->at[i]);
    return weir_reshape(y, l->n, dim);
}

static weir_tensor *product(const weir_einsum_terms *t, const weir_labels *inner)
{
    const weir_labels *const a = &t->side[0], *const b = &t->side[1], *const out = &t->side[RESULT];
    const weir_labels        of_a = pick(out, a, true), batch = pick(&of_a, b, true);
    const weir_labels        left = pick(&of_a, b, false), right = pick(out, a, false);
    const weir_labels        begin = joined(&batch, &left), all = joined(&begin, &right);
    bool                     ta, tb;

    weir_tensor *const ma = matrices(t, 0, &batch, &left, inner, &ta);
    weir_tensor *const mb = matrices(t, 1, &batch, inner, &right, &tb);
    return arranged(unfolded(t, weir_matmul_t(ma, mb, ta, tb), &all), &all, out);
}

/* Operand k with the axes of the result, of size 1 where it has no such label. */
static weir_tensor *expand_term(const weir_einsum_terms *t, int k)
{
    const weir_labels *const out = &t->side[RESULT];
    const weir_labels        own = pick(out, &t->side[k], true);
    int64_t                  dim[WEIR_MAX_DIMS];

    for (int i = 0; i < out->n; i++)
        dim[i] = has(&own, out->at[i]) ? size_of(t, out->at[i]) : 1;
    return weir_reshape(arranged(t->x[k], &t->side[k], &own), out->n, dim);
}

/* Evaluates checked terms. Sizes come from the given operands; sums replace those of a copy. */
static weir_tensor *evaluate(const weir_einsum_terms *given)
{
    weir_einsum_terms t = *given;

    for (int k = 0; k < t.n; k++)
        sum_alone(&t, k);
    for (int k = 0; k < t.n; k++)
        if (!t.x[k])
            return NULL;
    if (t.n == 1)
        return arranged(t.x[0], &t.side[0], &t.side[RESULT]);

    const weir_labels shared = pick(&t.side[0], &t.side[1], true);
    const weir_labels inner = pick(&shared, &t.side[RESULT], false);
    return inner.n > 0 ? product(&t, &inner) : weir_mul(expand_term(&t, 0), expand_term(&t, 1));
}

/* ---- public functions ---- */

weir_tensor *weir_einsum(const char *equation, weir_tensor *a, weir_tensor *b)
{
    weir_einsum_terms  t = {.text = equation, .x = {a, b}};
    weir_tensor *const in[] = {a, b};

    if (!equation || !a)
        return weir_null("weir_einsum", equation ? "a" : "equation");
    weir_status status = parse(&t);
    if (status == WEIR_OK && t.n == 2 && !b)
        return weir_null("weir_einsum", "b, which the equation names,");
    if (status == WEIR_OK && t.n == 1 && b)
        status = weir_fail(WEIR_ERR_INVALID, "'%s': the equation names one operand, but two are "
                                             "given", equation);
    if (status == WEIR_OK)
        status = check_terms(&t);
    return weir_retold(status == WEIR_OK ? evaluate(&t) : NULL, "einsum", 2, in);
}
