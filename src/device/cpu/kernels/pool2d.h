/* pool2d.h - shared by pool2d.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_POOL2D_H
#define WEIR_DEVICE_CPU_KERNELS_POOL2D_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_POOL_CELLS 256     /* most cells passed to a loop at once */

/* One cell of an image or of pooled data; its channels are contiguous. */
typedef struct weir_pool_cell {
    const void    *at;
    const uint8_t *winner;      /* gradient of a maximum: the window's cell that was largest */
    int64_t        place;       /* the cell's number within the window */
    double         scale;       /* gradient of an average: 1 / cells averaged */
} weir_pool_cell;

/* Each computes the c channels of one cell from n > 0 cells. first: overwrite y, else add to it. */
typedef struct weir_pool_loops {
    /* y = the first of the largest cells (but the last NaN), winner = its number */
    void (*max)(const weir_pool_cell *cell, int64_t n, int64_t c, void *y, uint8_t *winner);
    /* y += cell where winner == place */
    void (*max_grad)(const weir_pool_cell *cell, int64_t n, int64_t c, void *y, bool first);
    /* The same for a row of windows that are `step` >= `wide` cells apart, all of whose cells are
     * inside: their cells in the row of y have the numbers from `place` on. */
    void (*max_grad_apart)(const void *dy, const uint8_t *winner, int64_t windows, int64_t c,
                           int64_t place, int64_t wide, int64_t step, void *y);
    /* y += cell; y += cell * scale */
    void (*sum)(const weir_pool_cell *cell, int64_t n, int64_t c, void *y, bool first);
    void (*scaled)(const weir_pool_cell *cell, int64_t n, int64_t c, void *y, bool first);
    void (*scale)(void *y, int64_t c, double scale);
} weir_pool_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_pool_loops weir_pool_loops_base[2];
extern const weir_pool_loops weir_pool_loops_avx2[2];
extern const weir_pool_loops weir_pool_loops_avx512[2];

#endif
