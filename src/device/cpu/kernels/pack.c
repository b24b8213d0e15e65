/* pack.c - PACK and UNPACK: elements as codes of 1 to 32 bits.
 *
 * Elements are converted to 32-bit codes, a chunk at a time in cache, and codes to bits, lowest
 * first; a task begins at a byte boundary. All conversions are exact, so every build and thread
 * count gives the same bits. */
#include <string.h>

#include "core/attr.h"
#include "core/half.h"
#include "device/common/div.h"
#include "device/common/packed.h"
#include "device/cpu/kernels.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "codes are copied as they lie");

enum { TASK = 32 << 10, CHUNK = 1024 };     /* elements, multiples of 8 */

/* ---- elements to codes and back ---- */

typedef struct coder {
    void (*encode)(int64_t n, uint32_t *code, const void *from, int64_t base);
    void (*decode)(int64_t n, void *to, const uint32_t *code, int64_t base);
} coder;

#define CODER(name, T, ENCODE, DECODE)                                                             \
    static void encode_##name(int64_t n, uint32_t *code, const void *from, int64_t base)           \
    {                                                                                              \
        const T *const x = from;                                                                   \
        (void)base;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            code[i] = ENCODE(x[i]);                                                                \
    }                                                                                              \
    static void decode_##name(int64_t n, void *to, const uint32_t *code, int64_t base)             \
    {                                                                                              \
        T *const x = to;                                                                           \
        (void)base;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            x[i] = DECODE(code[i]);                                                                \
    }

#define FROM_WHOLE(x) (uint32_t)((uint64_t)(int64_t)(x) - (uint64_t)base)
#define WHOLE(c)      (int64_t)((uint64_t)(c) + (uint64_t)base)

#define FROM_WHOLE_F16(x)  FROM_WHOLE(weir_from_f16(x))
#define FROM_WHOLE_BF16(x) FROM_WHOLE(weir_from_bf16(x))
#define WHOLE_F32(c)       (float)WHOLE(c)
#define WHOLE_F64(c)       (double)WHOLE(c)
#define WHOLE_I32(c)       (int32_t)WHOLE(c)
#define WHOLE_U8(c)        (uint8_t)WHOLE(c)
#define WHOLE_F16(c)       weir_to_f16((float)WHOLE(c))
#define WHOLE_BF16(c)      weir_to_bf16((float)WHOLE(c))

CODER(whole_f32, float, FROM_WHOLE, WHOLE_F32)
CODER(whole_f64, double, FROM_WHOLE, WHOLE_F64)
CODER(whole_i32, int32_t, FROM_WHOLE, WHOLE_I32)
CODER(whole_i64, int64_t, FROM_WHOLE, WHOLE)
CODER(whole_u8, uint8_t, FROM_WHOLE, WHOLE_U8)
CODER(whole_f16, uint16_t, FROM_WHOLE_F16, WHOLE_F16)
CODER(whole_bf16, uint16_t, FROM_WHOLE_BF16, WHOLE_BF16)

/* The upper 16 bits, including those of NaNs, which weir_to_bf16 would make quiet. */
#define FROM_BF16_F32(x) (weir_half_bits(x) >> 16)
#define FROM_BF16_F64(x) (weir_half_bits((float)(x)) >> 16)
#define BF16_F32(c)      weir_half_float((c) << 16)
#define BF16_F64(c)      (double)weir_half_float((c) << 16)
#define FROM_F16_F64(x)  weir_to_f16((float)(x))
#define F16_F32(c)       weir_from_f16((uint16_t)(c))
#define F16_F64(c)       (double)weir_from_f16((uint16_t)(c))
#define FROM_F32_F64(x)  weir_half_bits((float)(x))
#define F32_F64(c)       (double)weir_half_float(c)

CODER(bf16_f32, float, FROM_BF16_F32, BF16_F32)
CODER(bf16_f64, double, FROM_BF16_F64, BF16_F64)
CODER(f16_f32, float, weir_to_f16, F16_F32)
CODER(f16_f64, double, FROM_F16_F64, F16_F64)
CODER(f32_f64, double, FROM_F32_F64, F32_F64)

#define PAIR(name) {encode_##name, decode_##name}

static const coder coders[WEIR_PACK_KINDS][WEIR_BF16 + 1] = {
    [WEIR_PACK_WHOLE] = {[WEIR_F32] = PAIR(whole_f32), [WEIR_F64] = PAIR(whole_f64),
                         [WEIR_I32] = PAIR(whole_i32), [WEIR_I64] = PAIR(whole_i64),
                         [WEIR_U8] = PAIR(whole_u8), [WEIR_BOOL] = PAIR(whole_u8),
                         [WEIR_F16] = PAIR(whole_f16), [WEIR_BF16] = PAIR(whole_bf16)},
    [WEIR_PACK_BF16] = {[WEIR_F32] = PAIR(bf16_f32), [WEIR_F64] = PAIR(bf16_f64)},
    [WEIR_PACK_F16] = {[WEIR_F32] = PAIR(f16_f32), [WEIR_F64] = PAIR(f16_f64)},
    [WEIR_PACK_F32] = {[WEIR_F64] = PAIR(f32_f64)},
};

static const coder *coder_of(const weir_pack_attr *a)
{
    return &coders[a->kind][a->dtype];
}

/* ---- codes to bits and back ---- */

/* code[] must be padded with zeros to a whole byte. */
static void squeeze(int64_t n, int64_t bits, uint8_t *to, const uint32_t *code)
{
    const int64_t per = 8 / bits, wide = bits / 8;

    for (int64_t i = 0; i < n && bits >= 8; i++)
        memcpy(to + i * wide, &code[i], (size_t)wide);
    for (int64_t i = 0; bits < 8 && i < ceil_div(n, per); i++) {
        uint32_t byte = 0;
        for (int64_t k = 0; k < per; k++)
            byte |= code[i * per + k] << k * bits;
        to[i] = (uint8_t)byte;
    }
}

static void unpack_codes(int64_t n, int64_t bits, uint32_t *code, const uint8_t *from)
{
    const int64_t  per = 8 / bits, wide = bits / 8;
    const uint32_t mask = (1u << bits % 32) - 1;

    for (int64_t i = 0; i < n && bits >= 8; i++) {
        code[i] = 0;
        memcpy(&code[i], from + i * wide, (size_t)wide);
    }
    for (int64_t i = 0; bits < 8 && i < ceil_div(n, per); i++)
        for (int64_t k = 0; k < per; k++)
            code[i * per + k] = from[i] >> k * bits & mask;
}

/* ---- tasks ---- */

/* Elements [*first, result) of a task. */
static int64_t end_of(const weir_pack_attr *a, int64_t task, int64_t *first)
{
    *first = task * TASK;
    return min64(a->count, *first + TASK);
}

static void pack_task(void *ctx, int64_t task)
{
    const weir_kargs *const     k = ctx;
    const weir_pack_attr *const a = k->call->attr;
    const coder *const          c = coder_of(a);
    const size_t                size = weir_dtype_size((weir_dtype)a->dtype);
    uint32_t                    code[CHUNK + 8];
    int64_t                     at;

    for (int64_t end = end_of(a, task, &at); at < end; at += CHUNK) {
        const int64_t n = min64(CHUNK, end - at);
        c->encode(n, code, (const char *)k->src[0] + (size_t)at * size, a->base);
        memset(code + n, 0, 8 * sizeof *code);
        squeeze(n, a->bits, (uint8_t *)k->dst[0] + at * a->bits / 8, code);
    }
}

static void unpack_task(void *ctx, int64_t task)
{
    const weir_kargs *const     k = ctx;
    const weir_pack_attr *const a = k->call->attr;
    const coder *const          c = coder_of(a);
    const size_t                size = weir_dtype_size((weir_dtype)a->dtype);
    uint32_t                    code[CHUNK + 8];
    int64_t                     at;

    for (int64_t end = end_of(a, task, &at); at < end; at += CHUNK) {
        const int64_t n = min64(CHUNK, end - at);
        unpack_codes(n, a->bits, code, (const uint8_t *)k->src[0] + at * a->bits / 8);
        c->decode(n, (char *)k->dst[0] + (size_t)at * size, code, a->base);
    }
}

static weir_status over_tasks(const weir_kargs *k, weir_task_fn fn)
{
    const weir_pack_attr *const a = k->call->attr;
    weir_kargs                  args = *k;

    if (a->count > 0)
        weir_parallel(k->threads, ceil_div(a->count, TASK), fn, &args);
    return WEIR_OK;
}

static weir_status pack_run(const weir_kargs *k)
{
    return over_tasks(k, pack_task);
}

static weir_status unpack_run(const weir_kargs *k)
{
    return over_tasks(k, unpack_task);
}

static weir_status choose(const weir_call *c, const weir_layout *plain, const weir_layout *packed,
                          weir_status (*run)(const weir_kargs *), weir_kernel *out)
{
    WEIR_TRY(packed_check(c, plain, packed));
    *out = (weir_kernel){.run = run, .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_pack(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, &c->in[0], &c->out[0], pack_run, out);
}

weir_status weir_cpu_unpack(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, &c->out[0], &c->in[0], unpack_run, out);
}
