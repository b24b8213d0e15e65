/* run.h - loops over, and copies of, one run of elements.
 *
 * Copies depend only on the element size (1, 2, 4 or 8 bytes), not on the type. */
#ifndef WEIR_DEVICE_CPU_RUN_H
#define WEIR_DEVICE_CPU_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Put before a loop whose output starts where an operand starts, or overlaps none. */
#if defined(__clang__)
#define RUN_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RUN_LOOP _Pragma("GCC ivdep")
#endif

/* Sets to[0..n) to the element at `from`. */
static inline void run_splat(void *to, const void *from, int64_t n, size_t size)
{
    if (size == 1) {
        memset(to, *(const unsigned char *)from, (size_t)n);
    } else if (size == 2) {
        uint16_t v, *const t = to;
        memcpy(&v, from, sizeof v);
        for (int64_t i = 0; i < n; i++)
            t[i] = v;
    } else if (size == 4) {
        uint32_t v, *const t = to;
        memcpy(&v, from, sizeof v);
        for (int64_t i = 0; i < n; i++)
            t[i] = v;
    } else {
        uint64_t v, *const t = to;
        memcpy(&v, from, sizeof v);
        for (int64_t i = 0; i < n; i++)
            t[i] = v;
    }
}

#define RUN_STRIDED(T)                                                                             \
    do {                                                                                           \
        const T *const f = from;                                                                   \
        T *const       t = to;                                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i] = f[i * stride];                                                                  \
    } while (0)

/* to[i] = from[i * stride]; the two must not overlap. */
static inline void run_copy(void *to, const void *from, int64_t stride, int64_t n, size_t size)
{
    if (stride == 1)
        memcpy(to, from, (size_t)n * size);
    else if (stride == 0)
        run_splat(to, from, n, size);
    else if (size == 1)
        RUN_STRIDED(uint8_t);
    else if (size == 2)
        RUN_STRIDED(uint16_t);
    else if (size == 4)
        RUN_STRIDED(uint32_t);
    else
        RUN_STRIDED(uint64_t);
}

#undef RUN_STRIDED

#endif
