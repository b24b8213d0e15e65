/* layer_tree.c - layers of a program's own, and the tree of layers: parts, names, freezing. */
#include "model/model.h"

#include <string.h>

/* ---- a layer of a program's own ---- */

typedef struct own_layer {
    weir_layer     base;
    weir_layer_def def;
    void          *ctx;
} own_layer;

static weir_tensor *own_apply(const weir_layer *base, weir_tensor *x)
{
    const own_layer *l = (const own_layer *)base;

    return l->def.apply(l->ctx, x);
}

static void own_release(weir_layer *base)
{
    own_layer *l = (own_layer *)base;

    if (l->def.release)
        l->def.release(l->ctx);
}

weir_layer *weir_layer_new(weir_model *m, const char *name, const weir_layer_def *def, void *ctx)
{
    if (!m || !def)
        return (void)weir_fail_null("layer_new", m ? "def" : "model"), NULL;
    if (!def->apply) {
        weir_fail(WEIR_ERR_INVALID, "layer_new %s: def has no apply function", name ? name : "");
        return NULL;
    }
    own_layer *l = weir_layer_make(m, sizeof *l, def->kind ? def->kind : "layer", name, own_apply);
    if (!l)
        return NULL;
    l->base.scoped = true;
    l->base.release = own_release;
    l->def = *def;
    l->ctx = ctx;
    return &l->base;
}

/* ---- names ---- */

const char *weir_layer_name(const weir_layer *l)
{
    return l ? l->name : "";
}

const char *weir_layer_kind(const weir_layer *l)
{
    return l ? l->kind : "";
}

weir_model *weir_layer_model(const weir_layer *l)
{
    return l ? l->model : NULL;
}

weir_layer *weir_layer_parent(const weir_layer *l)
{
    return l ? l->parent : NULL;
}

/* The part of a name inside a layer whose name is `of`: "conv.weight" of "block.conv.weight". */
static const char *name_inside(const char *name, const char *of)
{
    const size_t n = strlen(of);

    return n && strncmp(name, of, n) == 0 && name[n] == '.' ? name + n + 1 : name;
}

static weir_status rename_layer(weir_layer *l, const char *from, const char *to)
{
    char name[WEIR_NAME_MAX];

    if (strcmp(l->name, from) == 0)
        WEIR_TRY(weir_name_join(name, NULL, to));
    else
        WEIR_TRY(weir_name_join(name, to, name_inside(l->name, from)));
    char *const copy = weir_text_copy(name);
    if (!copy)
        return weir_error_status();
    weir_host_free(l->name);
    l->name = copy;
    return WEIR_OK;
}

/* The new name of every tensor inside l: checked if `dry`, else set. */
static weir_status rename_tensors(const weir_layer *l, const weir_owned *o, const char *from,
                                  const char *to, bool dry)
{
    char name[WEIR_NAME_MAX];

    for (size_t i = 0; i < o->tensors.n; i++) {
        if (!weir_layer_is_within(o->layers.at[i], l))
            continue;
        weir_tensor *const t = o->tensors.at[i];
        WEIR_TRY(weir_name_join(name, to, name_inside(weir_tensor_name(t), from)));
        if (!dry)
            WEIR_TRY(weir_set_name(t, name));
    }
    return WEIR_OK;
}

/* Puts `to` in the place of l's name, in the names of all that is inside, too. */
static weir_status rename_all(weir_layer *l, const char *to)
{
    const weir_model *const m = l->model;
    char                    from[WEIR_NAME_MAX];

    WEIR_TRY(weir_name_join(from, NULL, l->name));
    WEIR_TRY(rename_tensors(l, &m->params, from, to, true));
    WEIR_TRY(rename_tensors(l, &m->states, from, to, true));
    WEIR_TRY(rename_tensors(l, &m->params, from, to, false));
    WEIR_TRY(rename_tensors(l, &m->states, from, to, false));
    for (size_t i = 0; i < m->layers.n; i++) {
        weir_layer *const one = m->layers.at[i];
        if (weir_layer_is_within(one, l) && (one == l || *one->name))
            WEIR_TRY(rename_layer(one, from, to));
    }
    return WEIR_OK;
}

/* Fails if another part of `parent`, or another layer without a parent if that is NULL, has the
 * full name already. (Layers that are no parts yet may have equal names inside.) */
static weir_status layer_name_check(const char *who, const weir_layer *l, const weir_layer *parent,
                                    const char *name)
{
    const weir_list *const all = &l->model->layers;

    for (size_t i = 0; i < all->n; i++) {
        const weir_layer *const one = all->at[i];
        if (one != l && one->parent == parent && strcmp(one->name, name) == 0)
            return weir_fail(WEIR_ERR_INVALID, "%s: there is a layer '%s' already", who, name);
    }
    return WEIR_OK;
}

static weir_status set_name(const char *who, weir_layer *l, const weir_layer *parent,
                            const char *name)
{
    char full[WEIR_NAME_MAX];

    if (!name || !*name)
        return weir_fail(WEIR_ERR_INVALID, "%s: the name is empty", who);
    WEIR_TRY(weir_name_join(full, parent ? parent->name : NULL, name));
    WEIR_TRY(layer_name_check(who, l, parent, full));
    return rename_all(l, full);
}

weir_status weir_layer_set_name(weir_layer *l, const char *name)
{
    if (!l)
        return weir_fail_null("layer_set_name", "layer");
    if (l->parent)
        return weir_fail(WEIR_ERR_STATE, "layer_set_name: '%s' is a part of '%s'", l->name,
                         l->parent->name);
    return set_name("layer_set_name", l, NULL, name);
}

/* ---- parts ---- */

static weir_status part_check(const weir_layer *l, const weir_layer *part)
{
    if (part->model != l->model)
        return weir_fail(WEIR_ERR_INVALID, "layer_add: the layer '%s' and its part '%s' belong to "
                         "different models", l->name, part->name);
    if (part->parent)
        return weir_fail(WEIR_ERR_STATE, "layer_add: '%s' is a part of '%s' already", part->name,
                         part->parent->name);
    if (weir_layer_is_within(l, part))
        return weir_fail(WEIR_ERR_INVALID, "layer_add: '%s' cannot be inside itself", part->name);
    return WEIR_OK;
}

weir_status weir_layer_join(weir_layer *l, const char *name, weir_layer *part)
{
    WEIR_TRY(part_check(l, part));
    WEIR_TRY(set_name("layer_add", part, l, name));
    part->parent = l;
    return WEIR_OK;
}

weir_layer *weir_layer_add(weir_layer *l, const char *name, weir_layer *part)
{
    if (!l || !part)
        (void)weir_fail_null("layer_add", l ? "part" : "layer");
    else if (weir_layer_join(l, name, part) == WEIR_OK)
        return part;
    if (l)
        l->incomplete = true;
    return NULL;
}

/* ---- tensors ---- */

static weir_tensor *find(const weir_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(weir_tensor_name(l->at[i]), name) == 0)
            return l->at[i];
    return NULL;
}

weir_tensor *weir_model_find(const weir_model *m, const char *name)
{
    if (!m || !name)
        return (void)weir_fail_null("model_find", m ? "name" : "model"), NULL;
    weir_tensor *t = find(&m->params.tensors, name);
    if (!t && !(t = find(&m->states.tensors, name)))
        weir_fail(WEIR_ERR_INVALID, "model_find: the model has no tensor '%s'", name);
    return t;
}

static bool has(const weir_owned *o, const weir_layer *l, const char *name)
{
    for (size_t i = 0; i < o->tensors.n; i++)
        if (o->layers.at[i] == l && strcmp(weir_tensor_name(o->tensors.at[i]), name) == 0)
            return true;
    return false;
}

/* Fails unless NAME can be the name of another tensor of l, or of the model if l is NULL. */
static weir_status tensor_name_check(const char *who, const weir_model *m, const weir_layer *l,
                                     const char *name)
{
    char full[WEIR_NAME_MAX];

    if (!name || !*name)
        return weir_fail(WEIR_ERR_INVALID, "%s: the name is empty", who);
    WEIR_TRY(weir_name_join(full, l ? l->name : NULL, name));
    if (has(&m->params, l, full) || has(&m->states, l, full))
        return weir_fail(WEIR_ERR_INVALID, "%s: there is a tensor '%s' already", who, full);
    return WEIR_OK;
}

static weir_tensor *param_add(const char *who, weir_model *m, weir_layer *l, const char *name,
                              weir_desc desc)
{
    return tensor_name_check(who, m, l, name) == WEIR_OK
               ? weir_model_new_param(m, l, name, desc, 0)
               : NULL;
}

static weir_tensor *state_add(const char *who, weir_model *m, weir_layer *l, const char *name,
                              weir_desc desc)
{
    return tensor_name_check(who, m, l, name) == WEIR_OK
               ? weir_model_new_state(m, l, name, desc, 0)
               : NULL;
}

weir_tensor *weir_layer_add_param(weir_layer *l, const char *name, weir_desc desc)
{
    if (!l)
        return (void)weir_fail_null("layer_add_param", "layer"), NULL;
    weir_tensor *const t = param_add("layer_add_param", l->model, l, name, desc);
    l->incomplete |= !t;
    return t;
}

weir_tensor *weir_layer_add_state(weir_layer *l, const char *name, weir_desc desc)
{
    if (!l)
        return (void)weir_fail_null("layer_add_state", "layer"), NULL;
    weir_tensor *const t = state_add("layer_add_state", l->model, l, name, desc);
    l->incomplete |= !t;
    return t;
}

weir_tensor *weir_model_add_param(weir_model *m, const char *name, weir_desc desc)
{
    if (!m)
        return (void)weir_fail_null("model_add_param", "model"), NULL;
    return param_add("model_add_param", m, NULL, name, desc);
}

weir_tensor *weir_model_add_state(weir_model *m, const char *name, weir_desc desc)
{
    if (!m)
        return (void)weir_fail_null("model_add_state", "model"), NULL;
    return state_add("model_add_state", m, NULL, name, desc);
}

weir_status weir_layer_set_trainable(weir_layer *l, bool on)
{
    if (!l)
        return weir_fail_null("layer_set_trainable", "layer");
    const weir_owned *const o = &l->model->params;
    for (size_t i = 0; i < o->tensors.n; i++) {
        if (!weir_layer_is_within(o->layers.at[i], l))
            continue;
        WEIR_TRY(weir_tensor_set_trainable(o->tensors.at[i], on));
        WEIR_TRY(weir_tensor_set_needs_grad(o->tensors.at[i], on));
    }
    return WEIR_OK;
}
