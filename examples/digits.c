/* digits.c - loads the digits file, checking everything in it, and fills batches. */
#include "digits.h"

#include <stdio.h>
#include <string.h>

enum { HEAD = 16, SAMPLE = DIGITS_PIXELS + 1, TEST_EVERY = 5, MAX_SAMPLES = 100000 };

static bool set_new(digits_set *s, size_t capacity)
{
    s->image = weir_host_alloc(capacity * DIGITS_PIXELS * sizeof *s->image);
    s->label = weir_host_alloc(capacity * sizeof *s->label);
    return s->image && s->label;
}

static void set_free(digits_set *s)
{
    weir_host_free(s->image);
    weir_host_free(s->label);
    *s = (digits_set){0};
}

/* False if a pixel or the class is out of range. */
static bool set_add(digits_set *s, const unsigned char sample[SAMPLE])
{
    float *image = s->image + s->n * DIGITS_PIXELS;

    for (int i = 0; i < DIGITS_PIXELS; i++) {
        if (sample[i] > 16)
            return false;
        image[i] = (float)sample[i] / 16.0f;
    }
    if (sample[DIGITS_PIXELS] >= DIGITS_CLASSES)
        return false;
    s->label[s->n] = sample[DIGITS_PIXELS];
    s->n++;
    return true;
}

static const char *read_samples(FILE *f, size_t n, digits *d)
{
    unsigned char sample[SAMPLE];

    d->order = weir_host_alloc(n * sizeof *d->order);
    if (!d->order || !set_new(&d->train, n) || !set_new(&d->test, n))
        return "is too large for the memory there is";
    for (size_t i = 0; i < n; i++) {
        if (fread(sample, 1, SAMPLE, f) != SAMPLE)
            return "ends before its last sample";
        if (!set_add(i % TEST_EVERY ? &d->train : &d->test, sample))
            return "has a pixel above 16 or a class above 9";
    }
    return fgetc(f) == EOF ? NULL : "goes on after its last sample";
}

static uint32_t little_endian(const unsigned char b[4])
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* What is wrong with the file, or NULL. */
static const char *read_file(FILE *f, digits *d)
{
    unsigned char head[HEAD];

    if (fread(head, 1, HEAD, f) != HEAD || memcmp(head, "WDIGITS1", 8) != 0 ||
        little_endian(head + 12) != DIGITS_PIXELS)
        return "does not begin like a file of digits";
    const uint32_t n = little_endian(head + 8);
    if (n < TEST_EVERY || n > MAX_SAMPLES)
        return "names an impossible number of samples";
    return read_samples(f, n, d);
}

bool digits_load(const char *program, const char *path, size_t batch, digits *d)
{
    *d = (digits){0};
    FILE       *f = fopen(path, "rb");
    const char *wrong = f ? read_file(f, d) : "cannot be opened";
    if (f)
        fclose(f);
    if (!wrong && d->train.n < batch)
        wrong = "has too few samples for one batch";
    d->batch.n = batch;
    if (!wrong && set_new(&d->batch, batch))
        return true;
    digits_free(d);
    fprintf(stderr, "%s: %s %s\n", program, path, wrong ? wrong : weir_error());
    return false;
}

void digits_free(digits *d)
{
    set_free(&d->train);
    set_free(&d->test);
    set_free(&d->batch);
    weir_host_free(d->order);
    d->order = NULL;
}

/* Fisher and Yates, with a SplitMix64 stream that begins at the epoch's number. */
static void shuffle(digits *d, size_t epoch)
{
    uint64_t state = epoch;

    for (size_t i = 0; i < d->train.n; i++)
        d->order[i] = i;
    for (size_t i = d->train.n; i > 1; i--) {
        const size_t j = (size_t)(weir_splitmix64(&state) % i), kept = d->order[i - 1];
        d->order[i - 1] = d->order[j];
        d->order[j] = kept;
    }
    d->epoch = epoch;
}

static weir_status write_set(const digits_set *s, size_t first, weir_tensor *x, weir_tensor *y)
{
    WEIR_TRY(weir_write(x, s->image + first * DIGITS_PIXELS, weir_tensor_bytes(x)));
    return weir_write(y, s->label + first, weir_tensor_bytes(y));
}

weir_status digits_write_train(digits *d, size_t step, weir_tensor *x, weir_tensor *y)
{
    const size_t  n = d->batch.n, batches = d->train.n / n, epoch = step / batches + 1;
    const size_t *from = d->order + step % batches * n;

    if (d->epoch != epoch)
        shuffle(d, epoch);
    for (size_t i = 0; i < n; i++) {
        memcpy(d->batch.image + i * DIGITS_PIXELS, d->train.image + from[i] * DIGITS_PIXELS,
               DIGITS_PIXELS * sizeof *d->batch.image);
        d->batch.label[i] = d->train.label[from[i]];
    }
    return write_set(&d->batch, 0, x, y);
}

weir_status digits_write_test(const digits *d, size_t first, weir_tensor *x, weir_tensor *y)
{
    return write_set(&d->test, first, x, y);
}
