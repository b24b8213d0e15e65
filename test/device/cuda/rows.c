/* rows.c - tests of generated kernels against the CPU's, bit for bit: every row, every type, every
 * way to read an input, special numbers. See rows.h. */
#include "device/cuda/rows.h"

#include "core/dtype.h"
#include "core/half.h"
#include "core/mem.h"

const rows_row rows_table[] = {
#define ROW(ID, id, nin, types, value) {WEIR_OP_##ID, nin, #id, #types},
#include "core/elementwise.def"
#undef ROW
    {0}};

bool rows_takes(const rows_row *r, weir_dtype t)
{
    return t != WEIR_BOOL && (weir_is_any_float(t) ? strcmp(r->types, "WHOLE") != 0
                                                   : strcmp(r->types, "FLOATS") != 0);
}

weir_layout rows_dense(weir_dtype type, int ndim, const int64_t *dim)
{
    weir_layout l = {.desc = {.dtype = type, .ndim = ndim}};

    memcpy(l.desc.dim, dim, (size_t)ndim * sizeof *dim);
    weir_shape_dense(&l);
    return l;
}

weir_layout rows_strided(weir_dtype type, int ndim, const int64_t *dim, const int64_t *stride)
{
    weir_layout l = rows_dense(type, ndim, dim);

    memcpy(l.stride, stride, (size_t)ndim * sizeof *stride);
    return l;
}

/* ---- special numbers ---- */

static double awkward(void)
{
    static const double list[] = {
        NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 6.0,
        0x1p-149, -0x1p-149, 0x1p-1074, 0x1.fffffep-127, 0x1p-126, 0x1p-1022, 0x1.fffffep127,
        -0x1.fffffep127, 0x1.fffffffffffffp1023, 88.7, -103.9, 709.7, -745.1, 1e-20, 1e5, 1e8,
        65504.0, 65520.0, 0x1p-24, 0x1p-25, 16777216.0, 2147483647.0, -2147483648.0, 0.921875};
    const uint64_t draw = check_u64();

    return draw % 3 == 0   ? list[draw / 3 % (sizeof list / sizeof *list)]
           : draw % 3 == 1 ? check_real(-4, 4)
                           : check_real(0, 1) * exp2(check_real(-20, 20));
}

static void put(void *at, int64_t i, weir_dtype t, double v)
{
    const uint64_t bits = check_u64();

    switch (t) {
    case WEIR_F32:  ((float *)at)[i] = (float)v; break;
    case WEIR_F64:  ((double *)at)[i] = v; break;
    case WEIR_F16:  ((uint16_t *)at)[i] = weir_to_f16((float)v); break;
    case WEIR_BF16: ((uint16_t *)at)[i] = weir_to_bf16((float)v); break;
    case WEIR_I32:  ((uint32_t *)at)[i] = (uint32_t)(bits % 3 ? bits : bits % 7 - 3); break;
    case WEIR_I64:  ((uint64_t *)at)[i] = bits % 3 ? bits : bits % 7 - 3; break;
    case WEIR_U8:
    case WEIR_I8:   ((uint8_t *)at)[i] = (uint8_t)bits; break;
    case WEIR_I16:
    case WEIR_U16:  ((uint16_t *)at)[i] = (uint16_t)(bits % 3 ? bits : bits % 7 - 3); break;
    case WEIR_U32:  ((uint32_t *)at)[i] = (uint32_t)(bits % 3 ? bits : bits % 7); break;
    case WEIR_U64:  ((uint64_t *)at)[i] = bits % 3 ? bits : bits % 7; break;
    case WEIR_BOOL: break;
    }
}

/* ---- both devices ---- */

bool rows_open(weir_device **cpu, weir_device **card)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    *cpu = weir_device_open("cpu", NULL);
    *card = weir_device_open("cuda", NULL);
    return CHECK(*cpu && *card);
}

static int64_t extent_of(const weir_layout *l)
{
    int64_t extent = 1;

    for (int i = 0; i < l->desc.ndim; i++)
        extent += (l->desc.dim[i] - 1) * l->stride[i];
    return extent;
}

/* Bytes of an operand's memory, with a few after it. */
static size_t bytes_of(const weir_layout *l, int64_t at)
{
    return (size_t)(extent_of(l) + at + 32) * weir_dtype_size(l->desc.dtype);
}

/* Runs the call on a device with copies of the inputs; returns the memory of the outputs. */
static weir_status run_on(weir_device *d, const rows_call *c, void *const *in, void *const *out)
{
    const weir_call *const call = &c->call;
    char                  *src[WEIR_EW_MAX_IN], *dst[WEIR_EW_MAX_OUT];
    void                  *from[WEIR_EW_MAX_IN], *to[WEIR_EW_MAX_OUT], *draw = NULL;
    const uint64_t         stream[2] = {ROWS_SEED, ROWS_RNG - 7};
    weir_kernel            kernel = {0};

    for (int i = 0; i < call->nin; i++) {
        const size_t n = bytes_of(&c->in[i], c->at_in[i]);
        WEIR_TRY(d->ops->alloc(d, n, false, (void **)&src[i]));
        WEIR_TRY(d->ops->upload(d, src[i], in[i], n));
        from[i] = src[i] + (size_t)c->at_in[i] * weir_dtype_size(c->in[i].desc.dtype);
    }
    for (int i = 0; i < call->nout; i++) {
        const size_t n = bytes_of(&c->out[i], c->at_out);
        WEIR_TRY(d->ops->alloc(d, n, false, (void **)&dst[i]));
        WEIR_TRY(d->ops->fill(d, dst[i], 0xa5, n));
        to[i] = i == 0 && c->in_place
                    ? from[0] : dst[i] + (size_t)c->at_out * weir_dtype_size(c->out[i].desc.dtype);
    }
    WEIR_TRY(d->ops->alloc(d, sizeof stream, false, &draw));
    WEIR_TRY(d->ops->upload(d, draw, stream, sizeof stream));
    WEIR_TRY(d->ops->kernel[call->op](d, call, &kernel));
    const bool drawn = c->drawn && !d->ops->host;
    weir_status s = kernel.run(&(weir_kargs){.call = call,
                                             .src = from,
                                             .dst = to,
                                             .state = kernel.state,
                                             .threads = d->threads,
                                             .seed = drawn ? 1 : ROWS_SEED,
                                             .rng = drawn ? 7 : ROWS_RNG,
                                             .draw = drawn ? (const uint64_t *)draw : NULL,
                                             .dev = d});
    for (int i = 0; i < call->nout && s == WEIR_OK; i++)
        s = d->ops->download(d, out[i], i == 0 && c->in_place ? src[0] : dst[i],
                             i == 0 && c->in_place ? bytes_of(&c->in[0], c->at_in[0])
                                                   : bytes_of(&c->out[i], c->at_out));
    weir_kernel_drop(&kernel);
    for (int i = 0; i < call->nin; i++)
        d->ops->free(d, src[i], bytes_of(&c->in[i], c->at_in[i]));
    for (int i = 0; i < call->nout; i++)
        d->ops->free(d, dst[i], bytes_of(&c->out[i], c->at_out));
    d->ops->free(d, draw, sizeof stream);
    return s;
}

static bool is_nan(const void *at, int64_t i, weir_dtype t)
{
    switch (t) {
    case WEIR_F32:  return isnan(((const float *)at)[i]);
    case WEIR_F64:  return isnan(((const double *)at)[i]);
    case WEIR_F16:  return isnan(weir_from_f16(((const uint16_t *)at)[i]));
    case WEIR_BF16: return isnan(weir_from_bf16(((const uint16_t *)at)[i]));
    default:        return false;
    }
}

static void check_same(const void *a, const void *b, size_t bytes, weir_dtype t, const char *what)
{
    const size_t size = weir_dtype_size(t);

    for (size_t i = 0; i < bytes / size; i++)
        if (memcmp((const char *)a + i * size, (const char *)b + i * size, size) != 0 &&
            !(is_nan(a, (int64_t)i, t) && is_nan(b, (int64_t)i, t))) {
            check_that(false, __FILE__, __LINE__, "%s %s: element %zu differs", what,
                       weir_dtype_name(t), i);
            return;
        }
}

void rows_compare(weir_device *cpu, weir_device *card, rows_call *c, const char *what)
{
    void *in[WEIR_EW_MAX_IN], *out[2][WEIR_EW_MAX_OUT];

    c->call.in = c->in;
    c->call.out = c->out;
    for (int i = 0; i < c->call.nin; i++) {
        const size_t n = bytes_of(&c->in[i], c->at_in[i]);
        in[i] = malloc(n);
        const weir_dtype type = c->in[i].desc.dtype;
        for (size_t k = 0; k < n / weir_dtype_size(type); k++)
            put(in[i], (int64_t)k, type, awkward());
    }
    for (int i = 0; i < c->call.nout; i++) {
        const bool   shared = i == 0 && c->in_place;
        const size_t n = shared ? bytes_of(&c->in[0], c->at_in[0])
                                : bytes_of(&c->out[i], c->at_out);
        out[0][i] = calloc(1, n);
        out[1][i] = calloc(1, n);
    }
    if (check_that(run_on(cpu, c, in, out[0]) == WEIR_OK &&
                   run_on(card, c, in, out[1]) == WEIR_OK, __FILE__, __LINE__, "%s: %s", what,
                   weir_error()))
        for (int i = 0; i < c->call.nout; i++)
            check_same(out[0][i], out[1][i], i == 0 && c->in_place
                                                 ? bytes_of(&c->in[0], c->at_in[0])
                                                 : bytes_of(&c->out[i], c->at_out),
                       c->out[i].desc.dtype, what);
    for (int i = 0; i < c->call.nin; i++)
        free(in[i]);
    for (int i = 0; i < c->call.nout; i++) {
        free(out[0][i]);
        free(out[1][i]);
    }
}

/* ---- rows ---- */

static const weir_ew_attr attr = {.s = 0.25, .t = 1.5};

static rows_call call_of(const rows_row *r)
{
    return (rows_call){.call = {.op = r->op, .nin = r->nin, .nout = 1, .attr = &attr,
                                .attr_bytes = sizeof attr, .alias = -1}};
}

/* Dense operands: aligned with a remainder, in place, at any address. */
static void check_dense(weir_device *cpu, weir_device *card, const rows_row *r, weir_dtype t)
{
    const int64_t dim[] = {1037};

    for (int way = 0; way < 4; way++) {
        rows_call c = call_of(r);
        c.out[0] = rows_dense(t, 1, dim);
        for (int i = 0; i < r->nin; i++) {
            c.in[i] = rows_dense(t, 1, dim);
            c.at_in[i] = way == 1 && i == 0 ? 1 : way == 2 ? 16 * i : 0;
        }
        c.at_out = way == 2 ? 3 : 0;
        c.in_place = way == 3 && r->nin > 0;
        c.drawn = way == 1;
        rows_compare(cpu, card, &c, r->name);
    }
}

CASE(rows_dense_are_the_cpu_s)
{
    weir_device *cpu, *card;

    CHECK_OR_RETURN(rows_open(&cpu, &card));
    for (const rows_row *r = rows_table; r->name; r++)
        for (int t = 0; weir_dtype_size((weir_dtype)t) > 0; t++)
            if (rows_takes(r, (weir_dtype)t))
                check_dense(cpu, card, r, (weir_dtype)t);
    weir_device_close(cpu);
    weir_device_close(card);
}

/* Dense, repeated, scalar, by columns, transposed, with gaps between rows, every second element. */
static weir_layout mixed(weir_dtype t, int way, int64_t n)
{
    const int64_t dim[] = {6, 7, n}, stride[][3] = {
        {7 * n, n, 1}, {0, 0, 1}, {0, 0, 0}, {3, 0, 0}, {1, 6, 42}, {28 * n, 4 * n, 1},
        {14 * n, 2 * n, 2}};

    return rows_strided(t, 3, dim, stride[way % 7]);
}

/* Rows of n elements: a thread's elements lie in one row or not. */
static void check_mixed(weir_device *cpu, weir_device *card, const rows_row *r, weir_dtype t,
                        int64_t n)
{
    for (int first = 0; first < 7; first += r->nin == 1 ? 1 : 2) {
        rows_call c = call_of(r);
        c.out[0] = mixed(t, 0, n);
        for (int i = 0; i < r->nin; i++)
            c.in[i] = mixed(t, first + i, n);
        rows_compare(cpu, card, &c, r->name);
        c.at_in[0] = 1;
        rows_compare(cpu, card, &c, r->name);
    }
}

CASE(rows_strided_are_the_cpu_s)
{
    weir_device *cpu, *card;

    CHECK_OR_RETURN(rows_open(&cpu, &card));
    for (const rows_row *r = rows_table; r->name; r++) {
        const bool all = r->op == WEIR_OP_ADD || r->op == WEIR_OP_NEG;
        for (int t = 0; weir_dtype_size((weir_dtype)t) > 0; t++)
            if (rows_takes(r, (weir_dtype)t) && r->nin > 0 && (all || (r->nin > 2 && t == 0))) {
                check_mixed(cpu, card, r, (weir_dtype)t, 16);
                check_mixed(cpu, card, r, (weir_dtype)t, 9);
            }
    }
    weir_device_close(cpu);
    weir_device_close(card);
}
