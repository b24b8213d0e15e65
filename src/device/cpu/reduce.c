/* reduce.c - sums and maxima over axes, the gradient of a maximum, and counting right answers.
 *
 * Axes are sorted by stride (largest first) and merged where they lie side by side, so every
 * reduction is one of two loops: if the innermost axis is kept, rows are added into columns;
 * if it is reduced, lines become one number each. What is reduced is cut into pieces,
 * consecutive pieces into chunks; chunks run in parallel into accumulators of 8 bytes and meet
 * in order. All cuts follow from the shape, so thread counts and instruction sets give the
 * same bits. */
#include "device/cpu/reduce.h"

#include <math.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/cpu/cut.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/real.h"

/* ---- axes ---- */

typedef struct axis {
    int64_t size, in, out;          /* steps in elements; out is 0 when reduced */
    bool    reduced;
} axis;

typedef struct axes {
    int  n;
    axis at[WEIR_MAX_DIMS];
} axes;

static int64_t axes_count(const axes *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->n; i++)
        n *= a->at[i].size;
    return n;
}

/* Where index `i` of the (row-major) product of the axes lies. */
static int64_t axes_offset(const axes *a, int64_t i, int64_t *out)
{
    int64_t in = 0, to = 0;
    for (int k = a->n - 1; k >= 0; k--) {
        const int64_t q = k > 0 ? i / a->at[k].size : 0, at = i - q * a->at[k].size;
        in += at * a->at[k].in;
        to += at * a->at[k].out;
        i = q;
    }
    if (out)
        *out = to;
    return in;
}

static int64_t step_of(const axis *a)
{
    const int64_t s = a->in < 0 ? -a->in : a->in;
    return s == 0 ? INT64_MAX : s;      /* a repeated axis is best outermost */
}

/* The axes of more than one element of x, reduced to y; as written, or the widest step first. */
static axes axes_of(const weir_layout *x, const weir_layout *y, const weir_reduce_attr *attr,
                    bool sorted)
{
    axes a = {0};
    for (int i = 0, o = 0; i < x->desc.ndim; i++) {
        const bool    reduced = (attr->dims >> i & 1) != 0;
        const int64_t out = reduced ? 0 : y->stride[o];
        const axis    new = {x->desc.dim[i], x->stride[i], out, reduced};
        o += !reduced || attr->keep;
        if (new.size == 1)
            continue;
        int k = a.n++;
        for (; sorted && k > 0 && step_of(&a.at[k - 1]) < step_of(&new); k--)
            a.at[k] = a.at[k - 1];
        a.at[k] = new;
    }
    return a;
}

static void axes_merge(axes *a)
{
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const axis in = a->at[i], *last = n > 0 ? &a->at[n - 1] : NULL;
        if (last && last->reduced == in.reduced && last->in == in.size * in.in &&
            last->out == in.size * in.out)
            a->at[n - 1] = (axis){last->size * in.size, in.in, in.out, in.reduced};
        else
            a->at[n++] = in;
    }
    a->n = n;
}

/* ---- the plan of a sum or maximum ---- */

typedef union accumulator {
    double  f;
    int64_t i;
} accumulator;

typedef struct plan {
    weir_reduce_loops loops, meet;  /* of elements, of accumulators */
    weir_dtype        in, out;
    size_t            size;         /* bytes of an input element */
    accumulator       start;
    double            scale;
    axes              keep, over;   /* outer axes: one result (row of columns) each, pieces each */
    axis              inner;        /* the reduced axis that a piece runs along */
    axis              col;          /* columns; size 1 when lines are reduced */
    bool              columns;
    int64_t           piece;        /* of inner, per piece */
    int64_t           per_line;     /* pieces along inner */
    int64_t           outs, group, groups;      /* results; per task; tasks along them */
    int64_t           blocks;       /* tasks along the columns */
    int64_t           pieces, chunk, chunks;    /* in all; per task; tasks along them */
} plan;

/* Distributes the axes over the roles of a plan. */
static void plan_axes(plan *p, const axes *a)
{
    p->columns = a->n > 0 && !a->at[a->n - 1].reduced;
    p->col = p->columns ? a->at[a->n - 1] : (axis){.size = 1};
    p->inner = (axis){.size = 1, .reduced = true};
    int inner = -1;
    for (int i = 0; i < a->n; i++)
        if (a->at[i].reduced)
            inner = i;
    if (inner >= 0)
        p->inner = a->at[inner];
    for (int i = 0; i < a->n - p->columns; i++) {
        axes *to = a->at[i].reduced ? &p->over : &p->keep;
        if (i != inner)
            to->at[to->n++] = a->at[i];
    }
}

/* Cuts pieces, chunks and tasks. */
static void plan_cut(plan *p)
{
    const bool fold = p->col.in == 1 && p->inner.in == p->col.size;
    p->piece = !p->columns ? WEIR_REDUCE_LINE
               : fold      ? max64(WEIR_REDUCE_ROWS, WEIR_REDUCE_LINE / p->col.size)
                           : WEIR_REDUCE_ROWS;
    p->per_line = ceil_div(p->inner.size, p->piece);
    p->pieces = axes_count(&p->over) * p->per_line;
    p->outs = axes_count(&p->keep);
    p->blocks = ceil_div(p->col.size, WEIR_REDUCE_COLS);
    const int64_t reduced = axes_count(&p->over) * p->inner.size;
    const int64_t each = reduced * min64(p->col.size, WEIR_REDUCE_COLS);
    p->group = rows_per_task(each);
    p->groups = ceil_div(p->outs, p->group);
    const int64_t tasks = p->groups * p->blocks;
    const int64_t worth = p->outs * p->col.size * reduced / WEIR_TASK_ELEMENTS;
    const int64_t most = min64(p->pieces, min64(WEIR_TASKS / max64(1, tasks), worth));
    p->chunk = max64(1, ceil_div(p->pieces, max64(1, most)));
    p->chunks = max64(1, ceil_div(p->pieces, p->chunk));
}

/* An empty input: nothing is read, every result is the neutral element. */
static void plan_empty(plan *p, int64_t results)
{
    p->keep = (axes){1, {{.size = results, .out = 1}}};
    p->over = (axes){0};
    p->inner = (axis){.size = 0, .reduced = true};
    p->col = (axis){.size = 1};
    p->columns = false;
}

static accumulator neutral(weir_dtype t, int op)
{
    if (real_type(t))
        return (accumulator){.f = op == WEIR_REDUCE_MAX ? (double)-INFINITY : 0};
    return (accumulator){.i = op != WEIR_REDUCE_MAX ? 0 : t == WEIR_I32 ? INT32_MIN : INT64_MIN};
}

/* ---- running it ---- */

typedef struct job {
    const plan  *p;
    const char  *x;
    char        *y;
    accumulator *part;      /* [chunks][outs][columns]; NULL with one chunk */
} job;

/* Puts finished accumulators where they belong. */
static void store(const plan *p, const accumulator *acc, char *y, int64_t cols)
{
    const int64_t step = p->col.out;
    for (int64_t c = 0; c < cols; c++)
        switch (p->out) {
        case WEIR_F32: ((float *)(void *)y)[c * step] = (float)(acc[c].f * p->scale); break;
        case WEIR_F64: ((double *)(void *)y)[c * step] = acc[c].f * p->scale; break;
        case WEIR_I32: ((int32_t *)(void *)y)[c * step] = (int32_t)acc[c].i; break;
        default: ((int64_t *)(void *)y)[c * step] = acc[c].i;
        }
}

/* Adds pieces [from, to) at x into acc. */
static void pieces(const plan *p, const char *x, int64_t from, int64_t to, int64_t cols,
                   accumulator *acc)
{
    for (int64_t i = from; i < to; i++) {
        const int64_t line = i / p->per_line, at = (i - line * p->per_line) * p->piece;
        const int64_t n = min64(p->piece, p->inner.size - at);
        const int64_t offset = axes_offset(&p->over, line, NULL) + at * p->inner.in;
        const char   *from_x = x + offset * (int64_t)p->size;
        if (p->columns)
            p->loops.columns(from_x, n, p->inner.in, cols, p->col.in, acc);
        else
            p->loops.line(from_x, n, p->inner.in, acc);
    }
}

typedef struct task_place {
    int64_t chunk, first, last, col, cols;  /* results [first, last), columns [col, col + cols) */
} task_place;

static task_place place_of(const plan *p, int64_t task)
{
    const int64_t block = task % p->blocks, rest = task / p->blocks, group = rest % p->groups;
    const int64_t col = block * WEIR_REDUCE_COLS, first = group * p->group;
    return (task_place){rest / p->groups, first, min64(p->outs, first + p->group), col,
                        min64(WEIR_REDUCE_COLS, p->col.size - col)};
}

static void reduce_task(void *ctx, int64_t task)
{
    const job       *j = ctx;
    const plan      *p = j->p;
    const task_place t = place_of(p, task);
    const int64_t    from = t.chunk * p->chunk, to = min64(p->pieces, from + p->chunk);
    accumulator      own[WEIR_REDUCE_COLS];
    for (int64_t o = t.first; o < t.last; o++) {
        int64_t       out;
        const int64_t in = axes_offset(&p->keep, o, &out) + t.col * p->col.in;
        accumulator  *acc =
            j->part ? j->part + (t.chunk * p->outs + o) * p->col.size + t.col : own;
        for (int64_t c = 0; c < t.cols; c++)
            acc[c] = p->start;
        pieces(p, j->x + in * (int64_t)p->size, from, to, t.cols, acc);
        out += t.col * p->col.out;
        if (!j->part)
            store(p, acc, j->y + out * (int64_t)weir_dtype_size(p->out), t.cols);
    }
}

/* Chunks meet: accumulators are reduced like any other f64 or i64. */
static void meet_task(void *ctx, int64_t task)
{
    const job       *j = ctx;
    const plan      *p = j->p;
    const task_place t = place_of(p, task);
    const int64_t    step = p->outs * p->col.size;
    accumulator      acc[WEIR_REDUCE_COLS];
    for (int64_t o = t.first; o < t.last; o++) {
        int64_t out;
        (void)axes_offset(&p->keep, o, &out);
        for (int64_t c = 0; c < t.cols; c++)
            acc[c] = p->start;
        p->meet.columns(j->part + o * p->col.size + t.col, p->chunks, step, t.cols, 1, acc);
        out += t.col * p->col.out;
        store(p, acc, j->y + out * (int64_t)weir_dtype_size(p->out), t.cols);
    }
}

static weir_status reduce_run(const weir_kargs *k)
{
    const plan   *p = k->state;
    job           j = {p, k->src[0], k->dst[0], p->chunks > 1 ? k->work : NULL};
    const int64_t tasks = p->groups * p->blocks;
    weir_parallel(k->threads, tasks * p->chunks, reduce_task, &j);
    if (j.part)
        weir_parallel(k->threads, tasks, meet_task, &j);
    return WEIR_OK;
}

static weir_status reduce_choose(const weir_call *c, int op, weir_choice *out)
{
    static const weir_reduce_loops (*const table[])[4] = WEIR_ISA_TABLE(weir_reduce_loops);
    const weir_reduce_attr *attr = c->attr;
    const weir_dtype        in = c->in[0].desc.dtype, to = c->out[0].desc.dtype;
    if (in > WEIR_I64 || to > WEIR_I64 || real_type(in) != real_type(to))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "cannot reduce %s to %s on the CPU",
                              weir_dtype_name(in), weir_dtype_name(to));
    plan *p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const weir_reduce_loops(*loops)[4] = table[weir_cpu_isa()];
    p->loops = loops[op][in];
    p->meet = loops[op][real_type(in) ? WEIR_F64 : WEIR_I64];
    p->in = in;
    p->out = to;
    p->size = weir_dtype_size(in);
    p->start = neutral(in, op);
    p->scale = op == WEIR_REDUCE_SUM ? attr->scale : 1;
    axes a = axes_of(&c->in[0], &c->out[0], attr, true);
    axes_merge(&a);
    if (axes_count(&a) > 0)
        plan_axes(p, &a);
    else
        plan_empty(p, weir_shape_count(&c->out[0].desc));
    plan_cut(p);
    const size_t parts = (size_t)(p->chunks * p->outs * p->col.size);
    *out = (weir_choice){.run = reduce_run,
                         .work = p->chunks > 1 ? parts * sizeof(accumulator) : 0,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_sum(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    return reduce_choose(c, WEIR_REDUCE_SUM, out);
}

weir_status weir_cpu_amax(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    return reduce_choose(c, WEIR_REDUCE_MAX, out);
}

/* ---- gradient of a maximum: to the first element that equals it, in row-major order ---- */

#define GRAD_COLS 256

typedef struct grad_plan {
    weir_dtype type;
    size_t     size;
    axes       keep, over;              /* outer kept axes; reduced axes in logical order */
    axis       col;                     /* the innermost kept axis */
    int64_t    outs, blocks, reduced;   /* results along keep; column blocks; elements of each */
    int64_t    group, groups;           /* of outs per task; tasks along them */
} grad_plan;

/* One element of each column; dx may be x itself. */
#define GRAD_STEP(name, T)                                                                         \
    static void name(const void *xs, const void *ys, const void *dys, void *dxs, const axis *col,  \
                     int64_t cols, unsigned char *found)                                           \
    {                                                                                              \
        const T *x = xs, *y = ys, *dy = dys;                                                       \
        T       *dx = dxs;                                                                         \
        for (int64_t c = 0; c < cols; c++) {                                                       \
            const T    v = x[c * col->in], top = y[c * col->out];                                  \
            const bool hit = found[c] == 0 && (v == top || (v != v && top != top));                \
            dx[c * col->in] = hit ? dy[c * col->out] : 0;                                          \
            found[c] |= hit;                                                                       \
        }                                                                                          \
    }
GRAD_STEP(grad_step_f32, float)
GRAD_STEP(grad_step_f64, double)

static void grad_block(const grad_plan *p, const weir_kargs *k, int64_t o, int64_t col)
{
    const int64_t size = (int64_t)p->size, cols = min64(GRAD_COLS, p->col.size - col);
    unsigned char found[GRAD_COLS] = {0};
    int64_t       y;
    const int64_t x = axes_offset(&p->keep, o, &y) + col * p->col.in;
    y += col * p->col.out;
    const char *top = (const char *)k->src[2] + y * size, *dy = (const char *)k->src[0] + y * size;
    for (int64_t r = 0; r < p->reduced; r++) {
        const int64_t at = (x + axes_offset(&p->over, r, NULL)) * size;
        (p->type == WEIR_F32 ? grad_step_f32 : grad_step_f64)(
            (const char *)k->src[1] + at, top, dy, (char *)k->dst[0] + at, &p->col, cols, found);
    }
}

static void grad_task(void *ctx, int64_t task)
{
    const weir_kargs *k = ctx;
    const grad_plan  *p = k->state;
    const int64_t     block = task % p->blocks, first = task / p->blocks * p->group;
    for (int64_t o = first; o < min64(p->outs, first + p->group); o++)
        grad_block(p, k, o, block * GRAD_COLS);
}

static weir_status grad_run(const weir_kargs *k)
{
    const grad_plan *p = k->state;
    weir_kargs       own = *k;
    weir_parallel(k->threads, p->groups * p->blocks, grad_task, &own);
    return WEIR_OK;
}

/* Inputs dy, x, y, all dense, as dx is: x and dx share offsets, so do y and dy. */
static void grad_plan_of(grad_plan *p, const weir_call *c)
{
    const axes sorted = axes_of(&c->in[1], &c->in[2], c->attr, true);
    const axes listed = axes_of(&c->in[1], &c->in[2], c->attr, false);
    for (int i = 0; i < sorted.n; i++)
        if (!sorted.at[i].reduced)
            p->keep.at[p->keep.n++] = sorted.at[i];
    for (int i = 0; i < listed.n; i++)
        if (listed.at[i].reduced)
            p->over.at[p->over.n++] = listed.at[i];
    axes_merge(&p->keep);
    axes_merge(&p->over);
    p->col = p->keep.n > 0 ? p->keep.at[--p->keep.n] : (axis){.size = 1};
    p->outs = axes_count(&p->keep);
    p->reduced = axes_count(&p->over);
    p->blocks = ceil_div(p->col.size, GRAD_COLS);
    p->group = rows_per_task(p->reduced * min64(p->col.size, GRAD_COLS));
    p->groups = ceil_div(p->outs, p->group);
}

weir_status weir_cpu_amax_grad(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    const weir_dtype type = c->in[1].desc.dtype;
    if (!real_type(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "%s has no gradient", weir_dtype_name(type));
    grad_plan *p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->type = type;
    p->size = weir_dtype_size(type);
    grad_plan_of(p, c);
    *out = (weir_choice){.run = grad_run, .state = p, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* ---- rows whose first largest entry is where the target says ---- */

typedef struct count_plan {
    weir_dtype type, index;
    int64_t    n, c, rows, tasks;       /* rows per task */
} count_plan;

/* NaN counts as the largest, as in a maximum. */
#define FIRST_LARGEST(name, T)                                                                     \
    static int64_t name(const void *row, int64_t n)                                                \
    {                                                                                              \
        const T *x = row;                                                                          \
        int64_t  best = 0;                                                                         \
        for (int64_t i = 1; i < n; i++)                                                            \
            if (x[i] > x[best] || (x[i] != x[i] && x[best] == x[best]))                            \
                best = i;                                                                          \
        return n > 0 ? best : -1;                                                                  \
    }
FIRST_LARGEST(first_largest_f32, float)
FIRST_LARGEST(first_largest_f64, double)

static void count_task(void *ctx, int64_t task)
{
    const weir_kargs *k = ctx;
    const count_plan *p = k->state;
    const int32_t    *narrow = k->src[1];
    const int64_t    *wide = k->src[1];
    int64_t           right = 0;
    for (int64_t i = task * p->rows; i < min64(p->n, (task + 1) * p->rows); i++) {
        const int64_t at = i * p->c * (int64_t)weir_dtype_size(p->type);
        const char   *row = (const char *)k->src[0] + at;
        const int64_t best =
            (p->type == WEIR_F32 ? first_largest_f32 : first_largest_f64)(row, p->c);
        right += best >= 0 && best == (p->index == WEIR_I32 ? narrow[i] : wide[i]);
    }
    ((int64_t *)k->work)[task] = right;
}

static weir_status count_run(const weir_kargs *k)
{
    const count_plan *p = k->state;
    weir_kargs        own = *k;
    weir_parallel(k->threads, p->tasks, count_task, &own);
    int64_t right = 0;
    for (int64_t i = 0; i < p->tasks; i++)
        right += ((const int64_t *)k->work)[i];
    *(int64_t *)k->dst[0] = right;
    return WEIR_OK;
}

weir_status weir_cpu_count_correct(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    const weir_dtype type = c->in[0].desc.dtype, index = c->in[1].desc.dtype;
    if (!real_type(type) || (index != WEIR_I32 && index != WEIR_I64))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s logits and %s targets",
                              weir_dtype_name(type), weir_dtype_name(index));
    count_plan *p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const int64_t n = c->in[0].desc.dim[0], classes = c->in[0].desc.dim[1];
    const int64_t rows = rows_per_task(classes);
    *p = (count_plan){type, index, n, classes, rows, ceil_div(n, rows)};
    *out = (weir_choice){.run = count_run,
                         .work = (size_t)p->tasks * sizeof(int64_t),
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}
