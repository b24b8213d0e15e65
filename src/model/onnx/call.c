/* call.c - values of a walk, and what a node's function asks: attributes, inputs, results. */
#include "model/onnx/call.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

weir_status weir_onnx_refuse(const weir_onnx_call *c, const char *format, ...)
{
    char    sentence[300];
    va_list args;

    if (c->broken)
        return weir_error_status();
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return weir_fail(WEIR_ERR_INVALID, "%s", sentence);
}

/* ---- values ---- */

size_t weir_onnx_elements(const weir_desc *d)
{
    size_t n = 1;

    for (int i = 0; i < d->ndim; i++)
        n *= (size_t)d->dim[i];
    return n;
}

/* Whether all elements have the bits of the first. */
static bool uniform(const char *at, size_t n, size_t size)
{
    return n > 0 && memcmp(at, at + size, (n - 1) * size) == 0;
}

/* A number of 16 bits, `fraction` of which are its fraction: 10 for f16, 7 for bf16. */
static double half_number(uint16_t bits, int fraction)
{
    const int    most = (1 << (15 - fraction)) - 1, exponent = bits >> fraction & most;
    const double sign = bits >> 15 ? -1 : 1, rest = bits & ((1 << fraction) - 1);

    if (exponent == most)
        return rest != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(rest, 1 - most / 2 - fraction);
    return sign * ldexp(rest + (1 << fraction), exponent - most / 2 - fraction);
}

double weir_onnx_element(weir_dtype t, const void *at, size_t i)
{
    switch (t) {
    case WEIR_F32:  return (double)((const float *)at)[i];
    case WEIR_F64:  return ((const double *)at)[i];
    case WEIR_F16:  return half_number(((const uint16_t *)at)[i], 10);
    case WEIR_BF16: return half_number(((const uint16_t *)at)[i], 7);
    case WEIR_U64:  return (double)((const uint64_t *)at)[i];
    default:        return (double)weir_onnx_integer(t, at, i);
    }
}

int64_t weir_onnx_integer(weir_dtype t, const void *at, size_t i)
{
    switch (t) {
    case WEIR_I8:  return ((const int8_t *)at)[i];
    case WEIR_I16: return ((const int16_t *)at)[i];
    case WEIR_U16: return ((const uint16_t *)at)[i];
    case WEIR_I32: return ((const int32_t *)at)[i];
    case WEIR_U32: return ((const uint32_t *)at)[i];
    case WEIR_I64:
    case WEIR_U64: return ((const int64_t *)at)[i];
    default:       return ((const uint8_t *)at)[i];
    }
}

static weir_tensor *fill(weir_device *d, const weir_desc *desc, const void *first)
{
    const bool real = desc->dtype == WEIR_F32 || desc->dtype == WEIR_F64;

    return weir_retain(real ? weir_fill(d, *desc, weir_onnx_element(desc->dtype, first, 0))
                            : weir_fill_int(d, *desc, weir_onnx_integer(desc->dtype, first, 0)));
}

/* Bits that a fill would change, or a number that it does not take. */
static bool never_filled(const weir_desc *d, const void *first)
{
    return d->dtype == WEIR_F16 || d->dtype == WEIR_BF16 ||
           (d->dtype == WEIR_U64 && *(const uint64_t *)first > INT64_MAX);
}

weir_tensor *weir_onnx_to_tensor(weir_device *d, const weir_desc *desc, const void *elements)
{
    const size_t size = weir_dtype_size(desc->dtype), n = weir_onnx_elements(desc);

    /* A recorded fill can be folded into what reads it; a NaN keeps its bits only when written. */
    if (uniform(elements, n, size) && !never_filled(desc, elements))
        return fill(d, desc, elements);
    weir_tensor *const t = weir_input(d, *desc);
    if (t && weir_write(t, elements, n * size) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    return t;
}

void weir_onnx_drop(weir_onnx_value *v)
{
    if (v->own_t) {
        weir_release(v->t);
        v->t = NULL;
        v->own_t = false;
    }
    if (v->kept)
        return;
    if (v->own_known)
        weir_host_free(v->known);
    *v = (weir_onnx_value){0};
}

bool weir_onnx_must_know(const weir_onnx_row *r, size_t i)
{
    return r && i < 31 && r->known >> i & 1;
}

bool weir_onnx_listed(const char *names, const char *name)
{
    const size_t n = strlen(name);

    for (const char *p = names; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

/* ---- attributes ---- */

const weir_onnx_attr *weir_onnx_attr_of(const weir_onnx_call *c, const char *name)
{
    for (size_t i = 0; i < c->node->n_attr; i++)
        if (strcmp(c->node->attr[i].name, name) == 0)
            return &c->node->attr[i];
    return NULL;
}

int64_t weir_onnx_int(const weir_onnx_call *c, const char *name, int64_t otherwise)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, name);
    return a ? a->i : otherwise;
}

double weir_onnx_float(const weir_onnx_call *c, const char *name, double otherwise)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, name);
    return a ? a->f : otherwise;
}

const char *weir_onnx_str(const weir_onnx_call *c, const char *name, const char *otherwise)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, name);
    return a && a->s ? a->s : otherwise;
}

size_t weir_onnx_ints(const weir_onnx_call *c, const char *name, const int64_t **at)
{
    const weir_onnx_attr *const a = weir_onnx_attr_of(c, name);

    *at = a ? a->ints : NULL;
    return a ? a->n_ints : 0;
}

/* ---- inputs and outputs ---- */

bool weir_onnx_has(const weir_onnx_call *c, size_t i)
{
    return i < c->node->n_in && c->node->in[i] != WEIR_ONNX_ABSENT;
}

bool weir_onnx_wants(const weir_onnx_call *c, size_t i)
{
    return i < c->node->n_out && c->node->out[i] != WEIR_ONNX_ABSENT;
}

static weir_onnx_value *input(const weir_onnx_call *c, size_t i)
{
    if (weir_onnx_has(c, i))
        return &c->m->value[c->node->in[i]];
    return (void)weir_fail(WEIR_ERR_INVALID, "input %zu is missing", i), NULL;
}

static weir_tensor *as_tensor(weir_onnx_call *c, size_t i)
{
    weir_onnx_value *const v = input(c, i);

    if (!v)
        return NULL;
    if (c->fold) {
        if (!c->m->temp[i])
            c->m->temp[i] = weir_onnx_to_tensor(c->dev, &v->desc, v->known);
        return c->m->temp[i];
    }
    if (!v->t) {
        v->t = weir_onnx_to_tensor(c->dev, &v->desc, v->known);
        v->own_t = true;
    }
    return v->t;
}

weir_tensor *weir_onnx_x(weir_onnx_call *c, size_t i)
{
    weir_tensor *const t = as_tensor(c, i);

    c->broken = c->broken || !t;
    return t;
}

weir_desc weir_onnx_desc_of(weir_onnx_call *c, size_t i)
{
    const weir_onnx_value *const v = input(c, i);

    return !v ? (weir_desc){0} : v->known ? v->desc : weir_tensor_desc(v->t);
}

weir_status weir_onnx_list(weir_onnx_call *c, size_t i, int64_t *to, size_t room, size_t *n)
{
    const weir_onnx_value *const v = input(c, i);

    if (!v)
        return weir_error_status();
    if (!v->known)
        return weir_onnx_refuse(c,
                                "input %zu, '%.60s', must be known when the model is recorded: "
                                "a constant, or an input named in the option `values`",
                                i, c->m->proto.names.name[c->node->in[i]]);
    *n = weir_onnx_elements(&v->desc);
    if (*n > room || (v->desc.dtype != WEIR_I64 && v->desc.dtype != WEIR_I32))
        return weir_onnx_refuse(c,
                                "input %zu has %zu elements of %s, which are no list of up to "
                                "%zu integers",
                                i, *n, weir_dtype_name(v->desc.dtype), room);
    for (size_t k = 0; k < *n; k++)
        to[k] = v->desc.dtype == WEIR_I64 ? ((const int64_t *)v->known)[k]
                                          : ((const int32_t *)v->known)[k];
    return WEIR_OK;
}

weir_status weir_onnx_number(weir_onnx_call *c, size_t i, double *v)
{
    const weir_onnx_value *const x = input(c, i);

    if (!x)
        return weir_error_status();
    if (!x->known || weir_onnx_elements(&x->desc) != 1)
        return weir_onnx_refuse(c,
                                "input %zu, '%.60s', must be one number that is known when the "
                                "model is recorded",
                                i, c->m->proto.names.name[c->node->in[i]]);
    *v = weir_onnx_element(x->desc.dtype, x->known, 0);
    return WEIR_OK;
}

const void *weir_onnx_known(weir_onnx_call *c, size_t i, weir_desc *d)
{
    const weir_onnx_value *const v = input(c, i);

    if (v && v->known && !v->sequence) {
        *d = v->desc;
        return v->known;
    }
    if (v)
        (void)weir_onnx_refuse(c,
                               "input %zu, '%.60s', must be known when the model is recorded: "
                               "a constant, or an input named in the option `values`",
                               i, c->m->proto.names.name[c->node->in[i]]);
    return NULL;
}

weir_status weir_onnx_axes(weir_onnx_call *c, const char *name, size_t i, int64_t *to, size_t room,
                           size_t *n, bool *given)
{
    const int64_t *at;

    *n = 0;
    *given = true;
    if (weir_onnx_has(c, i))
        return weir_onnx_list(c, i, to, room, n);
    *given = weir_onnx_attr_of(c, name) != NULL;
    *n = weir_onnx_ints(c, name, &at);
    if (*n > room)
        return weir_onnx_refuse(c, "%s has %zu numbers", name, *n);
    if (*n)
        memcpy(to, at, *n * sizeof *to);
    return WEIR_OK;
}

weir_status weir_onnx_axis(const weir_onnx_call *c, int64_t axis, int ndim, int *to)
{
    *to = (int)(axis < 0 ? axis + ndim : axis);
    if (axis >= -ndim && axis < ndim)
        return WEIR_OK;
    return weir_onnx_refuse(c, "axis %" PRId64 " of a tensor with %d", axis, ndim);
}

weir_status weir_onnx_give(weir_onnx_call *c, size_t i, weir_tensor *t)
{
    if (!t)
        return weir_error_status();
    if (i < c->node->n_out)
        c->m->out[i] = t;
    return WEIR_OK;
}

weir_status weir_onnx_free_slot(const weir_onnx_call *c, uint32_t slot)
{
    if (!c->m->value[slot].kept)
        return WEIR_OK;
    return weir_onnx_refuse(c, "makes '%.60s' a second time", c->m->proto.names.name[slot]);
}

weir_status weir_onnx_tell(weir_onnx_call *c, weir_desc d, const void *elements)
{
    if (!weir_onnx_wants(c, 0))
        return weir_onnx_refuse(c, "no output");
    WEIR_TRY(weir_onnx_free_slot(c, c->node->out[0]));
    weir_onnx_value *const v = &c->m->value[c->node->out[0]];
    const size_t           bytes = weir_onnx_elements(&d) * weir_dtype_size(d.dtype);
    void *const            known = weir_host_alloc(bytes + 1);

    if (!known)
        return weir_error_status();
    if (bytes)
        memcpy(known, elements, bytes);
    weir_onnx_drop(v);
    *v = (weir_onnx_value){.known = known, .own_known = true, .desc = d};
    c->told = true;
    return WEIR_OK;
}

weir_tensor *weir_onnx_constant(weir_onnx_call *c, weir_desc d, const void *elements)
{
    weir_tensor *const t = weir_onnx_to_tensor(c->dev, &d, elements);
    weir_tensor *const own = t ? weir_reshape(t, d.ndim, d.dim) : NULL;

    weir_release(t);
    return own;
}
