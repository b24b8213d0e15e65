/* rtc_types.h - the types and macros of core's arithmetic headers that NVRTC, which has no headers,
 * lacks.
 *
 * The text of this file is part of every kernel compiled at run time. */
#ifdef __CUDACC_RTC__

typedef signed char        int8_t;
typedef unsigned char      uint8_t;
typedef short              int16_t;
typedef unsigned short     uint16_t;
typedef int                int32_t;
typedef unsigned           uint32_t;
typedef long long          int64_t;
typedef unsigned long long uint64_t;

#define UINT64_C(x) x##ull
#define INT64_MAX   0x7fffffffffffffffll
#define INT64_MIN   (-INT64_MAX - 1)
#define INT32_MAX   0x7fffffff
#define INT32_MIN   (-INT32_MAX - 1)
#define INT16_MAX   32767
#define INT16_MIN   (-INT16_MAX - 1)
#define INT8_MAX    127
#define INT8_MIN    (-INT8_MAX - 1)
#define UINT64_MAX  0xffffffffffffffffull
#define UINT32_MAX  0xffffffffu
#define UINT16_MAX  65535
#define UINT8_MAX   255
#define NAN         __int_as_float(0x7fc00000)
#define INFINITY    __int_as_float(0x7f800000)
#define HUGE_VAL    __longlong_as_double(0x7ff0000000000000ll)

#define __builtin_sqrtf     sqrtf
#define __builtin_sqrt      sqrt
#define __builtin_fabsf     fabsf
#define __builtin_fabs      fabs
#define __builtin_floorf    floorf
#define __builtin_floor     floor
#define __builtin_ceilf     ceilf
#define __builtin_ceil      ceil
#define __builtin_rintf     rintf
#define __builtin_rint      rint
#define __builtin_truncf    truncf
#define __builtin_trunc     trunc
#define __builtin_fmodf     fmodf
#define __builtin_fmod      fmod
#define __builtin_copysignf copysignf
#define __builtin_copysign  copysign

#define WEIR_KERNEL extern "C" __global__ __launch_bounds__(256)

#endif
