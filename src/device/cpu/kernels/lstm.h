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

/* Conversions of rows x cols elements between halves and f32, rounded once; rows are ldt and ldf
 * elements apart. */
typedef struct weir_lstm_halves {
    void (*widen)(int64_t rows, int64_t cols, float *to, int64_t ldt, const uint16_t *from,
                  int64_t ldf);
    void (*narrow)(int64_t rows, int64_t cols, uint16_t *to, int64_t ldt, const float *from,
                   int64_t ldf);
} weir_lstm_halves;

/* f16, bf16. */
extern const weir_lstm_halves weir_lstm_halves_base[2];
extern const weir_lstm_halves weir_lstm_halves_avx2[2];
extern const weir_lstm_halves weir_lstm_halves_avx512[2];

/* Indexed by weir_dtype: f32, f64. */
extern const weir_lstm_loops weir_lstm_loops_base[2];
extern const weir_lstm_loops weir_lstm_loops_avx2[2];
extern const weir_lstm_loops weir_lstm_loops_avx512[2];

#endif
