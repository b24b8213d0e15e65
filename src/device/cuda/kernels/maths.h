/* maths.h - the CPU's arithmetic in kernels: the same polynomials, conversions and random words.
 * Kernels are compiled without contraction, so additions and products round as on the CPU. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_MATHS_H
#define WEIR_DEVICE_CUDA_KERNELS_MATHS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/cuda/runtime/launch.h"

/* Compiles the functions of these headers for the device as well. */
#define inline inline __host__ __device__
#include "core/half.h"
#include "core/maths.h"
#include "core/rng.h"
#undef inline

/* An element type of the table, and the type in which kernels compute it. */
struct weir_f16 {
    uint16_t bits;
};
struct weir_bf16 {
    uint16_t bits;
};

template <class T> struct weir_real {
    typedef T type;
};
template <> struct weir_real<weir_f16> {
    typedef float type;
};
template <> struct weir_real<weir_bf16> {
    typedef float type;
};

template <class T> static __device__ inline T weir_load(const T *p)
{
    return *p;
}
static __device__ inline float weir_load(const weir_f16 *p)
{
    return weir_from_f16(p->bits);
}
static __device__ inline float weir_load(const weir_bf16 *p)
{
    return weir_from_bf16(p->bits);
}
template <class T> static __device__ inline void weir_cuda_offload(T *p, T value)
{
    *p = value;
}
static __device__ inline void weir_cuda_offload(weir_f16 *p, float value)
{
    p->bits = weir_to_f16(value);
}
static __device__ inline void weir_cuda_offload(weir_bf16 *p, float value)
{
    p->bits = weir_to_bf16(value);
}

static __device__ inline float  weir_exp(float x)  { return weir_exp_f32(x); }
static __device__ inline double weir_exp(double x) { return weir_exp_f64(x); }
static __device__ inline float  weir_log(float x)  { return weir_log_f32(x); }
static __device__ inline double weir_log(double x) { return weir_log_f64(x); }
static __device__ inline float  weir_tanh(float x)  { return weir_tanh_f32(x); }
static __device__ inline double weir_tanh(double x) { return weir_tanh_f64(x); }

#endif
