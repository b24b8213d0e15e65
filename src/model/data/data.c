/* data.c - data sets in memory, texts as data sets, and batches of samples.
 *
 * An epoch's order is a shuffle (Fisher and Yates) by a SplitMix64 stream (Steele, Lea and Flood
 * 2014) that begins at a mix of seed and epoch: it depends on nothing but these two. */
#include "model/data/data.h"

weir_data *weir_data_new(weir_desc sample, int64_t n, bool values)
{
    weir_data *d = weir_host_alloc(sizeof *d);
    if (!d)
        return NULL;
    *d = (weir_data){.sample = sample, .n = n, .elements = 1};
    size_t bytes = weir_dtype_size(sample.dtype);
    bool   fits = !__builtin_mul_overflow(bytes, (size_t)n, &bytes);
    for (int i = 0; i < sample.ndim; i++) {
        fits = fits && !__builtin_mul_overflow(d->elements, sample.dim[i], &d->elements) &&
               !__builtin_mul_overflow(bytes, (size_t)sample.dim[i], &bytes);
    }
    if (!fits)
        weir_fail(WEIR_ERR_NOMEM, "data: %lld samples need more bytes than an address can count",
                  (long long)n);
    else if (!values || (d->value = weir_host_alloc(bytes)))
        return d;
    weir_host_free(d);
    return NULL;
}

void weir_data_free(weir_data *d)
{
    if (!d)
        return;
    weir_host_free(d->value);
    if (!d->text)
        weir_host_free(d->label);
    weir_host_free(d->real);
    weir_host_free(d);
}

int64_t weir_data_count(const weir_data *d)
{
    return d ? d->n : 0;
}

weir_desc weir_data_sample(const weir_data *d)
{
    return d ? d->sample : (weir_desc){0};
}

int64_t weir_data_elements(const weir_data *d)
{
    return d ? d->elements : 0;
}

int64_t weir_data_labels(const weir_data *d)
{
    return d ? d->labels : 0;
}

int64_t weir_data_classes(const weir_data *d)
{
    return d ? d->classes : 0;
}

const void *weir_data_values(const weir_data *d)
{
    return d ? d->value : NULL;
}

/* ---- text ---- */

enum { BYTES = 256 };

static weir_data *text_read(weir_file *f, int64_t length)
{
    if (f->size <= (uint64_t)length)
        return (void)weir_file_fail(f, "has %llu bytes, too few for a piece of %lld and the "
                                    "byte after it",
                                    (unsigned long long)f->size, (long long)length),
               NULL;
    const int64_t n = ((int64_t)f->size - 1) / length;
    weir_data    *d = weir_data_new(weir_1d(WEIR_U8, length), n, false);
    if (!d)
        return NULL;
    d->text = true;
    const size_t bytes = (size_t)(n * length + 1);
    if (!(d->value = weir_host_alloc(bytes)) || weir_file_read(f, d->value, bytes) != WEIR_OK) {
        weir_data_free(d);
        return NULL;
    }
    d->label = (uint8_t *)d->value + 1;
    d->labels = length;
    d->classes = BYTES;
    return d;
}

weir_data *weir_data_text(const char *path, int64_t length)
{
    weir_file f;

    if (length < 1) {
        weir_fail(WEIR_ERR_INVALID, "data_text: a piece is %lld bytes but must be 1 or more",
                  (long long)length);
        return NULL;
    }
    if (weir_file_open(&f, "data_text", path) != WEIR_OK)
        return NULL;
    weir_data *d = text_read(&f, length);
    weir_file_close(&f);
    return d;
}

/* ---- batches ---- */

struct weir_batches {
    const weir_data *data;            /* borrowed */
    int64_t          size, epoch, at; /* at: of the next sample in the epoch's order */
    uint64_t         seed;
    int64_t         *order; /* owned; NULL: the file's order */
};

static void shuffle(weir_batches *b)
{
    uint64_t state = b->seed, epoch = (uint64_t)b->epoch;
    state = weir_splitmix64(&state) ^ weir_splitmix64(&epoch);

    for (int64_t i = 0; i < b->data->n; i++)
        b->order[i] = i;
    for (int64_t i = b->data->n; i > 1; i--) {
        const int64_t j = (int64_t)(weir_splitmix64(&state) % (uint64_t)i), kept = b->order[i - 1];
        b->order[i - 1] = b->order[j];
        b->order[j] = kept;
    }
}

weir_batches *weir_batches_new(const weir_data *d, int64_t size,
                               const weir_batches_options *options)
{
    if (!d)
        return (void)weir_fail_null("batches_new", "data"), NULL;
    if (size < 1 || size > d->n) {
        weir_fail(WEIR_ERR_INVALID, "batches_new: size is %lld but must be from 1 to the %lld "
                                    "samples",
                  (long long)size, (long long)d->n);
        return NULL;
    }
    weir_batches *b = weir_host_alloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (weir_batches){.data = d, .size = size, .seed = options ? options->seed : 0};
    if (!options || !options->shuffle)
        return b;
    size_t bytes = 0;
    if (__builtin_mul_overflow((size_t)d->n, sizeof *b->order, &bytes))
        weir_fail(WEIR_ERR_NOMEM, "batches_new: the order of %lld samples exceeds SIZE_MAX bytes",
                  (long long)d->n);
    else if ((b->order = weir_host_alloc(bytes))) {
        shuffle(b);
        return b;
    }
    weir_batches_free(b);
    return NULL;
}

void weir_batches_free(weir_batches *b)
{
    if (b)
        weir_host_free(b->order);
    weir_host_free(b);
}

int64_t weir_batches_per_epoch(const weir_batches *b)
{
    return b ? b->data->n / b->size : 0;
}

int64_t weir_batches_epoch(const weir_batches *b)
{
    return b ? b->epoch : 0;
}

static weir_status batch_check(const weir_data *d, const weir_batch *to)
{
    if (to->x_whole && d->sample.dtype != WEIR_U8)
        return weir_fail(WEIR_ERR_DTYPE, "batches_next: x_whole is for bytes, the samples are %s",
                         weir_dtype_name(d->sample.dtype));
    if ((to->y || to->y_real) && d->labels == 0)
        return weir_fail(WEIR_ERR_STATE, "batches_next: %s, but the data set has no labels",
                         to->y ? "y" : "y_real");
    if (to->y && d->classes == 0)
        return weir_fail(WEIR_ERR_DTYPE, "batches_next: y is asked for, but the labels are not "
                                         "class numbers");
    return WEIR_OK;
}

/* Sample `from` of d as the at-th of a batch. */
static void copy_values(const weir_data *d, int64_t from, const weir_batch *to, int64_t at)
{
    const int64_t n = d->elements;

    for (int64_t i = 0; d->sample.dtype == WEIR_F32 && to->x && i < n; i++)
        to->x[at * n + i] = ((const float *)d->value)[from * n + i];
    if (d->sample.dtype == WEIR_F32)
        return;
    const uint8_t *byte = (const uint8_t *)d->value + from * n;
    for (int64_t i = 0; to->x && i < n; i++)
        to->x[at * n + i] = (float)byte[i] / 255.0f;
    for (int64_t i = 0; to->x_whole && i < n; i++)
        to->x_whole[at * n + i] = byte[i];
}

static void copy_labels(const weir_data *d, int64_t from, const weir_batch *to, int64_t at)
{
    const int64_t n = d->labels;

    for (int64_t i = 0; i < n; i++) {
        const double label = d->real ? d->real[from * n + i] : d->label[from * n + i];
        if (to->y)
            to->y[at * n + i] = (int32_t)label;
        if (to->y_real)
            to->y_real[at * n + i] = (float)label;
    }
}

weir_status weir_batches_next(weir_batches *b, const weir_batch *to)
{
    if (!b || !to)
        return weir_fail_null("batches_next", b ? "to" : "batches");
    WEIR_TRY(batch_check(b->data, to));
    for (int64_t i = 0; i < b->size; i++) {
        const int64_t from = b->order ? b->order[b->at + i] : b->at + i;
        copy_values(b->data, from, to, i);
        copy_labels(b->data, from, to, i);
    }
    b->at += b->size;
    if (b->at > b->data->n - b->size) {
        b->at = 0;
        b->epoch++;
        if (b->order)
            shuffle(b);
    }
    return WEIR_OK;
}
