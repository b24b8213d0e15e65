/* threads.c - threads of emulated kernels: barriers, warps, indices, and varying orders. */
#include "emulator/tests/fixture.h"

enum { N = 256 };

static void sum_again(void)
{
    cudaStream_t s = fixture_stream();
    int *const   x = fixture_numbers(N), *const y = fixture_ints(1);

    for (int n = 1; n <= N; n *= 2) {
        CHECK_CUDA(probe_sum(s, y, x, n));
        CHECK(fixture_int(s, y) == n * (n - 1) / 2);
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(barriers)
{
    for (int i = 0; i < 20; i++)
        sum_again();
}

/* Always right with the barrier; wrong in some order without it. */
CASE(missing_barrier_shows)
{
    cudaStream_t s = fixture_stream();
    int *const   x = fixture_numbers(N), *const y = fixture_ints(N), host[N];
    int          wrong[2] = {0, 0};

    for (int i = 0; i < 40; i++) {
        const bool barrier = i % 2;
        CHECK_CUDA(probe_reverse(s, y, x, N, barrier));
        CHECK_CUDA(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, s));
        for (int t = 0; t < N; t++)
            if (host[t] != N - 1 - t) {
                wrong[barrier]++;
                break;
            }
    }
    CHECK(wrong[0] > 10);
    CHECK(wrong[1] == 0);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(shuffles_in_groups)
{
    cudaStream_t s = fixture_stream();
    int *const   x = fixture_numbers(N), *const y = fixture_ints(N), host[N];

    for (int width = 2; width <= 32; width *= 2) {
        CHECK_CUDA(probe_group_sums(s, y, x, N, width));
        CHECK_CUDA(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, s));
        for (int t = 0; t < N; t++) {
            const int first = t / width * width;
            CHECK(host[t] == width * first + width * (width - 1) / 2);
        }
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* The two halves of a warp diverge, each with its own mask. */
CASE(shuffles_of_halves)
{
    cudaStream_t   s = fixture_stream();
    int *const     x = fixture_numbers(64);
    int64_t *const y = fixture_alloc(64 * sizeof *y), host[64];

    for (int round = 0; round < 8; round++) {
        CHECK_CUDA(probe_halves(s, y, x, 64));
        CHECK_CUDA(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, s));
        for (int t = 0; t < 64; t++) {
            int64_t want = 0;
            for (int64_t i = t / 16 * 16; i < t / 16 * 16 + 16; i++)
                want += t % 32 < 16 ? i : i * i;
            CHECK(host[t] == want);
        }
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(lanes)
{
    enum { LANES = 64, WORDS = 5 };
    cudaStream_t s = fixture_stream();
    int *x = fixture_ints(LANES), *const y = fixture_ints(LANES * WORDS);
    int      from[LANES], to[LANES * WORDS];
    unsigned set[2] = {0, 0};

    for (int i = 0; i < LANES; i++) {
        from[i] = (int)check_int(-9, 9);
        set[i / 32] |= (unsigned)(from[i] > 0) << i % 32;
    }
    CHECK_CUDA(cudaMemcpyAsync(x, from, sizeof from, cudaMemcpyHostToDevice, s));
    CHECK_CUDA(probe_lanes(s, y, x, LANES));
    CHECK_CUDA(cudaMemcpyAsync(to, y, sizeof to, cudaMemcpyDeviceToHost, s));
    for (int i = 0; i < LANES; i++) {
        const int *const at = to + i * WORDS, lane = i % 32, first = i - lane;
        CHECK(at[0] == from[lane >= 1 ? i - 1 : i]);
        CHECK(at[1] == from[lane < 30 ? i + 2 : i]);
        CHECK(at[2] == from[first + i * 7 % 32]);
        CHECK((unsigned)at[3] == set[i / 32]);
        CHECK(at[4] == __builtin_popcount(set[i / 32]) + 100);
    }
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* Barriers do not wait for threads that have ended. */
CASE(barriers_without_the_dead)
{
    cudaStream_t s = fixture_stream();
    int *const   x = fixture_numbers(N), *const y = fixture_ints(N), host[N];

    for (int stay = 1; stay <= N; stay += 51) {
        CHECK_CUDA(probe_votes(s, y, x, N, stay));
        CHECK_CUDA(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, s));
        for (int t = 0; t < stay; t++)
            CHECK(host[t] == stay - 1 + (stay > 1 ? 10000 : 0));        /* thread 0 votes no */
    }
    CHECK_CUDA(probe_votes(s, y, x + 1, N - 1, N - 1));
    CHECK(fixture_int(s, y) == N - 1 + 110000);
    CHECK_CUDA(cudaFree(x));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(places)
{
    enum { BLOCKS = 2 * 3 * 2, THREADS = 4 * 3 * 5 };
    cudaStream_t s = fixture_stream();
    int *const   y = fixture_ints(BLOCKS * THREADS), host[BLOCKS * THREADS];

    CHECK_CUDA(probe_places(s, y, (dim3){2, 3, 2}, (dim3){4, 3, 5}));
    CHECK_CUDA(cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, s));
    for (int b = 0; b < BLOCKS; b++)
        for (int t = 0; t < THREADS; t++)
            CHECK(host[b * THREADS + t] == t % 4 + 10 * (t / 4 % 3) + 100 * (t / 12) +
                                               1000 * (b % 2) + 10000 * (b / 2 % 3) +
                                               100000 * (b / 6));
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(stacks_are_aligned)
{
    cudaStream_t s = fixture_stream();
    int *const   y = fixture_ints(N);

    CHECK_CUDA(probe_aligned(s, y, N));
    for (int t = 0; t < N; t++)
        CHECK(fixture_int(s, y + t) == 0);
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

CASE(atomics)
{
    cudaStream_t s = fixture_stream();
    int *const   y = fixture_ints(2);

    CHECK_CUDA(cudaMemsetAsync(y, 0, 2 * sizeof *y, s));
    CHECK_CUDA(probe_count(s, (unsigned *)y, y + 1, (dim3){100, 1, 1}, (dim3){96, 1, 1}));
    CHECK(fixture_int(s, y) == 9600);
    CHECK(fixture_int(s, y + 1) == 9599);
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}

static void hang(void)
{
    cudaStream_t s = fixture_stream();
    CHECK_CUDA(probe_hang(s, 64));
    CHECK_CUDA(cudaStreamSynchronize(s));
}

CASE(a_barrier_never_reached_is_reported)
{
    CHECK(fixture_aborts(hang));
}

CASE(shapes_that_cards_refuse)
{
    cudaStream_t s = fixture_stream();
    int *const   y = fixture_ints(4);
    const dim3   one = {1, 1, 1};

    CHECK_ERROR(probe_places(s, y, (dim3){1, 65536, 1}, one), cudaErrorInvalidConfiguration);
    CHECK_ERROR(probe_places(s, y, (dim3){0, 1, 1}, one), cudaErrorInvalidConfiguration);
    CHECK_ERROR(probe_places(s, y, one, (dim3){1025, 1, 1}), cudaErrorInvalidConfiguration);
    CHECK_ERROR(probe_places(s, y, one, (dim3){1, 1, 65}), cudaErrorInvalidConfiguration);
    CHECK_ERROR(probe_places(s, y, one, (dim3){32, 33, 1}), cudaErrorInvalidConfiguration);
    CHECK_ERROR(cudaGetLastError(), cudaErrorInvalidConfiguration);
    CHECK_CUDA(cudaGetLastError());
    CHECK(emulate_queued() == 0);
    CHECK_CUDA(cudaFree(y));
    CHECK_CUDA(cudaStreamDestroy(s));
}
