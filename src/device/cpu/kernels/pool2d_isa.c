/* pool2d_isa.c - the loops of pooling over channels, compiled once per instruction set.
 *
 * Vectors have 256 bits even with AVX-512: channels may be few, and a tail that does not fill a
 * vector costs more than wide vectors gain on data from memory (20 channels: twice the time). */
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
#pragma GCC target("prefer-vector-width=256")
#endif

#include "device/cpu/kernels/pool2d.h"

#include "device/cpu/isa.h"

#define T        float
#define I        int32_t
#define FN(name) name##_f32
#include "device/cpu/kernels/pool2d_type.h"

#define T        double
#define I        int64_t
#define FN(name) name##_f64
#include "device/cpu/kernels/pool2d_type.h"

const weir_pool_loops WEIR_ISA_NAME(weir_pool_loops)[2] = {
    {max_f32, max_grad_f32, sum_f32, scaled_f32, scale_f32},
    {max_f64, max_grad_f64, sum_f64, scaled_f64, scale_f64},
};
