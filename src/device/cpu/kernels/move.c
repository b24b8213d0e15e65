/* move.c - COPY, RESHAPE and the other moves, CAST, FILL.
 *
 * A copy pairs the axes of input and output (copy_axes.h) and iterates over them in the output's
 * physical order; sides without common factors are iterated separately. Two axes are special:
 * `inner` has the smallest stride in the output, `row` is contiguous in the input if that is
 * another axis; blocks of both use whole cache lines on both sides. Inner is contiguous in a dense
 * output, but not in a part of one (slice.c). */
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/half.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/common/copy_axes.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/run.h"

/* to[i] = from[i * stride] */
typedef void (*run_fn)(int64_t n, void *to, const void *from, int64_t stride);

enum {
    BLOCK    = 32,              /* side of a transposed block */
    TASK     = 16 << 10         /* elements */
};

/* A unit of work is one block of `row` x `inner` at one position of the other axes. */
typedef struct move {
    run_fn    run;
    /* In place of run where inner is contiguous on both sides; or NULL. */
    weir_half_fn adjacent;
    size_t    in_size, out_size;
    int64_t   units, per_task;
    int64_t   row_block, inner_block, row_blocks, inner_blocks;
    copy_axis row, inner;
    bool      square;  /* row is contiguous in the input; 4-byte elements without conversion */
    bool      strided; /* inner is not contiguous in the output: then no conversion happens */
    int       nouter;
    copy_axis outer[COPY_AXES_MAX];
} move;

/* ---- runs ---- */

static void copy_1(int64_t n, void *to, const void *from, int64_t stride)
{
    run_copy(to, from, stride, n, 1);
}

static void copy_2(int64_t n, void *to, const void *from, int64_t stride)
{
    run_copy(to, from, stride, n, 2);
}

static void copy_4(int64_t n, void *to, const void *from, int64_t stride)
{
    run_copy(to, from, stride, n, 4);
}

static void copy_8(int64_t n, void *to, const void *from, int64_t stride)
{
    run_copy(to, from, stride, n, 8);
}

/* Conversions TO_<to>_<class of from>: F f64, S f32 (halves are read as f32), I integers, U u64.
 * Integers wrap; floats truncate, and values that do not fit, NaN included, become 0; halves are
 * rounded once. A bool is written as 0 or 1; when read, any nonzero byte is true. */
#define WITHIN(x, T, least, end) ((double)(x) > (least) && (double)(x) < (end) ? (T)(x) : (T)0)

#define TO_f32_F(x)  ((float)(x))
#define TO_f32_I(x)  ((float)(x))
#define TO_f32_S(x)  (x)
#define TO_f64_F(x)  ((double)(x))
#define TO_f64_I(x)  ((double)(x))
#define TO_i8_F(x)   WITHIN(x, int8_t, -129.0, 128.0)
#define TO_i8_I(x)   ((int8_t)(x))
#define TO_i16_F(x)  WITHIN(x, int16_t, -32769.0, 32768.0)
#define TO_i16_I(x)  ((int16_t)(x))
#define TO_i32_F(x)  WITHIN(x, int32_t, -0x1.00000002p31, 0x1p31)
#define TO_i32_I(x)  ((int32_t)(x))
#define TO_i64_F(x)  ((double)(x) >= -0x1p63 && (double)(x) < 0x1p63 ? (int64_t)(x) : 0)
#define TO_i64_I(x)  ((int64_t)(x))
#define TO_u8_F(x)   WITHIN(x, uint8_t, -1.0, 256.0)
#define TO_u8_I(x)   ((uint8_t)(x))
#define TO_u16_F(x)  WITHIN(x, uint16_t, -1.0, 65536.0)
#define TO_u16_I(x)  ((uint16_t)(x))
#define TO_u32_F(x)  WITHIN(x, uint32_t, -1.0, 0x1p32)
#define TO_u32_I(x)  ((uint32_t)(x))
#define TO_u64_F(x)  WITHIN(x, uint64_t, -1.0, 0x1p64)
#define TO_u64_I(x)  ((uint64_t)(x))
#define TO_b8_F(x)   ((x) != 0)
#define TO_b8_I(x)   ((x) != 0)
#define TO_f16_F     weir_to_f16_from_f64
#define TO_f16_I(x)  (weir_to_f16_from_f64(weir_odd_from_i64((int64_t)(x))))
#define TO_f16_U(x)  (weir_to_f16_from_f64(weir_odd_from_u64(x)))
#define TO_f16_S     weir_to_f16
#define TO_bf16_F    weir_to_bf16_from_f64
#define TO_bf16_I(x) (weir_to_bf16_from_f64(weir_odd_from_i64((int64_t)(x))))
#define TO_bf16_U(x) (weir_to_bf16_from_f64(weir_odd_from_u64(x)))
#define TO_bf16_S    weir_to_bf16

#define TO_f64_S     TO_f64_F
#define TO_i8_S      TO_i8_F
#define TO_i16_S     TO_i16_F
#define TO_i32_S     TO_i32_F
#define TO_i64_S     TO_i64_F
#define TO_u8_S      TO_u8_F
#define TO_u16_S     TO_u16_F
#define TO_u32_S     TO_u32_F
#define TO_u64_S     TO_u64_F
#define TO_b8_S      TO_b8_F
#define TO_f32_U     TO_f32_I
#define TO_f64_U     TO_f64_I
#define TO_i8_U      TO_i8_I
#define TO_i16_U     TO_i16_I
#define TO_i32_U     TO_i32_I
#define TO_i64_U     TO_i64_I
#define TO_u8_U      TO_u8_I
#define TO_u16_U     TO_u16_I
#define TO_u32_U     TO_u32_I
#define TO_u64_U     TO_u64_I
#define TO_b8_U      TO_b8_I

/* An element as it is computed: COMPUTED is f16, bf16, b8 or same. */
#define COMPUTED_f16     weir_from_f16
#define COMPUTED_bf16    weir_from_bf16
#define COMPUTED_b8(x)   ((x) != 0)
#define COMPUTED_same(x) (x)

#define CONVERT(from_id, class, computed, From, to_id, To)                                         \
    static void from_id##_to_##to_id(int64_t n, void *to, const void *from, int64_t stride)        \
    {                                                                                              \
        const From *const f = from;                                                                \
        To *const         t = to;                                                                  \
        if (stride == 1) {                                                                         \
            for (int64_t i = 0; i < n; i++)                                                        \
                t[i] = TO_##to_id##_##class(COMPUTED_##computed(f[i]));                            \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                t[i] = TO_##to_id##_##class(COMPUTED_##computed(f[i * stride]));                   \
        }                                                                                          \
    }

/* In the order of weir_dtype. */
#define CONVERT_FROM(id, class, computed, T)                                                       \
    CONVERT(id, class, computed, T, f32, float)                                                    \
    CONVERT(id, class, computed, T, f64, double)                                                   \
    CONVERT(id, class, computed, T, i32, int32_t)                                                  \
    CONVERT(id, class, computed, T, i64, int64_t)                                                  \
    CONVERT(id, class, computed, T, u8, uint8_t)                                                   \
    CONVERT(id, class, computed, T, b8, uint8_t)                                                   \
    CONVERT(id, class, computed, T, f16, uint16_t)                                                 \
    CONVERT(id, class, computed, T, bf16, uint16_t)                                                \
    CONVERT(id, class, computed, T, i8, int8_t)                                                    \
    CONVERT(id, class, computed, T, i16, int16_t)                                                  \
    CONVERT(id, class, computed, T, u16, uint16_t)                                                 \
    CONVERT(id, class, computed, T, u32, uint32_t)                                                 \
    CONVERT(id, class, computed, T, u64, uint64_t)

CONVERT_FROM(f32, S, same, float)
CONVERT_FROM(f64, F, same, double)
CONVERT_FROM(i32, I, same, int32_t)
CONVERT_FROM(i64, I, same, int64_t)
CONVERT_FROM(u8, I, same, uint8_t)
CONVERT_FROM(b8, I, b8, uint8_t)
CONVERT_FROM(f16, S, f16, uint16_t)
CONVERT_FROM(bf16, S, bf16, uint16_t)
CONVERT_FROM(i8, I, same, int8_t)
CONVERT_FROM(i16, I, same, int16_t)
CONVERT_FROM(u16, I, same, uint16_t)
CONVERT_FROM(u32, I, same, uint32_t)
CONVERT_FROM(u64, U, same, uint64_t)

#define CONVERT_ROW(id)                                                                            \
    {id##_to_f32, id##_to_f64, id##_to_i32, id##_to_i64, id##_to_u8,  id##_to_b8, id##_to_f16,     \
     id##_to_bf16, id##_to_i8, id##_to_i16, id##_to_u16, id##_to_u32, id##_to_u64}

static const run_fn convert[WEIR_DTYPES][WEIR_DTYPES] = {
    CONVERT_ROW(f32), CONVERT_ROW(f64), CONVERT_ROW(i32),  CONVERT_ROW(i64), CONVERT_ROW(u8),
    CONVERT_ROW(b8),  CONVERT_ROW(f16), CONVERT_ROW(bf16), CONVERT_ROW(i8),  CONVERT_ROW(i16),
    CONVERT_ROW(u16), CONVERT_ROW(u32), CONVERT_ROW(u64),
};

static run_fn run_of(weir_dtype from, weir_dtype to)
{
    if (from != to)
        return convert[from][to];
    const size_t size = weir_dtype_size(from);
    return size == 1 ? copy_1 : size == 2 ? copy_2 : size == 4 ? copy_4 : copy_8;
}

#define COPY_STRIDED(T)                                                                            \
    do {                                                                                           \
        const T *const f = from;                                                                   \
        T *const       t = to;                                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i * to_stride] = f[i * stride];                                                      \
    } while (0)

/* Between f32 and halves there are vector instructions. */
static weir_half_fn adjacent_of(weir_dtype from, weir_dtype to)
{
    return to == WEIR_F32 ? weir_cpu_widen(from) : from == WEIR_F32 ? weir_cpu_narrow(to) : NULL;
}

/* to[i * to_stride] = from[i * stride] */
static void copy_strided(int64_t n, void *to, int64_t to_stride, const void *from, int64_t stride,
                         size_t size)
{
    if (size == 1)
        COPY_STRIDED(uint8_t);
    else if (size == 2)
        COPY_STRIDED(uint16_t);
    else if (size == 4)
        COPY_STRIDED(uint32_t);
    else
        COPY_STRIDED(uint64_t);
}

/* ---- running ---- */

typedef uint32_t quad __attribute__((vector_size(16), aligned(4), may_alias));

/* to[r * to_stride + i] = from[i * from_stride + r] for 4 x 4 elements of 4 bytes. */
static void transpose_4x4(uint32_t *to, int64_t to_stride, const uint32_t *from,
                          int64_t from_stride)
{
    const quad a = *(const quad *)from, b = *(const quad *)(from + from_stride);
    const quad c = *(const quad *)(from + 2 * from_stride);
    const quad d = *(const quad *)(from + 3 * from_stride);
    const quad ac0 = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    const quad ac1 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    const quad bd0 = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    const quad bd1 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(ac0, bd0, 0, 4, 1, 5);
    *(quad *)(to + to_stride) = __builtin_shufflevector(ac0, bd0, 2, 6, 3, 7);
    *(quad *)(to + 2 * to_stride) = __builtin_shufflevector(ac1, bd1, 0, 4, 1, 5);
    *(quad *)(to + 3 * to_stride) = __builtin_shufflevector(ac1, bd1, 2, 6, 3, 7);
}

/* The same for rows x n; returns the number of rows done, a multiple of 4. */
static int64_t transpose(int64_t rows, int64_t n, uint32_t *to, int64_t to_stride,
                         const uint32_t *from, int64_t from_stride)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            transpose_4x4(to + r * to_stride + i, to_stride, from + i * from_stride + r,
                          from_stride);
        for (; i < n; i++)
            for (int64_t j = r; j < r + 4; j++)
                to[j * to_stride + i] = from[i * from_stride + j];
    }
    return r;
}

static void run_unit(const move *m, const char *src, char *dst, int64_t unit)
{
    const int64_t i = unit % m->inner_blocks * m->inner_block;
    unit /= m->inner_blocks;
    const int64_t r = unit % m->row_blocks * m->row_block;
    unit /= m->row_blocks;
    int64_t in = r * m->row.in + i * m->inner.in, out = r * m->row.out + i * m->inner.out;
    for (int a = m->nouter - 1; a >= 0; a--) {
        in += unit % m->outer[a].dim * m->outer[a].in;
        out += unit % m->outer[a].dim * m->outer[a].out;
        unit /= m->outer[a].dim;
    }
    const int64_t rows = min64(m->row_block, m->row.dim - r);
    const int64_t n = min64(m->inner_block, m->inner.dim - i);
    int64_t       j = 0;
    if (m->square)
        j = transpose(rows, n, (uint32_t *)(void *)dst + out, m->row.out,
                      (const uint32_t *)(const void *)src + in, m->inner.in);
    for (; j < rows; j++) {
        char *const       to = dst + (out + j * m->row.out) * (int64_t)m->out_size;
        const char *const from = src + (in + j * m->row.in) * (int64_t)m->in_size;
        if (m->strided)
            copy_strided(n, to, m->inner.out, from, m->inner.in, m->out_size);
        else if (m->adjacent && m->inner.in == 1)
            m->adjacent(n, to, from);
        else
            m->run(n, to, from, m->inner.in);
    }
}

static void move_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const move *const       m = k->state;
    const int64_t           end = min64(m->units, (task + 1) * m->per_task);

    for (int64_t unit = task * m->per_task; unit < end; unit++)
        run_unit(m, k->src[0], k->dst[0], unit);
}

static weir_status move_run(const weir_kargs *k)
{
    const move *const m = k->state;
    weir_kargs        args = *k;

    if (m->units > 0)
        weir_parallel(k->threads, ceil_div(m->units, m->per_task), move_task, &args);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* Chooses block sizes: long runs, or squares if the input is read across its rows. */
static void plan_blocks(move *m, bool across)
{
    const int64_t most = across ? BLOCK * BLOCK : TASK;
    if (across) {
        m->row_block = min64(m->row.dim, BLOCK);
        m->inner_block = min64(m->inner.dim, most / m->row_block);
    } else {
        m->inner_block = min64(m->inner.dim, most);
    }
    m->row_block = min64(m->row.dim, most / m->inner_block);
    m->row_blocks = ceil_div(m->row.dim, m->row_block);
    m->inner_blocks = ceil_div(m->inner.dim, m->inner_block);
}

static void plan_tasks(move *m, const copy_axis *common, int n)
{
    int64_t count = 1;
    for (int i = 0; i < n; i++)
        count *= common[i].dim;
    m->row = m->inner = (copy_axis){1, 1, 1};
    if (n > 0)
        m->inner = common[n - 1];
    const int  near = n > 0 ? copy_axes_nearest(common, n) : 0;
    const bool across = near < n - 1;
    const int  row = across ? near : n - 2;
    if (row >= 0)
        m->row = common[row];
    m->units = 1;
    for (int i = 0; i < n - 1; i++) {
        if (i == row)
            continue;
        m->outer[m->nouter++] = common[i];
        m->units *= common[i].dim;
    }
    plan_blocks(m, across);
    m->units *= m->row_blocks * m->inner_blocks;
    m->per_task = count <= 2 * TASK ? m->units
                                    : max64(1, TASK / (m->row_block * m->inner_block));
}

/* ---- sides without common factors ---- */

typedef struct count_state {
    size_t      size;
    int64_t     n;
    weir_layout in, out;
} count_state;

/* Offset of the element at a logical position. */
static int64_t offset_at(const weir_layout *l, int64_t pos)
{
    int64_t offset = 0;
    for (int i = l->desc.ndim - 1; i >= 0; i--) {
        offset += pos % l->desc.dim[i] * l->stride[i];
        pos /= l->desc.dim[i];
    }
    return offset;
}

static void count_task(void *ctx, int64_t task)
{
    const weir_kargs *const  k = ctx;
    const count_state *const s = k->state;
    const int64_t            end = min64(s->n, (task + 1) * TASK);

    for (int64_t i = task * TASK; i < end; i++)
        memcpy((char *)k->dst[0] + offset_at(&s->out, i) * (int64_t)s->size,
               (const char *)k->src[0] + offset_at(&s->in, i) * (int64_t)s->size, s->size);
}

static weir_status count_run(const weir_kargs *k)
{
    const count_state *const s = k->state;
    weir_kargs               args = *k;
    weir_parallel(k->threads, ceil_div(s->n, TASK), count_task, &args);
    return WEIR_OK;
}

static weir_status choose_count(const weir_call *c, weir_kernel *out)
{
    count_state *const s = weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (count_state){weir_dtype_size(c->out[0].desc.dtype), weir_shape_count(&c->out[0].desc),
                       c->in[0], c->out[0]};
    *out = (weir_kernel){.run = count_run, .state = s, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* ---- the ops ---- */

weir_status weir_cpu_copy(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_layout *const in = &c->in[0], *const to = &c->out[0];
    copy_axis  common[COPY_AXES_MAX];
    const bool empty = weir_shape_count(&to->desc) == 0;
    const int  n = empty ? 0 : copy_axes_of(in, to, common);

    (void)d;
    if (n < 0)
        return choose_count(c, out);
    move *const m = weir_mem_alloc(sizeof *m);
    if (!m)
        return WEIR_ERR_NOMEM;
    *m = (move){.run = run_of(in->desc.dtype, to->desc.dtype),
                .adjacent = adjacent_of(in->desc.dtype, to->desc.dtype),
                .in_size = weir_dtype_size(in->desc.dtype),
                .out_size = weir_dtype_size(to->desc.dtype)};
    if (!empty)
        plan_tasks(m, common, copy_axes_sort(common, n));
    m->strided = m->inner.out != 1;
    m->square = m->run == copy_4 && m->row.in == 1 && m->inner.in != 1 && !m->strided;
    *out = (weir_kernel){.run = move_run, .state = m, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* Equal dims always have common factors, so this is the same move with another run. */
weir_status weir_cpu_cast(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return weir_cpu_copy(d, c, out);
}

/* Moves whole elements: the type they are read as does not matter. */
weir_status weir_cpu_bit_cast(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_layout from = c->in[0];
    weir_call   copy = *c;

    from.desc.dtype = c->out[0].desc.dtype;
    copy.in = &from;
    return weir_cpu_copy(d, &copy, out);
}

/* Copies input 1, broadcast, into input 0. */
static weir_status assign_run(const weir_kargs *k)
{
    weir_kargs args = *k;

    args.src = k->src + 1;
    args.dst = k->src;
    return move_run(&args);
}

/* Equal dims again, so the kernel selected is move_run. */
weir_status weir_cpu_assign(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_layout     from, to = c->in[0];
    const weir_call cast = {
        .op = WEIR_OP_CAST, .nin = 1, .nout = 1, .in = &from, .out = &to, .alias = -1};

    weir_shape_expand(&c->in[1], &to.desc, &from);
    WEIR_TRY(weir_cpu_cast(d, &cast, out));
    out->run = assign_run;
    return WEIR_OK;
}

typedef struct fill_state {
    size_t  size;
    int64_t n;
    char    element[8];
} fill_state;

static void fill_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const fill_state *const s = k->state;
    run_splat((char *)k->dst[0] + (size_t)(task * TASK) * s->size, s->element,
              min64(TASK, s->n - task * TASK), s->size);
}

static weir_status fill_run(const weir_kargs *k)
{
    const fill_state *const s = k->state;
    weir_kargs              args = *k;
    if (s->n > 0)
        weir_parallel(k->threads, ceil_div(s->n, TASK), fill_task, &args);
    return WEIR_OK;
}

weir_status weir_cpu_fill(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_fill_attr *const a = c->attr;
    const weir_desc *const      to = &c->out[0].desc;
    fill_state *const           s = weir_mem_alloc(sizeof *s);

    (void)d;
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (fill_state){.size = weir_dtype_size(to->dtype), .n = weir_shape_count(to)};
    convert[WEIR_F64][to->dtype](1, s->element, &a->value, 1);
    *out = (weir_kernel){.run = fill_run, .state = s, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}
