/* statistics.c - batch statistics kept for an update, gathered and applied. See statistics.h.
 *
 * A place keeps those of one call of a layer in each micro-batch, the latest in its last row; a
 * layer that is applied several times in a micro-batch has several places. */
#include "model/statistics.h"

static const double momentum = 0.1;     /* of the layer */

typedef struct place {
    weir_tensor *mean, *var;    /* running, of the layer, referenced */
    weir_tensor *new_mean, *new_var;    /* states (c): of the latest call */
    weir_tensor *kept;          /* state (micro-batches, 2c): means, then variances */
    bool         taken;         /* in this micro-batch */
} place;

struct weir_statistics {
    int64_t   micro_batches;
    weir_list places;
};

static void place_free(place *p)
{
    weir_release(p->mean);
    weir_release(p->var);
    weir_release(p->new_mean);
    weir_release(p->new_var);
    weir_release(p->kept);
    weir_host_free(p);
}

void weir_statistics_free(weir_statistics *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->places.n; i++)
        place_free(s->places.at[i]);
    weir_list_free(&s->places);
    weir_host_free(s);
}

weir_status weir_statistics_begin(weir_model *m, int64_t micro_batches)
{
    weir_statistics *const s = weir_host_alloc(sizeof *s);

    if (!s)
        return weir_error_status();
    *s = (weir_statistics){.micro_batches = micro_batches};
    weir_statistics_free(m->statistics);
    m->statistics = s;
    m->statistics_free = weir_statistics_free;
    return WEIR_OK;
}

void weir_statistics_end_part(weir_statistics *s)
{
    for (size_t i = 0; s && i < s->places.n; i++)
        ((place *)s->places.at[i])->taken = false;
}

static weir_tensor *zeros(weir_device *d, weir_desc desc, const weir_tensor *of, const char *part)
{
    char name[WEIR_NAME_MAX];

    if (weir_name_join(name, weir_tensor_name(of), part) != WEIR_OK)
        return NULL;
    weir_tensor *const t = weir_state(d, desc, name);
    if (t && weir_write_fill(t, 0) != WEIR_OK) {
        weir_release(t);
        return NULL;
    }
    return t;
}

static place *place_new(weir_model *m, weir_tensor *mean, weir_tensor *var)
{
    weir_statistics *const s = m->statistics;
    const weir_desc        c = weir_tensor_desc(mean);
    place *const p = weir_list_reserve(&s->places) == WEIR_OK ? weir_host_alloc(sizeof *p) : NULL;

    if (!p)
        return NULL;
    *p = (place){.mean = weir_retain(mean), .var = weir_retain(var),
                 .new_mean = zeros(m->dev, c, mean, "new"),
                 .new_var = zeros(m->dev, c, var, "new"),
                 .kept = zeros(m->dev, weir_2d(c.dtype, s->micro_batches, 2 * c.dim[0]), mean,
                               "kept")};
    if (!p->new_mean || !p->new_var || !p->kept) {
        place_free(p);
        return NULL;
    }
    return s->places.at[s->places.n++] = p;
}

/* The layer's first place that no call of this micro-batch has taken. */
static place *place_of(weir_model *m, weir_tensor *mean, weir_tensor *var)
{
    for (size_t i = 0; i < m->statistics->places.n; i++) {
        place *const p = m->statistics->places.at[i];
        if (p->mean == mean && !p->taken)
            return p;
    }
    return place_new(m, mean, var);
}

/* Columns from..to of a matrix of n rows. */
static weir_tensor *columns(weir_tensor *t, int64_t n, int64_t from, int64_t to)
{
    return weir_slice(t, (int64_t[]){0, from}, (int64_t[]){n, to}, (int64_t[]){1, 1});
}

/* Moves the rows up and writes the latest statistics into the last one. */
static weir_status keep(const place *p, int64_t n)
{
    const int64_t two_c = weir_tensor_desc(p->kept).dim[1];
    weir_tensor  *row = weir_concat(2, (weir_tensor *[]){p->new_mean, p->new_var}, 0);

    row = weir_reshape(row, 2, (int64_t[]){1, two_c});
    if (n > 1)
        row = weir_concat(2, (weir_tensor *[]){weir_slice(p->kept, (int64_t[]){1, 0},
                                                          (int64_t[]){n, two_c},
                                                          (int64_t[]){1, 1}), row}, 0);
    return row ? weir_assign(p->kept, row) : weir_error_status();
}

weir_tensor *weir_statistics_norm(weir_model *m, weir_tensor *x, weir_tensor *scale,
                                  weir_tensor *bias, weir_tensor *mean, weir_tensor *var)
{
    const weir_batch_norm_options latest = {.train = true, .momentum = 1};
    place *const                  p = place_of(m, mean, var);

    /* From 0, since 0 times an infinity of the last call would be NaN. */
    if (!p || weir_reset(p->new_mean, 0) != WEIR_OK || weir_reset(p->new_var, 0) != WEIR_OK)
        return NULL;
    p->taken = true;
    weir_tensor *const y = weir_batch_norm(x, scale, bias, p->new_mean, p->new_var, &latest);
    return y && keep(p, m->statistics->micro_batches) == WEIR_OK ? y : NULL;
}

/* ---- applying ---- */

/* Calls of one layer: their means or variances, gathered, as rows in the order of calls. */
typedef struct rows {
    weir_tensor **part;         /* [places] */
    int           n;
    int64_t       micro_batches, channels;
} rows;

static weir_tensor *in_order(const rows *r)
{
    return weir_reshape(weir_concat(r->n, r->part, 1), 2,
                        (int64_t[]){r->micro_batches * r->n, r->channels});
}

/* Applies the rows of the layer of place `first` unless an earlier place is that layer's, too.
 * `all` has the columns of all places side by side. */
static weir_status apply_layer(const weir_statistics *s, size_t first, weir_tensor *all,
                               weir_tensor **part)
{
    const place *const p = s->places.at[first];
    const int64_t      c = weir_tensor_desc(p->mean).dim[0], m = weir_tensor_desc(all).dim[0];
    rows               mean = {part, 0, m, c}, var = {part + s->places.n, 0, m, c};
    int64_t            at = 0;

    for (size_t i = 0; i < s->places.n; i++) {
        const place *const other = s->places.at[i];
        if (other->mean == p->mean && i < first)
            return WEIR_OK;
        if (other->mean == p->mean) {
            mean.part[mean.n++] = columns(all, m, at, at + c);
            var.part[var.n++] = columns(all, m, at + c, at + 2 * c);
        }
        at += weir_tensor_desc(other->kept).dim[1];
    }
    return weir_running_update(p->mean, p->var, in_order(&mean), in_order(&var), momentum);
}

static weir_status apply_all(const weir_statistics *s, weir_comm *c, weir_tensor **part)
{
    const size_t n = s->places.n;

    for (size_t i = 0; i < n; i++)
        part[i] = ((place *)s->places.at[i])->kept;
    weir_tensor *const all = weir_all_gather(c, weir_concat((int)n, part, 1));
    if (!all)
        return weir_error_status();
    for (size_t i = 0; i < n; i++)
        WEIR_TRY(apply_layer(s, i, all, part));
    return WEIR_OK;
}

weir_status weir_statistics_apply(const weir_statistics *s, weir_comm *c)
{
    if (!s || s->places.n == 0)
        return WEIR_OK;
    weir_tensor **const part = weir_host_alloc(2 * s->places.n * sizeof(weir_tensor *));
    if (!part)
        return weir_error_status();
    const weir_status status = apply_all(s, c, part);
    weir_host_free(part);
    return status;
}
