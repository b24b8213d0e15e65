/* data.c - data sets in memory, texts as data sets, and batches of samples.
 *
 * An epoch's order is a shuffle (Fisher and Yates) by a SplitMix64 stream (Steele, Lea and Flood
 * 2014) of seed and epoch, and depends on nothing but these two. */
#include "model/data/data.h"

#include <string.h>

#include "model/data/ahead.h"
#include "model/data/augment.h"

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

/* at: of a sample in the epoch's order. */
typedef struct place {
    int64_t epoch, at;
} place;

struct weir_batches {
    const weir_data *data; /* borrowed */
    int64_t          size;
    place            next; /* of the program's next batch */
    uint64_t         seed;
    bool             drop_last;
    int64_t          first, each, all;  /* batches of an update: this rank's first one and their
                                         * number, that of all ranks; all 0, 1, 1: of one rank */
    weir_augmenter  *augmenter; /* owned; NULL: samples as they are */
    int64_t         *order;   /* owned; of the epoch of `dealt`; NULL: the file's order */
    place            dealt;   /* up to where batches were dealt to workers; else the same as next */
    weir_ahead      *ahead;   /* owned; NULL: no workers */
};

/* The stream of an epoch, a chain of mixes: a symmetric one would give seed 1, epoch 0 the order of
 * seed 0, epoch 1. */
static uint64_t epoch_stream(const weir_batches *b, int64_t epoch)
{
    uint64_t state = b->seed;

    return weir_splitmix64(&state) + (uint64_t)epoch;
}

static void shuffle(weir_batches *b)
{
    uint64_t state = epoch_stream(b, b->dealt.epoch);

    for (int64_t i = 0; i < b->data->n; i++)
        b->order[i] = i;
    for (int64_t i = b->data->n; i > 1; i--) {
        const int64_t j = (int64_t)(weir_splitmix64(&state) % (uint64_t)i), kept = b->order[i - 1];
        b->order[i - 1] = b->order[j];
        b->order[j] = kept;
    }
}

static weir_status order_make(weir_batches *b)
{
    size_t bytes = 0;

    if (__builtin_mul_overflow((size_t)b->data->n, sizeof *b->order, &bytes))
        return weir_fail(WEIR_ERR_NOMEM, "batches_new: the order of %lld samples exceeds SIZE_MAX "
                                         "bytes",
                         (long long)b->data->n);
    if (!(b->order = weir_host_alloc(bytes)))
        return weir_error_status();
    shuffle(b);
    return WEIR_OK;
}

void weir_batches_free(weir_batches *b)
{
    if (b) {
        weir_ahead_free(b->ahead);
        weir_host_free(b->order);
        weir_augmenter_free(b->augmenter);
    }
    weir_host_free(b);
}

int64_t weir_batches_per_epoch(const weir_batches *b)
{
    if (!b)
        return 0;
    if (b->all > 1)
        return b->data->n / (b->size * b->all) * b->each;
    return b->data->n / b->size + (!b->drop_last && b->data->n % b->size != 0);
}

/* The place of a batch of an epoch; `batch` as in a state. */
static place place_of(const weir_batches *b, int64_t epoch, int64_t batch)
{
    return (place){epoch, (batch + b->first) * b->size};
}

static int64_t batch_of(const weir_batches *b, place p)
{
    return p.at / b->size - b->first;
}

/* Samples of the batch at p: `size`, or the rest. */
static int64_t samples_at(const weir_batches *b, place p)
{
    return b->size < b->data->n - p.at ? b->size : b->data->n - p.at;
}

int64_t weir_batches_size(const weir_batches *b)
{
    return b ? samples_at(b, b->next) : 0;
}

weir_desc weir_batches_sample(const weir_batches *b)
{
    if (!b)
        return (weir_desc){0};
    weir_desc sample = b->data->sample;
    sample.dtype = WEIR_F32;
    if (b->augmenter)
        weir_augmenter_sides(b->augmenter, &sample.dim[1], &sample.dim[2]);
    return sample;
}

weir_status weir_batches_get_state(const weir_batches *b, weir_batches_state *to)
{
    if (!b || !to)
        return weir_fail_null("batches_get_state", b ? "to" : "batches");
    *to = (weir_batches_state){b->next.epoch, batch_of(b, b->next), b->seed,     b->data->n,
                               b->size,       b->order != NULL,     b->drop_last};
    return WEIR_OK;
}

int64_t weir_batches_epoch(const weir_batches *b)
{
    return b ? b->next.epoch : 0;
}

static weir_status batch_check(const weir_batches *b, const weir_batch *to)
{
    const weir_data *d = b->data;

    if (to->x_whole && b->augmenter)
        return weir_fail(WEIR_ERR_STATE, "batches_next: x_whole has bytes as they are, but the "
                                         "reader changes images; ask for x");
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

/* Elements of a sample as x has it. */
static int64_t sample_elements(const weir_batches *b)
{
    const weir_desc d = weir_batches_sample(b);
    int64_t         n = 1;

    for (int i = 0; i < d.ndim; i++)
        n *= d.dim[i];
    return n;
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

/* ---- dealing ---- */

/* Fails if the reader has workers and this is a forked child, where threads do not live on. */
static weir_status check_workers(const weir_batches *b, const char *who)
{
    if (!b->ahead || weir_ahead_lives(b->ahead))
        return WEIR_OK;
    return weir_fail(WEIR_ERR_STATE, "%s: this process was forked after the reader had made its "
                                     "workers; make the reader in the child", who);
}

/* The place after the batch at p. */
static place place_after(const weir_batches *b, place p)
{
    if (b->all > 1) {
        const int64_t batch = batch_of(b, p);
        const int64_t next = batch % b->all + 1 < b->each ? batch + 1
                                                          : (batch / b->all + 1) * b->all;
        return next / b->all < b->data->n / (b->size * b->all) ? place_of(b, p.epoch, next)
                                                               : place_of(b, p.epoch + 1, 0);
    }
    p.at += samples_at(b, p);
    if (p.at == b->data->n || (b->drop_last && p.at > b->data->n - b->size))
        return (place){.epoch = p.epoch + 1};
    return p;
}

/* Moves on to the batch after the one at `dealt`, and to its epoch's order. */
static void deal_next(weir_batches *b)
{
    const int64_t epoch = b->dealt.epoch;

    b->dealt = place_after(b, b->dealt);
    if (b->order && b->dealt.epoch != epoch)
        shuffle(b);
}

static int64_t index_at(const weir_batches *b, int64_t i)
{
    return b->order ? b->order[b->dealt.at + i] : b->dealt.at + i;
}

/* Fills all free slots of the workers. */
static void deal_ahead(weir_batches *b)
{
    weir_ahead_batch *to;

    while (b->ahead && (to = weir_ahead_slot(b->ahead))) {
        to->epoch = b->dealt.epoch;
        to->n = samples_at(b, b->dealt);
        for (int64_t i = 0; i < to->n; i++)
            to->from[i] = index_at(b, i);
        weir_ahead_queue(b->ahead);
        deal_next(b);
    }
}

/* Values of sample `from` as the at-th of a batch, changed if the reader changes images. Each image
 * has a stream of its own, a chain of mixes of seed, epoch and index. */
static void copy_sample(const weir_batches *b, int64_t epoch, int64_t from, const weir_batch *to,
                        int64_t at)
{
    const weir_data *const d = b->data;
    uint64_t               state = epoch_stream(b, epoch);

    if (!b->augmenter)
        copy_values(d, from, to, at);
    else if (to->x)
        weir_augmenter_image(b->augmenter, (const uint8_t *)d->value + from * d->elements,
                          weir_splitmix64(&state) + (uint64_t)from,
                          to->x + at * sample_elements(b));
}

/* What workers do: x of a batch. */
static void fill(const void *ctx, const weir_ahead_batch *p)
{
    const weir_batch to = {.x = p->x};

    for (int64_t i = 0; i < p->n; i++)
        copy_sample(ctx, p->epoch, p->from[i], &to, i);
}

/* Writes the batch at `next`, and moves on. */
static void write_next(weir_batches *b, const weir_batch *to)
{
    for (int64_t i = 0; i < samples_at(b, b->next); i++) {
        const int64_t from = index_at(b, i);
        copy_sample(b, b->next.epoch, from, to, i);
        copy_labels(b->data, from, to, i);
    }
    deal_next(b);
    b->next = b->dealt;
}

/* The same with x from the workers. */
static void take_next(weir_batches *b, const weir_batch *to)
{
    const weir_ahead_batch *const p = weir_ahead_take(b->ahead);
    const weir_batch              rest = {.x_whole = to->x_whole};

    if (to->x)
        memcpy(to->x, p->x, (size_t)(p->n * sample_elements(b)) * sizeof *p->x);
    for (int64_t i = 0; i < p->n; i++) {
        copy_sample(b, p->epoch, p->from[i], &rest, i);
        copy_labels(b->data, p->from[i], to, i);
    }
    weir_ahead_drop(b->ahead);
    b->next = place_after(b, b->next);
    deal_ahead(b);
}

weir_status weir_batches_next(weir_batches *b, const weir_batch *to)
{
    if (!b || !to)
        return weir_fail_null("batches_next", b ? "to" : "batches");
    WEIR_TRY(batch_check(b, to));
    WEIR_TRY(check_workers(b, "batches_next"));
    if (b->ahead)
        take_next(b, to);
    else
        write_next(b, to);
    return WEIR_OK;
}

weir_status weir_batches_set_state(weir_batches *b, const weir_batches_state *state)
{
    weir_batches_state own;

    if (!b || !state)
        return weir_fail_null("batches_set_state", b ? "state" : "batches");
    WEIR_TRY(weir_batches_get_state(b, &own));
    if (state->seed != own.seed || state->samples != own.samples || state->size != own.size ||
        state->shuffle != own.shuffle || state->drop_last != own.drop_last)
        return weir_fail(WEIR_ERR_INVALID, "batches_set_state: the state has seed %llu, %lld "
                         "samples, size %lld, shuffle %d, drop_last %d, the reader %llu, %lld, "
                         "%lld, %d, %d", (unsigned long long)state->seed,
                         (long long)state->samples, (long long)state->size, state->shuffle,
                         state->drop_last, (unsigned long long)own.seed, (long long)own.samples,
                         (long long)own.size, own.shuffle, own.drop_last);
    if (state->epoch < 0 || state->epoch == INT64_MAX || state->batch < 0 ||
        state->batch / b->all * b->each >= weir_batches_per_epoch(b))
        return weir_fail(WEIR_ERR_INVALID, "batches_set_state: the state has epoch %lld, batch "
                                           "%lld, but an epoch has %lld batches",
                         (long long)state->epoch, (long long)state->batch,
                         (long long)(weir_batches_per_epoch(b) / b->each * b->all));
    if (state->batch % b->all >= b->each)
        return weir_fail(WEIR_ERR_INVALID, "batches_set_state: the state is %lld batches behind "
                         "the beginning of an update, of which each rank reads %lld",
                         (long long)(state->batch % b->all), (long long)b->each);
    WEIR_TRY(check_workers(b, "batches_set_state"));
    if (b->ahead)
        weir_ahead_clear(b->ahead);
    b->next = b->dealt = place_of(b, state->epoch, state->batch);
    if (b->order)
        shuffle(b);
    deal_ahead(b);
    return WEIR_OK;
}

/* ---- making a reader ---- */

static weir_status workers_make(weir_batches *b, const weir_batches_options *o)
{
    enum { MOST = 256, EACH = 2 };

    if (o->workers < 0 || o->workers > MOST || o->ahead < 0 || o->ahead > INT16_MAX ||
        (o->ahead > 0 && o->workers == 0))
        return weir_fail(WEIR_ERR_INVALID, "batches_new: workers is %d and ahead %d, but workers "
                                           "must be 0 to 256, ahead 0 to 32767 and 0 without "
                                           "workers",
                         o->workers, o->ahead);
    if (o->workers == 0)
        return WEIR_OK;
    b->ahead = weir_ahead_new(&(weir_ahead_options){
        .threads = o->workers,
        .slots = o->ahead ? o->ahead : EACH * o->workers,
        .size = samples_at(b, b->next),
        .elements = sample_elements(b),
        .fill = fill,
        .ctx = b});
    if (!b->ahead)
        return weir_error_status();
    deal_ahead(b);
    return WEIR_OK;
}

/* Which batches of an update are this rank's. */
static weir_status share_out(weir_batches *b, const weir_batches_options *o)
{
    const int64_t world = o->world ? o->world : 1, each = o->micro_batches ? o->micro_batches : 1;
    int64_t       samples = 0;

    if (world < 1 || o->rank < 0 || o->rank >= world || each < 1)
        return weir_fail(WEIR_ERR_INVALID, "batches_new: rank %d of %d with %d micro-batches",
                         o->rank, o->world, o->micro_batches);
    b->first = o->rank * each;
    b->each = each;
    b->all = world * each;
    if (b->all > 1 && (__builtin_mul_overflow(b->all, b->size, &samples) || samples > b->data->n))
        return weir_fail(WEIR_ERR_INVALID, "batches_new: an update of %lld ranks reads %lld "
                         "batches of %lld samples from each, more than the %lld of the data set",
                         (long long)world, (long long)each, (long long)b->size,
                         (long long)b->data->n);
    b->next = b->dealt = place_of(b, 0, 0);
    return WEIR_OK;
}

weir_batches *weir_batches_new(const weir_data *d, int64_t size,
                               const weir_batches_options *options)
{
    const weir_batches_options o = options ? *options : (weir_batches_options){0};

    if (!d)
        return (void)weir_fail_null("batches_new", "data"), NULL;
    if (size < 1 || (o.drop_last && size > d->n)) {
        weir_fail(WEIR_ERR_INVALID, "batches_new: size is %lld but must be 1 or more, and with "
                                    "drop_last at most the %lld samples",
                  (long long)size, (long long)d->n);
        return NULL;
    }
    weir_batches *b = weir_host_alloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (weir_batches){.data = d, .size = size, .seed = o.seed, .drop_last = o.drop_last};
    if (share_out(b, &o) == WEIR_OK &&
        (!o.augment || (b->augmenter = weir_augmenter_new(&d->sample, o.augment))) &&
        (!o.shuffle || order_make(b) == WEIR_OK) && workers_make(b, &o) == WEIR_OK)
        return b;
    weir_batches_free(b);
    return NULL;
}
