/* graph.c - writes a graph and the values of its tensors to a safetensors file, and reads it.
 *
 * The graph's text is one more tensor of the file, "weir.graph", of bytes: so readers of
 * safetensors need not know of it, and it may be long. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/header.h"
#include "model/file/replace.h"

static const char text_name[] = "weir.graph";

/* A tensor of the file. */
typedef struct item {
    weir_file_entry entry;
    weir_tensor    *tensor;     /* NULL: the text */
} item;

static size_t size_of(const item *i)
{
    return weir_dtype_size(i->entry.desc.dtype);
}

/* Long elements first, so that all lie at multiples of their size; then by name. */
static int in_order(const void *a, const void *b)
{
    const item *const x = a, *const y = b;

    return size_of(x) != size_of(y) ? (size_of(x) < size_of(y)) - (size_of(x) > size_of(y))
                                    : strcmp(x->entry.name, y->entry.name);
}

/* ---- saving ---- */

typedef struct saving {
    weir_graph  *g;
    weir_device *dev;           /* of its tensors; NULL: it has none */
    char        *text;          /* owned */
    item        *item;          /* [n], owned; the text is one of them */
    size_t       n;
    void        *buffer;        /* for the elements of any of them; owned */
} saving;

/* Whether the file has a value for the tensor: a scalar input, such as a learning rate, is a
 * setting, other inputs are data. */
static bool has_value(const weir_binding *b)
{
    return b->role == WEIR_ROLE_PARAM || b->role == WEIR_ROLE_STATE ||
           (b->role == WEIR_ROLE_INPUT && weir_tensor_desc(b->tensor).ndim == 0);
}

static void add(saving *s, const char *name, weir_desc desc, weir_tensor *t)
{
    s->item[s->n++] = (item){
        .entry = {.name = name, .type = weir_type_name(desc.dtype), .desc = desc}, .tensor = t};
}

static weir_status reserve(saving *s, const weir_binding *list, size_t count)
{
    size_t most = strlen(s->text);

    for (size_t i = 0; i < count; i++)
        if (has_value(&list[i]) && weir_tensor_bytes(list[i].tensor) > most)
            most = weir_tensor_bytes(list[i].tensor);
    s->item = weir_host_alloc((count + 1) * sizeof *s->item);
    s->buffer = weir_host_alloc(most);
    return s->item && s->buffer ? WEIR_OK : weir_error_status();
}

/* Tensors that nothing has been written to, such as targets of weir_assign before the first run,
 * are left out. */
static weir_status collect(saving *s)
{
    const weir_binding *list;
    size_t              count;

    WEIR_TRY(weir_graph_bindings(s->g, &list, &count));
    WEIR_TRY(reserve(s, list, count));
    s->dev = count > 0 ? weir_tensor_device(list[0].tensor) : NULL;
    for (size_t i = 0; i < count; i++) {
        weir_tensor *const t = list[i].tensor;
        if (strcmp(list[i].name, text_name) == 0 || strcmp(list[i].name, "__metadata__") == 0)
            return weir_fail(WEIR_ERR_INVALID, "graph_save: a tensor is called '%s', which the "
                             "file uses itself: weir_graph_bind", list[i].name);
        if (!has_value(&list[i]))
            continue;
        const weir_status status = weir_read(t, s->buffer, weir_tensor_bytes(t));
        if (status == WEIR_OK)
            add(s, list[i].name, weir_tensor_desc(t), t);
        else if (status != WEIR_ERR_STATE)
            return status;
    }
    weir_error_clear();
    add(s, text_name, weir_1d(WEIR_U8, (int64_t)strlen(s->text)), NULL);
    qsort(s->item, s->n, sizeof *s->item, in_order);
    return WEIR_OK;
}

static uint64_t bytes_of(const saving *s, const item *i)
{
    return i->tensor ? weir_tensor_bytes(i->tensor) : strlen(s->text);
}

static weir_status write_header(const saving *s, weir_output *o)
{
    weir_file_entry *const entry = weir_host_alloc(s->n * sizeof *entry);
    const weir_random      random = s->dev ? weir_device_random(s->dev) : (weir_random){0};
    char                   seed[24], position[24];
    uint64_t               at = 0;
    size_t                 bytes = 0;

    if (!entry)
        return weir_error_status();
    for (size_t i = 0; i < s->n; i++) {
        entry[i] = s->item[i].entry;
        entry[i].begin = at;
        entry[i].end = at += bytes_of(s, &s->item[i]);
    }
    snprintf(seed, sizeof seed, "%" PRIu64, random.seed);
    snprintf(position, sizeof position, "%" PRIu64, random.position);
    const weir_note   note[] = {{"weir_graph", "1"}, {"weir_position", position},
                                {"weir_seed", seed}};
    char *const       text = weir_header_write(entry, s->n, note, sizeof note / sizeof *note,
                                               &bytes);
    const weir_status status = text ? weir_output_add(o, text, bytes) : weir_error_status();
    weir_host_free(text);
    weir_host_free(entry);
    return status;
}

static weir_status write_elements(const saving *s, weir_output *o)
{
    for (size_t i = 0; i < s->n; i++) {
        weir_tensor *const t = s->item[i].tensor;
        const size_t       bytes = (size_t)bytes_of(s, &s->item[i]);
        if (t)
            WEIR_TRY(weir_read(t, s->buffer, bytes));
        WEIR_TRY(weir_output_add(o, t ? s->buffer : s->text, bytes));
    }
    return WEIR_OK;
}

static weir_status write_file(saving *s, const char *path, const weir_save_options *options)
{
    weir_output o;

    WEIR_TRY(collect(s));
    WEIR_TRY(weir_output_begin(&o, "graph_save", path));
    weir_status status = write_header(s, &o);
    status = status == WEIR_OK ? write_elements(s, &o) : status;
    if (status == WEIR_OK)
        return weir_output_finish(&o, options && options->keep_previous);
    weir_output_discard(&o);
    return status;
}

weir_status weir_graph_save(weir_graph *g, const char *path, const weir_save_options *options)
{
    saving      s = {.g = g, .text = weir_graph_recorded(g)};
    weir_status status = s.text ? write_file(&s, path, options) : weir_error_status();

    weir_text_free(s.text);
    weir_host_free(s.item);
    weir_host_free(s.buffer);
    return status;
}

/* ---- loading ---- */

typedef struct loading {
    weir_file   file;
    weir_header header;
    weir_graph *g;              /* owned until it is returned */
    bool        draws;          /* a run draws random numbers */
} loading;

static weir_status open_file(loading *l, const char *path)
{
    WEIR_TRY(weir_file_open(&l->file, "graph_load", path));
    WEIR_TRY(weir_header_read(&l->header, &l->file));
    const char *const format = weir_header_note(&l->header, "weir_graph");
    if (!format)
        return weir_file_fail(&l->file, "is no file of weir_graph_save: it lacks weir_graph");
    if (strcmp(format, "1") != 0)
        return weir_file_fail(&l->file, "has the format '%.20s'; this library reads format 1",
                              format);
    return WEIR_OK;
}

static weir_status parse(loading *l, weir_device *d, const weir_plan_options *options)
{
    static const char      none[] = "weir graph 1\nrandom 0\n";
    weir_file_entry *const e = weir_header_find(&l->header, text_name);

    if (!e || strcmp(e->type, "U8") != 0 || e->desc.ndim != 1)
        return weir_file_fail(&l->file, "lacks '%s', or it is no list of bytes", text_name);
    e->taken = true;
    const size_t n = (size_t)(e->end - e->begin);
    char *const  text = weir_host_alloc(n + 1);
    weir_status  s = text ? weir_header_elements(&l->header, &l->file, e, text)
                          : weir_error_status();
    if (s == WEIR_OK) {
        l->draws = n < strlen(none) || memcmp(text, none, strlen(none)) != 0;
        l->g = weir_graph_parse(d, text, n, options);
        s = l->g ? WEIR_OK : weir_error_status();
    }
    weir_host_free(text);
    return s;
}

static bool same(const weir_desc *a, const weir_file_entry *e)
{
    return e->known && a->dtype == e->desc.dtype && a->ndim == e->desc.ndim &&
           (a->ndim == 0 || memcmp(a->dim, e->desc.dim, (size_t)a->ndim * sizeof *a->dim) == 0);
}

static weir_status take(loading *l, const weir_binding *b, weir_file_entry *e)
{
    const weir_desc desc = weir_tensor_desc(b->tensor);
    const size_t    bytes = weir_tensor_bytes(b->tensor);
    char            here[WEIR_SHAPE_TEXT], there[WEIR_SHAPE_TEXT];

    e->taken = true;
    if (b->role == WEIR_ROLE_OUTPUT || !same(&desc, e))
        return weir_file_fail(&l->file, "'%.60s' is %.60s in the file and %.60s in the graph",
                              b->name, weir_shape_text(&e->desc, e->type, there),
                              b->role == WEIR_ROLE_OUTPUT
                                  ? "a result"
                                  : weir_shape_text(&desc, weir_type_name(desc.dtype), here));
    void *const buffer = weir_host_alloc(bytes);
    weir_status s = buffer ? weir_header_elements(&l->header, &l->file, e, buffer)
                           : weir_error_status();
    s = s == WEIR_OK ? weir_write(b->tensor, buffer, bytes) : s;
    weir_host_free(buffer);
    return s;
}

static weir_status take_values(loading *l)
{
    const weir_binding *list;
    size_t              count;

    WEIR_TRY(weir_graph_bindings(l->g, &list, &count));
    for (size_t i = 0; i < count; i++) {
        weir_file_entry *const e = weir_header_find(&l->header, list[i].name);
        if (e)
            WEIR_TRY(take(l, &list[i], e));
    }
    for (size_t i = 0; i < l->header.entries; i++)
        if (!l->header.entry[i].taken)
            return weir_file_fail(&l->file, "'%.60s' is no tensor of the graph",
                                  l->header.entry[i].name);
    return WEIR_OK;
}

static weir_status take_random(const loading *l, weir_device *d)
{
    weir_random random = {0};

    if (!l->draws)
        return WEIR_OK;
    WEIR_TRY(weir_header_number(&l->header, &l->file, "weir_graph_save", "weir_seed",
                                &random.seed));
    WEIR_TRY(weir_header_number(&l->header, &l->file, "weir_graph_save", "weir_position",
                                &random.position));
    return weir_device_set_random(d, random);
}

weir_graph *weir_graph_load(weir_device *d, const char *path, const weir_plan_options *options)
{
    loading     l = {.file.fd = -1};
    weir_status s = open_file(&l, path);

    s = s == WEIR_OK ? parse(&l, d, options) : s;
    s = s == WEIR_OK ? take_values(&l) : s;
    s = s == WEIR_OK ? take_random(&l, d) : s;
    weir_file_close(&l.file);
    weir_header_free(&l.header);
    if (s == WEIR_OK)
        return l.g;
    weir_graph_free(l.g);
    return NULL;
}
