/* attention.h - what attention.c and its loops, compiled per instruction set, agree on. */
#ifndef WEIR_DEVICE_CPU_KERNELS_ATTENTION_H
#define WEIR_DEVICE_CPU_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_ATTENTION_ROWS 64      /* of q in a block of scores, at most */
#define WEIR_ATTENTION_COLS 64     /* of k */

/* A block of scores is rows x cols, `cols` elements from row to row, not yet scaled. Row r sees
 * its first clamp(seen + r) columns. */
typedef struct weir_attention_block {
    int64_t rows, cols, seen;
    double  scale;
} weir_attention_block;

typedef struct weir_attention_loops {
    /* Scores become exp(scale * score - most), 0 where not seen. most and sum (f32 or f64, one per
     * row) are those of the columns so far and are brought up to date; each row of y (e columns,
     * `row` elements from row to row), which was made with the old most, is brought to the new. */
    void (*soften)(const weir_attention_block *b, void *scores, void *most, void *sum, void *y,
                   int64_t e, int64_t row);
    /* y /= sum, lse = most + log(sum); both as if there were nothing to sum where sum is 0. */
    void (*finish)(int64_t rows, const void *most, const void *sum, void *y, int64_t e, int64_t row,
                   void *lse);
    /* delta = dy . y, row by row. */
    void (*delta)(int64_t rows, const void *dy, const void *y, int64_t e, int64_t row, void *delta);
    /* Scores become probabilities, dp their gradient before the softmax, times scale. */
    void (*back)(const weir_attention_block *b, void *scores, void *dp, const void *lse,
                 const void *delta);
    /* Is all finite in these rows, of `columns` elements, `row` from one to the next? */
    bool (*finite)(int64_t rows, int64_t columns, const void *at, int64_t row);
    /* to = at, elements that are not finite being 0; rows of `to` lie close together. */
    void (*tame)(int64_t rows, int64_t columns, const void *at, int64_t row, void *to);
    /* y += scores (turned: their transpose) times what is not finite in x, pairs that see each
     * other only. Rows of x are the block's columns, turned: its rows. */
    void (*add_wild)(const weir_attention_block *b, bool turned, const void *scores, const void *x,
                     int64_t columns, int64_t row, void *y);
} weir_attention_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_attention_loops weir_attention_loops_base[2];
extern const weir_attention_loops weir_attention_loops_avx2[2];
extern const weir_attention_loops weir_attention_loops_avx512[2];

#endif
