/* divide.h - floor and truncated quotients, remainders, integer powers and shifts: M_div_floor,
 * M_div_trunc, M_remainder, M_pow, M_shift_left and M_shift_right of elementwise.def.
 *
 * Floats follow Python and PyTorch. The quotient is derived from fmod, which is exact, not from a
 * rounded quotient: 1.0 / 0.1 rounds up to 10, but its floor is 9. Integers wrap; division by 0
 * gives 0, as in NumPy, since no element can stop a planned step (PyTorch raises on a CPU).
 *
 * The text of this file is also part of kernels compiled at run time. */
#ifndef WEIR_CORE_DIVIDE_H
#define WEIR_CORE_DIVIDE_H

#define WEIR_DIVIDE_FLOATS(T, S, f)                                                                \
    static inline T weir_remainder_##S(T a, T b)                                                   \
    {                                                                                              \
        const T rest = __builtin_fmod##f(a, b);                                                    \
        return rest != (T)0 && (rest < (T)0) != (b < (T)0) ? rest + b : rest;                      \
    }                                                                                              \
    static inline T weir_div_trunc_##S(T a, T b)                                                   \
    {                                                                                              \
        const T q = a / b, whole = __builtin_trunc##f(q);                                          \
        return q != q ? q : whole;                                                                 \
    }                                                                                              \
    /* (a - rest) / b is a whole number up to rounding. */                                         \
    static inline T weir_div_floor_##S(T a, T b)                                                   \
    {                                                                                              \
        const T    rest = __builtin_fmod##f(a, b), down = (a - rest) / b;                          \
        const bool below = rest != (T)0 && (rest < (T)0) != (b < (T)0);                            \
        const T    q = below ? down - (T)1 : down, low = __builtin_floor##f(q);                    \
        const T    whole = q - low > (T)0.5 ? low + (T)1 : low;                                    \
        const T    value = q == (T)0 ? __builtin_copysign##f((T)0, a / b) : whole;                 \
        return b == (T)0 ? a / b : q != q ? q : value;                                             \
    }

WEIR_DIVIDE_FLOATS(float, f32, f)
WEIR_DIVIDE_FLOATS(double, f64, )

/* U: an unsigned type in which nothing overflows, as wide as T or as int. NEGATIVE(x): x < 0. The
 * least integer divided by -1 wraps to itself. */
#define WEIR_DIVIDE_INTEGERS(T, U, S, NEGATIVE)                                                    \
    static inline T weir_div_trunc_##S(T a, T b)                                                   \
    {                                                                                              \
        return (T)(b == 0 ? 0 : NEGATIVE(b) && b + (T)1 == 0 ? (T)((U)0 - (U)a) : a / b);          \
    }                                                                                              \
    static inline T weir_rest_##S(T a, T b)                                                        \
    {                                                                                              \
        return (T)(b == 0 || (NEGATIVE(b) && b + (T)1 == 0) ? 0 : a % b);                          \
    }                                                                                              \
    static inline T weir_div_floor_##S(T a, T b)                                                   \
    {                                                                                              \
        const bool below = weir_rest_##S(a, b) != 0 && NEGATIVE(a) != NEGATIVE(b);                 \
        return (T)((U)weir_div_trunc_##S(a, b) - (U)below);                                        \
    }                                                                                              \
    static inline T weir_remainder_##S(T a, T b)                                                   \
    {                                                                                              \
        const T rest = weir_rest_##S(a, b);                                                        \
        return (T)(rest != 0 && NEGATIVE(a) != NEGATIVE(b) ? rest + b : rest);                     \
    }                                                                                              \
    /* Negative powers truncate to 0, except those of 1 and -1. */                                 \
    static inline T weir_pow_##S(T a, T b)                                                         \
    {                                                                                              \
        U y = 1, x = (U)a;                                                                         \
        if (NEGATIVE(b))                                                                           \
            return a == 1 ? (T)1 : (U)a + (U)1 != 0 ? (T)0 : b % 2 != 0 ? a : (T)1;                \
        for (U n = (U)b; n != 0; n = (U)(n >> 1), x = (U)(x * x))                                  \
            y = (U)(n & 1 ? y * x : y);                                                            \
        return (T)y;                                                                               \
    }                                                                                              \
    static inline bool weir_shifts_all_##S(T b)                                                    \
    {                                                                                              \
        return NEGATIVE(b) || (uint64_t)b >= 8 * sizeof(T);                                        \
    }                                                                                              \
    /* Bits that leave the type are lost, so are all if b is negative or not less than their       \
     * number; on the right the sign is repeated. */                                               \
    static inline T weir_shift_left_##S(T a, T b)                                                  \
    {                                                                                              \
        return (T)(weir_shifts_all_##S(b) ? 0 : (U)a << b);                                        \
    }                                                                                              \
    static inline T weir_shift_right_##S(T a, T b)                                                 \
    {                                                                                              \
        const T sign = NEGATIVE(a) ? (T)-1 : (T)0;                                                 \
        return (T)(weir_shifts_all_##S(b) ? sign : a >> b);                                        \
    }

#define WEIR_IS_NEGATIVE(x) ((x) < 0)
#define WEIR_NEVER(x)       ((void)(x), false)
WEIR_DIVIDE_INTEGERS(int32_t, uint32_t, i32, WEIR_IS_NEGATIVE)
WEIR_DIVIDE_INTEGERS(int64_t, uint64_t, i64, WEIR_IS_NEGATIVE)
WEIR_DIVIDE_INTEGERS(uint8_t, uint8_t, u8, WEIR_NEVER)
WEIR_DIVIDE_INTEGERS(int8_t, uint32_t, i8, WEIR_IS_NEGATIVE)
WEIR_DIVIDE_INTEGERS(int16_t, uint32_t, i16, WEIR_IS_NEGATIVE)
WEIR_DIVIDE_INTEGERS(uint16_t, uint32_t, u16, WEIR_NEVER)
WEIR_DIVIDE_INTEGERS(uint32_t, uint32_t, u32, WEIR_NEVER)
WEIR_DIVIDE_INTEGERS(uint64_t, uint64_t, u64, WEIR_NEVER)

#endif
