/* save_graph.c - writes an ONNX file of a recorded step: head, weights, external data.
 *
 * A protobuf message is preceded by its length, so all lengths are summed before the first byte is
 * written; elements then go from the device to the file by a buffer, a row after the other. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "model/file/replace.h"
#include "model/onnx/elements.h"
#include "model/onnx/write/writer.h"

static const char who[] = "graph_save_onnx";

enum { ALIGNED = 64, LEAST_EXTERNAL = 1024 };

/* A weight of the file. */
typedef struct weight {
    const char  *name;
    weir_tensor *tensor;
    weir_desc    desc;
    size_t       bytes;
    uint64_t     offset;        /* in the external file */
    bool         external;
} weight;

typedef struct file {
    weir_onnx_writer w;
    weight          *weight;    /* [n]; in w's pool */
    size_t           n;
    weir_message     head, ports, tail;     /* of the model; inputs and outputs; behind the graph */
    const char      *location;  /* name of the external file; NULL: none */
    void            *buffer;    /* owned */
    size_t           room;
} file;

/* ---- parts of the message ---- */

/* The version of the file format that has the opset. */
static int64_t ir_version(int opset)
{
    return opset <= 18 ? 8 : opset <= 20 ? 9 : opset <= 22 ? 10 : 11;
}

static void put_port(weir_message *graph, uint32_t field, const char *name, const weir_desc *d)
{
    weir_message port = {0}, type = {0}, tensor = {0}, shape = {0};

    for (int i = 0; i < d->ndim; i++) {
        weir_message dim = {0};
        weir_put_int(&dim, 1, d->dim[i]);
        weir_put_message(&shape, 1, &dim);
        weir_message_free(&dim);
    }
    weir_put_int(&tensor, 1, weir_onnx_type_of(d->dtype));
    weir_put_message(&tensor, 2, &shape);
    weir_put_message(&type, 1, &tensor);
    weir_put_text(&port, 1, name);
    weir_put_message(&port, 2, &type);
    weir_put_message(graph, field, &port);
    weir_message_free(&shape);
    weir_message_free(&tensor);
    weir_message_free(&type);
    weir_message_free(&port);
}

static void put_ports(file *f)
{
    const weir_onnx_recording *const r = &f->w.r;

    weir_put_text(&f->ports, 2, "weir");        /* the graph's name */
    for (uint32_t i = 0; i < r->storages; i++)
        if (f->w.needed[i] && r->storage[i].call == WEIR_RECORDING_NONE &&
            r->storage[i].role == WEIR_ROLE_INPUT)
            put_port(&f->ports, 11, r->storage[i].name, &r->storage[i].layout.desc);
    for (uint32_t i = 0; i < r->outputs; i++)
        put_port(&f->ports, 12, r->output[i].name, &r->value[r->output[i].value].layout.desc);
}

static void put_head(file *f, int opset)
{
    weir_message set = {0};

    weir_put_int(&f->head, 1, ir_version(opset));
    weir_put_text(&f->head, 2, "weir");
    weir_put_text(&f->head, 3, weir_version());
    weir_put_text(&set, 1, "");
    weir_put_int(&set, 2, opset);
    weir_put_message(&f->tail, 8, &set);
    weir_message_free(&set);
}

/* An entry of external_data. */
static void put_entry(weir_message *t, const char *key, const char *value)
{
    weir_message m = {0};

    weir_put_text(&m, 1, key);
    weir_put_text(&m, 2, value);
    weir_put_message(t, 13, &m);
    weir_message_free(&m);
}

/* All of a weight's message but its elements. */
static void put_weight(const file *f, const weight *t, weir_message *m)
{
    char number[24];

    for (int i = 0; i < t->desc.ndim; i++)
        weir_put_int(m, 1, t->desc.dim[i]);
    weir_put_int(m, 2, weir_onnx_type_of(t->desc.dtype));
    weir_put_text(m, 8, t->name);
    if (!t->external) {
        weir_put_head(m, 9, t->bytes);
        return;
    }
    put_entry(m, "location", f->location);
    snprintf(number, sizeof number, "%" PRIu64, t->offset);
    put_entry(m, "offset", number);
    snprintf(number, sizeof number, "%zu", t->bytes);
    put_entry(m, "length", number);
    weir_put_int(m, 14, 1);
}

/* ---- what is written ---- */

static weir_status collect(file *f, bool external)
{
    const weir_onnx_recording *const r = &f->w.r;
    uint64_t                    at = 0;

    f->weight = weir_onnx_pool_get(&f->w.pool, r->storages + 1, sizeof *f->weight);
    if (!f->weight)
        return weir_error_status();
    for (uint32_t i = 0; i < r->storages; i++) {
        const weir_recording_storage *const s = &r->storage[i];
        if (!f->w.needed[i] || s->call != WEIR_RECORDING_NONE || s->role == WEIR_ROLE_INPUT)
            continue;
        weight *const t = &f->weight[f->n++];
        *t = (weight){s->name, s->tensor, s->layout.desc, weir_tensor_bytes(s->tensor), 0, false};
        const size_t need = weir_elements_room(s->tensor);
        f->room = need > f->room ? need : f->room;
        t->external = external && t->bytes >= LEAST_EXTERNAL;
        if (!t->external)
            continue;
        t->offset = at = (at + ALIGNED - 1) / ALIGNED * ALIGNED;
        at += t->bytes;
    }
    f->buffer = weir_host_alloc(f->room);
    return f->buffer ? WEIR_OK : weir_error_status();
}

/* Bytes of the graph's message. The format has no longer ones than 2^31 - 1. */
static weir_status graph_bytes(const file *f, uint64_t *bytes)
{
    *bytes = f->w.nodes.n + f->w.constants.n + f->ports.n;
    for (size_t i = 0; i < f->n; i++) {
        weir_message m = {0}, head = {0};
        put_weight(f, &f->weight[i], &m);
        const size_t elements = f->weight[i].external ? 0 : f->weight[i].bytes;
        weir_put_head(&head, 5, m.n + elements);
        *bytes += head.n + m.n + elements;
        const bool failed = m.failed || head.failed;
        weir_message_free(&m);
        weir_message_free(&head);
        if (failed)
            return WEIR_ERR_NOMEM;
    }
    if (*bytes < INT32_MAX - (1 << 16))
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "%s: the file would have %" PRIu64 " bytes, and the format "
                     "ends at %d: write the weights to a file of their own (external)", who,
                     *bytes, INT32_MAX);
}

static weir_status add_message(weir_output *o, const weir_message *m)
{
    WEIR_TRY(weir_message_check(m));
    return m->n ? weir_output_add(o, m->at, m->n) : WEIR_OK;
}

static weir_status add_weight(const file *f, const weight *t, weir_output *o)
{
    weir_message head = {0}, m = {0};

    put_weight(f, t, &m);
    weir_put_head(&head, 5, m.n + (t->external ? 0 : t->bytes));
    weir_status s = add_message(o, &head);
    s = s == WEIR_OK ? add_message(o, &m) : s;
    weir_message_free(&head);
    weir_message_free(&m);
    if (s == WEIR_OK && !t->external)
        s = weir_elements_add(t->tensor, f->buffer, f->room, o);
    return s;
}

static weir_status write_model(const file *f, weir_output *o)
{
    weir_message head = {0};
    uint64_t     bytes;

    WEIR_TRY(graph_bytes(f, &bytes));
    WEIR_TRY(add_message(o, &f->head));
    weir_put_head(&head, 7, bytes);
    weir_status s = add_message(o, &head);
    weir_message_free(&head);
    s = s == WEIR_OK ? add_message(o, &f->w.nodes) : s;
    s = s == WEIR_OK ? add_message(o, &f->w.constants) : s;
    for (size_t i = 0; s == WEIR_OK && i < f->n; i++)
        s = add_weight(f, &f->weight[i], o);
    s = s == WEIR_OK ? add_message(o, &f->ports) : s;
    return s == WEIR_OK ? add_message(o, &f->tail) : s;
}

static weir_status write_data(const file *f, weir_output *o)
{
    static const char zero[ALIGNED];
    uint64_t          at = 0;

    for (size_t i = 0; i < f->n; i++) {
        const weight *const t = &f->weight[i];
        if (!t->external)
            continue;
        WEIR_TRY(weir_output_add(o, zero, (size_t)(t->offset - at)));
        WEIR_TRY(weir_elements_add(t->tensor, f->buffer, f->room, o));
        at = t->offset + t->bytes;
    }
    return WEIR_OK;
}

/* ---- files ---- */

/* Writes a file by fn, which replaces the one at `path` once it is whole. */
static weir_status replace(const file *f, const char *path,
                           weir_status (*fn)(const file *f, weir_output *o))
{
    weir_output o;

    WEIR_TRY(weir_output_begin(&o, who, path));
    const weir_status s = fn(f, &o);
    if (s == WEIR_OK)
        return weir_output_finish(&o, false);
    weir_output_discard(&o);
    return s;
}

static weir_status write_files(file *f, const char *path, bool external)
{
    const char *const slash = strrchr(path, '/');
    char              data[PATH_MAX];

    if ((size_t)snprintf(data, sizeof data, "%s.data", path) >= sizeof data)
        return weir_fail(WEIR_ERR_INVALID, "%s: the path has %zu bytes", who, strlen(path));
    f->location = data + (slash ? slash + 1 - path : 0);
    WEIR_TRY(collect(f, external));
    put_head(f, f->w.opset);
    put_ports(f);
    bool any = false;
    for (size_t i = 0; i < f->n; i++)
        any = any || f->weight[i].external;
    if (any)
        WEIR_TRY(replace(f, data, write_data));
    return replace(f, path, write_model);
}

weir_status weir_graph_save_onnx(weir_graph *g, const char *path,
                                 const weir_onnx_save_options *options)
{
    const weir_onnx_save_options o = options ? *options : (weir_onnx_save_options){0};
    file                         f = {.w.opset = o.opset ? o.opset : WEIR_WRITE_OPSET};

    if (!g || !path)
        return weir_fail_null(who, g ? "path" : "the graph");
    if (f.w.opset < WEIR_WRITE_LEAST_OPSET || f.w.opset > WEIR_WRITE_LAST_OPSET)
        return weir_fail(WEIR_ERR_INVALID, "%s: opset %d; Weir writes %d to %d", who, f.w.opset,
                         WEIR_WRITE_LEAST_OPSET, WEIR_WRITE_LAST_OPSET);
    weir_status s = weir_onnx_write_graph(&f.w, g, o.outputs);
    s = s == WEIR_OK ? write_files(&f, path, o.external) : s;
    weir_host_free(f.buffer);
    weir_message_free(&f.head);
    weir_message_free(&f.ports);
    weir_message_free(&f.tail);
    weir_onnx_writer_free(&f.w);
    return s;
}
