/* optim_states.c - an optimiser's states as files need them: named, made before any update. */
#include <stdio.h>

#include "model/optim.h"

static bool used(const weir_optim *o, int part)
{
    return o->method->part[part] && (!o->method->uses || o->method->uses(o, part));
}

int weir_optim_parts(const weir_optim *o, const weir_tensor *param, weir_part part[WEIR_PARTS])
{
    const weir_method *const m = o->method;
    const weir_slot *const   s = weir_optim_find(o, param);
    int                      n = 0;

    for (int i = 0; i < WEIR_PARTS; i++)
        if (used(o, i))
            part[n++] = (weir_part){m->part[i],
                                    m->own && i == m->own ? weir_scalar(WEIR_F64)
                                                          : weir_tensor_desc(param),
                                    s ? s->state[i] : NULL};
    return n;
}

weir_desc weir_optim_sum_desc(const weir_optim *o, const weir_tensor *param)
{
    weir_desc d = weir_tensor_desc(param);
    int64_t   n = 1;

    if (o->levels == 0)
        return d;
    for (int i = 0; i < d.ndim; i++)
        n *= d.dim[i];
    return weir_2d(d.dtype, o->levels, n);
}

weir_status weir_optim_make(weir_optim *o, weir_tensor *param, bool sum)
{
    weir_slot *const s = weir_optim_slot(o, param);

    if (s && sum && !s->sum)
        s->sum = weir_optim_state_new(o, weir_optim_sum_desc(o, param), weir_tensor_name(param),
                                      "sum", 0);
    return s && (!sum || s->sum) ? WEIR_OK : weir_error_status();
}

void weir_optim_method(const weir_optim *o, char buf[WEIR_METHOD_TEXT])
{
    int n = snprintf(buf, WEIR_METHOD_TEXT, "%s", o->method->name);

    for (int i = 0; i < WEIR_PARTS; i++)
        if (used(o, i))
            n += snprintf(buf + n, WEIR_METHOD_TEXT - (size_t)n, " %s", o->method->part[i]);
}
