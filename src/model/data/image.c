/* image.c - images as bytes: MNIST's idx files and CIFAR-10's binary files.
 *
 * idx (LeCun, Cortes and Burges, "The MNIST database"): two zero bytes, a type (8: unsigned bytes),
 * the number of dims, each dim as a 32-bit big-endian number, the elements in row-major order.
 * CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): records of
 * a label and the red, green and blue planes of 32 x 32 bytes. */
#include "model/data/data.h"

#include <stdio.h>
#include <string.h>

/* ---- idx ---- */

enum { IDX_BYTES = 8, IDX_DIMS = 3 };

static const unsigned char gzip[2] = {0x1f, 0x8b};

static uint32_t big_endian(const unsigned char b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
}

/* The first four bytes, which must say: unsigned bytes, ndim dims. */
static weir_status idx_magic(weir_file *f, int ndim)
{
    const unsigned char wanted[4] = {0, 0, IDX_BYTES, (unsigned char)ndim};
    unsigned char       magic[4];

    if (f->size < sizeof magic)
        return weir_file_fail(f, "has %llu bytes, too few for the head of an idx file",
                              (unsigned long long)f->size);
    WEIR_TRY(weir_file_read(f, magic, sizeof magic));
    if (memcmp(magic, gzip, sizeof gzip) == 0)
        return weir_file_fail(f, "is packed by gzip; unpack it first");
    if (memcmp(magic, wanted, sizeof magic) != 0)
        return weir_file_fail(f,
                              "offset 0: begins with 0x%08x, but an idx file of bytes with %d "
                              "dims begins with 0x%08x",
                              (unsigned)big_endian(magic), ndim, (unsigned)big_endian(wanted));
    return WEIR_OK;
}

/* The dims, whose product must be the number of bytes that follow them. */
static weir_status idx_dims(weir_file *f, int ndim, int64_t dim[IDX_DIMS])
{
    const uint64_t head = 4 + 4 * (uint64_t)ndim;
    uint64_t       product = 1;
    bool           fits = true;
    char           named[IDX_DIMS * 16] = "";

    if (f->size < head)
        return weir_file_fail(f, "has %llu bytes, too few for a head of %llu",
                              (unsigned long long)f->size, (unsigned long long)head);
    for (int i = 0; i < ndim; i++) {
        unsigned char b[4];
        WEIR_TRY(weir_file_read(f, b, sizeof b));
        dim[i] = big_endian(b);
        if (dim[i] == 0)
            return weir_file_fail(f, "offset %d: dim %d is 0", 4 + 4 * i, i);
        fits = fits && !__builtin_mul_overflow(product, (uint64_t)dim[i], &product);
        const size_t end = strlen(named);
        snprintf(named + end, sizeof named - end, "%s%u", i ? " x " : "", (unsigned)dim[i]);
    }
    if (fits && product == f->size - head)
        return WEIR_OK;
    return weir_file_fail(f, "offset 4: %s bytes are declared, but %llu follow the head", named,
                          (unsigned long long)(f->size - head));
}

static weir_status idx_images(const char *path, weir_data **out)
{
    weir_file   f;
    int64_t     dim[IDX_DIMS] = {0};
    weir_status s = weir_file_open(&f, "data_idx", path);
    if (s == WEIR_OK)
        s = idx_magic(&f, IDX_DIMS);
    if (s == WEIR_OK)
        s = idx_dims(&f, IDX_DIMS, dim);
    if (s == WEIR_OK) {
        const weir_desc sample = {WEIR_U8, 3, {1, dim[1], dim[2]}};
        *out = weir_data_new(sample, dim[0], true);
        s = *out ? weir_file_read(&f, (*out)->value, (size_t)(f.size - f.at)) : weir_error_status();
    }
    weir_file_close(&f);
    return s;
}

/* d->label, one per image. */
static weir_status idx_read_labels(weir_file *f, weir_data *d)
{
    int64_t dim[IDX_DIMS] = {0};

    WEIR_TRY(idx_magic(f, 1));
    WEIR_TRY(idx_dims(f, 1, dim));
    if (dim[0] != d->n)
        return weir_file_fail(f, "offset 4: %lld labels for %lld images", (long long)dim[0],
                              (long long)d->n);
    if (!(d->label = weir_host_alloc((size_t)d->n)))
        return weir_error_status();
    WEIR_TRY(weir_file_read(f, d->label, (size_t)d->n));
    d->labels = 1;
    for (int64_t i = 0; i < d->n; i++)
        if (d->label[i] >= d->classes)
            d->classes = d->label[i] + 1;
    return WEIR_OK;
}

static weir_status idx_labels(const char *path, weir_data *d)
{
    weir_file   f;
    weir_status s = weir_file_open(&f, "data_idx", path);
    if (s == WEIR_OK)
        s = idx_read_labels(&f, d);
    weir_file_close(&f);
    return s;
}

weir_data *weir_data_idx(const char *images, const char *labels)
{
    weir_data *d = NULL;

    if (idx_images(images, &d) == WEIR_OK && (!labels || idx_labels(labels, d) == WEIR_OK))
        return d;
    weir_data_free(d);
    return NULL;
}

/* ---- CIFAR-10 ---- */

enum { CIFAR_IMAGE = 3 * 32 * 32, CIFAR_RECORD = 1 + CIFAR_IMAGE, CIFAR_CLASSES = 10 };

static weir_status cifar_open(weir_file *f, const char *path, int64_t *records)
{
    WEIR_TRY(weir_file_open(f, "data_cifar10", path));
    *records = (int64_t)(f->size / CIFAR_RECORD);
    if (f->size > 0 && f->size % CIFAR_RECORD == 0)
        return WEIR_OK;
    weir_file_close(f);
    return weir_file_fail(f, "has %llu bytes, not a multiple of records of %d",
                          (unsigned long long)f->size, CIFAR_RECORD);
}

/* The number of records of all files together. */
static weir_status cifar_count(int n, const char *const *paths, int64_t *count)
{
    *count = 0;
    for (int i = 0; i < n; i++) {
        weir_file f;
        int64_t   records = 0;
        WEIR_TRY(cifar_open(&f, paths[i], &records));
        weir_file_close(&f);
        if (__builtin_add_overflow(*count, records, count) || *count > INT64_MAX / CIFAR_RECORD)
            return weir_file_fail(&f, "makes the data set larger than an address can count");
    }
    return WEIR_OK;
}

/* Sample `at` of d. */
static weir_status cifar_record(weir_file *f, weir_data *d, int64_t at)
{
    uint8_t *const label = d->label + at;

    WEIR_TRY(weir_file_read(f, label, 1));
    if (*label >= CIFAR_CLASSES)
        return weir_file_fail(f, "offset %llu: label is %d but must be below %d",
                              (unsigned long long)f->at - 1, *label, CIFAR_CLASSES);
    return weir_file_read(f, (uint8_t *)d->value + at * CIFAR_IMAGE, CIFAR_IMAGE);
}

/* One file behind the *done samples that d holds already. */
static weir_status cifar_read(const char *path, weir_data *d, int64_t *done)
{
    weir_file f;
    int64_t   records = 0;

    WEIR_TRY(cifar_open(&f, path, &records));
    weir_status s = WEIR_OK;
    if (records > d->n - *done)
        s = weir_file_fail(&f, "grew to %lld records while it was read", (long long)records);
    for (int64_t i = 0; s == WEIR_OK && i < records; i++, (*done)++)
        s = cifar_record(&f, d, *done);
    weir_file_close(&f);
    return s;
}

static weir_status cifar_fill(int n, const char *const *paths, weir_data *d)
{
    int64_t done = 0;

    if (!(d->label = weir_host_alloc((size_t)d->n)))
        return weir_error_status();
    d->labels = 1;
    d->classes = CIFAR_CLASSES;
    for (int i = 0; i < n; i++)
        WEIR_TRY(cifar_read(paths[i], d, &done));
    if (done < d->n)
        return weir_fail(WEIR_ERR_IO, "data_cifar10: %lld records while reading, but %lld before",
                         (long long)done, (long long)d->n);
    return WEIR_OK;
}

weir_data *weir_data_cifar10(int n, const char *const *paths)
{
    const weir_desc sample = {WEIR_U8, 3, {3, 32, 32}};
    int64_t         count = 0;

    if (n < 1 || !paths) {
        weir_fail(WEIR_ERR_INVALID, "data_cifar10: %d files are given, but 1 or more are needed",
                                    n);
        return NULL;
    }
    if (cifar_count(n, paths, &count) != WEIR_OK)
        return NULL;
    weir_data *d = weir_data_new(sample, count, true);
    if (d && cifar_fill(n, paths, d) == WEIR_OK)
        return d;
    weir_data_free(d);
    return NULL;
}
