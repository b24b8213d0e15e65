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
    return m ? (weir_mark){m->layers.n, m->params.tensors.n, m->states.tensors.n} : (weir_mark){0};
}

static void layer_free(weir_layer *l)
{
    if (l->release)
        l->release(l);
    weir_host_free(l->name);
    weir_host_free(l);
}

static void owned_drop(weir_owned *o, size_t from)
{
    while (o->tensors.n > from)
        weir_release(o->tensors.at[--o->tensors.n]);
    o->layers.n = o->tensors.n;
}

static void owned_free(weir_owned *o)
{
    weir_list_free(&o->tensors);
    weir_list_free(&o->layers);
}

weir_layer *weir_model_undo(weir_model *m, weir_mark mark)
{
    if (!m)
        return NULL;
    while (m->layers.n > mark.layers)
        layer_free(m->layers.at[--m->layers.n]);
    owned_drop(&m->params, mark.params);
    owned_drop(&m->states, mark.states);
    return NULL;
}

void weir_model_free(weir_model *m)
{
    if (!m)
        return;
    if (m->statistics)
        m->statistics_free(m->statistics);
    weir_model_undo(m, (weir_mark){0});
    weir_list_free(&m->layers);
    owned_free(&m->params);
    owned_free(&m->states);
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
    return m ? m->params.tensors.n : 0;
}

weir_tensor *weir_model_param(const weir_model *m, size_t i)
{
    if (!m)
        return (void)weir_fail_null("model_param", "model"), NULL;
    return item(&m->params.tensors, i, "model_param");
}

size_t weir_model_state_count(const weir_model *m)
{
    return m ? m->states.tensors.n : 0;
}

weir_tensor *weir_model_state(const weir_model *m, size_t i)
{
    if (!m)
        return (void)weir_fail_null("model_state", "model"), NULL;
    return item(&m->states.tensors, i, "model_state");
}

char *weir_text_copy(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *const  copy = weir_host_alloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *weir_layer_make(weir_model *m, size_t bytes, const char *kind, const char *name,
                      weir_tensor *(*apply)(const weir_layer *l, weir_tensor *x))
{
    if (!m)
        return (void)weir_fail_null(kind, "model"), NULL;
    if (weir_list_reserve(&m->layers) != WEIR_OK)
        return NULL;
    weir_layer *const l = weir_host_alloc(bytes);
    char *const       copy = weir_text_copy(name ? name : "");
    if (!l || !copy) {
        weir_host_free(l);
        weir_host_free(copy);
        return NULL;
    }
    *l = (weir_layer){.model = m, .kind = kind, .name = copy, .apply = apply};
    m->layers.at[m->layers.n++] = l;
    return l;
}

void weir_layer_adopt(weir_layer *l, weir_mark mark)
{
    const weir_list *const all = &l->model->layers;

    for (size_t i = mark.layers; i < all->n; i++) {
        weir_layer *const one = all->at[i];
        if (one != l && !one->parent)
            one->parent = l;
    }
}

bool weir_layer_is_within(const weir_layer *l, const weir_layer *of)
{
    while (l && l != of)
        l = l->parent;
    return l != NULL;
}

weir_status weir_name_join(char buf[WEIR_NAME_MAX], const char *a, const char *b)
{
    const char *head = a ? a : "";
    const int   n = snprintf(buf, WEIR_NAME_MAX, "%s%s%s", head, *head ? "." : "", b);
    if (n < 0 || n >= WEIR_NAME_MAX)
        return weir_fail(WEIR_ERR_INVALID,
                         "layer: the name \"%.40s...\" with \"%.40s\" has more than %d characters",
                         head, b, WEIR_NAME_MAX - 1);
    return WEIR_OK;
}

/* Creates a tensor by `make`, fills it, and adds it to `to`, which owns it. */
static weir_tensor *own(weir_model *m, weir_owned *to, weir_layer *l, const char *part,
                        weir_desc desc, double value,
                        weir_tensor *(*make)(weir_device *, weir_desc, const char *))
{
    char name[WEIR_NAME_MAX];

    if (weir_name_join(name, l ? l->name : NULL, part) != WEIR_OK ||
        weir_list_reserve(&to->tensors) != WEIR_OK || weir_list_reserve(&to->layers) != WEIR_OK)
        return NULL;
    weir_tensor *t = make(m->dev, desc, name);
    if (!t)
        return NULL;
    if (weir_write_fill(t, value) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    to->tensors.at[to->tensors.n++] = t;
    to->layers.at[to->layers.n++] = l;
    return t;
}

weir_tensor *weir_model_new_param(weir_model *m, weir_layer *l, const char *part, weir_desc desc,
                                  double value)
{
    return own(m, &m->params, l, part, desc, value, weir_param);
}

weir_tensor *weir_model_new_state(weir_model *m, weir_layer *l, const char *part, weir_desc desc,
                                  double value)
{
    return own(m, &m->states, l, part, desc, value, weir_state);
}
