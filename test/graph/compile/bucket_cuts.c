/* bucket_cuts.c - cuts between buckets: the earliest end, against all cuts there are. */
#include "graph/compile/bucket_cuts.h"

#include "check.h"
#include "core/dtype.h"

enum { SUMS = 10, LISTS = 200 };

static double wire_seconds(const weir_comm *c, const weir_collective *job)
{
    return c->constant_s + c->per_byte_s * (double)job->count *
                               (double)weir_dtype_size(job->dtype);
}

/* When the last sum is done if bit i of `cuts` says that sum i ends a bucket; negative: a bucket is
 * too large, or a sum that must begin one does not. */
static double end_of(const weir_comm *c, const weir_bucket_sum *sum, uint32_t n, size_t most,
                     uint32_t cuts)
{
    double   done = 0;
    size_t   bytes = 0;
    uint32_t members = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (members > 0 && sum[i].first)
            return -1;
        bytes += sum[i].bytes;
        members++;
        if (i + 1 < n && !(cuts >> i & 1))
            continue;
        if (members > 1 && bytes > most)
            return -1;
        done = (done > sum[i].ready ? done : sum[i].ready) + c->constant_s +
               c->per_byte_s * (double)bytes;
        bytes = members = 0;
    }
    return done;
}

static uint32_t draw_list(weir_bucket_sum *sum, uint64_t *state)
{
    const uint32_t n = 1 + (uint32_t)(weir_splitmix64(state) % SUMS);
    double         ready = 0;

    for (uint32_t i = 0; i < n; i++) {
        ready += (double)(weir_splitmix64(state) % 100) * 1e-6;
        sum[i] = (weir_bucket_sum){.dtype = WEIR_F32, .ready = ready,
                                   .bytes = 4 * (1 + weir_splitmix64(state) % 5000),
                                   .first = i == 0 || weir_splitmix64(state) % 8 == 0};
    }
    return n;
}

CASE(no_cut_is_done_earlier)
{
    uint64_t state = 7;

    for (int l = 0; l < LISTS; l++) {
        weir_bucket_sum sum[SUMS];
        bool            ends[SUMS];
        const weir_comm c = {.seconds = wire_seconds, .per_byte_s = 1e-9,
                             .constant_s = (double)(weir_splitmix64(&state) % 60) * 1e-6};
        const uint32_t  n = draw_list(sum, &state);
        const size_t    most = l % 2 ? SIZE_MAX : 4 * (weir_splitmix64(&state) % 12000);
        double          least = 1e30, done;
        uint32_t        cuts = 0;

        for (uint32_t k = 0; k < 1u << (n - 1); k++) {
            const double end = end_of(&c, sum, n, most, k);
            least = end >= 0 && end < least ? end : least;
        }
        CHECK_OK(weir_bucket_cut(&c, sum, n, most, ends, &done));
        for (uint32_t i = 0; i < n; i++)
            cuts |= (uint32_t)ends[i] << i;
        CHECK(ends[n - 1]);
        CHECK_NEAR(done * 1e6, least * 1e6, 1e-9);
        CHECK_NEAR(end_of(&c, sum, n, most, cuts) * 1e6, least * 1e6, 1e-9);
    }
}

static void all_at_once(weir_bucket_sum *sum, uint32_t n, size_t bytes)
{
    for (uint32_t i = 0; i < n; i++)
        sum[i] = (weir_bucket_sum){.dtype = WEIR_F32, .bytes = bytes, .first = i == 0};
}

/* A free message asks for no bucket; a dear one for few. */
CASE(the_limit_grows_with_the_price_of_a_message)
{
    weir_bucket_sum sum[SUMS];
    weir_comm       c = {.seconds = wire_seconds, .per_byte_s = 1e-9};
    size_t          cheap, dear;

    all_at_once(sum, SUMS, 1 << 20);
    CHECK_OK(weir_bucket_limit(&c, sum, SUMS, &cheap));
    c.constant_s = 1e-3;
    CHECK_OK(weir_bucket_limit(&c, sum, SUMS, &dear));
    CHECK(cheap < 1 << 20 && dear >= 8 << 20);
}

/* Computing must not wait for a long sum because many short ones fill the queue behind it. */
CASE(the_limit_keeps_the_queue_short)
{
    enum { MANY = 41 };
    weir_bucket_sum sum[MANY];
    const weir_comm c = {.seconds = wire_seconds, .per_byte_s = 1e-9, .constant_s = 1e-6};
    size_t          most;

    all_at_once(sum, MANY, 1 << 20);
    for (uint32_t i = 0; i < MANY; i++)
        sum[i].ready = 0.01 * i;
    sum[0].bytes = 400 << 20;           /* it takes as long as all the computing */
    CHECK_OK(weir_bucket_limit(&c, sum, MANY, &most));
    CHECK(most >= 4 << 20);
    sum[0].bytes = 1 << 20;
    CHECK_OK(weir_bucket_limit(&c, sum, MANY, &most));
    CHECK(most <= 1 << 20);
}

static int buckets_of(const bool *ends, uint32_t n)
{
    int buckets = 0;

    for (uint32_t i = 0; i < n; i++)
        buckets += ends[i];
    return buckets;
}

CASE(buckets_are_filled_where_the_wire_is_not_known)
{
    weir_bucket_sum sum[SUMS];
    bool            ends[SUMS];

    all_at_once(sum, SUMS, 1000);
    weir_bucket_fill(sum, SUMS, 3000, ends);
    CHECK(buckets_of(ends, SUMS) == 4 && ends[2] && ends[5] && ends[8] && ends[9]);
    weir_bucket_fill(sum, SUMS, 1, ends);
    CHECK(buckets_of(ends, SUMS) == SUMS);
    weir_bucket_fill(sum, SUMS, SIZE_MAX, ends);
    CHECK(buckets_of(ends, SUMS) == 1 && ends[SUMS - 1]);
    sum[4].first = true;
    sum[1].bytes = 5000;
    weir_bucket_fill(sum, SUMS, 3000, ends);
    CHECK(ends[0] && ends[1] && ends[3] && ends[6] && ends[9] && buckets_of(ends, SUMS) == 5);
}
