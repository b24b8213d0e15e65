/* shards.c - batches of several ranks: each sample once, equally many for each, any world alike. */
#include "temp_folder.h"

enum { SAMPLES = 53, SIZE = 3, TOGETHER = 4, UPDATES = SAMPLES / (SIZE * TOGETHER) };

/* A data set of SAMPLES images of one byte, the number of the sample. */
static weir_data *numbered(folder *f)
{
    unsigned char image[16 + SAMPLES];

    file_write(f, 0, image, idx_images(image, SAMPLES, 1, 1));
    for (int i = 0; i < SAMPLES; i++)
        image[16 + i] = (unsigned char)i;
    return weir_data_idx(file_write(f, 0, image, sizeof image), NULL);
}

/* Reads a pass of a rank: to [batches][SIZE]. */
static void read_pass(weir_batches *b, int32_t to[][SIZE])
{
    const int64_t n = weir_batches_per_epoch(b);

    for (int64_t i = 0; i < n; i++) {
        CHECK(weir_batches_size(b) == SIZE);
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x_whole = to[i]}));
    }
}

/* A pass of all ranks, batch by batch in the order of the whole. */
static void read_world(const weir_data *d, int world, int workers,
                       int32_t whole[UPDATES * TOGETHER][SIZE])
{
    const int each = TOGETHER / world;
    int32_t   mine[UPDATES * TOGETHER][SIZE];

    for (int r = 0; r < world; r++) {
        const weir_batches_options o = {.shuffle = true, .seed = 7, .workers = workers, .rank = r,
                                        .world = world, .micro_batches = each};
        weir_batches *const b = weir_batches_new(d, SIZE, &o);
        CHECK_OR_RETURN(b != NULL);
        CHECK(weir_batches_per_epoch(b) == UPDATES * each);
        read_pass(b, mine);
        CHECK(weir_batches_epoch(b) == 1);
        read_pass(b, mine);         /* the second epoch: another order */
        for (int i = 0; i < UPDATES * each; i++)
            memcpy(whole[i / each * TOGETHER + r * each + i % each], mine[i], sizeof mine[i]);
        weir_batches_free(b);
    }
}

CASE(ranks_read_what_one_reads)
{
    folder  f;
    int32_t one[UPDATES * TOGETHER][SIZE], many[UPDATES * TOGETHER][SIZE];
    int     seen[SAMPLES] = {0};

    CHECK_OR_RETURN(folder_make(&f));
    weir_data *const d = numbered(&f);
    read_world(d, 1, 0, one);
    for (int i = 0; i < UPDATES * TOGETHER * SIZE; i++)
        CHECK(++seen[one[i / SIZE][i % SIZE]] == 1);
    for (int world = 2; world <= TOGETHER; world *= 2)
        for (int workers = 0; workers < 3; workers++) {
            read_world(d, world, workers, many);
            CHECK(memcmp(one, many, sizeof one) == 0);
        }
    weir_data_free(d);
    folder_remove(&f);
}

/* The state of rank 1 of 2 in rank 3 of 4, at the beginning of an update; and what does not fit. */
CASE(a_state_fits_another_world)
{
    const weir_batches_options two = {.shuffle = true, .rank = 1, .world = 2, .micro_batches = 2};
    const weir_batches_options four = {.shuffle = true, .rank = 3, .world = 4, .workers = 1};
    weir_batches_state         at;
    int32_t                    x[SIZE], y[SIZE];
    folder                     f;

    CHECK_OR_RETURN(folder_make(&f));
    weir_data *const    d = numbered(&f);
    weir_batches *const b = weir_batches_new(d, SIZE, &two), *const c = weir_batches_new(d, SIZE,
                                                                                         &four);
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x_whole = x}));
    CHECK_OK(weir_batches_get_state(b, &at));
    CHECK(at.batch == TOGETHER && at.epoch == 0);
    CHECK_OK(weir_batches_set_state(c, &at));
    CHECK_OK(weir_batches_next(c, &(weir_batch){.x_whole = y}));
    for (int i = 0; i < 2; i++)         /* the fourth batch of the second update */
        CHECK_OK(weir_batches_next(b, &(weir_batch){.x_whole = x}));
    CHECK(memcmp(x, y, sizeof x) == 0);
    at.batch = TOGETHER + 1;            /* in the middle of an update */
    CHECK_OK(weir_batches_set_state(b, &at));
    CHECK_STATUS(weir_batches_set_state(c, &at), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "1 batches behind the beginning of an update, of which each rank "
                             "reads 1");
    at.batch = UPDATES * TOGETHER;
    CHECK_STATUS(weir_batches_set_state(b, &at), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "batch 16, but an epoch has 16 batches");
    weir_batches_free(b);
    weir_batches_free(c);
    weir_data_free(d);
    folder_remove(&f);
}

CASE(ranks_that_are_none_are_refused)
{
    static const weir_batches_options bad[] = {
        {.rank = 1}, {.rank = -1, .world = 2}, {.rank = 2, .world = 2}, {.world = -1},
        {.micro_batches = -1}, {.world = 18}, {.world = 2, .micro_batches = 1 << 30}};
    folder f;

    CHECK_OR_RETURN(folder_make(&f));
    weir_data *const d = numbered(&f);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        CHECK(weir_batches_new(d, SIZE, &bad[i]) == NULL);
        CHECK(weir_error_status() == WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), i < 5 ? "batches_new: rank " : "more than the 53 of the data set");
    }
    weir_data_free(d);
    folder_remove(&f);
}
