/* attention.h - shared by attention.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_ATTENTION_H
#define WEIR_DEVICE_CPU_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_ATTENTION_ROWS 64      /* most rows of q in a block of scores */
#define WEIR_ATTENTION_COLS 64     /* most rows of k */

/* A block of scores is rows x cols with leading dimension `cols`, not yet scaled. Row r attends to
 * its first clamp(seen + r) columns. */
typedef struct weir_attention_block {
    int64_t rows, cols, seen;
    double  scale;
} weir_attention_block;

typedef struct weir_attention_loops {
    /* Scores become exp(scale * score - most), 0 if masked. most and sum (f32 or f64, one per row)
     * are the running maximum and sum and are updated; each row of y (e columns, leading dimension
     * `row`), which was computed with the old maximum, is rescaled to the new one. */
    void (*soften)(const weir_attention_block *b, void *scores, void *most, void *sum, void *y,
                   int64_t e, int64_t row);
    /* y /= sum, lse = most + log(sum); rows whose sum is 0 become those of an empty sum. */
    void (*finish)(int64_t rows, const void *most, const void *sum, void *y, int64_t e, int64_t row,
                   void *lse);
    /* delta = dy . y, row by row. */
    void (*delta)(int64_t rows, const void *dy, const void *y, int64_t e, int64_t row, void *delta);
    /* Scores become probabilities; dp becomes their gradient before the softmax, times scale. */
    void (*back)(const weir_attention_block *b, void *scores, void *dp, const void *lse,
                 const void *delta);
    /* True if all elements of these rows (`columns` wide, leading dimension `row`) are finite. */
    bool (*finite)(int64_t rows, int64_t columns, const void *at, int64_t row);
    /* Copies rows with elements that are not finite replaced by 0; rows of `to` are contiguous. */
    void (*zero_nonfinite)(int64_t rows, int64_t columns, const void *at, int64_t row, void *to);
    /* y += scores (turned: their transpose) * the non-finite elements of x, for pairs that attend
     * to each other only. Rows of x are the block's columns; turned: its rows. */
    void (*add_nonfinite)(const weir_attention_block *b, bool turned, const void *scores,
                          const void *x, int64_t columns, int64_t row, void *y);
} weir_attention_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_attention_loops weir_attention_loops_base[2];
extern const weir_attention_loops weir_attention_loops_avx2[2];
extern const weir_attention_loops weir_attention_loops_avx512[2];

#endif
