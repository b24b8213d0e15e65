/* rng.c - tests of the random stream against the published vectors of Philox4x32-10.
 *
 * The vectors use all 128 bits of the counter, ours only 64. So a plain form of the whole function
 * is checked against the vectors (Random123, kat_vectors), and ours against the plain form. */
#include "core/rng.h"
#include "check.h"

static void plain_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t x[4])
{
    memcpy(x, counter, 4 * sizeof *x);
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)x[0] * 0xD2511F53u, q = (uint64_t)x[2] * 0xCD9E8D57u;
        const uint32_t k0 = key[0] + round * 0x9E3779B9u, k1 = key[1] + round * 0xBB67AE85u;
        const uint32_t y[4] = {(uint32_t)(q >> 32) ^ x[1] ^ k0, (uint32_t)q,
                               (uint32_t)(p >> 32) ^ x[3] ^ k1, (uint32_t)p};
        memcpy(x, y, sizeof y);
    }
}

static const struct {
    uint32_t counter[4], key[2], out[4];
} published[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

CASE(published_vectors)
{
    uint32_t x[4];
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        plain_philox(published[i].key, published[i].counter, x);
        CHECK_BITS(x, published[i].out, sizeof x);
    }
    weir_philox(0, 0, x);
    CHECK_BITS(x, published[0].out, sizeof x);
}

CASE(any_seed_and_counter)
{
    for (int i = 0; i < 1000; i++) {
        const uint64_t seed = check_u64(), at = check_u64();
        const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), 0, 0};
        uint32_t       ours[4], plain[4];
        weir_philox(seed, at, ours);
        plain_philox(key, counter, plain);
        CHECK_BITS(ours, plain, sizeof ours);
    }
}

CASE(uniforms)
{
    CHECK(weir_uniform_from(0) == 0.0f && weir_uniform_from(255) == 0.0f);
    CHECK(weir_uniform_from(0xffffffff) == 1.0f - 0x1p-24f);
    CHECK(weir_uniform_from(0x80000000) == 0.5f);
    double sum = 0;
    for (uint64_t i = 0; i < 25000; i++) {
        uint32_t x[4];
        weir_philox(1, i, x);
        for (int k = 0; k < 4; k++)
            sum += (double)weir_uniform_from(x[k]);
    }
    CHECK_NEAR(sum / 100000, 0.5, 0.005);
}

CASE(blocks)
{
    CHECK(weir_rng_blocks(0) == 0 && weir_rng_blocks(1) == 1 && weir_rng_blocks(4) == 1);
    CHECK(weir_rng_blocks(5) == 2 && weir_rng_blocks((int64_t)1 << 40) == (uint64_t)1 << 38);
}
