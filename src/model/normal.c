/* normal.c - layer, group and RMS norm as layers, and the embedding.
 *
 * Initial values: scales 1, biases 0, vectors of an embedding normal. */
#include "model/model.h"

#include <math.h>

weir_status weir_sizes_check(const char *op, const char *layer, int n, const char *const *names,
                             const int64_t *sizes)
{
    enum { MOST = INT32_MAX };

    for (int i = 0; i < n; i++)
        if (sizes[i] < 1 || sizes[i] > MOST)
            return weir_fail(WEIR_ERR_INVALID, "%s%s%s: %s is %lld but must be 1 to %d", op,
                             layer ? " " : "", layer ? layer : "", names[i], (long long)sizes[i],
                             MOST);
    return WEIR_OK;
}

/* ---- norms ---- */

typedef struct norm {
    weir_layer   base;
    weir_tensor *scale, *bias;      /* (width) each; bias NULL: RMS norm */
    int64_t      groups;            /* of channels; else 0 */
} norm;

static weir_tensor *norm_apply(const weir_layer *base, weir_tensor *x)
{
    const norm *l = (const norm *)base;

    if (!l->bias)
        return weir_rms_norm(x, l->scale, 0);
    return l->groups ? weir_group_norm(x, l->groups, l->scale, l->bias, 0)
                     : weir_layer_norm(x, l->scale, l->bias, 0);
}

static weir_layer *norm_new(weir_model *m, const char *kind, const char *name, int64_t width,
                            int64_t groups, bool bias)
{
    const weir_desc desc = weir_1d(WEIR_F32, width);
    const weir_mark mark = weir_model_mark(m);
    norm           *l = weir_layer_make(m, sizeof *l, kind, name, norm_apply);

    if (!l)
        return NULL;
    l->groups = groups;
    if (!(l->scale = weir_model_new_param(m, &l->base, "weight", desc, 1)) ||
        (bias && !(l->bias = weir_model_new_param(m, &l->base, "bias", desc, 0))))
        return weir_model_undo(m, mark);
    return &l->base;
}

weir_layer *weir_layer_norm_new(weir_model *m, const char *name, int64_t width)
{
    if (weir_sizes_check("layer_norm", name, 1, (const char *const[]){"width"}, &width) != WEIR_OK)
        return NULL;
    return norm_new(m, "layer_norm", name, width, 0, true);
}

weir_layer *weir_rms_norm_new(weir_model *m, const char *name, int64_t width)
{
    if (weir_sizes_check("rms_norm", name, 1, (const char *const[]){"width"}, &width) != WEIR_OK)
        return NULL;
    return norm_new(m, "rms_norm", name, width, 0, false);
}

weir_layer *weir_group_norm_new(weir_model *m, const char *name, int64_t groups, int64_t channels)
{
    static const char *const names[] = {"groups", "channels"};

    if (weir_sizes_check("group_norm", name, 2, names, (const int64_t[]){groups, channels}))
        return NULL;
    if (channels % groups) {
        weir_fail(WEIR_ERR_INVALID, "group_norm %s: %lld groups do not divide %lld channels",
                  name ? name : "", (long long)groups, (long long)channels);
        return NULL;
    }
    return norm_new(m, "group_norm", name, channels, groups, true);
}

/* ---- embedding ---- */

typedef struct embedding {
    weir_layer   base;
    weir_tensor *table;     /* (rows, width) */
} embedding;

static weir_tensor *embedding_apply(const weir_layer *base, weir_tensor *x)
{
    return weir_gather(((const embedding *)base)->table, x);
}

weir_tensor *weir_layer_new_table(weir_layer *l, const char *part, int64_t rows, int64_t width,
                                  weir_dtype dtype, double deviation)
{
    weir_tensor *t = weir_model_new_param(l->model, l, part, weir_2d(dtype, rows, width), 0);
    return t && weir_write_normal(t, 0, deviation) == WEIR_OK ? t : NULL;
}

weir_layer *weir_embedding_new(weir_model *m, const char *name, int64_t rows, int64_t width,
                               weir_dtype dtype, double deviation)
{
    static const char *const names[] = {"rows", "width"};
    const weir_mark          mark = weir_model_mark(m);

    if (weir_sizes_check("embedding", name, 2, names, (const int64_t[]){rows, width}) != WEIR_OK)
        return NULL;
    if (!(deviation >= 0)) {
        weir_fail(WEIR_ERR_INVALID, "embedding %s: deviation is %g but must be 0 (for 1) or more",
                  name ? name : "", deviation);
        return NULL;
    }
    if (dtype != WEIR_F32 && dtype != WEIR_F64 && dtype != WEIR_F16 && dtype != WEIR_BF16) {
        weir_fail(WEIR_ERR_DTYPE, "embedding %s: elements are f32, f64, f16 or bf16, not %s",
                  name ? name : "", weir_dtype_name(dtype));
        return NULL;
    }
    embedding *l = weir_layer_make(m, sizeof *l, "embedding", name, embedding_apply);
    if (!l)
        return NULL;
    l->table = weir_layer_new_table(&l->base, "weight", rows, width, dtype,
                                    deviation != 0 || signbit(deviation) ? deviation : 1);
    return l->table ? &l->base : weir_model_undo(m, mark);
}
