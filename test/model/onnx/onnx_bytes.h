/* onnx_bytes.h - writes small ONNX models as bytes: fields of protobuf, nodes, tensors, inputs. */
#ifndef WEIR_TEST_ONNX_BYTES_H
#define WEIR_TEST_ONNX_BYTES_H

#include "check.h"
#include "weir.h"

enum { PB_BYTES = 1 << 14, PB_F32 = 1, PB_U8 = 2, PB_I8 = 3, PB_I32 = 6, PB_I64 = 7, PB_F64 = 11 };

/* A message that is being written. Begin with {0}; one that is full fails a check. */
typedef struct pb {
    size_t        n;
    unsigned char at[PB_BYTES];
} pb;

static inline void pb_raw(pb *m, const void *bytes, size_t n)
{
    if (!CHECK(n <= sizeof m->at - m->n))
        return;
    if (n)
        memcpy(m->at + m->n, bytes, n);
    m->n += n;
}

static inline void pb_varint(pb *m, uint64_t v)
{
    unsigned char b[10];
    size_t        n = 0;

    for (; v >= 0x80; v >>= 7)
        b[n++] = (unsigned char)(v | 0x80);
    b[n++] = (unsigned char)v;
    pb_raw(m, b, n);
}

static inline void pb_int(pb *m, unsigned field, int64_t v)
{
    pb_varint(m, field << 3);
    pb_varint(m, (uint64_t)v);
}

static inline void pb_float(pb *m, unsigned field, float v)
{
    pb_varint(m, field << 3 | 5);
    pb_raw(m, &v, sizeof v);
}

static inline void pb_bytes(pb *m, unsigned field, const void *bytes, size_t n)
{
    pb_varint(m, field << 3 | 2);
    pb_varint(m, n);
    pb_raw(m, bytes, n);
}

static inline void pb_text(pb *m, unsigned field, const char *text)
{
    pb_bytes(m, field, text, strlen(text));
}

static inline void pb_message(pb *m, unsigned field, const pb *inner)
{
    pb_bytes(m, field, inner->at, inner->n);
}

/* One text for each name of "a,b,c"; an empty name is an input that is left out. */
static inline void pb_names(pb *m, unsigned field, const char *names)
{
    for (const char *p = names; *names && p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        pb_bytes(m, field, p, strcspn(p, ","));
}

/* ---- attributes, one after the other in a list ---- */

static inline void attr_int(pb *list, const char *name, int64_t v)
{
    pb a = {0};

    pb_text(&a, 1, name);
    pb_int(&a, 3, v);
    pb_int(&a, 20, 2);
    pb_message(list, 5, &a);
}

static inline void attr_float(pb *list, const char *name, float v)
{
    pb a = {0};

    pb_text(&a, 1, name);
    pb_float(&a, 2, v);
    pb_message(list, 5, &a);
}

static inline void attr_text(pb *list, const char *name, const char *text)
{
    pb a = {0};

    pb_text(&a, 1, name);
    pb_text(&a, 4, text);
    pb_message(list, 5, &a);
}

/* packed: as one field, else one field a number. */
static inline void attr_ints(pb *list, const char *name, int n, const int64_t *v, bool packed)
{
    pb a = {0}, in = {0};

    pb_text(&a, 1, name);
    for (int i = 0; i < n; i++)
        if (packed)
            pb_varint(&in, (uint64_t)v[i]);
        else
            pb_int(&a, 8, v[i]);
    if (packed)
        pb_message(&a, 8, &in);
    pb_message(list, 5, &a);
}

static inline void attr_graph(pb *list, const char *name, const pb *g)
{
    pb a = {0};

    pb_text(&a, 1, name);
    pb_message(&a, 6, g);
    pb_message(list, 5, &a);
}

/* ---- parts of a graph ---- */

/* attributes NULL: none. */
static inline void net_node(pb *g, const char *op, const char *in, const char *out,
                            const pb *attributes)
{
    pb n = {0};

    pb_names(&n, 1, in);
    pb_names(&n, 2, out);
    pb_text(&n, 3, op);
    pb_text(&n, 4, op);
    if (attributes)
        pb_raw(&n, attributes->at, attributes->n);
    pb_message(g, 1, &n);
}

/* An input (field 11) or output (field 12); a size of -1 has the name "batch". */
static inline void net_port(pb *g, unsigned field, const char *name, int type, int ndim,
                            const int64_t *dim)
{
    pb shape = {0}, tensor = {0}, kind = {0}, port = {0};

    for (int i = 0; i < ndim; i++) {
        pb d = {0};
        if (dim[i] < 0)
            pb_text(&d, 2, "batch");
        else
            pb_int(&d, 1, dim[i]);
        pb_message(&shape, 1, &d);
    }
    pb_int(&tensor, 1, type);
    pb_message(&tensor, 2, &shape);
    pb_message(&kind, 1, &tensor);
    pb_text(&port, 1, name);
    pb_message(&port, 2, &kind);
    pb_message(g, field, &port);
}

static inline void net_input(pb *g, const char *name, int type, int ndim, const int64_t *dim)
{
    net_port(g, 11, name, type, ndim, dim);
}

static inline void net_output(pb *g, const char *name)
{
    pb port = {0};

    pb_text(&port, 1, name);
    pb_message(g, 12, &port);
}

/* The head of an initializer: its dims, type and name. */
static inline void tensor_head(pb *t, const char *name, int type, int ndim, const int64_t *dim)
{
    for (int i = 0; i < ndim; i++)
        pb_int(t, 1, dim[i]);
    pb_int(t, 2, type);
    pb_text(t, 8, name);
}

static inline void net_init(pb *g, const char *name, int type, int ndim, const int64_t *dim,
                            const void *elements, size_t bytes)
{
    pb t = {0};

    tensor_head(&t, name, type, ndim, dim);
    pb_bytes(&t, 9, elements, bytes);
    pb_message(g, 5, &t);
}

/* Small numbers, the same each time, from -0.5 to 0.5. */
static inline void net_weights(pb *g, const char *name, int ndim, const int64_t *dim, double shift)
{
    float  v[1024];
    size_t n = 1;

    for (int i = 0; i < ndim; i++)
        n *= (size_t)dim[i];
    for (size_t i = 0; CHECK(n <= ARRAY_LENGTH(v)) && i < n; i++)
        v[i] = (float)((double)(i * 37 % 101) / 101 - 0.5 + shift);
    net_init(g, name, PB_F32, ndim, dim, v, n * sizeof *v);
}

static inline void net_ints(pb *g, const char *name, int n, const int64_t *v)
{
    net_init(g, name, PB_I64, 1, (int64_t[]){n}, v, (size_t)n * sizeof *v);
}

/* The model of a graph, for an opset of the default domain. */
static inline void net_model(pb *m, const pb *g, int64_t opset)
{
    pb set = {0};

    *m = (pb){0};
    pb_int(&set, 2, opset);
    pb_int(m, 1, 8);
    pb_message(m, 7, g);
    pb_message(m, 8, &set);
}

/* ---- small networks ---- */

/* x (batch,3,8,8) -> conv, batch norm, relu, pool, flatten, gemm -> y (batch,5). */
static inline void net_convolutional(pb *m)
{
    pb g = {0}, a = {0}, pool = {0}, gemm = {0};

    net_input(&g, "x", PB_F32, 4, (int64_t[]){-1, 3, 8, 8});
    net_weights(&g, "conv.weight", 4, (int64_t[]){4, 3, 3, 3}, 0);
    net_weights(&g, "conv.bias", 1, (int64_t[]){4}, 0);
    net_weights(&g, "norm.weight", 1, (int64_t[]){4}, 1);
    net_weights(&g, "norm.bias", 1, (int64_t[]){4}, 0);
    net_weights(&g, "norm.mean", 1, (int64_t[]){4}, 0.5);
    net_weights(&g, "norm.var", 1, (int64_t[]){4}, 1.5);
    net_weights(&g, "fc.weight", 2, (int64_t[]){5, 64}, 0);
    net_weights(&g, "fc.bias", 1, (int64_t[]){5}, 0);
    attr_ints(&a, "pads", 4, (int64_t[]){1, 1, 1, 1}, true);
    net_node(&g, "Conv", "x,conv.weight,conv.bias", "a", &a);
    net_node(&g, "BatchNormalization", "a,norm.weight,norm.bias,norm.mean,norm.var", "b", NULL);
    net_node(&g, "Relu", "b", "c", NULL);
    attr_ints(&pool, "kernel_shape", 2, (int64_t[]){2, 2}, false);
    attr_ints(&pool, "strides", 2, (int64_t[]){2, 2}, false);
    net_node(&g, "MaxPool", "c", "d", &pool);
    net_node(&g, "Flatten", "d", "e", NULL);
    attr_int(&gemm, "transB", 1);
    net_node(&g, "Gemm", "e,fc.weight,fc.bias", "y", &gemm);
    net_output(&g, "y");
    net_model(m, &g, 17);
}

/* tokens (batch,4) i64 -> embedding, layer norm, one head of attention whose shapes are computed
 * from the shape of the tokens, product -> y (batch,4,6). */
static inline void net_text(pb *m)
{
    pb g = {0}, axis = {0}, perm = {0}, soft = {0}, part = {0};

    net_input(&g, "tokens", PB_I64, 2, (int64_t[]){-1, 4});
    net_weights(&g, "table", 2, (int64_t[]){9, 6}, 0);
    net_weights(&g, "norm.weight", 1, (int64_t[]){6}, 1);
    net_weights(&g, "norm.bias", 1, (int64_t[]){6}, 0);
    net_weights(&g, "out", 2, (int64_t[]){6, 6}, 0);
    net_ints(&g, "zero", 1, (int64_t[]){0});
    net_ints(&g, "tail", 2, (int64_t[]){-1, 6});
    net_node(&g, "Gather", "table,tokens", "e", NULL);
    net_node(&g, "LayerNormalization", "e,norm.weight,norm.bias", "n", NULL);
    attr_ints(&perm, "perm", 3, (int64_t[]){0, 2, 1}, true);
    net_node(&g, "Transpose", "n", "k", &perm);
    net_node(&g, "MatMul", "n,k", "s", NULL);
    attr_int(&soft, "axis", -1);
    net_node(&g, "Softmax", "s", "p", &soft);
    net_node(&g, "MatMul", "p,n", "h", NULL);
    net_node(&g, "Shape", "tokens", "shape", NULL);
    attr_int(&part, "axis", 0);
    net_node(&g, "Gather", "shape,zero", "rows", &part);
    attr_int(&axis, "axis", 0);
    net_node(&g, "Concat", "rows,tail", "to", &axis);
    net_node(&g, "Reshape", "h,to", "r", NULL);
    net_node(&g, "MatMul", "r,out", "y", NULL);
    net_output(&g, "y");
    net_model(m, &g, 17);
}

/* h = x (3); `turns` times h = h + h; what each turn leaves is stacked. */
static inline void net_loop(pb *m, int64_t turns, const char *out)
{
    const uint8_t yes = 1;
    pb            g = {0}, a = {0}, body = {0};

    net_input(&g, "x", PB_F32, 1, (int64_t[]){3});
    net_init(&g, "count", PB_I64, 0, NULL, &turns, sizeof turns);
    net_init(&g, "yes", 9, 0, NULL, &yes, 1);
    net_output(&body, "on2");
    net_output(&body, "h2");
    net_output(&body, "each");
    for (int i = 0; i < 3; i++) {
        pb port = {0};
        pb_text(&port, 1, i == 0 ? "i" : i == 1 ? "on" : "h");
        pb_message(&body, 11, &port);
    }
    net_node(&body, "Identity", "on", "on2", NULL);
    net_node(&body, "Add", "h,h", "h2", NULL);
    net_node(&body, "Identity", "h2", "each", NULL);
    attr_graph(&a, "body", &body);
    net_node(&g, "Loop", "count,yes,x", "last,all", &a);
    net_output(&g, out);
    net_model(m, &g, 19);
}

#endif
