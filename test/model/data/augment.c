/* augment.c - tests of resized crops: the part that is drawn, its pixels, what is refused. */
#include "model/data/augment.h"

#include <math.h>
#include <string.h>

#include "temp_folder.h"

/* ---- the part ---- */

static double even(uint64_t *stream)
{
    return (double)(weir_splitmix64(stream) >> 11) * 0x1p-53;
}

/* The rule of torchvision's RandomResizedCrop, on our random numbers. */
static weir_crop as_torchvision(int64_t height, int64_t width, const double scale[2],
                                const double ratio[2], uint64_t *stream)
{
    const double area = (double)(height * width);

    for (int attempt = 0; attempt < 10; attempt++) {
        const double target = area * (scale[0] + (scale[1] - scale[0]) * even(stream));
        const double low = log(ratio[0]), high = log(ratio[1]);
        const double aspect = exp(low + (high - low) * even(stream));
        const int64_t w = (int64_t)nearbyint(sqrt(target * aspect));
        const int64_t h = (int64_t)nearbyint(sqrt(target / aspect));
        if (0 < w && w <= width && 0 < h && h <= height) {
            const int64_t i = (int64_t)(weir_splitmix64(stream) % (uint64_t)(height - h + 1));
            const int64_t j = (int64_t)(weir_splitmix64(stream) % (uint64_t)(width - w + 1));
            return (weir_crop){i, j, h, w};
        }
    }
    const double in_ratio = (double)width / (double)height;
    int64_t      w = width, h = height;
    if (in_ratio < ratio[0])
        h = (int64_t)nearbyint((double)w / ratio[0]);
    else if (in_ratio > ratio[1])
        w = (int64_t)nearbyint((double)h * ratio[1]);
    return (weir_crop){(height - h) / 2, (width - w) / 2, h, w};
}

CASE(a_part_is_torchvisions)
{
    enum { SIDES = 6, RANGES = 5, DRAWS = 40 };
    static const int64_t side[SIDES][2] = {{224, 224}, {32, 40}, {480, 31}, {9, 300}, {3, 4},
                                           {5, 5}};
    static const double  range[RANGES][2][2] = {{{0.08, 1}, {0.75, 4.0 / 3}},
                                                {{1, 1}, {1, 1}},
                                                {{0.9, 1}, {2, 3}},
                                                {{0.5, 0.5}, {0.1, 10}},
                                                {{0.001, 0.01}, {0.75, 4.0 / 3}}};
    int                  middle = 0, places = 0;

    for (int s = 0; s < SIDES; s++)
        for (int r = 0; r < RANGES; r++)
            for (uint64_t seed = 0; seed < DRAWS; seed++) {
                const int64_t *const n = side[s];
                uint64_t             a = seed, b = seed;
                const weir_crop p = weir_augmenter_crop(n[0], n[1], range[r][0], range[r][1], &a);
                const weir_crop q = as_torchvision(n[0], n[1], range[r][0], range[r][1], &b);
                CHECK(p.top == q.top && p.left == q.left && p.height == q.height &&
                      p.width == q.width && a == b);
                CHECK(p.height >= 1 && p.width >= 1 && p.top >= 0 && p.left >= 0 &&
                      p.top + p.height <= n[0] && p.left + p.width <= n[1]);
                middle += p.top == (n[0] - p.height) / 2 && p.left == (n[1] - p.width) / 2;
                places += p.top > 0 && p.left > 0;
            }
    CHECK(middle > DRAWS && places > DRAWS);
}

/* An image thinner than a pixel of the allowed ratio still gives one row or column. */
CASE(a_part_is_never_empty)
{
    const double    scale[] = {1, 1}, ratio[] = {100, 200}, tall[] = {0.001, 0.002};
    uint64_t        stream = 1;
    const weir_crop row = weir_augmenter_crop(50, 10, scale, ratio, &stream);
    const weir_crop column = weir_augmenter_crop(10, 50, scale, tall, &stream);

    CHECK(row.height == 1 && row.width == 10 && row.top == 24);
    CHECK(column.height == 10 && column.width == 1 && column.left == 24);
}

/* ---- its pixels ---- */

enum { CHANNELS = 2, H = 7, W = 90, OUT_H = 5, OUT_W = 131 };

/* Between the four pixels around a place; beyond the edge, the edge. */
static double bilinear(const uint8_t *image, double row, double column)
{
    const double  y = fmin(fmax(row, 0), H - 1), x = fmin(fmax(column, 0), W - 1);
    const int64_t i = (int64_t)y, j = (int64_t)x;
    const int64_t below = i + 1 < H ? i + 1 : i, beside = j + 1 < W ? j + 1 : j;
    const double  v = y - (double)i, u = x - (double)j;

    return (1 - v) * (1 - u) * image[i * W + j] + (1 - v) * u * image[i * W + beside] +
           v * (1 - u) * image[below * W + j] + v * u * image[below * W + beside];
}

static void fill(uint8_t image[CHANNELS * H * W])
{
    for (int i = 0; i < CHANNELS * H * W; i++)
        image[i] = (uint8_t)check_int(0, 255);
}

CASE(whole_images_are_resized)
{
    static uint8_t     image[CHANNELS * H * W];
    static float       x[CHANNELS * OUT_H * OUT_W];
    const float        mean[] = {0.25f, 0.5f}, std[] = {0.5f, 2};
    const double       ratio = (double)W / H;
    const weir_desc    desc = weir_3d(WEIR_U8, CHANNELS, H, W);
    weir_augment       a = {.height = OUT_H, .width = OUT_W, .mean = mean, .std = std,
                            .scale = {1, 1}, .ratio = {ratio, ratio}};

    fill(image);
    for (int flip = 0; flip < 2; flip++) {
        a.flip = flip;
        weir_augmenter *const c = weir_augmenter_new(&desc, &a);
        CHECK_OR_RETURN(c != NULL);
        weir_augmenter_image(c, image, 7, x);
        weir_augmenter_free(c);
        for (int k = 0; k < CHANNELS; k++)
            for (int i = 0; i < OUT_H; i++)
                for (int j = 0; j < OUT_W; j++) {
                    const int    from = flip ? OUT_W - 1 - j : j;
                    const double v = bilinear(image + k * H * W, (i + 0.5) * H / OUT_H - 0.5,
                                              (from + 0.5) * W / OUT_W - 0.5);
                    CHECK_NEAR(x[(k * OUT_H + i) * OUT_W + j],
                               (v / 255 - (double)mean[k]) / (double)std[k], 1e-5);
                }
    }
}

/* A crop that keeps its size is a crop; each epoch and image draws another. */
CASE(crops_change_by_seed_epoch_and_index)
{
    enum { N = 6, SIDE = 8 };
    static unsigned char image[16 + N * SIDE * SIDE];
    static float         x[2][N][4 * 4], again[N][4 * 4];
    folder               f;
    CHECK_OR_RETURN(folder_make(&f));
    file_write(&f, 0, image, idx_images(image, N, SIDE, SIDE));
    weir_data *const           d = weir_data_idx(f.file[0], NULL);
    const weir_augment         a = {.height = 4, .width = 4, .scale = {0.1, 0.9}};
    const weir_batches_options o = {.seed = 2, .augment = &a}, two = {.seed = 2, .augment = &a,
                                                                      .workers = 2};
    weir_batches *const        b = weir_batches_new(d, N, &o);
    weir_batches *const        other = weir_batches_new(d, N, &two);

    CHECK(weir_batches_sample(b).dim[1] == 4 && weir_batches_sample(b).dim[2] == 4);
    for (int e = 0; e < 2; e++) {
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x = x[e][0]}));
        CHECK_OK(weir_batches_next(other, &(weir_batch){.x = again[0]}));
        CHECK_BITS(x[e], again, sizeof again);
    }
    for (int i = 0; i < N; i++)
        CHECK(memcmp(x[0][i], x[1][i], sizeof x[0][i]) != 0);
    weir_batches_free(other);
    weir_batches_free(b);
    weir_data_free(d);
    folder_remove(&f);
}

CASE(ranges_that_make_no_sense)
{
    static const struct {
        weir_augment a;
        const char  *text;
    } bad[] = {
        {{.height = 4, .width = 4, .scale = {0, 1}}, "scale is 0 to 1, ratio 0.75 to 1.33333"},
        {{.height = 4, .width = 4, .scale = {0.5, 0.25}}, "the smaller first"},
        {{.height = 4, .width = 4, .scale = {0.5, 2}}, "scale at most 1"},
        {{.height = 4, .width = 4, .scale = {0.5, NAN}}, "scale is 0.5 to nan"},
        {{.height = 4, .width = 4, .scale = {1, 1}, .ratio = {0, 1}}, "ratio 0 to 1"},
        {{.height = 4, .width = 4, .scale = {1, 1}, .ratio = {1, INFINITY}}, "ratio 1 to inf"},
        {{.height = 4, .width = 4, .ratio = {1, 2}}, "ratio is 1 to 2, but there is no scale"},
        {{.scale = {0.5, 1}}, "the crop 0 x 0, but padding must be 0"},
        {{.height = 4, .width = 4, .padding = 1, .scale = {0.5, 1}}, "padding is 1"},
        {{.height = 40000, .width = 4, .scale = {0.5, 1}}, "the crop 40000 x 4"},
    };
    const weir_desc image = weir_3d(WEIR_U8, 1, 8, 8);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!weir_augmenter_new(&image, &bad[i].a) && weir_error_status() == WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), bad[i].text);
    }
}
