/* text.c - TfIdfVectorizer: how often sequences of numbers stand in rows of numbers. Strings, which
 * Weir has no tensors of, are refused. */
#include <inttypes.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { MOST = 1 << 24 }; /* sequences times places */

/* The sequences of one length in the pool: `count` of them from `first` on; `number`: of the first
 * among all. */
typedef struct grams {
    const int64_t *at;
    int64_t        length, count, number;
} grams;

typedef struct counting {
    weir_tensor   *rows; /* (b,l) i64 */
    int64_t        b, l, skips, size;
    const int64_t *index; /* where each sequence is counted */
} counting;

/* (b, count): how often each sequence stands in each row, its numbers `apart` places apart. */
static weir_tensor *count_grams(weir_onnx_call *c, const counting *k, const grams *g, int64_t apart)
{
    const int64_t places = k->l - apart * (g->length - 1);
    weir_tensor  *all = NULL;

    for (int64_t i = 0; i < g->length; i++) {
        int64_t *const word = weir_host_alloc((size_t)g->count * sizeof *word + 1);
        for (int64_t n = 0; word && n < g->count; n++)
            word[n] = g->at[n * g->length + i];
        weir_tensor *const t =
            word ? weir_onnx_constant(c, weir_3d(WEIR_I64, 1, 1, g->count), word) : NULL;
        weir_host_free(word);
        weir_tensor *const part = weir_unsqueeze(weir_narrow(k->rows, 1, i * apart, places), 2);
        weir_tensor *const same = t ? weir_eq(part, t) : NULL;
        all = all ? weir_logical_and(all, same) : same;
    }
    return weir_cast(weir_sum(all, 2, false), WEIR_F32);
}

/* Counts of the sequences as columns of the result. */
static weir_tensor *placed(weir_onnx_call *c, const counting *k, const grams *g, weir_tensor *count)
{
    float *const v = weir_host_alloc((size_t)(g->count * k->size) * sizeof *v + 1);

    for (int64_t n = 0; v && n < g->count; n++)
        v[n * k->size + k->index[g->number + n]] = 1;
    const weir_desc    d = weir_2d(WEIR_F32, g->count, k->size);
    weir_tensor *const to = v ? weir_onnx_constant(c, d, v) : NULL;
    weir_host_free(v);
    return to ? weir_matmul(count, to) : NULL;
}

static weir_tensor *add_grams(weir_onnx_call *c, const counting *k, const grams *g, weir_tensor *y)
{
    const int64_t skips = g->length == 1 ? 0 : k->skips;

    for (int64_t s = 0; y && s <= skips && (s + 1) * (g->length - 1) < k->l; s++) {
        weir_tensor *const n = count_grams(c, k, g, s + 1);
        weir_tensor *const term = n ? placed(c, k, g, n) : NULL;
        y = term ? weir_add(y, term) : NULL;
    }
    return y;
}

/* TF: the counts; IDF: the weights of what is there; TFIDF: both. */
static weir_status weighted(weir_onnx_call *c, const counting *k, weir_tensor *y, bool vector)
{
    const weir_onnx_attr *const w = weir_onnx_attr_of(c, "weights");
    const char *const           mode = weir_onnx_str(c, "mode", "");

    if (strcmp(mode, "IDF") == 0)
        y = weir_cast(weir_gt(y, weir_onnx_scalar(c, WEIR_F32, 0)), WEIR_F32);
    else if (strcmp(mode, "TF") != 0 && strcmp(mode, "TFIDF") != 0)
        return weir_onnx_refuse(c, "mode %.20s", mode);
    if (*mode != 'T' || mode[2]) {
        if (w && w->n_floats != (size_t)k->size)
            return weir_onnx_refuse(c, "%zu weights", w->n_floats);
        weir_tensor *const t =
            w ? weir_onnx_constant(c, weir_1d(WEIR_F32, k->size), w->floats) : NULL;
        y = t ? weir_mul(y, t) : w ? NULL : y;
    }
    return weir_onnx_give(c, 0, y && vector ? weir_reshape(y, 1, &k->size) : y);
}

static weir_status read_counting(weir_onnx_call *c, counting *k, size_t *indices)
{
    weir_tensor *const x = weir_onnx_x(c, 0);

    if (!x)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    *indices = weir_onnx_ints(c, "ngram_indexes", &k->index);
    for (size_t i = 0; i < *indices; i++) {
        if (k->index[i] < 0 || k->index[i] >= 1 << 20)
            return weir_onnx_refuse(c, "place %" PRId64, k->index[i]);
        k->size = k->index[i] >= k->size ? k->index[i] + 1 : k->size;
    }
    k->skips = weir_onnx_int(c, "max_skip_count", 0);
    if (d.ndim < 1 || d.ndim > 2 || (d.dtype != WEIR_I32 && d.dtype != WEIR_I64) || k->skips < 0 ||
        k->skips > 1 << 10 || k->size == 0)
        return weir_onnx_refuse(c, "rows of %s with %d axes", weir_dtype_name(d.dtype), d.ndim);
    k->b = d.ndim == 2 ? d.dim[0] : 1;
    k->l = d.dim[d.ndim - 1];
    k->rows = weir_reshape(weir_onnx_as(x, WEIR_I64), 2, (int64_t[]){k->b, k->l});
    return k->rows ? WEIR_OK : weir_error_status();
}

weir_status weir_onnx_tf_idf(weir_onnx_call *c)
{
    const int64_t *start, *pool;
    const size_t   n = weir_onnx_ints(c, "ngram_counts", &start);
    const size_t   words = weir_onnx_ints(c, "pool_int64s", &pool);
    counting       k = {0};
    size_t         indices = 0;
    int64_t        number = 0;

    WEIR_TRY(read_counting(c, &k, &indices));
    weir_tensor *y = weir_fill(c->dev, weir_2d(WEIR_F32, k.b, k.size), 0);
    for (size_t i = 0; i < n && y; i++) {
        const int64_t from = start[i], to = i + 1 < n ? start[i + 1] : (int64_t)words;
        const int64_t length = (int64_t)i + 1;
        if (from < 0 || to < from || to > (int64_t)words)
            return weir_onnx_refuse(c, "sequences from %" PRId64 " to %" PRId64, from, to);
        const grams g = {pool + from, length, (to - from) / length, number};
        number += g.count;
        if (number > (int64_t)indices || g.count > MOST / k.size)
            return weir_onnx_refuse(c, "%" PRId64 " sequences for %zu places", number, indices);
        if (g.count > 0 && length >= weir_onnx_int(c, "min_gram_length", 1) &&
            length <= weir_onnx_int(c, "max_gram_length", 1))
            y = add_grams(c, &k, &g, y);
    }
    return weighted(c, &k, y, weir_onnx_desc_of(c, 0).ndim == 1);
}
