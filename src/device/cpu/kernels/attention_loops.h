/* attention_loops.h - the loops of attention, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_ATTENTION_LOOPS_H
#define WEIR_DEVICE_CPU_KERNELS_ATTENTION_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_ATTENTION_SIDE 128     /* most rows of q, and of k, in a block of scores */

/* A block of scores is rows x cols with leading dimension `cols`. Row r attends to its first
 * clamp(seen + r, 0, limit) columns. */
typedef struct weir_attention_block {
    int64_t rows, cols, seen, limit;
    double  scale;      /* of scores; 1 once a mask has been added */
    double  slope;      /* of their gradients */
} weir_attention_block;

typedef struct weir_attention_loops {
    /* Scores become scale * score + mask, or -infinity where a mask of bool (truth) is false. */
    void (*mask)(const weir_attention_block *b, void *scores, const void *mask, bool truth,
                 int64_t row, int64_t column);
    /* Scores become exp(scale * score - most), 0 if masked. most and sum (f32 or f64, one per row)
     * are the running maximum and sum and are updated; each row of y (e columns, leading dimension
     * `row`), which was computed with the old maximum, is rescaled to the new one. */
    void (*soften)(const weir_attention_block *b, void *scores, void *most, void *sum, void *y,
                   int64_t e, int64_t row);
    /* y /= sum, lse = most + log(sum); rows whose sum is 0 become those of an empty sum. */
    void (*finish)(int64_t rows, const void *most, const void *sum, void *y, int64_t e, int64_t row,
                   void *lse);
    /* delta = dy . y, row by row; each has its leading dimension. */
    void (*delta)(int64_t rows, const void *dy, int64_t dy_row, const void *y, int64_t y_row,
                  int64_t e, void *delta);
    /* Scores become probabilities; dp becomes their gradient before the softmax, times slope. */
    void (*back)(const weir_attention_block *b, void *scores, void *dp, const void *lse,
                 const void *delta);
    /* Factors of a block: 0 with probability p, else 1 / (1 - p). Row r draws Philox blocks from
     * first + r * step on; 4 columns share one. */
    void (*drop)(const weir_attention_block *b, uint64_t key, uint64_t first, uint64_t step,
                 double p, void *factors);
    void (*times)(int64_t n, const void *factors, void *x);     /* x *= factors, n elements */
    /* mask += dp where rows attend to columns, in this order; mask's steps may be 0. dp *= scale
     * afterwards. */
    void (*mask_sum)(const weir_attention_block *b, void *dp, double scale, void *mask, int64_t row,
                     int64_t column);
    /* True if all elements of these rows (`columns` wide, leading dimension `row`) are finite. */
    bool (*finite)(int64_t rows, int64_t columns, const void *at, int64_t row);
    /* Copies rows with elements that are not finite replaced by 0; rows of `to` are contiguous. */
    void (*zero_nonfinite)(int64_t rows, int64_t columns, const void *at, int64_t row, void *to);
    /* y += scores (turned: their transpose) * the non-finite elements of x, for pairs that attend
     * to each other only. Rows of x are the block's columns; turned: its rows. */
    void (*add_nonfinite)(const weir_attention_block *b, bool turned, const void *scores,
                          const void *x, int64_t columns, int64_t row, int64_t y_row, void *y);
} weir_attention_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_attention_loops weir_attention_loops_base[2];
extern const weir_attention_loops weir_attention_loops_avx2[2];
extern const weir_attention_loops weir_attention_loops_avx512[2];

#endif
