/* elementwise_isa.c - one vectorised function per row of elementwise.def and type.
 *
 * The list is included once per type. The loops are plain C that the compiler vectorises, without
 * contraction or approximations, so every instruction set gives the same bits. Integers that may
 * wrap are computed unsigned. Rows of f16 and bf16 convert a few hundred elements to f32, compute
 * there, and round once. */
#include "device/cpu/half_lanes.h"
#include "device/cpu/kernels/elementwise.h"

/* Rows that call libm stay scalar in f64, which clang would report. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#include "core/half.h"
#include "core/row.h"
#include "device/cpu/isa.h"
#include "device/cpu/run.h"

#define ROW_NAME(id) ROW_PASTE(row, id, SUFFIX)

/* Evaluated at compile time: the text of the row tells whether it draws. */
#define ROW_DRAWS(text)  (__builtin_strstr(text, "DRAW") != NULL)
#define ROW_NORMAL(text) (__builtin_strstr(text, "DRAW_NORMAL") != NULL)

#define ROW_OPERANDS(arity, E)                                                                     \
    const E *const pa = (arity) > 0 ? in[0] : NULL, *const pb = (arity) > 1 ? in[1] : NULL;        \
    const E *const pc = (arity) > 2 ? in[2] : NULL, *const pd = (arity) > 3 ? in[3] : NULL;        \
    const E *const pe = (arity) > 4 ? in[4] : NULL, *const pf = (arity) > 5 ? in[5] : NULL;        \
    const E *const pg = (arity) > 6 ? in[6] : NULL;                                                \
    const T        s = (T)ROW_PASTE(attr, of, SUFFIX)(r->s);                                       \
    const T        t = (T)ROW_PASTE(attr, of, SUFFIX)(r->t);                                       \
    E *const       to = out;                                                                       \
    (void)s, (void)t, (void)pa, (void)pb, (void)pc, (void)pd, (void)pe, (void)pf, (void)pg

#define ROW_BIND(arity, i)                                                                         \
    const T a = (arity) > 0 ? pa[i] : 0, b = (arity) > 1 ? pb[i] : 0, c = (arity) > 2 ? pc[i] : 0; \
    const T d = (arity) > 3 ? pd[i] : 0, e = (arity) > 4 ? pe[i] : 0, f = (arity) > 5 ? pf[i] : 0; \
    const T g = (arity) > 6 ? pg[i] : 0;                                                           \
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g

/* Draws are generated in chunks of whole 16-block groups, into a buffer that stays in cache. */
enum { DRAW_CHUNK = 256, DRAW_GROUP = 16 };

/* The random words of elements [at, at + some) of the row: element at + j has word lead + j; words
 * [0, 4 * blocks) are valid. */
typedef struct draw_span {
    int64_t  lead, some, blocks;
    uint32_t word[DRAW_CHUNK];
} draw_span;

static inline void draw_words(draw_span *w, const weir_row_args *r, int64_t at, int64_t n)
{
    const int64_t  first = r->first + at;
    const uint64_t counter = r->counter + (uint64_t)(first / 4);

    w->lead = first % 4;
    w->some = n - at < DRAW_CHUNK - w->lead ? n - at : DRAW_CHUNK - w->lead;
    w->blocks = (w->lead + w->some + 3) / 4;
    for (int64_t group = 0; group < w->blocks; group += DRAW_GROUP) {
        uint32_t *const to = w->word + 4 * group;
        for (uint64_t j = 0; j < DRAW_GROUP; j++)
            weir_philox(r->seed, counter + (uint64_t)group + j, to + 4 * j);
    }
}

#define ROW_FLOATS_FUNCTION(id, arity, value, text)                                                \
    static void ROW_NAME(id)(int64_t n, void *out, const void *const *in, const weir_row_args *r)  \
    {                                                                                              \
        ROW_OPERANDS(arity, T);                                                                    \
        if (!ROW_DRAWS(text)) {                                                                    \
            const T uniform = 0, normal = 0;                                                       \
            (void)uniform, (void)normal, (void)in;                                                 \
            RUN_LOOP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                ROW_BIND(arity, i);                                                                \
                to[i] = value;                                                                     \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        draw_span w;                                                                               \
        T         drawn[DRAW_CHUNK];                                                               \
        for (int64_t at = 0; at < n; at += w.some) {                                              \
            draw_words(&w, r, at, n);                                                              \
            if (ROW_NORMAL(text))                                                                  \
                ROW_PASTE(draw, normal, SUFFIX)(&w, drawn);                                        \
            else                                                                                   \
                ROW_PASTE(draw, uniform, SUFFIX)(&w, drawn);                                       \
            RUN_LOOP                                                                               \
            for (int64_t j = 0; j < w.some; j++) {                                                \
                const T uniform = drawn[w.lead + j], normal = uniform;                             \
                ROW_BIND(arity, at + j);                                                           \
                (void)uniform, (void)normal;                                                       \
                to[at + j] = value;                                                                \
            }                                                                                      \
        }                                                                                          \
    }

/* E: the type of an element in memory; T may be wider, so that products do not overflow an int. */
#define ROW_NUMBERS_FUNCTION(id, arity, value)                                                     \
    static void ROW_NAME(id)(int64_t n, void *out, const void *const *in, const weir_row_args *r)  \
    {                                                                                              \
        ROW_OPERANDS(arity, E);                                                                    \
        RUN_LOOP                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            ROW_BIND(arity, i);                                                                    \
            to[i] = (E)(value);                                                                    \
        }                                                                                          \
    }

#define ROW_DRAW_FUNCTIONS                                                                         \
    static void ROW_PASTE(draw, uniform, SUFFIX)(const draw_span *w, T *to)                        \
    {                                                                                              \
        for (int64_t j = 0; j < 4 * w->blocks; j++)                                                \
            to[j] = K(weir_uniform_from(w->word[j]));                                              \
    }                                                                                              \
    static void ROW_PASTE(draw, normal, SUFFIX)(const draw_span *w, T *to)                         \
    {                                                                                              \
        for (int64_t j = 0; j < 2 * w->blocks; j++)                                                \
            ROW_PASTE(weir, normals, SUFFIX)(w->word[2 * j], w->word[2 * j + 1], &to[2 * j],       \
                                             &to[2 * j + 1]);                                      \
    }

/* ---- floats ---- */
/* The text is taken here, where DRAW is not expanded yet. */
#define ROW(ID, id, arity, types, value) ROW_FLOATS_OF_##types(id, arity, value, #value)
#define ROW_FLOATS_OF_FLOATS             ROW_FLOATS_FUNCTION
#define ROW_FLOATS_OF_NUMBERS            ROW_FLOATS_FUNCTION
#define ROW_FLOATS_OF_ORDERED            ROW_FLOATS_FUNCTION
#define ROW_FLOATS_OF_WHOLE(id, arity, value, text)

#define T         float
#define SUFFIX    f32
ROW_DRAW_FUNCTIONS
#include "core/elementwise.def"
#undef T
#undef SUFFIX

#define T         double
#define SUFFIX    f64
ROW_DRAW_FUNCTIONS
#include "core/elementwise.def"
#undef T
#undef SUFFIX
#undef ROW

/* ---- halves: blocks of f32; draws get the position of a block's first element ---- */
enum { HALF_BLOCK = 256 };

#define ROW_THROUGH(id)                                                                            \
    static void widen_##id(int64_t n, void *restrict to, const void *restrict from)                \
    {                                                                                              \
        const uint16_t *const f = from;                                                            \
        float *const          t = to;                                                              \
        int64_t               i = weir_widen_vectors_##id(n, t, f);                                \
        for (; i < n; i++)                                                                         \
            t[i] = weir_from_##id(f[i]);                                                           \
    }                                                                                              \
    static void narrow_##id(int64_t n, void *restrict to, const void *restrict from)               \
    {                                                                                              \
        const float *const f = from;                                                               \
        uint16_t *const    t = to;                                                                 \
        int64_t            i = weir_narrow_vectors_##id(n, t, f);                                  \
        for (; i < n; i++)                                                                         \
            t[i] = weir_to_##id(f[i]);                                                             \
    }                                                                                              \
    static void round_##id(int64_t n, float *x)                                                    \
    {                                                                                              \
        int64_t i = weir_round_vectors_##id(n, x);                                                 \
        for (; i < n; i++)                                                                         \
            x[i] = weir_from_##id(weir_to_##id(x[i]));                                             \
    }                                                                                              \
    static void through_##id(weir_row_fn row, int arity, int64_t n, void *out,                     \
                             const void *const *in, const weir_row_args *r)                        \
    {                                                                                              \
        _Alignas(64) float block[WEIR_MAX_IN + 1][HALF_BLOCK];                                     \
        const void   *from[WEIR_MAX_IN];                                                           \
        weir_row_args own = *r;                                                                    \
        for (int64_t at = 0; at < n; at += HALF_BLOCK, own.first += HALF_BLOCK) {                  \
            const int64_t some = n - at < HALF_BLOCK ? n - at : HALF_BLOCK;                        \
            for (int k = 0; k < arity; k++) {                                                      \
                from[k] = block[k];                                                                \
                widen_##id(some, block[k], (const uint16_t *)in[k] + at);                          \
            }                                                                                      \
            row(some, block[WEIR_MAX_IN], from, &own);                                             \
            narrow_##id(some, (uint16_t *)out + at, block[WEIR_MAX_IN]);                           \
        }                                                                                          \
    }
ROW_THROUGH(f16)
ROW_THROUGH(bf16)

#define ROW_HALF_FUNCTION(id, arity, half)                                                         \
    static void row_##id##_##half(int64_t n, void *out, const void *const *in,                     \
                                  const weir_row_args *r)                                          \
    {                                                                                              \
        through_##half(row_##id##_f32, arity, n, out, in, r);                                      \
    }
#define ROW(ID, id, arity, types, value)   ROW_HALVES_OF_##types(id, arity)
#define ROW_HALVES_OF_FLOATS(id, arity)                                                            \
    ROW_HALF_FUNCTION(id, arity, f16)                                                              \
    ROW_HALF_FUNCTION(id, arity, bf16)
#define ROW_HALVES_OF_NUMBERS(id, arity)   ROW_HALVES_OF_FLOATS(id, arity)
#define ROW_HALVES_OF_ORDERED(id, arity)   ROW_HALVES_OF_FLOATS(id, arity)
#define ROW_HALVES_OF_WHOLE(id, arity)
#include "core/elementwise.def"
#undef ROW

/* ---- integers: rows of NUMBERS in unsigned types, for both signs; rows of ORDERED and WHOLE in
 * their own. */
#define ROW(ID, id, arity, types, value)  ROW_OF_##types(id, arity, value)
#define ROW_OF_FLOATS(id, arity, value)
#define ROW_OF_NUMBERS(id, arity, value)  ROW_NUMBERS_FUNCTION(id, arity, value)
#define ROW_OF_ORDERED(id, arity, value)
#define ROW_OF_WHOLE(id, arity, value)

#define T      uint8_t
#define E      uint8_t
#define SUFFIX u8
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      uint32_t
#define E      uint16_t
#define SUFFIX u16
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      uint32_t
#define E      uint32_t
#define SUFFIX u32
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      uint64_t
#define E      uint64_t
#define SUFFIX u64
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#undef ROW_OF_NUMBERS
#undef ROW_OF_ORDERED
#undef ROW_OF_WHOLE
#define ROW_OF_NUMBERS(id, arity, value)
#define ROW_OF_ORDERED(id, arity, value)  ROW_NUMBERS_FUNCTION(id, arity, value)
#define ROW_OF_WHOLE(id, arity, value)    ROW_NUMBERS_FUNCTION(id, arity, value)

#define T      int8_t
#define E      int8_t
#define SUFFIX i8
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      int16_t
#define E      int16_t
#define SUFFIX i16
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      int32_t
#define E      int32_t
#define SUFFIX i32
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      int64_t
#define E      int64_t
#define SUFFIX i64
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

/* Rows compare with 0, which the compiler finds always false for unsigned types. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#endif
#define T      uint8_t
#define E      uint8_t
#define SUFFIX u8
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      uint16_t
#define E      uint16_t
#define SUFFIX u16
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      uint32_t
#define E      uint32_t
#define SUFFIX u32
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX

#define T      uint64_t
#define E      uint64_t
#define SUFFIX u64
#include "core/elementwise.def"
#undef T
#undef E
#undef SUFFIX
#undef ROW
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* ---- the tables ---- */
const weir_half_entry WEIR_ISA_NAME(weir_halves)[WEIR_ROW_TYPES] = {
    [WEIR_F16] = {widen_f16, narrow_f16, round_f16},
    [WEIR_BF16] = {widen_bf16, narrow_bf16, round_bf16}};

#define ROW(ID, id, arity, types, value) [WEIR_OP_##ID] = {.fn = {ROW_ENTRY_##types(id)}},
#define ROW_ENTRY_FLOATS(id)                                                                       \
    [WEIR_F32] = row_##id##_f32, [WEIR_F64] = row_##id##_f64, [WEIR_F16] = row_##id##_f16,         \
    [WEIR_BF16] = row_##id##_bf16
#define ROW_ENTRY_UNSIGNED(id)                                                                     \
    [WEIR_U8] = row_##id##_u8, [WEIR_U16] = row_##id##_u16, [WEIR_U32] = row_##id##_u32,           \
    [WEIR_U64] = row_##id##_u64
#define ROW_ENTRY_NUMBERS(id)                                                                      \
    ROW_ENTRY_FLOATS(id), ROW_ENTRY_UNSIGNED(id), [WEIR_I8] = row_##id##_u8,                       \
    [WEIR_I16] = row_##id##_u16, [WEIR_I32] = row_##id##_u32, [WEIR_I64] = row_##id##_u64
#define ROW_ENTRY_WHOLE(id)                                                                        \
    ROW_ENTRY_UNSIGNED(id), [WEIR_I8] = row_##id##_i8, [WEIR_I16] = row_##id##_i16,                \
    [WEIR_I32] = row_##id##_i32, [WEIR_I64] = row_##id##_i64
#define ROW_ENTRY_ORDERED(id) ROW_ENTRY_FLOATS(id), ROW_ENTRY_WHOLE(id)

const weir_row_entry WEIR_ISA_NAME(weir_rows)[WEIR_OP_COUNT] = {
#include "core/elementwise.def"
};
