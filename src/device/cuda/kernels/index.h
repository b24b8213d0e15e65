/* index.h - from the number of an element to its offset in operands of any strides; elements that
 * are moved several at a time. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_INDEX_H
#define WEIR_DEVICE_CUDA_KERNELS_INDEX_H

#include "device/cuda/kernels/divide.h"
#include "device/cuda/runtime/launch.h"

/* The run of a call without elements. */
static inline weir_status weir_run_nothing(const weir_kargs *k)
{
    (void)k;
    return WEIR_OK;
}

/* N operands over the same axes, outermost first; strides in elements. */
template <int N> struct weir_strided_index {
    int     n;
    bool    wide;
    int64_t count;                              /* elements */
    struct {
        weir_divisor dim;
        int64_t      step[N];
    } at[COPY_AXES_MAX];
};

/* Appends an axis inside those so far. */
template <int N>
static inline void weir_strided_index_add(weir_strided_index<N> *w, int64_t dim,
                                          const int64_t *step)
{
    if (w->n == 0)
        w->count = 1;
    w->at[w->n].dim = weir_divisor_of(dim);
    for (int k = 0; k < N; k++)
        w->at[w->n].step[k] = step[k];
    w->n++;
    w->count *= dim;
    w->wide = w->count >= WEIR_NARROW_END;
}

/* Offset of element i in each operand. */
template <int N>
static __host__ __device__ inline void weir_strided_index_at(const weir_strided_index<N> &w,
                                                             int64_t i, int64_t place[N])
{
    for (int k = 0; k < N; k++)
        place[k] = 0;
    for (int a = w.n - 1; a >= 0; a--) {
        const int64_t q = a > 0 ? weir_divide(i, w.at[a].dim, w.wide) : 0;
        const int64_t digit = i - q * w.at[a].dim.by;
        for (int k = 0; k < N; k++)
            place[k] += digit * w.at[a].step[k];
        i = q;
    }
}

/* If threads process several elements each, these are a block's number of threads apart. */
enum { WEIR_SEVERAL = 4, WEIR_CHUNK = WEIR_SEVERAL * (int)WEIR_CUDA_THREADS };

/* Blocks for n units of work, `per_block` each, up to WEIR_CUDA_BLOCKS blocks. */
static inline unsigned weir_blocks_of(int64_t n, int64_t per_block)
{
    return (unsigned)min64(ceil_div(n, per_block), WEIR_CUDA_BLOCKS);
}

/* The widest unit of 16, 8, ... bytes, at least the size of an element, that divides all addresses
 * and strides in bytes, or-ed together: copies do not depend on the element type. */
static inline size_t weir_unit(uint64_t places, size_t size)
{
    const uint64_t any = places | 16, unit = any & (~any + 1);
    return unit > size ? (size_t)unit : size;
}

/* Calls F<T>(args...) for the type T of `unit` bytes. */
#define WEIR_BY_UNIT(unit, F, ...)                                                                 \
    ((unit) == 16  ? F<uint4>(__VA_ARGS__)                                                         \
     : (unit) == 8 ? F<uint64_t>(__VA_ARGS__)                                                      \
     : (unit) == 4 ? F<uint32_t>(__VA_ARGS__)                                                      \
     : (unit) == 2 ? F<uint16_t>(__VA_ARGS__)                                                      \
                   : F<uint8_t>(__VA_ARGS__))

/* N adjacent elements that are read or written together. */
template <class T, int N> struct alignas(sizeof(T) * N) weir_lot {
    T at[N];
};

/* An element of `size` bytes, repeated to fill 16. */
typedef struct weir_splat {
    alignas(16) char byte[16];
} weir_splat;

static inline weir_splat weir_splat_of(const void *element, size_t size)
{
    weir_splat s;

    for (size_t i = 0; i < sizeof s.byte; i += size)
        memcpy(s.byte + i, element, size);
    return s;
}

#endif
