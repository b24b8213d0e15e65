/* reduce.c - sums, products, maxima, minima, sums over two inputs, and counts of correct answers.
 *
 * With axes sorted and merged (axes.h) every reduction is one of two loops: if the innermost axis
 * is kept, rows are added into columns; if it is reduced, each line becomes one number. The reduced
 * elements are divided into pieces, consecutive pieces into chunks; chunks run in parallel into
 * accumulators of 8 bytes, which are combined in order. The shape determines all divisions, so
 * thread counts and instruction sets give the same bits. */
#include "device/cpu/kernels/reduce.h"

#include <math.h>

#include "core/dtype.h"
#include "core/half.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/axes.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"

/* ---- the plan of a reduction ---- */

typedef union accumulator {
    double  f;
    int64_t i;
} accumulator;

typedef struct plan {
    weir_reduce_loops loops, meet; /* over elements; over accumulators */
    weir_pair_loops   pair;        /* over elements of two inputs, if line is not NULL */
    weir_dtype        in, out;
    size_t            size; /* bytes of an input element */
    accumulator       start;
    double            scale;
    bool              root;       /* the result is the root of the scaled sum */
    axes              keep, over; /* outer axes: of results (rows of columns); of pieces */
    axis              inner;      /* the reduced axis that a piece runs along */
    axis              col;        /* columns; size 1 when lines are reduced */
    bool              columns;
    int64_t           segment;                 /* elements of inner per piece */
    int64_t           per_line;                /* pieces along inner */
    int64_t           outs, group, groups;     /* results; per task; tasks along them */
    int64_t           blocks;                  /* tasks along the columns */
    int64_t           segments, chunk, chunks; /* pieces; per task; tasks along them */
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

/* Divides the work into pieces, chunks and tasks. */
static void plan_tasks(plan *p)
{
    const bool fold = !p->pair.line && p->col.in == 1 && p->inner.in == p->col.size;
    p->segment = !p->columns ? WEIR_REDUCE_LINE
                 : fold      ? max64(WEIR_REDUCE_ROWS, WEIR_REDUCE_LINE / p->col.size)
                             : WEIR_REDUCE_ROWS;
    p->per_line = ceil_div(p->inner.size, p->segment);
    p->segments = axes_count(&p->over) * p->per_line;
    p->outs = axes_count(&p->keep);
    p->blocks = ceil_div(p->col.size, WEIR_REDUCE_COLS);
    const int64_t reduced = axes_count(&p->over) * p->inner.size;
    const int64_t each = reduced * min64(p->col.size, WEIR_REDUCE_COLS);
    p->group = rows_per_task(each);
    p->groups = ceil_div(p->outs, p->group);
    const int64_t tasks = p->groups * p->blocks;
    const int64_t worth = p->outs * p->col.size * reduced / WEIR_TASK_ELEMENTS;
    const int64_t most = min64(p->segments, min64(WEIR_TASKS / max64(1, tasks), worth));
    p->chunk = max64(1, ceil_div(p->segments, max64(1, most)));
    p->chunks = max64(1, ceil_div(p->segments, p->chunk));
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
    if (weir_is_any_float(t))
        return (accumulator){.f = op == WEIR_REDUCE_MAX   ? (double)-INFINITY
                                  : op == WEIR_REDUCE_MIN ? (double)INFINITY
                                                          : (double)(op == WEIR_REDUCE_PROD)};
    if (op == WEIR_REDUCE_MAX)
        return (accumulator){.i = t == WEIR_U8 ? 0 : t == WEIR_I32 ? INT32_MIN : INT64_MIN};
    if (op == WEIR_REDUCE_MIN)
        return (accumulator){.i = t == WEIR_U8    ? UINT8_MAX
                                  : t == WEIR_I32 ? INT32_MAX
                                                  : INT64_MAX};
    return (accumulator){.i = op == WEIR_REDUCE_PROD};
}

/* ---- running ---- */

typedef struct job {
    const plan  *p;
    const char  *x, *x2; /* x2: NULL for one input */
    char        *y;
    accumulator *partial; /* [chunks][outs][columns]; NULL with one chunk */
} job;

static double finished(const plan *p, double sum)
{
    return p->root ? sqrt(sum * p->scale) : sum * p->scale;
}

/* Converts finished accumulators and writes them to y. */
static void store(const plan *p, const accumulator *acc, char *y, int64_t cols)
{
    const int64_t step = p->col.out;
    for (int64_t c = 0; c < cols; c++)
        switch (p->out) {
        case WEIR_F32: ((float *)(void *)y)[c * step] = (float)finished(p, acc[c].f); break;
        case WEIR_F64: ((double *)(void *)y)[c * step] = finished(p, acc[c].f); break;
        case WEIR_BF16:
            ((uint16_t *)(void *)y)[c * step] = weir_to_bf16((float)finished(p, acc[c].f));
            break;
        case WEIR_F16:
            ((uint16_t *)(void *)y)[c * step] = weir_to_f16((float)finished(p, acc[c].f));
            break;
        case WEIR_I32: ((int32_t *)(void *)y)[c * step] = (int32_t)acc[c].i; break;
        case WEIR_U8: ((uint8_t *)y)[c * step] = (uint8_t)acc[c].i; break;
        default: ((int64_t *)(void *)y)[c * step] = acc[c].i;
        }
}

/* One piece of n steps along the inner axis. */
static void segment_of_one(const plan *p, const char *x, int64_t n, int64_t cols, accumulator *acc)
{
    if (p->columns)
        p->loops.columns(x, n, p->inner.in, cols, p->col.in, acc);
    else
        p->loops.line(x, n, p->inner.in, acc);
}

static void segment_of_two(const plan *p, const char *x, const char *x2, int64_t n, int64_t cols,
                           accumulator *acc)
{
    const weir_pair_step s = {p->inner.in, p->col.in, p->inner.in2, p->col.in2};
    if (p->columns)
        p->pair.columns(x, x2, n, s, cols, &acc->f);
    else
        p->pair.line(x, x2, n, p->inner.in, p->inner.in2, &acc->f);
}

/* Combines pieces [from, to) of x and x2 into acc. */
static void segments(const plan *p, const char *x, const char *x2, int64_t from, int64_t to,
                     int64_t cols, accumulator *acc)
{
    const int64_t size = (int64_t)p->size;
    for (int64_t i = from; i < to; i++) {
        const int64_t    line = i / p->per_line, at = (i - line * p->per_line) * p->segment;
        const int64_t    n = min64(p->segment, p->inner.size - at);
        const axes_place o = axes_at(&p->over, line);
        const char      *from_x = x + (o.in + at * p->inner.in) * size;
        if (x2)
            segment_of_two(p, from_x, x2 + (o.in2 + at * p->inner.in2) * size, n, cols, acc);
        else
            segment_of_one(p, from_x, n, cols, acc);
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
    const int64_t    from = t.chunk * p->chunk, to = min64(p->segments, from + p->chunk);
    accumulator      own[WEIR_REDUCE_COLS];
    for (int64_t o = t.first; o < t.last; o++) {
        const axes_place at = axes_at(&p->keep, o);
        const int64_t    in = at.in + t.col * p->col.in, in2 = at.in2 + t.col * p->col.in2;
        const int64_t    to_y = at.out + t.col * p->col.out;
        const char      *x2 = j->x2 ? j->x2 + in2 * (int64_t)p->size : NULL;
        accumulator     *acc =
            j->partial ? j->partial + (t.chunk * p->outs + o) * p->col.size + t.col : own;
        for (int64_t c = 0; c < t.cols; c++)
            acc[c] = p->start;
        segments(p, j->x + in * (int64_t)p->size, x2, from, to, t.cols, acc);
        if (!j->partial)
            store(p, acc, j->y + to_y * (int64_t)weir_dtype_size(p->out), t.cols);
    }
}

/* Combines the chunks: accumulators are reduced like any other f64 or i64 array. */
static void meet_task(void *ctx, int64_t task)
{
    const job       *j = ctx;
    const plan      *p = j->p;
    const task_place t = place_of(p, task);
    const int64_t    step = p->outs * p->col.size;
    accumulator      acc[WEIR_REDUCE_COLS];
    for (int64_t o = t.first; o < t.last; o++) {
        for (int64_t c = 0; c < t.cols; c++)
            acc[c] = p->start;
        p->meet.columns(j->partial + o * p->col.size + t.col, p->chunks, step, t.cols, 1, acc);
        const int64_t out = axes_at(&p->keep, o).out + t.col * p->col.out;
        store(p, acc, j->y + out * (int64_t)weir_dtype_size(p->out), t.cols);
    }
}

static weir_status reduce_run(const weir_kargs *k)
{
    const plan   *p = k->state;
    job           j = {.p = p, .x = k->src[0], .y = k->dst[0],
                       .partial = p->chunks > 1 ? k->work : NULL};
    if (p->pair.line)
        j.x2 = k->src[k->call->nin - 1];    /* with one input: the same as x */
    const int64_t tasks = p->groups * p->blocks;
    weir_parallel(k->threads, tasks * p->chunks, reduce_task, &j);
    if (j.partial)
        weir_parallel(k->threads, tasks, meet_task, &j);
    return WEIR_OK;
}

/* Completes a plan and divides its work. x2 may be NULL. */
static weir_status choose_plan(const weir_call *c, const plan *from, const weir_layout *x2,
                               weir_kernel *out)
{
    plan *p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = *from;
    p->in = c->in[0].desc.dtype;
    p->out = c->out[0].desc.dtype;
    p->size = weir_dtype_size(p->in);
    axes a = axes_of(&c->in[0], x2, &c->out[0], c->attr, true);
    axes_merge(&a);
    if (axes_count(&a) > 0)
        plan_axes(p, &a);
    else
        plan_empty(p, weir_shape_count(&c->out[0].desc));
    plan_tasks(p);
    const size_t partials = (size_t)(p->chunks * p->outs * p->col.size);
    *out = (weir_kernel){.run = reduce_run,
                         .work = p->chunks > 1 ? partials * sizeof(accumulator) : 0,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}

static bool reducible(weir_dtype t)
{
    return t < WEIR_REDUCE_TYPES && weir_reduce_loops_base[WEIR_REDUCE_SUM][t].line;
}

static weir_status reduce_choose(const weir_call *c, int op, weir_kernel *out)
{
    static const weir_reduce_loops (*const table[])[WEIR_REDUCE_TYPES] =
        WEIR_ISA_TABLE(weir_reduce_loops);
    const weir_reduce_attr *attr = c->attr;
    const weir_dtype        in = c->in[0].desc.dtype, to = c->out[0].desc.dtype;
    if (!reducible(in) || !reducible(to) || weir_is_any_float(in) != weir_is_any_float(to))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "the CPU kernels cannot reduce %s to %s",
                              weir_dtype_name(in), weir_dtype_name(to));
    const weir_reduce_loops(*loops)[WEIR_REDUCE_TYPES] = table[weir_cpu_isa()];
    const plan p = {.loops = loops[op][in],
                    .meet = loops[op][weir_is_any_float(in) ? WEIR_F64 : WEIR_I64],
                    .start = neutral(in, op),
                    .scale = op == WEIR_REDUCE_SUM ? attr->scale : 1};
    return choose_plan(c, &p, NULL, out);
}

/* A second input broadcasts to the first; with a single input both are the same. */
static weir_status pair_choose(const weir_call *c, int op, bool root, weir_kernel *out)
{
    static const weir_reduce_loops (*const sums[])[WEIR_REDUCE_TYPES] =
        WEIR_ISA_TABLE(weir_reduce_loops);
    static const weir_pair_loops (*const pairs[])[2] = WEIR_ISA_TABLE(weir_pair_loops);
    const weir_reduce_attr *attr = c->attr;
    const weir_dtype        type = c->in[0].desc.dtype;
    if (!real_type(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s", weir_dtype_name(type));
    weir_layout x2;
    weir_shape_expand(&c->in[c->nin - 1], &c->in[0].desc, &x2);
    const plan p = {.pair = pairs[weir_cpu_isa()][op][type],
                    .meet = sums[weir_cpu_isa()][WEIR_REDUCE_SUM][WEIR_F64],
                    .scale = attr->scale,
                    .root = root};
    return choose_plan(c, &p, &x2, out);
}

weir_status weir_cpu_sum(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return reduce_choose(c, WEIR_REDUCE_SUM, out);
}

weir_status weir_cpu_amax(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return reduce_choose(c, WEIR_REDUCE_MAX, out);
}

weir_status weir_cpu_amin(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return reduce_choose(c, WEIR_REDUCE_MIN, out);
}

weir_status weir_cpu_prod(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return reduce_choose(c, WEIR_REDUCE_PROD, out);
}

weir_status weir_cpu_dot(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return pair_choose(c, WEIR_PAIR_DOT, false, out);
}

weir_status weir_cpu_dist(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return pair_choose(c, WEIR_PAIR_DIST, false, out);
}

weir_status weir_cpu_norm1(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return pair_choose(c, WEIR_PAIR_ABS, false, out);
}

weir_status weir_cpu_norm2(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return pair_choose(c, WEIR_PAIR_DOT, true, out);
}

/* ---- COUNT_CORRECT: rows whose first largest entry is at the target ---- */

typedef struct count_plan {
    weir_dtype type, index;
    int64_t    n, c, rows, tasks;       /* rows per task */
} count_plan;

/* NaN counts as the largest, as in AMAX. */
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

weir_status weir_cpu_count_correct(weir_device *d, const weir_call *c, weir_kernel *out)
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
    *out = (weir_kernel){.run = count_run,
                         .work = (size_t)p->tasks * sizeof(int64_t),
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = "c"};
    return WEIR_OK;
}
