/* data.h - data sets from local files, and batches of them in arrays of the caller.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Files are not trusted: each number in a file is checked against the file's size before memory is
 * allocated, and an error (ERR_IO) names file, place and numbers. Only regular files are read;
 * nothing is downloaded or unpacked. A data set is read whole and belongs to no device; it never
 * changes, so several batch readers may share it, in several threads; a batch reader belongs to one
 * thread at a time.
 *
 * Ownership. Data sets are yours (weir_data_free), batch readers too (weir_batches_free). Paths and
 * options are only read during the call.
 *
 * Errors. NULL, or a status, with ERR_IO for a file that is missing, unreadable or malformed,
 * ERR_INVALID for a number or option that makes no sense, ERR_NOMEM for too little memory. */
#ifndef WEIR_DATA_PUBLIC_H
#define WEIR_DATA_PUBLIC_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A data set in memory: samples of one shape, with labels or without. */
typedef struct weir_data weir_data;

/* A reader of a data set, batch by batch, epoch after epoch. */
typedef struct weir_batches weir_batches;

/* MNIST and other data sets in idx files: images (n, rows, cols) of bytes, labels (n) of bytes.
 * Samples are (1, rows, cols). labels NULL: no labels. You own the result: weir_data_free. */
WEIR_API weir_data *weir_data_idx(const char *images, const char *labels);

/* CIFAR-10, binary version: n files of 3073-byte records, one after the other. Samples are
 * (3, 32, 32). */
WEIR_API weir_data *weir_data_cifar10(int n, const char *const *paths);

/* How lines are read; {0}: no header, commas, labels in the last column. */
typedef struct weir_csv_options {
    bool        header;         /* the first line names the columns */
    char        separator;      /* 0: a comma */
    const char *label;          /* name of the label's column (needs header); NULL: the last one */
    bool        no_label;       /* all columns are values */
} weir_csv_options;

/* Lines with equal counts of numbers; empty lines are skipped, numbers may be in double quotes.
 * Samples are (columns) without the label's column. options may be NULL. */
WEIR_API weir_data *weir_data_csv(const char *path, const weir_csv_options *options);

/* The bytes of any file, cut into pieces of `length`: samples are (length), and the label of each
 * byte is the byte after it. A shorter last piece is left out. */
WEIR_API weir_data *weir_data_text(const char *path, int64_t length);

WEIR_API void weir_data_free(weir_data *d);     /* its batch readers go first; NULL is fine */

/* Number of samples; type (u8, or f32 from a CSV file) and shape of one; elements of one. */
WEIR_API int64_t   weir_data_count(const weir_data *d);
WEIR_API weir_desc weir_data_sample(const weir_data *d);
WEIR_API int64_t   weir_data_elements(const weir_data *d);

/* Labels of one sample: 1, `length` of a text, or 0. */
WEIR_API int64_t weir_data_labels(const weir_data *d);

/* 1 + the largest label; 0 without labels, or if one is not a whole number from 0 to 2^31 - 2. */
WEIR_API int64_t weir_data_classes(const weir_data *d);

/* All samples in the file's order, elements of the sample's type; borrowed. */
WEIR_API const void *weir_data_values(const weir_data *d);

/* Random changes of images, of samples (channels, height, width), in this order; {0} changes
 * nothing. What is drawn depends on seed, epoch and the sample's index in the data set alone.
 *
 * A crop is a part of height x width from anywhere. With scale it is one of random area and shape,
 * resized to height x width (bilinear, without antialiasing), as torchvision's RandomResizedCrop
 * takes it; scale {1, 1} with both ratios width / height of the images resizes them whole. */
typedef struct weir_augment {
    int64_t      padding;       /* rows and columns of zeros added on each side before the crop */
    int64_t      height, width; /* of a crop; both 0: no crop, and then no padding and no scale */
    double       flip;          /* probability that left and right are exchanged, from 0 to 1 */
    const float *mean, *std;    /* of each channel: (x - mean) / std; both NULL: as it is */
    double       scale[2];      /* smallest and largest share of the area, to 1; {0}: none */
    double       ratio[2];      /* smallest and largest width / height; {0}: 3/4 and 4/3 */
} weir_augment;

/* In which order samples come, and what is changed; {0}: the file's order, nothing. */
typedef struct weir_batches_options {
    bool                shuffle;    /* a new order in each epoch */
    uint64_t            seed;       /* of orders and changes: equal seeds, equal batches */
    bool                drop_last;  /* leave out a shorter last batch of an epoch */
    const weir_augment *augment;    /* copied; NULL: images as they are */
    int                 workers;    /* threads that prepare x ahead, 0 to 256; 0: none */
    int                 ahead;      /* batches they prepare ahead; 0: two for each worker */
    /* Several ranks: this one's number, how many there are (0: one), and how many batches each of
     * them reads for an update (0: 1). See weir_batches_new. */
    int                 rank, world, micro_batches;
} weir_batches_options;

/* Where a reader is, and what must be equal for the same batches to come. */
typedef struct weir_batches_state {
    int64_t  epoch, batch;      /* of the next batch, both from 0; of several ranks: rank 0's,
                                 * counted over all of them, so that all have the same state */
    uint64_t seed;              /* of orders and changes */
    int64_t  samples, size;     /* of the data set; of a batch that is not the rest */
    bool     shuffle, drop_last;    /* as in the options */
} weir_batches_state;

/* Where a batch is written, sample after sample; NULL fields are left out. */
typedef struct weir_batch {
    float   *x;             /* bytes of images and texts as byte / 255, numbers as they are */
    int32_t *x_whole;       /* bytes as they are; not from a CSV file, nor with augment */
    int32_t *y;             /* labels as class numbers; not where weir_data_classes is 0 */
    float   *y_real;        /* labels as they are */
} weir_batch;

/* Reads d in batches of `size` samples, 1 or more; the last batch of an epoch has the rest, if any,
 * unless drop_last leaves it out (then size is at most the number of samples). d must outlive the
 * reader. options NULL: the file's order. A reader owns 8 bytes for each sample if it shuffles, and
 * 8 for each channel if it changes images; with workers also x and 8 bytes for each sample of the
 * batches ahead, which no device's budget counts. Batches do not depend on the number of workers.
 * NULL with ERR_SHAPE for augment of samples that are no images, or a crop larger than the padded
 * image; with ERR_NOMEM if the system refuses a worker. next writes one batch, of
 * weir_batches_size samples, and moves on: ERR_STATE for labels of a data set that has none, for
 * x_whole with augment, and in a forked child for a reader with workers; ERR_DTYPE for x_whole of
 * numbers and for y of labels that are no class numbers.
 *
 * With world W and micro_batches A, one order of all samples is cut into batches, W A of them for
 * each update, of which rank r reads r A to r A + A - 1. So every rank reads equally many, and an
 * epoch leaves out the samples that make no whole update. A state may be set in a reader of another
 * rank or world, if W A and size are the same, at the beginning of an update. ERR_INVALID unless 0
 * <= rank < world, 0 <= micro_batches and the data set has samples for one update. */
WEIR_API weir_batches *weir_batches_new(const weir_data *d, int64_t size,
                                        const weir_batches_options *options);
WEIR_API weir_status   weir_batches_next(weir_batches *b, const weir_batch *to);
WEIR_API void          weir_batches_free(weir_batches *b);

/* Samples of the next batch: `size`, or the rest; and the type f32 and shape of one in x. */
WEIR_API int64_t   weir_batches_size(const weir_batches *b);
WEIR_API weir_desc weir_batches_sample(const weir_batches *b);

/* Where the reader is, as plain numbers for the caller to keep; and going on from there: a reader
 * like the one that gave the state writes the same batches from then on. set fails with ERR_INVALID
 * if a number differs or is out of range, and with ERR_STATE as next does in a forked child; the
 * reader then stays where it is. Changes are not part of the state: give the same augment. */
WEIR_API weir_status weir_batches_get_state(const weir_batches *b, weir_batches_state *to);
WEIR_API weir_status weir_batches_set_state(weir_batches *b, const weir_batches_state *state);

/* Batches in one pass over the data, and the pass that the reader is in. */
WEIR_API int64_t weir_batches_per_epoch(const weir_batches *b);
WEIR_API int64_t weir_batches_epoch(const weir_batches *b);     /* of the next batch, from 0 */

/* Writes the share of n samples, from 0 to 1, whose label is among the k highest of its scores; k =
 * 1 is the accuracy. scores: (n, classes), row by row; labels: (n), class numbers. Of equal scores
 * the lower class comes first; a label whose score is NaN is never among them. ERR_INVALID unless
 * n >= 1 and 1 <= k <= classes, ERR_INDEX for a label that is no class. */
WEIR_API weir_status weir_topk_accuracy(const float *scores, const int32_t *labels, int64_t n,
                                        int64_t classes, int64_t k, double *share);

#ifdef __cplusplus
}
#endif
#endif
