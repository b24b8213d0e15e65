/* writer.c - nodes, constants and names of a graph that is being written.
 * Field numbers: github.com/onnx/onnx, onnx/onnx.proto. */
#include "model/onnx/write/writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A constant that was made: the same bytes get the same name. */
typedef struct weir_onnx_constant {
    struct weir_onnx_constant *before;
    weir_desc                  desc;
    const char                *name;
    size_t                     bytes;
    unsigned char              at[];
} constant;

int64_t weir_onnx_type_of(weir_dtype t)
{
    weir_dtype other;

    for (int64_t i = 1; i < 64; i++)
        if (weir_onnx_dtype(i, &other) && other == t)
            return i;
    return WEIR_ONNX_NONE;
}

/* ---- names ---- */

static bool taken(const weir_onnx_writer *w, const char *name)
{
    for (uint32_t i = 0; i < w->r.storages; i++)
        if (w->storage_name[i] && strcmp(w->storage_name[i], name) == 0)
            return true;
    for (uint32_t i = 0; i < w->r.outputs; i++)
        if (strcmp(w->r.output[i].name, name) == 0)
            return true;
    return false;
}

const char *weir_onnx_fresh(weir_onnx_writer *w, const char *base)
{
    const size_t room = strlen(base) + 24;
    char *const  name = weir_onnx_pool_get(&w->pool, room, 1);

    w->failed = w->failed || !name;
    if (!name)
        return NULL;
    do
        snprintf(name, room, "%s_%u", base, w->fresh++);
    while (taken(w, name));
    return name;
}

/* ---- nodes ---- */

/* An attribute that is a tensor of one element. */
static void put_element(weir_message *m, const weir_onnx_set *s)
{
    weir_message t = {0};

    weir_put_int(&t, 1, 1);
    weir_put_int(&t, 2, weir_onnx_type_of((weir_dtype)s->i));
    weir_put_bytes(&t, 9, s->s, s->n);
    weir_put_message(m, 5, &t);
    weir_message_free(&t);
}

static void put_attribute(weir_message *node, const weir_onnx_set *s)
{
    weir_message m = {0};

    weir_put_text(&m, 1, s->name);
    if (s->kind == 'f')
        weir_put_float(&m, 2, (float)s->f);
    else if (s->kind == 'i')
        weir_put_int(&m, 3, s->i);
    else if (s->kind == 's')
        weir_put_text(&m, 4, s->s);
    else if (s->kind == 't')
        put_element(&m, s);
    for (size_t i = 0; s->kind == 'l' && i < s->n; i++)
        weir_put_int(&m, 8, s->list[i]);
    weir_put_int(&m, 20, s->kind == 'f'   ? 1
                         : s->kind == 'i' ? 2
                         : s->kind == 's' ? 3
                         : s->kind == 't' ? 4 : 7);
    weir_put_message(node, 5, &m);
    weir_message_free(&m);
}

/* "layer1/conv/conv2d_0", and "..._0.1" for the second node of the call. */
static void put_name(weir_onnx_writer *w, weir_message *m)
{
    char name[600];

    if (!w->node)
        return;
    if (w->nodes_of_call++ == 0)
        snprintf(name, sizeof name, "%s", w->node);
    else
        snprintf(name, sizeof name, "%s.%u", w->node, w->nodes_of_call - 1);
    weir_put_text(m, 3, name);
}

void weir_put_node_of(weir_onnx_writer *w, const char *op, size_t outs, const char *const *out,
                       size_t n, const char *const *in, size_t sets, const weir_onnx_set *set)
{
    weir_message m = {0};

    for (size_t i = 0; i < n; i++)
        w->failed = w->failed || !in[i];
    for (size_t i = 0; i < outs; i++)
        w->failed = w->failed || !out[i];
    if (w->failed)
        return;
    for (size_t i = 0; i < n; i++)
        weir_put_text(&m, 1, in[i]);
    for (size_t i = 0; i < outs; i++)
        weir_put_text(&m, 2, out[i]);
    put_name(w, &m);
    weir_put_text(&m, 4, op);
    for (size_t i = 0; i < sets; i++)
        put_attribute(&m, &set[i]);
    weir_put_message(&w->nodes, 1, &m);
    w->failed = w->nodes.failed;
    weir_message_free(&m);
}

const char *weir_put_node(weir_onnx_writer *w, const char *op, const char *out, size_t n,
                           const char *const *in, size_t sets, const weir_onnx_set *set)
{
    const char *const name = out ? out : weir_onnx_fresh(w, w->node ? w->node : "view");

    weir_put_node_of(w, op, 1, &name, n, in, sets, set);
    return w->failed ? NULL : name;
}

const char *weir_put_node1(weir_onnx_writer *w, const char *op, const char *out, const char *a)
{
    return weir_put_node(w, op, out, 1, &a, 0, NULL);
}

const char *weir_put_node2(weir_onnx_writer *w, const char *op, const char *out, const char *a,
                            const char *b)
{
    return weir_put_node(w, op, out, 2, (const char *const[]){a, b}, 0, NULL);
}

/* ---- constants ---- */

static constant *find_constant(const weir_onnx_writer *w, const weir_desc *d, const void *elements,
                               size_t bytes)
{
    for (constant *c = w->constant; c; c = c->before)
        if (c->desc.dtype == d->dtype && c->desc.ndim == d->ndim && c->bytes == bytes &&
            memcmp(c->desc.dim, d->dim, (size_t)d->ndim * sizeof *d->dim) == 0 &&
            memcmp(c->at, elements, bytes) == 0)
            return c;
    return NULL;
}

const char *weir_onnx_elements_of(weir_onnx_writer *w, const weir_desc *d, const void *elements,
                                  size_t bytes)
{
    constant    *c = find_constant(w, d, elements, bytes);
    weir_message t = {0};

    if (c)
        return c->name;
    c = weir_onnx_pool_get(&w->pool, 1, sizeof *c + bytes);
    w->failed = w->failed || !c;
    if (w->failed)
        return NULL;
    *c = (constant){.before = w->constant, .desc = *d, .bytes = bytes,
                    .name = weir_onnx_fresh(w, "constant")};
    if (bytes)
        memcpy(c->at, elements, bytes);
    w->constant = c;
    for (int i = 0; i < d->ndim; i++)
        weir_put_int(&t, 1, d->dim[i]);
    weir_put_int(&t, 2, weir_onnx_type_of(d->dtype));
    if (c->name)
        weir_put_text(&t, 8, c->name);
    weir_put_bytes(&t, 9, elements, bytes);
    weir_put_message(&w->constants, 5, &t);
    w->failed = w->failed || w->constants.failed;
    weir_message_free(&t);
    return w->failed ? NULL : c->name;
}

/* The bytes of v as an element; how many, 0 for a half, which the host has no type for, and for
 * i8, i16, u16, u32 and u64. */
static size_t element(weir_dtype t, double v, unsigned char to[8])
{
    const union {
        float f;
        double d;
        int32_t i;
        int64_t l;
        uint8_t u;
    } e = {.d = v}, f = {.f = (float)v}, i = {.i = t == WEIR_I32 ? (int32_t)v : 0},
      l = {.l = t == WEIR_I64 ? (int64_t)v : 0}, u = {.u = t == WEIR_U8 ? (uint8_t)v : v != 0};
    const size_t size = weir_dtype_size(t);

    if (t >= WEIR_F16)
        return 0;
    memcpy(to, t == WEIR_F64   ? (const void *)&e
               : t == WEIR_F32 ? (const void *)&f
               : t == WEIR_I32 ? (const void *)&i
               : t == WEIR_I64 ? (const void *)&l : (const void *)&u, size);
    return size;
}

const char *weir_onnx_scalar_of(weir_onnx_writer *w, weir_dtype t, double v)
{
    unsigned char   at[8];
    const weir_desc d = {.dtype = t};
    const size_t    n = element(t, v, at);

    return n ? weir_onnx_elements_of(w, &d, at, n)
             : weir_onnx_cast_to(
                   w, NULL, weir_onnx_scalar_of(w, t > WEIR_BF16 ? WEIR_F64 : WEIR_F32, v), t);
}

const char *weir_onnx_int_of(weir_onnx_writer *w, int64_t v)
{
    return weir_onnx_elements_of(w, &(weir_desc){.dtype = WEIR_I64}, &v, sizeof v);
}

const char *weir_onnx_ints_of(weir_onnx_writer *w, const int64_t *v, size_t n)
{
    const weir_desc d = {WEIR_I64, 1, {(int64_t)n}};

    return weir_onnx_elements_of(w, &d, v, n * sizeof *v);
}

/* ---- common nodes ---- */

const char *weir_onnx_filled(weir_onnx_writer *w, const char *out, const weir_desc *d, double v)
{
    unsigned char     at[8];
    const size_t      n = element(d->dtype, v, at);
    const char *const shape = weir_onnx_ints_of(w, d->dim, (size_t)d->ndim);

    if (n == 0) {
        const weir_desc wide = {WEIR_F32, d->ndim, {0}};
        weir_desc       same = wide;
        memcpy(same.dim, d->dim, sizeof same.dim);
        return weir_onnx_cast_to(w, out, weir_onnx_filled(w, NULL, &same, v), d->dtype);
    }
    return weir_put_node(w, "ConstantOfShape", out, 1, &shape, 1,
                          &(weir_onnx_set){.name = "value", .kind = 't', .i = d->dtype,
                                           .s = (const char *)at, .n = n});
}

/* A size of 0 in the shape of Reshape would mean that of the input. */
const char *weir_onnx_reshaped(weir_onnx_writer *w, const char *out, const char *x,
                               const weir_desc *d)
{
    if (weir_recording_count(d) == 0)
        return weir_onnx_filled(w, out, d, 0);
    return weir_put_node2(w, "Reshape", out, x, weir_onnx_ints_of(w, d->dim, (size_t)d->ndim));
}

const char *weir_onnx_transposed(weir_onnx_writer *w, const char *out, const char *x, int n,
                                 const int *axis)
{
    int64_t perm[WEIR_MAX_DIMS];

    for (int i = 0; i < n; i++)
        perm[i] = axis[i];
    return weir_put_node(w, "Transpose", out, 1, &x, 1,
                          &(weir_onnx_set)WEIR_SET_LIST("perm", perm, (size_t)n));
}

const char *weir_onnx_expanded(weir_onnx_writer *w, const char *out, const char *x,
                               const weir_desc *d)
{
    return weir_put_node2(w, "Expand", out, x, weir_onnx_ints_of(w, d->dim, (size_t)d->ndim));
}

const char *weir_onnx_cast_to(weir_onnx_writer *w, const char *out, const char *x, weir_dtype t)
{
    return weir_put_node(w, "Cast", out, 1, &x, 1,
                          &(weir_onnx_set)WEIR_SET_INT("to", weir_onnx_type_of(t)));
}

const char *weir_onnx_reduced(weir_onnx_writer *w, const char *op, const char *out, const char *x,
                              uint64_t dims, int n, bool keep)
{
    const int           since = strcmp(op, "ReduceSum") == 0 ? 13 : 18;
    int64_t             axis[WEIR_MAX_DIMS];
    size_t              axes = 0;

    for (int i = 0; i < n; i++)
        if (dims >> i & 1)
            axis[axes++] = i;
    const weir_onnx_set set[] = {WEIR_SET_INT("keepdims", keep), WEIR_SET_LIST("axes", axis, axes)};
    if (axes == 0 || w->opset < since)
        return weir_put_node(w, op, out, 1, &x, axes ? 2 : 1, set);
    const char *const in[] = {x, weir_onnx_ints_of(w, axis, axes)};
    return weir_put_node(w, op, out, 2, in, 1, set);
}

const char *weir_onnx_sliced(weir_onnx_writer *w, const char *out, const char *x, int n,
                             const int64_t *begin, const int64_t *dim, const int64_t *step)
{
    int64_t from[WEIR_MAX_DIMS], to[WEIR_MAX_DIMS], axis[WEIR_MAX_DIMS];

    for (int i = 0; i < n; i++) {
        from[i] = begin[i];
        axis[i] = i;
        to[i] = begin[i] + dim[i] * step[i];
        if (step[i] < 0 && to[i] < 0)       /* -1 would be the last element */
            to[i] = INT64_MIN + 1;
    }
    const size_t size = (size_t)n;
    if (w->opset < 10) {
        const weir_onnx_set set[] = {WEIR_SET_LIST("starts", from, size),
                                     WEIR_SET_LIST("ends", to, size)};
        return weir_put_node(w, "Slice", out, 1, &x, 2, set);
    }
    const char *const in[] = {x, weir_onnx_ints_of(w, from, size), weir_onnx_ints_of(w, to, size),
                              weir_onnx_ints_of(w, axis, size), weir_onnx_ints_of(w, step, size)};
    return weir_put_node(w, "Slice", out, 5, in, 0, NULL);
}
