/* pattern.c - an image is the 8x8 pattern of its class, enlarged, under noise.
 *
 * Pattern and noise are a hash of where they stand, so that nothing is stored. */
#include "pattern.h"

#include "weir.h"

enum { CLASSES = 10, CELLS = 8 };

/* A number from -1 to 1 that belongs to `key`: SplitMix64 (Steele, Lea, Flood 2014). */
static float noise(uint64_t key)
{
    uint64_t state = key * WEIR_SPLITMIX64_STEP;

    return (float)(weir_splitmix64(&state) >> 40) * 0x1p-23f - 1.0f;
}

/* Keys of patterns lie above those of all noise. `at` counts through an image (3,size,size). */
static uint64_t pattern_key(uint64_t label, uint64_t at, uint64_t size)
{
    const uint64_t channel = at / (size * size);
    const uint64_t row = at / size % size * CELLS / size, column = at % size * CELLS / size;
    return ((uint64_t)1 << 60) + ((label * 3 + channel) * CELLS + row) * CELLS + column;
}

void pattern_batch(uint64_t step, const pattern_shape *shape, float *image, int32_t *label)
{
    const uint64_t pixels = 3 * shape->size * shape->size;
    const uint64_t classes = shape->classes < CLASSES ? shape->classes : CLASSES;

    for (uint64_t n = 0; n < shape->batch; n++) {
        const uint64_t sample = step * shape->batch + n, class = sample % classes;
        label[n] = (int32_t)class;
        for (uint64_t i = 0; i < pixels; i++)
            image[n * pixels + i] = noise(pattern_key(class, i, shape->size)) +
                                    0.5f * noise(sample * pixels + i);
    }
}
