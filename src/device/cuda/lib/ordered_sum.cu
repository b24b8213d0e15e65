/* ordered_sum.cu - sums over ranks, with the bits of comm/order.c.
 *
 * A tree over the ranks is what a binary counter adds: a partial sum of 2^k ranks meets the next of
 * its size, and those that are left at the end are added from the smallest. Each operand is added
 * to +0 first, so a sum of negative zeros is +0, as weir_accumulate's is. */
#include "device/cuda/kernels/maths.h"
#include "device/cuda/lib/ordered_sum.h"

enum { LEVELS = 17 };           /* of a tree over 2^16 ranks */

struct operands {
    void       *to;
    const void *own;
    const char *others;
    size_t      stride;
    int         rank, world;
};

/* The type in which elements are summed: unsigned integers wrap. */
template <class T> struct sum_type {
    typedef T type;
};
template <> struct sum_type<weir_f16> {
    typedef float type;
};
template <> struct sum_type<weir_bf16> {
    typedef float type;
};

/* Element i of the operand of rank r, added to +0. */
template <class T>
static __device__ inline typename sum_type<T>::type operand(const operands &o, int r, int64_t i)
{
    typedef typename sum_type<T>::type A;
    const void *const from = r == o.rank ? o.own
                                         : o.others + (size_t)(r < o.rank ? r : r - 1) * o.stride;

    return (A)((A)0 + (A)weir_load((const T *)from + i));
}

template <class T> static __global__ void serial_sum(operands o, int64_t n)
{
    typedef typename sum_type<T>::type A;

    WEIR_EACH(i, n) {
        A sum = operand<T>(o, 0, i);
        for (int r = 1; r < o.world; r++)
            sum = (A)(sum + operand<T>(o, r, i));
        weir_cuda_offload((T *)o.to + i, sum);
    }
}

template <class T> static __global__ void tree_sum(operands o, int64_t n)
{
    typedef typename sum_type<T>::type A;

    WEIR_EACH(i, n) {
        A   part[LEVELS + 1];
        int parts = 0;
        for (int r = 0; r < o.world; r++) {
            part[parts++] = operand<T>(o, r, i);
            for (int size = r + 1; size % 2 == 0; size /= 2, parts--)
                part[parts - 2] = (A)(part[parts - 2] + part[parts - 1]);
        }
        for (; parts > 1; parts--)
            part[parts - 2] = (A)(part[parts - 2] + part[parts - 1]);
        weir_cuda_offload((T *)o.to + i, part[0]);
    }
}

template <class T>
static cudaError_t queue(cudaStream_t stream, const operands &o, int64_t n, weir_sum_order order)
{
    return weir_launch_on(stream, order == WEIR_SUM_TREE ? tree_sum<T> : serial_sum<T>,
                          dim3(weir_cuda_blocks(n)), dim3(WEIR_CUDA_THREADS), o, n);
}

weir_status weir_cuda_ordered_sum(cudaStream_t stream, const weir_rank_sum *s, int rank, int world,
                                  weir_sum_order order)
{
    const operands o = {s->to, s->own, s->others, s->stride, rank, world};
    const int64_t  n = s->count;
    cudaError_t    e = cudaErrorInvalidValue;

    switch (s->dtype) {
    case WEIR_F32:  e = queue<float>(stream, o, n, order); break;
    case WEIR_F64:  e = queue<double>(stream, o, n, order); break;
    case WEIR_F16:  e = queue<weir_f16>(stream, o, n, order); break;
    case WEIR_BF16: e = queue<weir_bf16>(stream, o, n, order); break;
    case WEIR_I32:
    case WEIR_U32:  e = queue<uint32_t>(stream, o, n, order); break;
    case WEIR_I64:
    case WEIR_U64:  e = queue<uint64_t>(stream, o, n, order); break;
    case WEIR_I16:
    case WEIR_U16:  e = queue<uint16_t>(stream, o, n, order); break;
    case WEIR_I8:
    case WEIR_U8:   e = queue<uint8_t>(stream, o, n, order); break;
    default:        break;
    }
    return weir_cuda_status(e, NULL, "sum over ranks");
}
