/* check.h - the whole test harness: cases that register themselves, checks, seeded random numbers.
 *
 *     CASE(broadcast_of_scalars)
 *     {
 *         CHECK(a == b);                           a failing check prints and goes on
 *         CHECK_OR_RETURN(p != NULL);              this one leaves the case (or void helper)
 *         CHECK_STATUS(weir_write(t, v, 3), WEIR_ERR_SHAPE);
 *         CHECK_TEXT(weir_error(), "12 bytes");
 *     }
 *
 * Each check is an expression with the value "it held". One program per folder of test/, all with
 * main.c: test_core [SUBSTRING of "file/case"]. A case that leaves allocations of the library alive
 * fails. Each case restarts the random numbers, so a case alone draws what it draws in the suite;
 * WEIR_TEST_SEED changes the seed, WEIR_TEST_PART=2/4 runs each fourth case from the second on,
 * WEIR_TEST_SLOW=2 prints the seconds of cases that take at least two. */
#ifndef WEIR_TEST_CHECK_H
#define WEIR_TEST_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/splitmix.h"
#include "weir/base.h"

typedef struct check_case {
    const char        *file, *name;
    void             (*run)(void);
    struct check_case *next;
} check_case;

/* State of the running program, in main.c. */
extern check_case *check_first, **check_last;
extern const check_case *check_current; /* the running case */
extern int         check_failures;      /* in it */
extern uint64_t    check_random;        /* state of the generator */
extern const char *volatile check_doing;    /* what a crash is said to have happened in, or NULL */

#define CASE(id)                                                                                   \
    static void check_run_##id(void);                                                              \
    __attribute__((constructor)) static void check_add_##id(void)                                  \
    {                                                                                              \
        static check_case c = {__FILE__, #id, check_run_##id, NULL};                               \
        *check_last = &c;                                                                          \
        check_last = &c.next;                                                                      \
    }                                                                                              \
    static void check_run_##id(void)

#define CHECK(...) check_that((__VA_ARGS__), __FILE__, __LINE__, "%s", #__VA_ARGS__)

#define CHECK_OR_RETURN(...)                                                                       \
    do {                                                                                           \
        if (!CHECK(__VA_ARGS__))                                                                   \
            return;                                                                                \
    } while (0)

#define CHECK_STATUS(expr, expected) check_status((expr), (expected), __FILE__, __LINE__, #expr)
#define CHECK_OK(expr)               CHECK_STATUS(expr, WEIR_OK)

/* |a - b| <= tol * max(1, |b|); NaN is near NaN only, an infinity near itself. */
#define CHECK_NEAR(a, b, tol)                                                                      \
    check_near((double)(a), (double)(b), (double)(tol), __FILE__, __LINE__, #a)

/* The string `haystack` contains `needle`. */
#define CHECK_TEXT(haystack, needle) check_text((haystack), (needle), __FILE__, __LINE__)

/* `bytes` bytes at a and b are equal. */
#define CHECK_BITS(a, b, bytes) check_bits((a), (b), (bytes), __FILE__, __LINE__, #a ", " #b)

/* Elements of an array. */
#define ARRAY_LENGTH(a) (sizeof(a) / sizeof *(a))

/* The device that operations, graphs and models are tested on: $WEIR_TEST_DEVICE, else "cpu". */
static inline const char *check_device(void)
{
    const char *const asked = getenv("WEIR_TEST_DEVICE");
    return asked && *asked ? asked : "cpu";
}

/* Everything is tried where the suite takes a sample: WEIR_TEST_FULL=1. */
static inline bool check_full(void)
{
    const char *const asked = getenv("WEIR_TEST_FULL");
    return asked && strcmp(asked, "1") == 0;
}

/* For cases about the CPU's own memory, file or alignment. */
static inline bool check_on_cpu(void)
{
    return strcmp(check_device(), "cpu") == 0;
}

__attribute__((format(printf, 4, 5))) static inline bool
check_that(bool held, const char *file, int line, const char *format, ...)
{
    if (held)
        return true;
    va_list args;
    va_start(args, format);
    printf("%s:%d: failed: ", file, line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    check_failures++;
    return false;
}

static inline bool check_status(weir_status got, weir_status want, const char *file, int line,
                                const char *expr)
{
    return check_that(got == want, file, line, "%s\n    is \"%s\", not \"%s\"; last error: %s",
                      expr, weir_status_text(got), weir_status_text(want), weir_error());
}

static inline bool check_near(double a, double b, double tol, const char *file, int line,
                              const char *expr)
{
    const double difference = fabs(a - b);
    const bool   near = a == b || (isnan(a) && isnan(b)) || difference <= tol * fmax(1.0, fabs(b));
    return check_that(near, file, line, "%s is %.9g, not %.9g: off by %.3g, allowed %.3g", expr, a,
                      b, difference, tol * fmax(1.0, fabs(b)));
}

static inline bool check_text(const char *haystack, const char *needle, const char *file, int line)
{
    return check_that(haystack && strstr(haystack, needle), file, line, "\"%s\" is not in \"%s\"",
                      needle, haystack ? haystack : "(null)");
}

static inline bool check_bits(const void *a, const void *b, size_t bytes, const char *file,
                              int line, const char *expr)
{
    const unsigned char *p = a, *q = b;
    size_t               i = 0;
    while (i < bytes && p[i] == q[i])
        i++;
    return check_that(i == bytes, file, line, "%s: byte %zu of %zu differs", expr, i, bytes);
}

/* ---- random numbers ---- */

static inline uint64_t check_u64(void)
{
    return weir_splitmix_next(&check_random);
}

/* lo <= result <= hi. */
static inline int64_t check_int(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(check_u64() % (uint64_t)(hi - lo + 1));
}

/* lo <= result < hi. */
static inline double check_real(double lo, double hi)
{
    return lo + (hi - lo) * ((double)(check_u64() >> 11) * 0x1p-53);
}

/* Fills n floats from [lo, hi). */
static inline void check_floats(float *at, size_t n, double lo, double hi)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (float)check_real(lo, hi);
}

#endif
