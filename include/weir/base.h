/* base.h - what every other public header needs: statuses, element types, descriptors, version.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Errors. A function that can fail returns a weir_status, or NULL where it returns a pointer. The
 * library then keeps, for the calling thread, one sentence (weir_error) that names operation,
 * argument, shapes and numbers. NULL flows through operations: weir_relu(NULL) is NULL and keeps
 * the earlier sentence, so one check at the end of a chain is enough and reports the first mistake.
 * A recorded step is checked by weir_graph_end. Weir's own code never prints, aborts or exits; what
 * libraries do where memory fails: docs/reference/guarantees.md. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/* The version as text, and as a number for #if WEIR_VERSION_NUMBER >= WEIR_VERSION_OF(0, 1, 0). */
#define WEIR_VERSION_TEXT_(a, b, c) #a "." #b "." #c
#define WEIR_VERSION_TEXT(a, b, c)  WEIR_VERSION_TEXT_(a, b, c)
#define WEIR_VERSION_STRING                                                                        \
    WEIR_VERSION_TEXT(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH)
#define WEIR_VERSION_OF(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))
#define WEIR_VERSION_NUMBER                                                                        \
    WEIR_VERSION_OF(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH)

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

#define WEIR_STATUS_MAP(X)                                                                         \
    X(OK, "no error")                                                                              \
    X(ERR_INVALID, "an argument makes no sense")                                                   \
    X(ERR_SHAPE, "shapes do not fit")                                                              \
    X(ERR_DTYPE, "element types do not fit")                                                       \
    X(ERR_DEVICE, "wrong, closed or failing device")                                               \
    X(ERR_STATE, "not possible at this moment")                                                    \
    X(ERR_NOMEM, "out of memory")                                                                  \
    X(ERR_NOKERNEL, "no kernel for this operation on this device")                                 \
    X(ERR_IO, "a file is missing, unreadable or malformed")                                        \
    X(ERR_BUDGET, "the step does not fit the byte budget")                                         \
    X(ERR_INDEX, "an index is out of range")                                                       \
    X(ERR_CANCELLED, "stopped by the caller")                                                      \
    X(ERR_COMM, "another rank is missing, late or calls something else")

/* 0 itself, where a function or a field of options says that 0 means a default: weir_layer_norm(x,
 * scale, bias, WEIR_ZERO). Options made by their ..._default function take 0 as it is. */
#define WEIR_ZERO (-0.0)

/* What a call returns: WEIR_OK (0), or why it failed, with the meanings above. */
typedef enum weir_status {
#define WEIR_STATUS_ENUM(name, text) WEIR_##name,
    WEIR_STATUS_MAP(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

/* Leaves the calling function with the status of `expr` unless that is WEIR_OK. */
#define WEIR_TRY(expr)                                                                             \
    do {                                                                                           \
        const weir_status weir_try_status = (expr);                                                \
        if (weir_try_status != WEIR_OK)                                                            \
            return weir_try_status;                                                                \
    } while (0)

/* How far planning has come. */
typedef struct weir_progress {
    const char *phase;         /* the part at work, static: "passes", "kernels", "search",
                                * "placement" */
    double      fraction;      /* of the part that is done, from 0 to 1; -1: unknown */
    double      seconds;       /* since planning began */
    uint64_t    plans;         /* schedules tried so far */
    size_t      best_bytes;    /* live bytes of the whole step by the best plan that the search at
                                * work has found, which may exceed the budget; 0: none yet */
    double      best_extra_ms; /* that this plan adds to a step */
} weir_progress;

/* Called again and again while a plan is made, on the thread that plans and up to some 100,000
 * times a second: return at once. Returns true to go on. After false planning stops within
 * milliseconds and fails with ERR_CANCELLED; no plan is returned. The plan never depends on these
 * calls. The function must not use the device that is planning. *p is valid during the call. */
typedef bool (*weir_progress_fn)(void *context, const weir_progress *p);

/* How planning used the folder of plans (option `cache`). */
typedef enum weir_cache_use {
    WEIR_CACHE_OFF,         /* no folder was given, or the step needed no plan from it */
    WEIR_CACHE_NEW,         /* the folder held no plans for the step; they were added */
    WEIR_CACHE_USED,        /* the plans came from the folder */
    WEIR_CACHE_FAILED       /* the folder could not be written; the plans are valid all the same */
} weir_cache_use;

/* The general meaning of a status, a static string. */
WEIR_API const char *weir_status_text(weir_status s);

/* The sentence of the calling thread's most recent failure, "" before the first; valid until the
 * next failure on this thread. Success never clears it. */
WEIR_API const char *weir_error(void);

/* Forgets the calling thread's most recent failure, for one that the program has handled:
 * weir_error() is "" and weir_error_status() WEIR_OK until the next. Without it a later mistake may
 * be explained by the handled one. */
WEIR_API void weir_error_clear(void);

/* The status that belongs to weir_error(); what to return when a pointer came back NULL. */
WEIR_API weir_status weir_error_status(void);

/* For layers and step functions of a program's own: remembers status and sentence for this thread,
 * as the library does, and returns the status s. format and what follows are printf's; at most a
 * few hundred characters are kept. Never allocates, never fails itself. */
WEIR_API weir_status weir_fail(weir_status s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status to return when an argument is NULL: the earlier mistake that made it so, or
 * ERR_INVALID naming `function` and `argument` if nothing failed before. A failure from before the
 * graph that is being recorded may have been handled: the sentence then names both. */
WEIR_API weir_status weir_fail_null(const char *function, const char *argument);

/* Marks the graph that this thread records as incomplete: an update or a kept value is missing.
 * weir_graph_end then fails with the last failure's sentence, even if the caller ignores the
 * status. Returns s; never fails itself. */
WEIR_API weir_status weir_poison(weir_status s);

/* "0.1.0" of the library that is running, static (the macros above are those of the header). */
WEIR_API const char *weir_version(void);

/* The environment variables that Weir reads, a line each: name, reader ("library", or "cuda" for
 * the plugin), values, default and meaning, separated by tabs. Static. */
WEIR_API const char *weir_environment_text(void);

/* Frees text that the library returned (weir_graph_text and its like). NULL is fine. */
WEIR_API void weir_text_free(char *text);

/* f16 is IEEE 754 binary16, bf16 the upper half of an f32; on the host both are uint16_t. Integers
 * wrap. Those of the second row are reduced and added to rows through i64. */
typedef enum weir_dtype {
    WEIR_F32, WEIR_F64, WEIR_I32, WEIR_I64, WEIR_U8, WEIR_BOOL, WEIR_F16, WEIR_BF16,
    WEIR_I8, WEIR_I16, WEIR_U16, WEIR_U32, WEIR_U64
} weir_dtype;

/* Bytes of one element; 0 if t is not a dtype. */
WEIR_API size_t weir_dtype_size(weir_dtype t);

/* "f32", "i64", ..., static; "?" if t is not a dtype. */
WEIR_API const char *weir_dtype_name(weir_dtype t);

/* The type to which elements of types a and b are promoted, by PyTorch's rules for tensors: the
 * later one in bool, integers, f16 and bf16, f32, f64; f16 with bf16 gives f32. Of two integers it
 * is the narrowest type that holds the values of both; u64 with a signed type gives f64. */
WEIR_API weir_dtype weir_dtype_promote(weir_dtype a, weir_dtype b);

#define WEIR_MAX_DIMS 8

/* Element type and shape. ndim 0 is a scalar; any dim may be 0. Images are (n, channels, height,
 * width), whatever their physical layout. */
typedef struct weir_desc {
    weir_dtype dtype;                   /* of each element */
    int        ndim;                    /* number of axes, 0 to WEIR_MAX_DIMS */
    int64_t    dim[WEIR_MAX_DIMS];      /* elements along each axis; the first ndim are read */
} weir_desc;

/* Descriptors with 0, 1, 2, 3 and 4 axes of a, b, c and of n, c, h, w elements. Nothing is checked
 * here: functions that take a descriptor check it. */
static inline weir_desc weir_scalar(weir_dtype t)
{
    return (weir_desc){t, 0, {0}};
}
static inline weir_desc weir_1d(weir_dtype t, int64_t a)
{
    return (weir_desc){t, 1, {a}};
}
static inline weir_desc weir_2d(weir_dtype t, int64_t a, int64_t b)
{
    return (weir_desc){t, 2, {a, b}};
}
static inline weir_desc weir_3d(weir_dtype t, int64_t a, int64_t b, int64_t c)
{
    return (weir_desc){t, 3, {a, b, c}};
}
static inline weir_desc weir_4d(weir_dtype t, int64_t n, int64_t c, int64_t h, int64_t w)
{
    return (weir_desc){t, 4, {n, c, h, w}};
}

/* Host memory hooks for programs that bring their own allocator. Set them before any other call
 * (ERR_STATE while memory of Weir is in use); both functions or neither (NULL, NULL restores
 * libc's), else ERR_INVALID. alloc returns `bytes` bytes aligned for any type, or NULL; user is
 * passed on. Any thread may call them. */
typedef void *(*weir_alloc_fn)(size_t bytes, void *user);
typedef void (*weir_free_fn)(void *p, void *user);
WEIR_API weir_status weir_set_allocator(weir_alloc_fn alloc, weir_free_fn release, void *user);

/* Zeroed memory of `bytes` bytes from the library's allocator, which you own and free by
 * weir_host_free; NULL if memory runs out (ERR_NOMEM). Freeing NULL is fine. */
WEIR_API void *weir_host_alloc(size_t bytes);
WEIR_API void  weir_host_free(void *p);

/* The next number of SplitMix64 (Steele, Lea and Flood 2014), a stream of 64-bit numbers for
 * shuffles and synthetic data: the same on every machine. Any initial state will do. */
#define WEIR_SPLITMIX64_STEP 0x9e3779b97f4a7c15u    /* each call adds it to *state */
WEIR_API uint64_t weir_splitmix64(uint64_t *state);

#ifdef __cplusplus
}
#endif
#endif
