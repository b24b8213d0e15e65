/* digits.h - hand-written digits, 8x8 pixels, ten classes: data/digits.bin, see digits.txt there.
 *
 * Every fifth sample, the first one included, belongs to the test set. */
#ifndef EXAMPLES_DIGITS_H
#define EXAMPLES_DIGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir.h"

#define DIGITS_FILE    "examples/data/digits.bin"
#define DIGITS_PIXELS  64
#define DIGITS_CLASSES 10

typedef struct digits_set {
    size_t   n;
    float   *image;         /* (n, 64), 0 to 1 */
    int32_t *label;         /* (n) */
} digits_set;

typedef struct digits {
    digits_set train, test;
    digits_set batch;       /* of the training set, as it is given to a tensor */
    size_t    *order;       /* (train.n) the samples as the epoch visits them */
    size_t     epoch;       /* the epoch of `order`, from 1 on; 0: not shuffled yet */
} digits;

/* Loads and checks the file; the training set must fill a batch. On failure prints a sentence that
 * begins with `program` to stderr and returns false. */
bool digits_load(const char *program, const char *path, size_t batch, digits *d);
void digits_free(digits *d);

/* Writes training batch number `step`, counted from 0 over all epochs, into x (batch, ...) and y
 * (batch). An epoch is shuffled by its number alone, so equal steps are equal batches in every
 * process; what does not fill a batch is left out, another part each time. */
weir_status digits_write_train(digits *d, size_t step, weir_tensor *x, weir_tensor *y);

/* Writes the test samples from `first` on into x and y; there must be enough of them. */
weir_status digits_write_test(const digits *d, size_t first, weir_tensor *x, weir_tensor *y);

#endif
