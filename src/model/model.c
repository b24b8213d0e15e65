/* model.c - owns layers, parameters and states, in the order in which they were created. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

weir_status weir_list_reserve(weir_list *l)
{
    if (l->n < l->capacity)
        return WEIR_OK;
    const size_t capacity = l->capacity ? 2 * l->capacity : 8;
    void       **at = weir_host_alloc(capacity * sizeof *at);
    if (!at)
        return weir_error_status();
    if (l->n)
        memcpy(at, l->at, l->n * sizeof *at);
    weir_host_free(l->at);
    l->at = at;
    l->capacity = capacity;
    return WEIR_OK;
}

void weir_list_free(weir_list *l)
{
    weir_host_free(l->at);
    *l = (weir_list){0};
}

weir_model *weir_model_new(weir_device *d)
{
    if (!d)
        return (void)weir_fail_null("model_new", "device"), NULL;
    weir_model *m = weir_host_alloc(sizeof *m);
    if (m)
        *m = (weir_model){.dev = d, .training = true};
    return m;
}

weir_mark weir_model_mark(const weir_model *m)
{
    return m ? (weir_mark){m->layers.n, m->params.n, m->states.n} : (weir_mark){0};
}

weir_layer *weir_model_undo(weir_model *m, weir_mark mark)
{
    while (m && m->layers.n > mark.layers)
        weir_host_free(m->layers.at[--m->layers.n]);
    while (m && m->params.n > mark.params)
        weir_release(m->params.at[--m->params.n]);
    while (m && m->states.n > mark.states)
        weir_release(m->states.at[--m->states.n]);
    return NULL;
}

void weir_model_free(weir_model *m)
{
    if (!m)
        return;
    weir_model_undo(m, (weir_mark){0});
    weir_list_free(&m->layers);
    weir_list_free(&m->params);
    weir_list_free(&m->states);
    weir_host_free(m);
}

void weir_model_train(weir_model *m, bool on)
{
    if (m)
        m->training = on;
}

bool weir_model_training(const weir_model *m)
{
    return m && m->training;
}

weir_status weir_model_set_precision(weir_model *m, weir_dtype half)
{
    if (!m)
        return weir_fail_null("model_set_precision", "model");
    if (half != WEIR_F32 && half != WEIR_BF16 && half != WEIR_F16)
        return weir_fail(WEIR_ERR_DTYPE, "model_set_precision: products are in bf16, f16 or f32, "
                         "not in %s", weir_dtype_name(half));
    m->precision = half;
    return WEIR_OK;
}

weir_dtype weir_model_precision(const weir_model *m)
{
    return m ? m->precision : WEIR_F32;
}

static weir_tensor *item(const weir_list *l, size_t i, const char *what)
{
    if (i >= l->n)
        return (void)weir_fail(WEIR_ERR_INVALID, "%s: index %zu is out of range, there are %zu",
                                                 what, i, l->n),
               NULL;
    return l->at[i];
}

size_t weir_model_param_count(const weir_model *m)
{
    return m ? m->params.n : 0;
}

weir_tensor *weir_model_param(const weir_model *m, size_t i)
{
    if (!m)
        return (void)weir_fail_null("model_param", "model"), NULL;
    return item(&m->params, i, "model_param");
}

size_t weir_model_state_count(const weir_model *m)
{
    return m ? m->states.n : 0;
}

weir_tensor *weir_model_state(const weir_model *m, size_t i)
{
    if (!m)
        return (void)weir_fail_null("model_state", "model"), NULL;
    return item(&m->states, i, "model_state");
}

void *weir_layer_new(weir_model *m, size_t bytes,
                     weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x))
{
    if (!m)
        return (void)weir_fail_null("layer", "model"), NULL;
    if (weir_list_reserve(&m->layers) != WEIR_OK)
        return NULL;
    weir_layer *l = weir_host_alloc(bytes);
    if (!l)
        return NULL;
    *l = (weir_layer){.model = m, .apply = apply};
    m->layers.at[m->layers.n++] = l;
    return l;
}

weir_status weir_name_join(char buf[WEIR_NAME_MAX], const char *a, const char *b)
{
    const char *head = a ? a : "";
    const int   n = snprintf(buf, WEIR_NAME_MAX, "%s%s%s", head, a ? "." : "", b);
    if (n < 0 || n >= WEIR_NAME_MAX)
        return weir_fail(WEIR_ERR_INVALID,
                         "layer: the name \"%.40s...\" with \"%.40s\" has more than %d characters",
                         head, b, WEIR_NAME_MAX - 1);
    return WEIR_OK;
}

/* Creates a tensor by `make`, fills it, and adds it to the model's list `l`, which owns it. */
static weir_tensor *own(weir_model *m, weir_list *l, const char *layer, const char *part,
                        weir_desc desc, double value,
                        weir_tensor *(*make)(weir_device *, weir_desc, const char *))
{
    char name[WEIR_NAME_MAX];
    if (weir_name_join(name, layer, part) != WEIR_OK || weir_list_reserve(l) != WEIR_OK)
        return NULL;
    weir_tensor *t = make(m->dev, desc, name);
    if (!t)
        return NULL;
    if (weir_write_fill(t, value) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    l->at[l->n++] = t;
    return t;
}

weir_tensor *weir_model_new_param(weir_model *m, const char *layer, const char *part,
                                  weir_desc desc, double value)
{
    return own(m, &m->params, layer, part, desc, value, weir_param);
}

weir_tensor *weir_model_new_state(weir_model *m, const char *layer, const char *part,
                                  weir_desc desc, double value)
{
    return own(m, &m->states, layer, part, desc, value, weir_state);
}
