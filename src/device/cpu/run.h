/* run.h - one run of elements: loops over it, copies of it.
 *
 * Copies do not care for the type: only the size (1, 2, 4 or 8 bytes) counts. */
#ifndef WEIR_DEVICE_CPU_RUN_H
#define WEIR_DEVICE_CPU_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Before a loop whose output may start where an operand starts, else never overlaps it. */
#if defined(__clang__)
#define RUN_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RUN_LOOP _Pragma("GCC ivdep")
#endif

/* to[0..n) = the element at `from`. */
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
