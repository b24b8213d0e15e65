/* value.c - values of a walk: from the host to the device, and freed. */
#include <string.h>

#include "model/onnx/call.h"

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

static weir_tensor *fill(weir_device *d, const weir_desc *desc, const void *first)
{
    switch (desc->dtype) {
    case WEIR_F32:
        return weir_retain(weir_fill(d, *desc, (double)*(const float *)first));
    case WEIR_F64:
        return weir_retain(weir_fill(d, *desc, *(const double *)first));
    case WEIR_I32:
        return weir_retain(weir_fill_int(d, *desc, *(const int32_t *)first));
    case WEIR_I64:
        return weir_retain(weir_fill_int(d, *desc, *(const int64_t *)first));
    default:
        return weir_retain(weir_fill_int(d, *desc, *(const uint8_t *)first));
    }
}

weir_tensor *weir_onnx_to_tensor(weir_device *d, const weir_desc *desc, const void *elements)
{
    const size_t size = weir_dtype_size(desc->dtype), n = weir_onnx_elements(desc);

    /* A recorded fill can be folded into what reads it; a NaN keeps its bits only when written. */
    if (desc->dtype != WEIR_F16 && desc->dtype != WEIR_BF16 && uniform(elements, n, size))
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
