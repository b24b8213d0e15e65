/* data.c - data sets from files: what is read, what is refused with which message, batches. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "temp_folder.h"

/* Checks that the call failed with ERR_IO and that the message contains `text`. */
static void refused(weir_data *d, const char *text)
{
    CHECK(d == NULL);
    CHECK(weir_error_status() == WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), text);
    weir_data_free(d);
}

/* ---- idx ---- */

CASE(idx_reads_images_and_labels)
{
    folder        f;
    unsigned char image[16 + 5 * 12], label[8 + 5];
    CHECK_OR_RETURN(folder_make(&f));
    file_write(&f, 0, image, idx_images(image, 5, 3, 4));
    file_write(&f, 1, label, idx_labels(label, 5));

    weir_data *d = weir_data_idx(f.file[0], f.file[1]);
    if (CHECK(d != NULL)) {
        const weir_desc s = weir_data_sample(d);
        CHECK(weir_data_count(d) == 5 && weir_data_elements(d) == 12);
        CHECK(s.dtype == WEIR_U8 && s.ndim == 3 && s.dim[0] == 1 && s.dim[1] == 3 && s.dim[2] == 4);
        CHECK(weir_data_labels(d) == 1 && weir_data_classes(d) == 5);
        CHECK(memcmp(weir_data_values(d), image + 16, 60) == 0);
    }
    weir_data_free(d);
    d = weir_data_idx(f.file[0], NULL);
    CHECK(weir_data_count(d) == 5 && weir_data_labels(d) == 0 && weir_data_classes(d) == 0);
    weir_data_free(d);
    folder_remove(&f);
}

CASE(idx_refuses_what_lies)
{
    folder        f;
    unsigned char b[16 + 5 * 12], label[8 + 6];
    CHECK_OR_RETURN(folder_make(&f));
    const size_t n = idx_images(b, 5, 3, 4);
    const char  *path = f.file[0];

    refused(weir_data_idx(path, NULL), "cannot be opened");
    refused(weir_data_idx(f.path, NULL), "not a regular file");
    refused(weir_data_idx(file_write(&f, 0, b, 0), NULL), "has 0 bytes");
    refused(weir_data_idx(file_write(&f, 0, b, 3), NULL), "has 3 bytes");
    refused(weir_data_idx(file_write(&f, 0, b, 15), NULL),
            "has 15 bytes, too few for a head of 16");
    refused(weir_data_idx(file_write(&f, 0, b, n - 1), NULL),
            "offset 4: 5 x 3 x 4 bytes are declared, but 59 follow");
    put_big_endian(b + 4, 0xffffffffu);
    put_big_endian(b + 8, 0xffffffffu);
    put_big_endian(b + 12, 0xffffffffu);
    refused(weir_data_idx(file_write(&f, 0, b, n), NULL),
            "4294967295 x 4294967295 x 4294967295 bytes are declared, but 60 follow");
    put_big_endian(b + 4, 0x80000000u); /* the product is 2^64 + ...: 0 if it wrapped */
    put_big_endian(b + 8, 0x80000000u);
    put_big_endian(b + 12, 4);
    refused(weir_data_idx(file_write(&f, 0, b, 16), NULL), "but 0 follow");
    put_big_endian(b + 8, 0);
    refused(weir_data_idx(file_write(&f, 0, b, n), NULL), "offset 8: dim 1 is 0");
    put_big_endian(b, 0x801);
    refused(weir_data_idx(file_write(&f, 0, b, n), NULL), "begins with 0x00000801");
    put_big_endian(b, 0x1f8b0800);
    refused(weir_data_idx(file_write(&f, 0, b, n), NULL), "gzip");

    file_write(&f, 0, b, idx_images(b, 5, 3, 4));
    refused(weir_data_idx(path, file_write(&f, 1, label, idx_labels(label, 6))),
            "6 labels for 5 images");
    refused(weir_data_idx(path, path), "begins with 0x00000803");
    CHECK_TEXT(weir_error(), path);
    folder_remove(&f);
}

/* ---- CIFAR-10 ---- */

CASE(cifar_reads_files_one_after_the_other)
{
    static unsigned char b[3 * CIFAR_RECORD];
    folder               f;
    CHECK_OR_RETURN(folder_make(&f));
    const char *const paths[] = {file_write(&f, 0, b, cifar_records(b, 0, 3)),
                                 file_write(&f, 1, b, cifar_records(b, 3, 2))};
    weir_data        *d = weir_data_cifar10(2, paths);
    if (CHECK(d != NULL)) {
        const unsigned char *v = weir_data_values(d);
        CHECK(weir_data_count(d) == 5 && weir_data_elements(d) == 3072);
        CHECK(weir_data_classes(d) == 10 && weir_data_sample(d).dim[0] == 3);
        for (int i = 0; i < 5; i++)
            CHECK(v[i * 3072] == i && v[i * 3072 + 3071] == i);
    }
    weir_data_free(d);
    folder_remove(&f);
}

CASE(cifar_refuses_what_does_not_fit)
{
    static unsigned char b[2 * CIFAR_RECORD];
    folder               f;
    CHECK_OR_RETURN(folder_make(&f));
    const char *const path = f.file[0];
    const size_t      n = cifar_records(b, 0, 2);

    refused(weir_data_cifar10(1, &path), "cannot be opened");
    file_write(&f, 0, b, 0);
    refused(weir_data_cifar10(1, &path), "has 0 bytes");
    file_write(&f, 0, b, n - 1);
    refused(weir_data_cifar10(1, &path), "has 6145 bytes, not a multiple of records of 3073");
    b[CIFAR_RECORD] = 10;
    file_write(&f, 0, b, n);
    refused(weir_data_cifar10(1, &path), "offset 3073: label is 10");
    CHECK(weir_data_cifar10(0, &path) == NULL);
    CHECK(weir_error_status() == WEIR_ERR_INVALID);
    folder_remove(&f);
}

/* ---- CSV ---- */

static void csv_refused(const folder *f, const char *text, const weir_csv_options *o,
                        const char *sentence)
{
    refused(weir_data_csv(file_text(f, 0, text), o), sentence);
}

CASE(csv_reads_numbers)
{
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    weir_data *d = weir_data_csv(file_text(&f, 0, "1.5,-2e3,0\r\n\n .25 ,\"7\",2\n+3,4.,1"), NULL);
    if (CHECK(d != NULL)) {
        const float *v = weir_data_values(d);
        CHECK(weir_data_count(d) == 3 && weir_data_elements(d) == 2 && weir_data_labels(d) == 1);
        CHECK(weir_data_classes(d) == 3 && weir_data_sample(d).dtype == WEIR_F32);
        CHECK(v[0] == 1.5f && v[1] == -2000 && v[2] == 0.25f && v[3] == 7 && v[4] == 3 &&
              v[5] == 4);
    }
    weir_data_free(d);
    folder_remove(&f);
}

CASE(csv_header_names_the_label)
{
    const weir_csv_options o = {.header = true, .separator = ';', .label = "kind"};
    const char            *text = "\xef\xbb\xbf\"a\"; kind ;b\n1;0.5;2\n3;-4;5\n";
    folder                 f;
    float                  x[4], y[2];
    CHECK_OR_RETURN(folder_make(&f));
    weir_data    *d = weir_data_csv(file_text(&f, 0, text), &o);
    weir_batches *b = weir_batches_new(d, 2, NULL);
    CHECK_OK(weir_batches_next(b, &(weir_batch){.x = x, .y_real = y}));
    CHECK(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 5 && y[0] == 0.5f && y[1] == -4);
    CHECK(weir_data_classes(d) == 0);
    CHECK_STATUS(weir_batches_next(b, &(weir_batch){.y = &(int32_t){0}}), WEIR_ERR_DTYPE);
    CHECK_STATUS(weir_batches_next(b, &(weir_batch){.x_whole = &(int32_t){0}}), WEIR_ERR_DTYPE);
    weir_batches_free(b);
    weir_data_free(d);

    d = weir_data_csv(f.file[0], &(weir_csv_options){true, ';', NULL, true});
    CHECK(weir_data_elements(d) == 3 && weir_data_labels(d) == 0);
    weir_data_free(d);
    csv_refused(&f, "a;b\n1;2\n", &o, "names 2 columns, none of them \"kind\"");
    CHECK(weir_data_csv(f.file[0], &(weir_csv_options){.label = "a"}) == NULL);
    CHECK_TEXT(weir_error(), "needs a header");
    CHECK(weir_data_csv(f.file[0], &(weir_csv_options){.separator = '.'}) == NULL);
    CHECK_TEXT(weir_error(), "character 46");
    folder_remove(&f);
}

CASE(csv_refuses_what_is_no_number)
{
    const weir_csv_options header = {.header = true};
    folder                 f;
    CHECK_OR_RETURN(folder_make(&f));
    csv_refused(&f, "", NULL, "has 0 bytes, but no line of numbers");
    csv_refused(&f, " \n\r\n\n", NULL, "no line of numbers");
    csv_refused(&f, "a,b\n", &header, "no line of numbers");
    csv_refused(&f, "1,2\n3,4,5\n", NULL,
                "line 2 (offset 4) has 3 columns, the lines before it have 2");
    csv_refused(&f, "1\n2\n", NULL, "has 1 column");
    csv_refused(&f, "a,b\n1,2\n", NULL, "'a' is not a number; is line 1 a header?");
    csv_refused(&f, "1,2\n3,x\x01y\n", NULL, "line 2, column 2 (offset 6): 'x?y' is not a number");
    csv_refused(&f, "1,2\n,4\n", NULL, "'' is not a number");
    csv_refused(&f, "1,0x10\n", NULL, "'0x10' is not a number");
    csv_refused(&f, "1,nan\n", NULL, "'nan' is not a number");
    csv_refused(&f, "1,1e\n", NULL, "'1e' is not a number");
    csv_refused(&f, "1,1-2\n", NULL, "'1-2' is not a number");
    csv_refused(&f, "1,1e39\n", NULL, "'1e39' is too large for f32");
    csv_refused(&f, "1,-1e999\n", NULL, "'-1e999' is too large for f32");
    refused(weir_data_csv(file_write(&f, 0, "1,2\0,3\n", 7), NULL), "is not a number");
    folder_remove(&f);
}

/* A first line of many columns and many short ones: refused before rows x columns take memory. */
CASE(csv_counts_before_it_allocates)
{
    enum { HALF = 1 << 20 };
    folder f;
    char  *text = weir_host_alloc(2 * HALF + 1);
    if (CHECK(text != NULL) && folder_make(&f)) {
        memset(text, ',', HALF);
        for (int i = HALF; i < 2 * HALF; i += 2)
            memcpy(text + i, "\n1", 2);
        csv_refused(&f, text, NULL,
                    "line 2 (offset 1048577) has 1 columns, the lines before it have 1048577");
        folder_remove(&f);
    }
    weir_host_free(text);
}

/* ---- text ---- */

CASE(text_labels_are_the_next_bytes)
{
    folder  f;
    int32_t x[8], y[8];
    CHECK_OR_RETURN(folder_make(&f));
    weir_data *d = weir_data_text(file_text(&f, 0, "hello world"), 4);
    CHECK(weir_data_count(d) == 2 && weir_data_labels(d) == 4 && weir_data_classes(d) == 256);
    weir_batches *b = weir_batches_new(d, 2, NULL);
    CHECK_OK(weir_batches_next(b, &(weir_batch){.x_whole = x, .y = y}));
    for (int i = 0; i < 8; i++)
        CHECK(x[i] == "hello world"[i] && y[i] == "hello world"[i + 1]);
    weir_batches_free(b);
    weir_data_free(d);
    refused(weir_data_text(file_text(&f, 0, "abcd"), 4), "has 4 bytes, too few for a piece of 4");
    refused(weir_data_text(f.file[0], INT64_MAX), "too few for a piece of 9223372036854775807");
    CHECK(weir_data_text(f.file[0], 0) == NULL && weir_error_status() == WEIR_ERR_INVALID);
    folder_remove(&f);
}

/* ---- batches ---- */

/* Appends the labels of one epoch to got. */
static void deal(weir_batches *b, int32_t *got)
{
    for (int64_t i = 0; i < weir_batches_per_epoch(b); i++)
        CHECK_OK(weir_batches_next(b, &(weir_batch){.y = got + 3 * i}));
}

CASE(batches_are_shuffled_by_seed_and_epoch)
{
    enum { N = 24 };
    char    text[N * 16] = "";
    folder  f;
    int32_t y[4][N];
    CHECK_OR_RETURN(folder_make(&f));
    for (int i = 0; i < N; i++)
        snprintf(text + strlen(text), 16, "0,%d\n", i);
    weir_data *d = weir_data_csv(file_text(&f, 0, text), NULL);
    for (int run = 0; run < 2; run++) {
        weir_batches *b =
            weir_batches_new(d, 3, &(weir_batches_options){.shuffle = true, .seed = 7});
        CHECK(weir_batches_per_epoch(b) == 8);
        deal(b, y[2 * run]);
        CHECK(weir_batches_epoch(b) == 1);
        deal(b, y[2 * run + 1]);
        CHECK(weir_batches_epoch(b) == 2);
        weir_batches_free(b);
    }
    CHECK(memcmp(y[0], y[2], sizeof y[0]) == 0 && memcmp(y[1], y[3], sizeof y[0]) == 0);
    CHECK(memcmp(y[0], y[1], sizeof y[0]) != 0);
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[N] = {0};
        for (int i = 0; i < N; i++)
            seen[y[epoch][i]]++;
        for (int i = 0; i < N; i++)
            CHECK(seen[i] == 1);
    }
    for (int seed = 0; seed < 2; seed++) {      /* seed 1, epoch 0 is not seed 0, epoch 1 */
        weir_batches *b = weir_batches_new(
            d, 3, &(weir_batches_options){.shuffle = true, .seed = (uint64_t)seed});
        deal(b, y[2 * seed]);
        deal(b, y[2 * seed + 1]);
        weir_batches_free(b);
    }
    CHECK(memcmp(y[1], y[2], sizeof y[0]) != 0);
    CHECK(weir_batches_new(d, N + 1, &(weir_batches_options){.drop_last = true}) == NULL);
    CHECK_TEXT(weir_error(), "size is 25 but must be 1 or more, and with drop_last at");
    CHECK(weir_batches_new(d, 0, NULL) == NULL);
    weir_data_free(d);
    folder_remove(&f);
}

CASE(batches_scale_bytes_and_drop_the_rest)
{
    folder        f;
    unsigned char image[16 + 5 * 4];
    float         x[8];
    int32_t       whole[8];
    CHECK_OR_RETURN(folder_make(&f));
    weir_data    *d = weir_data_idx(file_write(&f, 0, image, idx_images(image, 5, 2, 2)), NULL);
    weir_batches *b = weir_batches_new(d, 2, &(weir_batches_options){.drop_last = true});
    CHECK(weir_batches_per_epoch(b) == 2);
    for (int step = 0; step < 6; step++) {
        CHECK(weir_batches_epoch(b) == step / 2);
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x = x, .x_whole = whole}));
        for (int i = 0; i < 8; i++)
            CHECK(whole[i] == step % 2 * 8 + i && x[i] == (float)whole[i] / 255.0f);
    }
    CHECK_STATUS(weir_batches_next(b, &(weir_batch){.y = whole}), WEIR_ERR_STATE);
    CHECK(weir_batches_next(b, NULL) != WEIR_OK && weir_batches_next(NULL, NULL) != WEIR_OK);
    weir_batches_free(b);
    weir_data_free(d);
    weir_data_free(NULL);
    weir_batches_free(NULL);
    folder_remove(&f);
}

/* Five images (1, 3, 4) with labels 0 to 4. */
static weir_data *five_images(folder *f)
{
    static unsigned char image[16 + 5 * 12], label[8 + 5];

    file_write(f, 0, image, idx_images(image, 5, 3, 4));
    file_write(f, 1, label, idx_labels(label, 5));
    return weir_data_idx(f->file[0], f->file[1]);
}

CASE(batches_keep_the_rest_and_resume)
{
    folder  f;
    int32_t y[3], want[7][3];
    CHECK_OR_RETURN(folder_make(&f));
    weir_data                 *d = five_images(&f);
    const weir_batches_options o = {.shuffle = true, .seed = 3};
    weir_batches_state         state, bad;
    weir_batches              *b = weir_batches_new(d, 3, &o), *other = weir_batches_new(d, 3, &o);

    CHECK(weir_batches_per_epoch(b) == 2);
    for (int i = 0; i < 7; i++) {
        CHECK(weir_batches_epoch(b) == i / 2 && weir_batches_size(b) == (i % 2 ? 2 : 3));
        if (i == 3)
            CHECK_OK(weir_batches_get_state(b, &state));
        want[i][2] = -1;
        CHECK_OK(weir_batches_next(b, &(weir_batch){.y = want[i]}));
        CHECK((want[i][2] == -1) == (i % 2 == 1));      /* nothing is written behind the rest */
    }
    CHECK(state.epoch == 1 && state.batch == 1 && state.seed == 3 && state.samples == 5);
    CHECK_OK(weir_batches_set_state(other, &state));
    for (int i = 3; i < 7; i++) {
        y[2] = -1;
        CHECK_OK(weir_batches_next(other, &(weir_batch){.y = y}));
        CHECK(memcmp(y, want[i], sizeof y) == 0);
    }
    bad = state;
    bad.seed = 4;
    CHECK_STATUS(weir_batches_set_state(other, &bad), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "the state has seed 4, 5 samples, size 3");
    bad = state;
    bad.batch = 2;
    CHECK_STATUS(weir_batches_set_state(other, &bad), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "epoch 1, batch 2, but an epoch has 2 batches");
    CHECK(weir_batches_epoch(other) == 3);              /* a refused state moves nothing */
    CHECK(weir_batches_get_state(b, NULL) != WEIR_OK && weir_batches_set_state(b, NULL) != WEIR_OK);
    weir_batches_free(other);
    weir_batches_free(b);
    b = weir_batches_new(d, 9, NULL);
    CHECK(weir_batches_per_epoch(b) == 1 && weir_batches_size(b) == 5);
    weir_batches_free(b);
    CHECK(weir_batches_size(NULL) == 0 && weir_batches_sample(NULL).ndim == 0);
    weir_data_free(d);
    folder_remove(&f);
}

/* Whether x is the crop of the padded image `byte` at some place, flipped or not. Sets *flipped. */
static bool is_crop(const unsigned char *byte, const float *x, bool *flipped)
{
    for (int place = 0; place < 2 * 4 * 4; place++) {
        bool same = true;
        for (int i = 0; i < 6; i++) {       /* of 2 x 3, with 1 row and column of zeros */
            const int row = place / 2 / 4 + i / 3 - 1;
            const int column = place / 2 % 4 + (place % 2 ? 2 - i % 3 : i % 3) - 1;
            const bool  in = row >= 0 && row < 3 && column >= 0 && column < 4;
            const float v = in ? (float)byte[row * 4 + column] / 255.0f : 0;
            same = same && x[i] == (v - 0.5f) / 0.25f;
        }
        *flipped = place % 2;
        if (same)
            return true;
    }
    return false;
}

CASE(batches_change_images_by_seed_epoch_and_index)
{
    enum { EPOCHS = 8 };
    const float        mean = 0.5f, std = 0.25f;
    const weir_augment a = {.padding = 1, .height = 2, .width = 3, .flip = 0.5, .mean = &mean,
                            .std = &std};
    folder             f;
    float              x[EPOCHS][5][6], one[5][6], whole[12];
    int                flips = 0;
    CHECK_OR_RETURN(folder_make(&f));
    weir_data           *d = five_images(&f);
    const unsigned char *byte = weir_data_values(d);
    weir_batches_options o = {.seed = 5, .augment = &a};
    weir_batches        *b = weir_batches_new(d, 5, &o), *single = weir_batches_new(d, 1, &o);

    CHECK(weir_batches_sample(b).dim[1] == 2 && weir_batches_sample(b).dim[2] == 3);
    for (int e = 0; e < EPOCHS; e++) {
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x = x[e][0]}));
        for (int i = 0; i < 5; i++) {       /* the size of a batch changes no bit */
            bool flipped = false;
            CHECK_OK(weir_batches_next(single, &(weir_batch){.x = one[i]}));
            CHECK(is_crop(byte + (size_t)i * 12, x[e][i], &flipped));
            flips += flipped;
        }
        CHECK(memcmp(one, x[e], sizeof one) == 0);
    }
    CHECK(memcmp(x[0], x[1], sizeof one) != 0 && flips > 5 && flips < 35);
    CHECK_STATUS(weir_batches_next(b, &(weir_batch){.x_whole = &(int32_t){0}}), WEIR_ERR_STATE);
    weir_batches_free(single);
    weir_batches_free(b);

    o.augment = &(weir_augment){.flip = 1};
    b = weir_batches_new(d, 1, &o);
    CHECK_OK(weir_batches_next(b, &(weir_batch){.x = whole}));
    for (int i = 0; i < 12; i++)
        CHECK(whole[i] == (float)byte[i / 4 * 4 + 3 - i % 4] / 255.0f);
    weir_batches_free(b);
    weir_data_free(d);
    folder_remove(&f);
}

/* All batches of three epochs, one after the other, with labels. */
static void deal_three(const weir_data *d, const weir_batches_options *o, float *x, int32_t *y)
{
    weir_batches *b = weir_batches_new(d, 2, o);

    CHECK_OR_RETURN(b != NULL);
    while (weir_batches_epoch(b) < 3) {
        const int64_t n = weir_batches_size(b);
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x = x, .y = y}));
        x += n * 6;
        y += n;
    }
    weir_batches_free(b);
}

CASE(workers_change_no_batch)
{
    const weir_augment a = {.padding = 1, .height = 2, .width = 3, .flip = 0.5};
    folder             f;
    float              want[15 * 6], got[15 * 6];
    int32_t            label[15], found[15];
    CHECK_OR_RETURN(folder_make(&f));
    weir_data           *d = five_images(&f);
    weir_batches_options o = {.shuffle = true, .seed = 3, .augment = &a};

    deal_three(d, &o, want, label);
    for (o.workers = 1; o.workers <= 4; o.workers++)
        for (o.ahead = 0; o.ahead <= 9; o.ahead += 3) {
            memset(got, 0, sizeof got);
            memset(found, 0, sizeof found);
            deal_three(d, &o, got, found);
            CHECK(memcmp(got, want, sizeof got) == 0 && memcmp(found, label, sizeof label) == 0);
        }
    weir_data_free(d);
    folder_remove(&f);
}

CASE(workers_stop_resume_and_refuse)
{
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    weir_data           *d = five_images(&f);
    weir_batches_options o = {.shuffle = true, .seed = 3, .workers = 3};
    float                whole[24], again[24];
    int32_t              bytes[24];
    weir_batches_state   state;
    weir_batches        *b = weir_batches_new(d, 2, &o), *other = weir_batches_new(d, 2, &o);

    CHECK_OR_RETURN(b && other);
    for (int i = 0; i < 4; i++)
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x = whole}));
    CHECK_OK(weir_batches_get_state(b, &state));
    CHECK(state.epoch == 1 && state.batch == 1);
    CHECK_OK(weir_batches_next(b, &(weir_batch){.x = whole}));
    CHECK_OK(weir_batches_next(other, &(weir_batch){.x = again}));
    CHECK_OK(weir_batches_set_state(other, &state));
    CHECK_OK(weir_batches_next(other, &(weir_batch){.x = again, .x_whole = bytes}));
    CHECK(memcmp(whole, again, sizeof whole) == 0);
    for (int i = 0; i < 24; i++)
        CHECK((float)bytes[i] / 255.0f == again[i]);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)     /* the threads are not there */
        _exit(weir_batches_next(b, &(weir_batch){.x = whole}) == WEIR_ERR_STATE ? 0 : 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    weir_batches_free(b);       /* in the middle of an epoch */
    weir_batches_free(other);
    o.workers = 257;
    CHECK(!weir_batches_new(d, 2, &o) && weir_error_status() == WEIR_ERR_INVALID);
    o.workers = 0;
    o.ahead = 1;
    CHECK(!weir_batches_new(d, 2, &o) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "workers is 0 and ahead 1, but workers must be");
    weir_data_free(d);
    folder_remove(&f);
}

/* In a child with no address space for 256 stacks: one sentence, and the reader works without
 * workers. */
static int without_stacks(const weir_data *d)
{
    struct rlimit limit = {0};
    long          pages = 0;
    float         x[24];
    FILE *const   f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%ld", &pages) != 1)
        return 0;
    fclose(f);
    limit.rlim_cur = limit.rlim_max = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (64 << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 0;
    if (weir_batches_new(d, 2, &(weir_batches_options){.workers = 256}) ||
        weir_error_status() != WEIR_ERR_NOMEM || !strstr(weir_error(), "thread"))
        return 1;
    weir_batches *const b = weir_batches_new(d, 2, NULL);
    return !b || weir_batches_next(b, &(weir_batch){.x = x}) != WEIR_OK;
}

CASE(workers_that_cannot_start)
{
    folder f;
#ifdef WEIR_SANITIZED
    return;                     /* sanitizers need terabytes of address space */
#endif
    CHECK_OR_RETURN(folder_make(&f));
    weir_data *d = five_images(&f);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(without_stacks(d));
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    weir_data_free(d);
    folder_remove(&f);
}

CASE(batches_refuse_changes_that_do_not_fit)
{
    const float mean[] = {0}, std[] = {0};
    const struct {
        weir_augment augment;
        weir_status  status;
        const char  *text;
    } bad[] = {
        {{.flip = 1.5}, WEIR_ERR_INVALID, "flip is 1.5 but must be from 0 to 1"},
        {{.padding = -1}, WEIR_ERR_INVALID, "padding is -1"},
        {{.padding = 1}, WEIR_ERR_INVALID, "needs a crop"},
        {{.height = 2}, WEIR_ERR_INVALID, "the crop 2 x 0"},
        {{.padding = 1, .height = 6, .width = 6}, WEIR_ERR_SHAPE,
         "the crop 6 x 6 exceeds the padded image 5 x 6"},
        {{.mean = mean}, WEIR_ERR_INVALID, "std is NULL"},
        {{.mean = mean, .std = std}, WEIR_ERR_INVALID, "std 0 is 0 but must be above 0"},
    };
    folder f;
    CHECK_OR_RETURN(folder_make(&f));
    weir_data *d = five_images(&f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const weir_batches_options o = {.augment = &bad[i].augment};
        CHECK(weir_batches_new(d, 1, &o) == NULL && weir_error_status() == bad[i].status);
        CHECK_TEXT(weir_error(), bad[i].text);
    }
    weir_data_free(d);
    d = weir_data_csv(file_text(&f, 0, "1,2\n"), NULL);
    CHECK(weir_batches_new(d, 1, &(weir_batches_options){.augment = &(weir_augment){0}}) == NULL);
    CHECK_TEXT(weir_error(), "for images of 3 axes, the samples have 1");
    weir_data_free(d);
    folder_remove(&f);
}
