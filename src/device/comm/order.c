/* order.c - sums in the order of ranks: plain loops that the compiler vectorises.
 *
 * No OpenMP: the wire thread calls this while the device's threads compute, and a second caller
 * would make OpenMP create a second pool. A block of elements is summed at a time, in an
 * accumulator on the stack, so the result may overwrite an operand. Sums begin at +0, as those of
 * weir_accumulate do: the bits of one process that accumulates are the same, -0 included. */
#include "device/comm/order.h"

#include <string.h>

#include "core/dtype.h"
#include "core/half.h"

enum { BLOCK_BYTES = 2048 };

/* Functions for elements of type T, summed in type A (integers: unsigned, so that they wrap). */
#define SUM(id, T, A, LOAD, STORE)                                                                 \
    enum { BLOCK_##id = BLOCK_BYTES / sizeof(A) };                                                 \
                                                                                                   \
    static void first_##id(A *acc, const T *x, int64_t n)                                          \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            acc[i] = (A)((A)0 + (A)LOAD(x[i]));                                                    \
    }                                                                                              \
                                                                                                   \
    static void serial_##id(A *acc, const void *const *from, int k, int64_t at, int64_t n)         \
    {                                                                                              \
        first_##id(acc, (const T *)from[0] + at, n);                                               \
        for (int r = 1; r < k; r++) {                                                              \
            const T *const x = (const T *)from[r] + at;                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                acc[i] = (A)(acc[i] + (A)LOAD(x[i]));                                              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void tree_##id(A *acc, const void *const *from, int k, int64_t at, int64_t n)           \
    {                                                                                              \
        A   right[BLOCK_##id];                                                                     \
        int left = 1;                                                                              \
                                                                                                   \
        if (k == 1) {                                                                              \
            first_##id(acc, (const T *)from[0] + at, n);                                           \
            return;                                                                                \
        }                                                                                          \
        while (2 * left < k)                                                                       \
            left *= 2;                                                                             \
        tree_##id(acc, from, left, at, n);                                                         \
        tree_##id(right, from + left, k - left, at, n);                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            acc[i] = (A)(acc[i] + right[i]);                                                       \
    }                                                                                              \
                                                                                                   \
    static void sum_##id(void *to, const void *const *from, int k, int64_t count,                  \
                         weir_sum_order order)                                                     \
    {                                                                                              \
        for (int64_t at = 0; at < count; at += BLOCK_##id) {                                       \
            A             acc[BLOCK_##id];                                                         \
            const int64_t n = count - at < BLOCK_##id ? count - at : BLOCK_##id;                   \
            if (order == WEIR_SUM_TREE)                                                            \
                tree_##id(acc, from, k, at, n);                                                    \
            else                                                                                   \
                serial_##id(acc, from, k, at, n);                                                  \
            for (int64_t i = 0; i < n; i++)                                                        \
                ((T *)to)[at + i] = (T)STORE(acc[i]);                                              \
        }                                                                                          \
    }

SUM(f32, float, float, , )
SUM(f64, double, double, , )
SUM(i32, uint32_t, uint32_t, , )
SUM(i64, uint64_t, uint64_t, , )
SUM(u8, uint8_t, uint8_t, , )
SUM(u16, uint16_t, uint32_t, , )
SUM(f16, uint16_t, float, weir_from_f16, weir_to_f16)
SUM(bf16, uint16_t, float, weir_from_bf16, weir_to_bf16)

typedef void (*sum_fn)(void *to, const void *const *from, int k, int64_t count,
                       weir_sum_order order);

static const sum_fn sums[] = {
    [WEIR_F32] = sum_f32, [WEIR_F64] = sum_f64, [WEIR_I32] = sum_i32, [WEIR_I64] = sum_i64,
    [WEIR_U8] = sum_u8, [WEIR_BOOL] = sum_u8, [WEIR_F16] = sum_f16, [WEIR_BF16] = sum_bf16,
    [WEIR_I8] = sum_u8, [WEIR_I16] = sum_u16, [WEIR_U16] = sum_u16, [WEIR_U32] = sum_i32,
    [WEIR_U64] = sum_i64,
};

void weir_ordered_sum(void *to, const void *const *from, int n, int64_t count, weir_dtype dtype,
                      weir_sum_order order)
{
    sums[dtype](to, from, n, count, order);
}
