/* pattern.h - made-up images that can be learned, for runs without data. */
#ifndef EXAMPLES_PATTERN_H
#define EXAMPLES_PATTERN_H

#include <stdint.h>

typedef struct pattern_shape {
    uint64_t batch, size, classes;      /* images are 3 x size x size */
} pattern_shape;

/* Writes batch number `step`: images (batch,3,size,size) and their labels. Only the first ten
 * classes occur. Equal steps are equal batches in every process. */
void pattern_batch(uint64_t step, const pattern_shape *shape, float *image, int32_t *label);

#endif
