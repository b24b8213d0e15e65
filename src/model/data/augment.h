/* augment.h - random changes of images: crops, resized crops, flips, normalisation. */
#ifndef WEIR_MODEL_DATA_AUGMENT_H
#define WEIR_MODEL_DATA_AUGMENT_H

#include "weir.h"

/* A weir_augment for images of one shape. */
typedef struct weir_augmenter weir_augmenter;

/* Checks and copies what is to be changed in images of bytes of this shape. NULL after a failure,
 * with the statuses of weir_batches_new. The caller owns it; to be freed with weir_augmenter_free,
 * which takes NULL. */
weir_augmenter *weir_augmenter_new(const weir_desc *image, const weir_augment *a);
void            weir_augmenter_free(weir_augmenter *c);

/* Rows and columns of a changed image. */
void weir_augmenter_sides(const weir_augmenter *c, int64_t *height, int64_t *width);

/* Writes the changed image to x. stream: what the image draws. */
void weir_augmenter_image(const weir_augmenter *c, const uint8_t *image, uint64_t stream, float *x);

/* A part of an image, in rows and columns. */
typedef struct weir_crop {
    int64_t top, left, height, width;
} weir_crop;

/* The part of an image of height x width that a resized crop takes: the first of ten draws that
 * fits, else the largest middle part of an allowed ratio, as in torchvision's RandomResizedCrop.
 * scale, ratio: smallest and largest. Moves the stream on. */
weir_crop weir_augmenter_crop(int64_t height, int64_t width, const double scale[2],
                              const double ratio[2], uint64_t *stream);

#endif
