/* augment.c - random changes of images: crops, resized crops, flips, normalisation.
 *
 * An image draws the place of its crop first, then whether it is flipped. */
#include "model/data/augment.h"

#include <math.h>
#include <string.h>

struct weir_augmenter {
    int64_t      channels, H, W; /* of the images as they are */
    weir_augment a;              /* height, width: always those of x; mean, std: NULL, see norm */
    bool         resized;
    float        norm[];         /* means, then deviations; 0 and 1 where images stay as they are */
};

/* ---- what is allowed ---- */

static weir_status check_crop(const weir_desc *image, const weir_augment *a)
{
    const int64_t *dim = image->dim;

    if (a->padding < 0 || a->height < 0 || a->width < 0 || (a->height == 0) != (a->width == 0) ||
        (a->padding > 0 && a->height == 0) || a->padding > INT16_MAX)
        return weir_fail(WEIR_ERR_INVALID, "batches_new: padding is %lld, the crop %lld x %lld, "
                                           "but padding must be 0 to 32767 and needs a crop, "
                                           "and both sides of a crop must be 1 or more",
                         (long long)a->padding, (long long)a->height, (long long)a->width);
    if (a->height > dim[1] + 2 * a->padding || a->width > dim[2] + 2 * a->padding)
        return weir_fail(WEIR_ERR_SHAPE, "batches_new: the crop %lld x %lld exceeds the padded "
                                         "image %lld x %lld",
                         (long long)a->height, (long long)a->width,
                         (long long)(dim[1] + 2 * a->padding),
                         (long long)(dim[2] + 2 * a->padding));
    return WEIR_OK;
}

static bool is_range(const double range[2])
{
    return range[0] > 0 && range[0] <= range[1] && isfinite(range[1]);
}

/* A resized crop may be larger than the image, at most INT16_MAX on a side. */
static weir_status check_resized(const weir_augment *a, const double ratio[2])
{
    if (!is_range(a->scale) || a->scale[1] > 1 || !is_range(ratio))
        return weir_fail(WEIR_ERR_INVALID, "batches_new: scale is %g to %g, ratio %g to %g, but "
                                           "each must be two numbers above 0, the smaller first, "
                                           "and scale at most 1",
                         a->scale[0], a->scale[1], ratio[0], ratio[1]);
    if (a->padding != 0 || a->height < 1 || a->width < 1 || a->height > INT16_MAX ||
        a->width > INT16_MAX)
        return weir_fail(WEIR_ERR_INVALID, "batches_new: with scale, padding is %lld and the crop "
                                           "%lld x %lld, but padding must be 0 and both sides 1 "
                                           "to 32767",
                         (long long)a->padding, (long long)a->height, (long long)a->width);
    return WEIR_OK;
}

static weir_status check_values(const weir_desc *image, const weir_augment *a)
{
    if (!(a->flip >= 0 && a->flip <= 1))
        return weir_fail(WEIR_ERR_INVALID, "batches_new: flip is %g but must be from 0 to 1",
                         a->flip);
    if (!a->mean != !a->std)
        return weir_fail(WEIR_ERR_INVALID, "batches_new: %s is NULL, but mean and std come "
                                           "together",
                         a->mean ? "std" : "mean");
    for (int64_t c = 0; a->std && c < image->dim[0]; c++)
        if (!(a->std[c] > 0))
            return weir_fail(WEIR_ERR_INVALID, "batches_new: std %lld is %g but must be above 0",
                             (long long)c, (double)a->std[c]);
    return WEIR_OK;
}

static bool is_resized(const weir_augment *a)
{
    return a->scale[0] != 0 || a->scale[1] != 0;
}

static weir_status check(const weir_desc *image, const weir_augment *a, double ratio[2])
{
    static const double usual[] = {3.0 / 4, 4.0 / 3};
    const bool          given = a->ratio[0] != 0 || a->ratio[1] != 0;

    if (image->ndim != 3)
        return weir_fail(WEIR_ERR_SHAPE, "batches_new: augment is for images of 3 axes, the "
                                         "samples have %d",
                         image->ndim);
    memcpy(ratio, given ? a->ratio : usual, sizeof usual);
    if (given && !is_resized(a))
        return weir_fail(WEIR_ERR_INVALID, "batches_new: ratio is %g to %g, but there is no scale",
                         ratio[0], ratio[1]);
    WEIR_TRY(is_resized(a) ? check_resized(a, ratio) : check_crop(image, a));
    return check_values(image, a);
}

weir_augmenter *weir_augmenter_new(const weir_desc *image, const weir_augment *a)
{
    double ratio[2] = {0};

    if (check(image, a, ratio) != WEIR_OK)
        return NULL;
    const size_t       n = (size_t)image->dim[0];
    weir_augmenter *const c = weir_host_alloc(sizeof *c + 2 * n * sizeof *c->norm);
    if (!c)
        return NULL;
    c->channels = image->dim[0];
    c->H = image->dim[1];
    c->W = image->dim[2];
    c->a = *a;
    c->a.mean = c->a.std = NULL;
    memcpy(c->a.ratio, ratio, sizeof ratio);
    c->resized = is_resized(a);
    if (a->height == 0) {
        c->a.height = c->H;
        c->a.width = c->W;
    }
    for (size_t i = 0; i < n; i++) {
        c->norm[i] = a->mean ? a->mean[i] : 0;
        c->norm[n + i] = a->std ? a->std[i] : 1;
    }
    return c;
}

void weir_augmenter_free(weir_augmenter *c)
{
    weir_host_free(c);
}

void weir_augmenter_sides(const weir_augmenter *c, int64_t *height, int64_t *width)
{
    *height = c->a.height;
    *width = c->a.width;
}

/* ---- draws ---- */

/* From 0 to below n. */
static int64_t draw_place(uint64_t *stream, int64_t n)
{
    return (int64_t)(weir_splitmix64(stream) % (uint64_t)n);
}

/* Evenly from 0 to below 1. */
static double draw_share(uint64_t *stream)
{
    return (double)(weir_splitmix64(stream) >> 11) * 0x1p-53;
}

static double draw_between(uint64_t *stream, double low, double high)
{
    return low + (high - low) * draw_share(stream);
}

/* Rounds halves to even, as Python does in torchvision. */
static int64_t rounded(double x)
{
    return (int64_t)nearbyint(x);
}

weir_crop weir_augmenter_crop(int64_t height, int64_t width, const double scale[2],
                              const double ratio[2], uint64_t *stream)
{
    enum { DRAWS = 10 };
    const double whole = (double)height * (double)width;
    int64_t      h = height, w = width;

    for (int i = 0; i < DRAWS; i++) {
        const double area = whole * draw_between(stream, scale[0], scale[1]);
        const double r = exp(draw_between(stream, log(ratio[0]), log(ratio[1])));
        h = rounded(sqrt(area / r));
        w = rounded(sqrt(area * r));
        if (h < 1 || h > height || w < 1 || w > width)
            continue;
        const int64_t top = draw_place(stream, height - h + 1);
        return (weir_crop){top, draw_place(stream, width - w + 1), h, w};
    }
    h = height;
    w = width;
    if ((double)width / (double)height < ratio[0])
        h = rounded((double)width / ratio[0]);
    else if ((double)width / (double)height > ratio[1])
        w = rounded((double)height * ratio[1]);
    h = h < 1 ? 1 : h;
    w = w < 1 ? 1 : w;
    return (weir_crop){(height - h) / 2, (width - w) / 2, h, w};
}

/* ---- pixels ---- */

/* A place between two neighbours of a row or column of n pixels, whose centres are at halves. */
typedef struct between {
    int64_t low, high;
    float   share;      /* of the second */
} between;

/* The place in n pixels of pixel i of `out`. */
static between place_of(int64_t i, int64_t n, int64_t out)
{
    const double at = ((double)i + 0.5) * ((double)n / (double)out) - 0.5;
    const double inside = at < 0 ? 0 : at > (double)(n - 1) ? (double)(n - 1) : at;
    const int64_t low = (int64_t)inside;

    return (between){low, low + 1 < n ? low + 1 : low, (float)(inside - (double)low)};
}

/* One row of the resized part, bilinear: first between rows, then between columns. */
static void resize_row(const uint8_t *top, const uint8_t *bottom, float share,
                       const between *column, int64_t n, float *to)
{
    for (int64_t j = 0; j < n; j++) {
        const int64_t l = column[j].low, h = column[j].high;
        const float   left = (float)top[l] + ((float)bottom[l] - (float)top[l]) * share;
        const float   right = (float)top[h] + ((float)bottom[h] - (float)top[h]) * share;
        to[j] = left + (right - left) * column[j].share;
    }
}

/* The part of a channel, resized to the sides of x, in bytes' values. */
static void resize(const weir_augmenter *c, const uint8_t *channel, const weir_crop *p,
                   bool flip, float *x)
{
    enum { CHUNK = 64 };
    between column[CHUNK];

    for (int64_t from = 0; from < c->a.width; from += CHUNK) {
        const int64_t n = c->a.width - from < CHUNK ? c->a.width - from : CHUNK;
        for (int64_t j = 0; j < n; j++)
            column[j] = place_of(flip ? c->a.width - 1 - from - j : from + j, p->width,
                                 c->a.width);
        for (int64_t i = 0; i < c->a.height; i++) {
            const between        row = place_of(i, p->height, c->a.height);
            const uint8_t *const corner = channel + p->top * c->W + p->left;
            resize_row(corner + row.low * c->W, corner + row.high * c->W, row.share, column, n,
                       x + i * c->a.width + from);
        }
    }
}

/* The part of a channel that has the sides of x, with zeros around the image. */
static void crop(const weir_augmenter *c, const uint8_t *channel, const weir_crop *p,
                 bool flip, float *x)
{
    for (int64_t i = 0; i < p->height; i++)
        for (int64_t j = 0; j < p->width; j++) {
            const int64_t row = p->top + i, column = p->left + (flip ? p->width - 1 - j : j);
            const bool    inside = row >= 0 && row < c->H && column >= 0 && column < c->W;
            x[i * p->width + j] = inside ? (float)channel[row * c->W + column] : 0;
        }
}

static weir_crop draw_crop(const weir_augmenter *c, uint64_t *stream)
{
    const weir_augment *const a = &c->a;
    const int64_t top = draw_place(stream, c->H + 2 * a->padding - a->height + 1) - a->padding;
    const int64_t left = draw_place(stream, c->W + 2 * a->padding - a->width + 1) - a->padding;

    return (weir_crop){top, left, a->height, a->width};
}

void weir_augmenter_image(const weir_augmenter *c, const uint8_t *image, uint64_t stream, float *x)
{
    const weir_augment *const a = &c->a;
    const int64_t             pixels = a->height * a->width;
    const weir_crop           p =
        c->resized ? weir_augmenter_crop(c->H, c->W, a->scale, a->ratio, &stream)
                   : draw_crop(c, &stream);
    const bool                flip = draw_share(&stream) < a->flip;

    for (int64_t i = 0; i < c->channels; i++) {
        const float mean = c->norm[i], std = c->norm[c->channels + i];
        (c->resized ? resize : crop)(c, image + i * c->H * c->W, &p, flip, x + i * pixels);
        for (int64_t k = 0; k < pixels; k++)
            x[i * pixels + k] = (x[i * pixels + k] / 255.0f - mean) / std;
    }
}
