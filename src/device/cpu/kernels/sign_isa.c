/* sign_isa.c - signs to bits and back, through 0/1 bytes that the compiler vectorises.
 *
 * Eight bytes become one byte, and back, by the multiplication trick of H. S. Warren, "Hacker's
 * Delight", 7-3, written for byte i of a word at bits 8i. */
#include "device/cpu/kernels/sign.h"

#include <string.h>

#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/run.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words must be little-endian");

enum { CHUNK = 512 };

static void bytes_to_bits(int64_t n, uint8_t *bits, const uint8_t *flag)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t w;
        memcpy(&w, flag + 8 * i, sizeof w);
        bits[i] = (uint8_t)((w * 0x0102040810204080u) >> 56);
    }
}

static void bits_to_bytes(int64_t n, uint8_t *flag, const uint8_t *bits)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t w = (bits[i] * 0x0101010101010101u) & 0x8040201008040201u;
        memcpy(flag + 8 * i, &w, sizeof w);
    }
}

#define LOOPS(T, suffix)                                                                           \
    static void pack_##suffix(int64_t n, uint8_t *bits, const void *from)                          \
    {                                                                                              \
        uint8_t flag[CHUNK];                                                                       \
        for (int64_t at = 0; at < n; at += CHUNK) {                                                \
            const T *const y = (const T *)from + at;                                               \
            const int64_t  some = min64(CHUNK, n - at), bytes = ceil_div(some, 8);                 \
            for (int64_t i = 0; i < some; i++)                                                     \
                flag[i] = (uint8_t)(y[i] <= 0 ? 0 : 1);                                            \
            for (int64_t i = some; i < 8 * bytes; i++)                                             \
                flag[i] = 0;                                                                       \
            bytes_to_bits(bytes, bits + at / 8, flag);                                             \
        }                                                                                          \
    }                                                                                              \
    static void relu_grad_##suffix(int64_t n, void *to, const void *from, const uint8_t *bits)     \
    {                                                                                              \
        uint8_t flag[CHUNK];                                                                       \
        for (int64_t at = 0; at < n; at += CHUNK) {                                                \
            const T *const dy = (const T *)from + at;                                              \
            T *const       dx = (T *)to + at;                                                      \
            const int64_t  some = min64(CHUNK, n - at);                                            \
            bits_to_bytes(ceil_div(some, 8), flag, bits + at / 8);                                 \
            RUN_LOOP                                                                               \
            for (int64_t i = 0; i < some; i++)                                                     \
                dx[i] = flag[i] != 0 ? dy[i] : 0;                                                  \
        }                                                                                          \
    }

LOOPS(float, f32)
LOOPS(double, f64)

const weir_sign_loops WEIR_ISA_NAME(weir_signs) = {
    .pack = {pack_f32, pack_f64},
    .relu_grad = {relu_grad_f32, relu_grad_f64},
};
