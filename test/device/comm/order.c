/* order.c - sums in the order of ranks, against the same sums written out. */
#include "check.h"
#include "core/half.h"
#include "device/comm/order.h"

enum { N = 1337, MOST = 9 };

static float data[MOST][N];

static const void *const *operands(void)
{
    static const void *from[MOST];

    for (int r = 0; r < MOST; r++) {
        check_floats(data[r], N, -1e3, 1e3);
        data[r][0] = -0.0f;
        from[r] = data[r];
    }
    return from;
}

CASE(serial_is_from_left_to_right)
{
    const void *const *from = operands();
    float              sum[N];

    for (int k = 1; k <= MOST; k++) {
        weir_ordered_sum(sum, from, k, N, WEIR_F32, WEIR_SUM_SERIAL);
        for (int i = 0; i < N; i++) {
            float want = 0;
            for (int r = 0; r < k; r++)
                want += data[r][i];
            CHECK_OR_RETURN(memcmp(&want, &sum[i], sizeof want) == 0);
        }
    }
}

/* Of 7: ((0 1) (2 3)) ((4 5) 6). */
CASE(tree_joins_neighbours)
{
    const void *const *from = operands();
    float              sum[N];

    weir_ordered_sum(sum, from, 7, N, WEIR_F32, WEIR_SUM_TREE);
    for (int i = 0; i < N; i++) {
        const float left = (data[0][i] + data[1][i]) + (data[2][i] + data[3][i]);
        const float want = left + ((data[4][i] + data[5][i]) + data[6][i]);
        CHECK_OR_RETURN(want == sum[i]);
    }
    CHECK(!signbit(sum[0]));        /* of -0 only: begun at +0 */
}

/* Ranks in powers of two form subtrees, so the sum of 4 ranks is the sum of 2 sums of 2. */
CASE(tree_of_trees_has_the_same_bits)
{
    const void *const *from = operands();
    float              sum[N], half[2][N];

    weir_ordered_sum(sum, from, 4, N, WEIR_F32, WEIR_SUM_TREE);
    weir_ordered_sum(half[0], from, 2, N, WEIR_F32, WEIR_SUM_TREE);
    weir_ordered_sum(half[1], from + 2, 2, N, WEIR_F32, WEIR_SUM_TREE);
    weir_ordered_sum(half[0], (const void *[]){half[0], half[1]}, 2, N, WEIR_F32, WEIR_SUM_TREE);
    CHECK_BITS(sum, half[0], sizeof sum);
}

CASE(result_may_be_an_operand)
{
    const void *const *from = operands();
    float              sum[N];

    weir_ordered_sum(sum, from, 3, N, WEIR_F32, WEIR_SUM_TREE);
    weir_ordered_sum(data[1], from, 3, N, WEIR_F32, WEIR_SUM_TREE);
    CHECK_BITS(sum, data[1], sizeof sum);
}

/* 1 + 2^-9 + 2^-9 is 1 + 2^-8 in one rounding, 1 in two. */
CASE(halves_are_rounded_once)
{
    const uint16_t one = weir_to_bf16(1), small = weir_to_bf16(0x1p-8f);
    uint16_t       sum;

    weir_ordered_sum(&sum, (const void *[]){&one, &small, &small}, 3, 1, WEIR_BF16,
                     WEIR_SUM_SERIAL);
    CHECK(weir_from_bf16(sum) == 1 + 0x1p-7f);
    const uint16_t f[3] = {weir_to_f16(1), weir_to_f16(0x1p-11f), weir_to_f16(0x1p-11f)};
    weir_ordered_sum(&sum, (const void *[]){&f[0], &f[1], &f[2]}, 3, 1, WEIR_F16, WEIR_SUM_SERIAL);
    CHECK(weir_from_f16(sum) == 1 + 0x1p-10f);
}

CASE(integers_wrap)
{
    const int32_t most = INT32_MAX, one = 1;
    const uint8_t byte = 200;
    const int64_t large = INT64_MAX, few = 2;
    int32_t       i;
    int64_t       l;
    uint8_t       b;

    weir_ordered_sum(&i, (const void *[]){&most, &one}, 2, 1, WEIR_I32, WEIR_SUM_SERIAL);
    weir_ordered_sum(&b, (const void *[]){&byte, &byte}, 2, 1, WEIR_U8, WEIR_SUM_TREE);
    weir_ordered_sum(&l, (const void *[]){&large, &few}, 2, 1, WEIR_I64, WEIR_SUM_TREE);
    CHECK(i == INT32_MIN && b == 144 && l == INT64_MIN + 1);
}

CASE(doubles)
{
    const double a = 1, b = 0x1p-53, c = 0x1p-53;
    double       sum;

    weir_ordered_sum(&sum, (const void *[]){&a, &b, &c}, 3, 1, WEIR_F64, WEIR_SUM_SERIAL);
    CHECK(sum == 1);
    weir_ordered_sum(&sum, (const void *[]){&b, &c, &a}, 3, 1, WEIR_F64, WEIR_SUM_SERIAL);
    CHECK(sum == 1 + 0x1p-52);
}
