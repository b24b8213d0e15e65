/* reduce_plan.h - divides a reduction among thread blocks: pure functions of layouts.
 *
 * With axes sorted and merged (axes.h) a reduction has `outs` x `cols` results of `reduced`
 * elements each. If the innermost axis is kept (`columns`), tx threads lie along it, each with vec
 * adjacent columns, and ty threads of a block share the reduced elements. Otherwise, and if few
 * elements are reduced, tx threads share one result (cols is 1) and a block computes ty of them. If
 * there are few results, the reduced elements are divided into chunks of whole steps, one block
 * each, whose accumulators a second launch combines. The card is never asked, so all cards give the
 * same bits. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_REDUCE_PLAN_H
#define WEIR_DEVICE_CUDA_KERNELS_REDUCE_PLAN_H

#ifdef __cplusplus
#include "device/cuda/runtime/internal.h"
#endif

#include "device/common/axes.h"
#include "device/common/div.h"
#include "device/cuda/runtime/geometry.h"

enum {
    WEIR_CUDA_REDUCE_BLOCKS = 1024,     /* blocks wanted; more would not be faster */
    WEIR_CUDA_REDUCE_CHUNKS = 1024,     /* most chunks */
    WEIR_CUDA_REDUCE_STEPS = 8,         /* least steps of each thread in a chunk */
    WEIR_CUDA_REDUCE_FEW = 32,          /* elements that one thread may reduce alone, */
    WEIR_CUDA_REDUCE_MANY = 64 * 1024   /* if this many results keep a card busy */
};

typedef struct weir_cuda_reduce {
    axes    keep, over;                 /* results except columns; lines of the inner axis */
    axis    inner, col;                 /* innermost reduced axis; innermost kept axis */
    int64_t outs, cols, reduced;
    int64_t chunk, chunks;              /* of the reduced elements */
    int     vec, tx, ty;
    bool    columns;
} weir_cuda_reduce;

/* The least power of two >= n, at most `most` (a power of two). */
static inline int weir_cuda_power(int64_t n, int most)
{
    int p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* Number of blocks along the results. */
static inline int64_t weir_cuda_reduce_blocks(const weir_cuda_reduce *p)
{
    return p->columns ? p->outs * ceil_div(p->cols, (int64_t)p->tx * p->vec)
                      : ceil_div(p->outs, p->ty);
}

static inline int64_t weir_cuda_reduce_results(const weir_cuda_reduce *p)
{
    return p->outs * p->cols;
}

/* True if it pays to share the elements reduced to one of these columns among threads. */
static inline bool weir_cuda_reduce_shares(const weir_cuda_reduce *p, const axis *last)
{
    if (last->reduced)
        return false;
    return p->reduced > WEIR_CUDA_REDUCE_FEW ||
           (p->reduced > 4 && last->size >= 32 && axes_count(&p->keep) < WEIR_CUDA_REDUCE_MANY);
}

/* Distributes the axes over their roles. */
static inline void weir_cuda_reduce_axes(weir_cuda_reduce *p, const axes *a)
{
    int inner = -1;

    for (int i = 0; i < a->n; i++)
        if (a->at[i].reduced)
            inner = i;
    p->inner.size = p->col.size = 1;
    p->inner.reduced = true;
    if (inner >= 0)
        p->inner = a->at[inner];
    for (int i = 0; i < a->n; i++) {
        axes *const to = a->at[i].reduced ? &p->over : &p->keep;
        if (i != inner)
            to->at[to->n++] = a->at[i];
    }
    p->reduced = axes_count(&p->over) * p->inner.size;
    p->columns = a->n > 0 && weir_cuda_reduce_shares(p, &a->at[a->n - 1]);
    if (p->columns)
        p->col = p->keep.at[--p->keep.n];
    p->outs = axes_count(&p->keep);
    p->cols = p->col.size;
}

static inline bool weir_cuda_reduce_even(const axes *a, bool two, int width)
{
    for (int i = 0; i < a->n; i++)
        if (a->at[i].in % width != 0 || (two && a->at[i].in2 % width != 0))
            return false;
    return true;
}

/* Adjacent elements per thread, if all of them begin at multiples of that. */
static inline int weir_cuda_reduce_vec(const weir_cuda_reduce *p, bool two, int width)
{
    const axis *const along = p->columns ? &p->col : &p->inner, *const across = &p->inner;
    const bool        whole = p->columns || p->over.n > 0;  /* every step is complete */

    if (along->in != 1 || (two && along->in2 != 1) || along->size < width ||
        (whole && along->size % width != 0) || (p->columns && across->in % width != 0) ||
        (p->columns && two && across->in2 % width != 0))
        return 1;
    return weir_cuda_reduce_even(&p->keep, two, width) &&
           weir_cuda_reduce_even(&p->over, two, width) ? width : 1;
}

static inline void weir_cuda_reduce_threads(weir_cuda_reduce *p)
{
    const int64_t units = ceil_div(p->columns ? p->cols : p->reduced, p->vec);

    if (p->columns) {
        p->tx = weir_cuda_power(units, 32);
        p->ty = weir_cuda_power(ceil_div(p->reduced, 4), WEIR_CUDA_THREADS / p->tx);
        return;
    }
    if (p->inner.in != 1 && p->reduced <= WEIR_CUDA_REDUCE_FEW)
        p->tx = 1;
    else if (units >= 512 || (units >= 128 && p->outs < WEIR_CUDA_REDUCE_BLOCKS))
        p->tx = WEIR_CUDA_THREADS;
    else
        p->tx = weir_cuda_power(ceil_div(units, 2), 32);
    p->ty = WEIR_CUDA_THREADS / p->tx;
}

static inline void weir_cuda_reduce_chunks(weir_cuda_reduce *p)
{
    const int64_t step = p->columns ? p->ty : (int64_t)p->tx * p->vec;
    const int64_t blocks = max64(1, weir_cuda_reduce_blocks(p));
    const bool    splits = p->columns || p->tx == WEIR_CUDA_THREADS;
    const int64_t worth = splits ? p->reduced / (step * WEIR_CUDA_REDUCE_STEPS) : 1;
    const int64_t most = min64(min64(WEIR_CUDA_REDUCE_BLOCKS / blocks, worth),
                               WEIR_CUDA_REDUCE_CHUNKS);

    p->chunk = max64(1, ceil_div(ceil_div(p->reduced, max64(1, most)), step)) * step;
    p->chunks = max64(1, ceil_div(p->reduced, p->chunk));
}

/* Plans the reduction of x (and x2, laid out over the same dims; may be NULL) to y. two: elements
 * of x2 are read too; width: elements that are read at once if possible. */
static inline weir_cuda_reduce weir_cuda_reduce_plan(const weir_layout *x, const weir_layout *x2,
                                                     const weir_layout *y,
                                                     const weir_reduce_attr *attr, bool two,
                                                     int width)
{
    weir_cuda_reduce p = {0};
    axes             a = axes_of(x, x2, y, attr, true);

    axes_merge(&a);
    if (axes_count(&a) == 0) {          /* reads nothing; every result is the neutral element */
        const axes none = {0};
        const axis all = {weir_shape_count(&y->desc), 0, 0, 1, false}, nothing = {0, 0, 0, 0, true};
        a = none;
        a.at[a.n++] = all;
        a.at[a.n++] = nothing;
    }
    weir_cuda_reduce_axes(&p, &a);
    p.vec = weir_cuda_reduce_vec(&p, two, width);
    weir_cuda_reduce_threads(&p);
    weir_cuda_reduce_chunks(&p);
    return p;
}

#endif
