/* augment.h - random changes of images: crops, resized crops, flips, normalisation. */
#ifndef WEIR_MODEL_DATA_AUGMENT_H
#define WEIR_MODEL_DATA_AUGMENT_H

#include "weir.h"

/* A weir_augment for images of one shape. */
typedef struct weir_change weir_change;

/* Checks and copies what is to be changed in images of bytes of this shape. NULL after a failure,
 * with the statuses of weir_batches_new. The caller owns it; to be freed with weir_change_free,
 * which takes NULL. */
weir_change *weir_change_new(const weir_desc *image, const weir_augment *a);
void         weir_change_free(weir_change *c);

/* Rows and columns of a changed image. */
void weir_change_sides(const weir_change *c, int64_t *height, int64_t *width);

/* Writes the changed image to x. stream: what the image draws. */
void weir_change_image(const weir_change *c, const uint8_t *image, uint64_t stream, float *x);

/* A part of an image, in rows and columns. */
typedef struct weir_part_of_image {
    int64_t top, left, height, width;
} weir_part_of_image;

/* The part of an image of height x width that a resized crop takes: the first of ten draws that
 * fits, else the largest middle part of an allowed ratio, as in torchvision's RandomResizedCrop.
 * scale, ratio: smallest and largest. Moves the stream on. */
weir_part_of_image weir_change_part(int64_t height, int64_t width, const double scale[2],
                                    const double ratio[2], uint64_t *stream);

#endif
