/* sequential.c - layers in a row, and layers that are one function of op.h. */
#include "model/model.h"

#include <math.h>
#include <stdio.h>

/* ---- in a row ---- */

typedef struct sequential {
    weir_layer  base;
    int         n;
    weir_layer *layer[];
} sequential;

static weir_tensor *sequential_apply(const weir_layer *base, weir_tensor *x)
{
    const sequential *l = (const sequential *)base;

    for (int i = 0; i < l->n; i++)
        x = weir_apply(l->layer[i], x);
    return x;
}

/* Fails, before anything has changed, unless all layers can become parts of one. */
static weir_status parts_check(const weir_model *m, int n, weir_layer *const *layers)
{
    char what[32];

    for (int i = 0; i < n; i++) {
        snprintf(what, sizeof what, "layer %d", i);
        if (!layers[i])
            return weir_fail_null("sequential_new", what);
        if (layers[i]->model != m)
            return weir_fail(WEIR_ERR_INVALID, "sequential_new: layer %d belongs to another model",
                             i);
        if (layers[i]->parent)
            return weir_fail(WEIR_ERR_STATE, "sequential_new: layer %d is a part of '%s' already",
                             i, layers[i]->parent->name);
    }
    return WEIR_OK;
}

/* The parts get their names, unnamed ones their numbers. */
static weir_status parts_join(sequential *l)
{
    for (int i = 0; i < l->n; i++) {
        weir_layer *const part = l->layer[i];
        char              name[WEIR_NAME_MAX];
        if (part->parent == &l->base)
            continue;
        if (*part->name)
            snprintf(name, sizeof name, "%s", part->name);
        else
            snprintf(name, sizeof name, "%d", i);
        WEIR_TRY(weir_layer_join(&l->base, name, part));
    }
    return WEIR_OK;
}

weir_layer *weir_sequential_new(weir_model *m, const char *name, int n, weir_layer *const *layers)
{
    if (!m || (n > 0 && !layers))
        return (void)weir_fail_null("sequential_new", m ? "layers" : "model"), NULL;
    if (n < 0) {
        weir_fail(WEIR_ERR_INVALID, "sequential_new: n is %d but must be 0 or more", n);
        return NULL;
    }
    if (parts_check(m, n, layers) != WEIR_OK)
        return NULL;
    const weir_mark mark = weir_model_mark(m);
    sequential *l = weir_layer_make(m, sizeof *l + (size_t)n * sizeof l->layer[0], "sequential",
                                    name, sequential_apply);
    if (!l)
        return NULL;
    l->base.scoped = true;
    l->n = n;
    for (int i = 0; i < n; i++)
        l->layer[i] = layers[i];
    if (parts_join(l) == WEIR_OK)
        return &l->base;
    for (int i = 0; i < n; i++)
        layers[i]->parent = NULL;
    return weir_model_undo(m, mark);
}

/* ---- functions ---- */

typedef struct function {
    weir_layer          base;
    weir_function       of;
    double              number;         /* of those with one: a slope */
    int                 axis;
    weir_pool2d_options window;
} function;

static weir_tensor *function_apply(const weir_layer *base, weir_tensor *x)
{
    return ((const function *)base)->of(x);
}

static weir_tensor *leaky_relu_apply(const weir_layer *base, weir_tensor *x)
{
    return weir_leaky_relu(x, ((const function *)base)->number);
}

static weir_tensor *softmax_apply(const weir_layer *base, weir_tensor *x)
{
    return weir_softmax(x, ((const function *)base)->axis);
}

static weir_tensor *max_pool2d_apply(const weir_layer *base, weir_tensor *x)
{
    return weir_max_pool2d(x, &((const function *)base)->window);
}

static weir_tensor *avg_pool2d_apply(const weir_layer *base, weir_tensor *x)
{
    return weir_avg_pool2d(x, &((const function *)base)->window);
}

weir_layer *weir_function_new(weir_model *m, const char *kind, weir_function of)
{
    if (!kind || !of)
        return (void)weir_fail_null("function_new", kind ? "function" : "kind"), NULL;
    function *l = weir_layer_make(m, sizeof *l, kind, NULL, function_apply);
    if (!l)
        return NULL;
    l->of = of;
    return &l->base;
}

#define FUNCTION(id)                                                                               \
    weir_layer *weir_##id##_new(weir_model *m)                                                     \
    {                                                                                              \
        return weir_function_new(m, #id, weir_##id);                                               \
    }

FUNCTION(relu)
FUNCTION(gelu)
FUNCTION(silu)
FUNCTION(tanh)
FUNCTION(sigmoid)
FUNCTION(flatten)
FUNCTION(global_avg_pool2d)

weir_layer *weir_leaky_relu_new(weir_model *m, double slope)
{
    if (!isfinite(slope)) {
        weir_fail(WEIR_ERR_INVALID, "leaky_relu_new: the slope is %g but must be finite", slope);
        return NULL;
    }
    function *l = weir_layer_make(m, sizeof *l, "leaky_relu", NULL, leaky_relu_apply);
    if (!l)
        return NULL;
    l->number = slope;
    return &l->base;
}

weir_layer *weir_softmax_new(weir_model *m, int axis)
{
    function *l = weir_layer_make(m, sizeof *l, "softmax", NULL, softmax_apply);
    if (!l)
        return NULL;
    l->axis = axis;
    return &l->base;
}

static weir_layer *pool_new(weir_model *m, const char *kind, const weir_pool2d_options *options,
                            weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x))
{
    if (!options)
        return (void)weir_fail_null(kind, "options"), NULL;
    function *l = weir_layer_make(m, sizeof *l, kind, NULL, apply);
    if (!l)
        return NULL;
    l->window = *options;
    return &l->base;
}

weir_layer *weir_max_pool2d_new(weir_model *m, const weir_pool2d_options *options)
{
    return pool_new(m, "max_pool2d", options, max_pool2d_apply);
}

weir_layer *weir_avg_pool2d_new(weir_model *m, const weir_pool2d_options *options)
{
    return pool_new(m, "avg_pool2d", options, avg_pool2d_apply);
}
