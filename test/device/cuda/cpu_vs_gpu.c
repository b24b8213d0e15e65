/* cpu_vs_gpu.c - see cpu_vs_gpu.h. */
#include "device/cuda/cpu_vs_gpu.h"

#include <stdlib.h>

#include "core/half.h"

weir_device *device[DEVICES];

bool open_cpu_gpu(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    device[CPU] = weir_device_open("cpu", NULL);
    device[GPU] = weir_device_open("cuda", NULL);
    return CHECK(device[CPU] && device[GPU]);
}

void close_cpu_gpu(void)
{
    weir_device_close(device[CPU]);
    weir_device_close(device[GPU]);
}

/* ---- values ---- */

int64_t count_of(const weir_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++)
        n *= d->dim[i];
    return n;
}

weir_desc three(weir_dtype t, int64_t a, int64_t b, int64_t c)
{
    return (weir_desc){t, 3, {a, b, c}};
}

void put(void *at, weir_dtype t, int64_t i, double v)
{
    switch (t) {
    case WEIR_F32:  ((float *)at)[i] = (float)v; break;
    case WEIR_F64:  ((double *)at)[i] = v; break;
    case WEIR_I32:  ((int32_t *)at)[i] = (int32_t)v; break;
    case WEIR_I64:  ((int64_t *)at)[i] = (int64_t)v; break;
    case WEIR_U8:   ((uint8_t *)at)[i] = (uint8_t)(int)v; break;
    case WEIR_I8:   ((int8_t *)at)[i] = (int8_t)(int)v; break;
    case WEIR_I16:  ((int16_t *)at)[i] = (int16_t)v; break;
    case WEIR_U16:  ((uint16_t *)at)[i] = (uint16_t)(int)v; break;
    case WEIR_U32:  ((uint32_t *)at)[i] = (uint32_t)(int64_t)v; break;
    case WEIR_U64:  ((uint64_t *)at)[i] = (uint64_t)(int64_t)v; break;
    case WEIR_F16:  ((uint16_t *)at)[i] = weir_to_f16((float)v); break;
    default:        ((uint16_t *)at)[i] = weir_to_bf16((float)v);
    }
}

double get(const void *at, weir_dtype t, int64_t i)
{
    switch (t) {
    case WEIR_F32:  return (double)((const float *)at)[i];
    case WEIR_F64:  return ((const double *)at)[i];
    case WEIR_I32:  return ((const int32_t *)at)[i];
    case WEIR_I64:  return (double)((const int64_t *)at)[i];
    case WEIR_U8:   return ((const uint8_t *)at)[i];
    case WEIR_I8:   return ((const int8_t *)at)[i];
    case WEIR_I16:  return ((const int16_t *)at)[i];
    case WEIR_U16:  return ((const uint16_t *)at)[i];
    case WEIR_U32:  return ((const uint32_t *)at)[i];
    case WEIR_U64:  return (double)((const uint64_t *)at)[i];
    case WEIR_F16:  return (double)weir_from_f16(((const uint16_t *)at)[i]);
    default:        return (double)weir_from_bf16(((const uint16_t *)at)[i]);
    }
}

/* Normalised mean square error allowed; integers are exact. */
static double allowed(weir_dtype t)
{
    return t == WEIR_F32 ? 1e-12 : t == WEIR_F64 ? 1e-28 : t == WEIR_F16 ? 1e-7
         : t == WEIR_BF16 ? 1e-5 : 0;
}

static void compare(const char *what, const weir_desc *d, const void *got, const void *want,
                    double slack)
{
    const int64_t n = count_of(d);
    double        error = 0, size = 0;
    int64_t       wrong = 0;
    char          text[WEIR_DESC_TEXT];

    for (int64_t i = 0; i < n; i++) {
        const double a = get(got, d->dtype, i), b = get(want, d->dtype, i);
        if (a == b || (isnan(a) && isnan(b)))
            size += isfinite(b) ? b * b : 0;
        else if (!isfinite(a) || !isfinite(b))
            wrong++;
        else {
            error += (a - b) * (a - b);
            size += b * b;
        }
    }
    const double nmse = error > 0 ? error / size : 0;
    check_that(wrong == 0 && nmse <= slack * allowed(d->dtype), __FILE__, __LINE__,
               "%s to %s: NMSE %g, %lld elements infinite or NaN in one only", what,
               weir_desc_text(d, text), nmse, (long long)wrong);
}

/* ---- a call on both devices ---- */

bool run_on(const op_case *t, int on, weir_desc desc[OUTPUTS], void *out[OUTPUTS])
{
    weir_tensor *in[INPUTS] = {NULL}, *seen[INPUTS] = {NULL}, *y[WEIR_MAX_OUT] = {NULL};
    bool         ok = true;

    weir_scope_begin(device[on]);
    for (int i = 0; i < t->nin; i++) {
        in[i] = seen[i] = weir_input(device[on], t->in[i]);
        ok = ok && weir_write(in[i], t->data[i], weir_tensor_bytes(in[i])) == WEIR_OK;
    }
    if (t->order)
        seen[0] = weir_transpose(in[0], t->order);
    ok = ok && weir_record(t->op, t->nin, seen, t->attr, t->attr_bytes, y) == WEIR_OK;
    for (int i = 0; i < t->nout && ok; i++) {
        desc[i] = weir_tensor_desc(y[i]);
        out[i] = malloc(weir_tensor_bytes(y[i]) + 1);
        ok = weir_read(y[i], out[i], weir_tensor_bytes(y[i])) == WEIR_OK;
    }
    check_that(ok, __FILE__, __LINE__, "%s on device %d: %s", t->what, on, weir_error());
    for (int i = 0; i < t->nin; i++)
        weir_release(in[i]);
    weir_scope_end(device[on]);
    return ok;
}

void try_call_near(const op_case *t, double slack)
{
    weir_desc desc[OUTPUTS];
    void     *want[OUTPUTS] = {NULL}, *got[OUTPUTS] = {NULL}, *second[OUTPUTS] = {NULL};

    if (run_on(t, CPU, desc, want) && run_on(t, GPU, desc, got) && run_on(t, GPU, desc, second))
        for (int i = 0; i < t->nout; i++) {
            const size_t bytes = (size_t)count_of(&desc[i]) * weir_dtype_size(desc[i].dtype);
            compare(t->what, &desc[i], got[i], want[i], slack);
            CHECK_BITS(got[i], second[i], bytes);
        }
    for (int i = 0; i < OUTPUTS; i++) {
        free(want[i]);
        free(got[i]);
        free(second[i]);
    }
}

void try_call(const op_case *t)
{
    try_call_near(t, 1);
}

void *drawn(const weir_desc *d, double lo, double hi)
{
    void *const at = malloc((size_t)count_of(d) * weir_dtype_size(d->dtype) + 1);
    for (int64_t i = 0; i < count_of(d); i++)
        put(at, d->dtype, i, check_real(lo, hi));
    return at;
}
