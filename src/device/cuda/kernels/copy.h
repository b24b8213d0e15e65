/* copy.h - how a copy between two layouts goes: a pure function of the two.
 *
 * Axes are paired (copy_axes.h) and put in the output's order. One adjacent axis is plain bytes.
 * Where an axis other than the innermost one is adjacent in the input, tiles of both go through
 * shared memory: `row` is that axis. All else goes element by element, outputs in their order, in
 * units of up to 16 bytes where the innermost axis is adjacent on both sides. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_COPY_H
#define WEIR_DEVICE_CUDA_KERNELS_COPY_H

#include "device/common/div.h"
#include "device/common/copy_axes.h"

typedef enum weir_copy_way {
    WEIR_COPY_NOTHING,
    WEIR_COPY_BYTES,
    WEIR_COPY_EACH,
    WEIR_COPY_TILES,
    WEIR_COPY_COUNT             /* sides without common factors count on their own */
} weir_copy_way;

typedef struct weir_copy_plan {
    weir_copy_way way;
    int           n;
    copy_axis     common[COPY_AXES_MAX]; /* the innermost one last */
    int           row;                   /* TILES: which of them */
    int64_t       rows, inners;          /* of a tile */
    uint64_t      places;                /* EACH: steps in bytes, or-ed; see weir_unit */
} weir_copy_plan;

/* Elements of a side of a square tile: lines of 64 bytes at least. */
static inline int64_t weir_copy_side(size_t size)
{
    return size <= 2 ? 64 : 32;
}

/* Tiles of fewer elements are not worth it: these are near each other anyhow. */
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

/* Elements are of `size` bytes on both sides. */
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
