/* copy.h - plans a copy between two layouts: a pure function of both.
 *
 * Axes are paired (copy_axes.h) and put in the output's order. A single contiguous axis is a plain
 * copy of bytes. If another axis than the innermost is contiguous in the input, `row`, tiles of
 * both axes pass through shared memory. All else is copied element by element in the output's
 * order, in units of up to 16 bytes if the innermost axis is contiguous on both sides. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_COPY_H
#define WEIR_DEVICE_CUDA_KERNELS_COPY_H

#include "device/common/div.h"
#include "device/common/copy_axes.h"

typedef enum weir_copy_way {
    WEIR_COPY_NOTHING,
    WEIR_COPY_BYTES,
    WEIR_COPY_EACH,
    WEIR_COPY_TILES,
    WEIR_COPY_COUNT             /* no common factors: each side is indexed separately */
} weir_copy_way;

typedef struct weir_copy_plan {
    weir_copy_way way;
    int           n;
    copy_axis     common[COPY_AXES_MAX]; /* innermost last */
    int           row;                   /* TILES: index of the row axis */
    int64_t       rows, inners;          /* of a tile */
    uint64_t      places;                /* EACH: strides in bytes, or-ed; see weir_unit */
} weir_copy_plan;

/* Side of a square tile in elements: lines have at least 64 bytes. */
static inline int64_t weir_copy_side(size_t size)
{
    return size <= 2 ? 64 : 32;
}

/* Smaller tiles do not pay: their elements are close together anyway. */
enum { WEIR_COPY_TILE_LEAST = 256 };

static inline void weir_copy_tiles(weir_copy_plan *p, size_t size)
{
    const int64_t          side = weir_copy_side(size), most = side * side;
    const copy_axis *const inner = &p->common[p->n - 1];

    p->row = copy_axes_nearest(p->common, p->n);
    if (p->row == p->n - 1 || inner->out != 1)
        return;
    p->rows = min64(p->common[p->row].dim, side);
    p->inners = min64(inner->dim, most / p->rows);
    p->rows = min64(p->common[p->row].dim, most / p->inners);
    if (p->rows * p->inners >= WEIR_COPY_TILE_LEAST)
        p->way = WEIR_COPY_TILES;
}

/* Elements have `size` bytes on both sides. */
static inline weir_copy_plan weir_copy_plan_of(const weir_layout *in, const weir_layout *out,
                                               size_t size)
{
    weir_copy_plan p = {WEIR_COPY_NOTHING};

    if (weir_shape_count(&out->desc) == 0)
        return p;
    p.n = copy_axes_of(in, out, p.common);
    p.way = p.n < 0 ? WEIR_COPY_COUNT : WEIR_COPY_BYTES;
    if (p.n <= 0)
        return p;
    p.n = copy_axes_sort(p.common, p.n);
    const copy_axis inner = p.common[p.n - 1];
    if (p.n == 1 && inner.in == 1 && inner.out == 1)
        return p;
    p.way = WEIR_COPY_EACH;
    weir_copy_tiles(&p, size);
    p.places = inner.in == 1 && inner.out == 1 ? (uint64_t)inner.dim * size : size;
    for (int i = 0; i < p.n - 1; i++)
        p.places |= (uint64_t)(p.common[i].in | p.common[i].out) * size;
    return p;
}

#endif
