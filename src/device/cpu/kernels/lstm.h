/* lstm.h - shared by lstm.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_LSTM_H
#define WEIR_DEVICE_CPU_KERNELS_LSTM_H

#include <stdint.h>

/* A tile of one time step: rows x cols of the hidden units. In rows of gates, 4 * hidden elements,
 * the gates i f g o of a unit are `hidden` elements apart. All pointers are to the tile. */
typedef struct weir_lstm_patch {
    int64_t rows, cols, hidden;
} weir_lstm_patch;

typedef struct weir_lstm_loops {
    /* The summed gates become i f g o; c and h follow from them and the previous cell state. */
    void (*cell)(const weir_lstm_patch *p, void *gates, const void *before, void *c, void *h);
    /* The gradient of the gates' sums. carry_h and carry_c, from the following step, are added to
     * dh and dc (NULL: none); carry_c becomes the gradient of the previous cell state. */
    void (*back)(const weir_lstm_patch *p, const void *gates, const void *before, const void *c,
                 const void *dh, const void *dc, const void *carry_h, void *carry_c, void *dgates);
} weir_lstm_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_lstm_loops weir_lstm_loops_base[2];
extern const weir_lstm_loops weir_lstm_loops_avx2[2];
extern const weir_lstm_loops weir_lstm_loops_avx512[2];

#endif
