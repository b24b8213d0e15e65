/* recording.c - reads the text of a recorded step into tables. */
#include "model/onnx/write/recording.h"

#include <stdlib.h>
#include <string.h>

/* The text is the library's own, so a line that does not fit is our mistake; it is still checked,
 * as nothing is read or written outside. */
typedef struct reader {
    weir_onnx_recording *r;
    weir_onnx_pool *pool;
    char           *at;             /* in a copy of the text that ends with a newline and a 0 */
    size_t          line;
    const char    **path;           /* [paths], from 1 */
    uint32_t        paths;
    uint32_t       *called_path, *called_number;    /* [called] */
    uint32_t        called;
    bool            wrong;
} reader;

/* ---- words ---- */

/* The next word of the line, ended by a 0; "" at its end. */
static char *word(reader *t)
{
    char *const from = t->at;

    t->at += strcspn(t->at, " \n");
    if (*t->at == ' ')
        *t->at++ = '\0';
    return from;
}

static int64_t number(reader *t)
{
    char *const from = t->at;
    const bool  bits = *from == 'x';
    char       *end;

    const int64_t v = bits ? (int64_t)strtoull(from + 1, &end, 16) : strtoll(from, &end, 10);
    t->wrong = t->wrong || end == from + bits || (*end != ' ' && *end != '\n');
    t->at = *end == ' ' ? end + 1 : end;
    return v;
}

static uint32_t below(reader *t, uint32_t limit)
{
    const int64_t v = number(t);

    t->wrong = t->wrong || v < 0 || v >= (int64_t)limit;
    return t->wrong ? 0 : (uint32_t)v;
}

/* The rest of the line, "%0a" decoded, in place. */
static const char *rest(reader *t)
{
    char *const from = t->at;
    char       *to = from;

    for (; *t->at != '\n'; t->at++) {
        if (*t->at != '%' || !t->at[1] || !t->at[2]) {
            *to++ = *t->at;
            continue;
        }
        const char code[3] = {t->at[1], t->at[2], 0};
        *to++ = (char)strtol(code, NULL, 16);
        t->at += 2;
    }
    if (to < t->at)
        *to = '\0';
    return from;
}

/* ---- layouts ---- */

static weir_dtype dtype_of(reader *t, size_t n)
{
    weir_dtype d = 0;

    while (weir_dtype_size(d) > 0 && (strlen(weir_dtype_name(d)) != n ||
                                      strncmp(weir_dtype_name(d), t->at, n) != 0))
        d++;
    t->wrong = t->wrong || weir_dtype_size(d) == 0;
    return d;
}

/* "[2,3]" */
static int list(reader *t, int64_t to[WEIR_MAX_DIMS])
{
    int n = 0;

    t->wrong = t->wrong || *t->at != '[';
    if (t->wrong)
        return 0;
    for (t->at++; *t->at != ']' && !t->wrong; t->at += *t->at == ',') {
        char *end;
        t->wrong = n == WEIR_MAX_DIMS || *t->at == '\n';
        if (t->wrong)
            break;
        to[n++] = strtoll(t->at, &end, 10);
        t->wrong = end == t->at;
        t->at = end;
    }
    t->at += !t->wrong;
    return n;
}

/* Strides of a dense tensor: row-major, floats of four axes channels-last. */
static void make_dense(weir_recording_layout *l)
{
    static const int last[] = {3, 2, 1, 0}, channels_last[] = {1, 3, 2, 0};
    const weir_dtype t = l->desc.dtype;
    const bool       image = l->desc.ndim == 4 &&
                       (t == WEIR_F32 || t == WEIR_F64 || t == WEIR_F16 || t == WEIR_BF16);
    int64_t          step = 1;

    for (int i = 0; i < l->desc.ndim; i++) {
        const int axis = l->desc.ndim != 4 ? l->desc.ndim - 1 - i
                         : image           ? channels_last[i] : last[i];
        l->stride[axis] = step;
        step *= l->desc.dim[axis];
    }
}

static weir_recording_layout layout(reader *t)
{
    weir_recording_layout l = {0};

    l.desc.dtype = dtype_of(t, strcspn(t->at, "[\n"));
    t->at += strcspn(t->at, "[\n");
    l.desc.ndim = list(t, l.desc.dim);
    make_dense(&l);
    if (*t->at == '/') {
        t->at++;
        t->wrong = t->wrong || list(t, l.stride) != l.desc.ndim;
    }
    t->at += *t->at == ' ';
    return l;
}

int64_t weir_recording_count(const weir_desc *d)
{
    int64_t n = 1;

    for (int i = 0; i < d->ndim; i++)
        n *= d->dim[i];
    return n;
}

bool weir_recording_same(const weir_recording_layout *a, const weir_recording_layout *b)
{
    if (a->desc.dtype != b->desc.dtype || a->desc.ndim != b->desc.ndim)
        return false;
    for (int i = 0; i < a->desc.ndim; i++)
        if (a->desc.dim[i] != b->desc.dim[i] ||
            (a->desc.dim[i] != 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

double weir_recording_double(const weir_recording_call *c, size_t i)
{
    double v;

    memcpy(&v, &c->attr[i], sizeof v);
    return v;
}

/* ---- lines ---- */

static uint32_t add_value(reader *t, uint32_t storage, int64_t offset,
                          const weir_recording_layout *l)
{
    t->r->value[t->r->values] = (weir_recording_value){*l, offset, storage};
    return t->r->values++;
}

static void add_external(reader *t, const weir_binding *b)
{
    const weir_recording_layout l = layout(t);

    t->r->storage[t->r->storages++] =
        (weir_recording_storage){.layout = l, .name = b->name, .call = WEIR_RECORDING_NONE,
                                 .changed = WEIR_RECORDING_NONE, .role = b->role,
                                 .tensor = b->tensor};
    (void)rest(t);
}

/* Updates have no results and overwrite tensors from outside. */
static void note_changes(reader *t, const weir_recording_call *c)
{
    for (uint32_t i = 0; c->nout == 0 && i < c->nin; i++) {
        weir_recording_storage *const s = &t->r->storage[t->r->value[c->in[i]].storage];
        if (s->call == WEIR_RECORDING_NONE && s->changed == WEIR_RECORDING_NONE)
            s->changed = t->r->calls;
    }
}

static void read_call(reader *t)
{
    weir_recording_call *const c = &t->r->call[t->r->calls];

    c->op = word(t);
    c->forward = strcmp(word(t), "forward") == 0;
    for (int i = 0; i < 3; i++)     /* region, segment, position of random numbers */
        (void)number(t);
    c->nin = below(t, WEIR_RECORDING_IN + 1);
    for (uint32_t i = 0; i < c->nin; i++)
        c->in[i] = below(t, t->r->values);
    c->nout = below(t, WEIR_RECORDING_OUT + 1);
    for (uint32_t i = 0; i < c->nout && !t->wrong; i++) {
        const weir_recording_layout l = layout(t);
        t->r->storage[t->r->storages] =
            (weir_recording_storage){.layout = l, .name = "", .call = t->r->calls, .result = i,
                                     .changed = WEIR_RECORDING_NONE};
        c->out[i] = add_value(t, t->r->storages++, 0, &l);
    }
    c->words = below(t, WEIR_RECORDING_WORDS + 1);
    for (size_t i = 0; i < c->words; i++)
        c->attr[i] = number(t);
    c->path = "";
    if (*t->at != '\n') {
        (void)word(t);              /* for, grad, recompute */
        const uint32_t i = below(t, t->called);
        if (!t->wrong) {
            c->path = t->path[t->called_path[i]];
            c->number = t->called_number[i];
        }
    }
    note_changes(t, c);
    t->r->calls++;
}

static void read_line(reader *t, const weir_binding *list, size_t externals)
{
    weir_onnx_recording *const r = t->r;
    const char *const     kind = word(t);

    if (strcmp(kind, "call") == 0) {
        read_call(t);
    } else if (strcmp(kind, "view") == 0) {
        const uint32_t              storage = below(t, r->storages);
        const int64_t               offset = number(t);
        const weir_recording_layout l = layout(t);
        add_value(t, storage, offset, &l);
    } else if (strcmp(kind, "scope") == 0) {
        t->path[t->paths++] = rest(t);
    } else if (strcmp(kind, "called") == 0) {
        (void)word(t);
        t->called_number[t->called] = (uint32_t)number(t);
        t->called_path[t->called++] = below(t, t->paths);
    } else if (strcmp(kind, "name") == 0) {
        const uint32_t i = below(t, r->storages);
        if (!t->wrong)
            r->storage[i].name = rest(t);
    } else if (strcmp(kind, "output") == 0) {
        const uint32_t v = below(t, r->values);
        r->output[r->outputs++] = (weir_recording_output){rest(t), v};
    } else if (strcmp(kind, "input") == 0 || strcmp(kind, "param") == 0 ||
               strcmp(kind, "state") == 0) {
        t->wrong = t->wrong || r->storages >= externals;
        if (!t->wrong)
            add_external(t, &list[r->storages]);
    }
}

static bool make_tables(reader *t, size_t lines)
{
    weir_onnx_recording *const r = t->r;

    r->storage = weir_onnx_pool_get(t->pool, lines * WEIR_RECORDING_OUT, sizeof *r->storage);
    r->value = weir_onnx_pool_get(t->pool, lines * WEIR_RECORDING_OUT, sizeof *r->value);
    r->call = weir_onnx_pool_get(t->pool, lines, sizeof *r->call);
    r->output = weir_onnx_pool_get(t->pool, lines, sizeof *r->output);
    t->path = weir_onnx_pool_get(t->pool, lines + 1, sizeof *t->path);
    t->called_path = weir_onnx_pool_get(t->pool, lines, sizeof *t->called_path);
    t->called_number = weir_onnx_pool_get(t->pool, lines, sizeof *t->called_number);
    if (!r->storage || !r->value || !r->call || !r->output || !t->path || !t->called_path ||
        !t->called_number)
        return false;
    t->path[t->paths++] = "";
    return true;
}

static weir_status read_text(reader *t, const char *text, weir_graph *g)
{
    const weir_binding *list;
    size_t              count, lines = 0, externals = 0;
    const size_t        n = strlen(text);

    WEIR_TRY(weir_graph_bindings(g, &list, &count));
    while (externals < count && list[externals].role != WEIR_ROLE_OUTPUT)
        externals++;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    t->at = weir_onnx_pool_get(t->pool, n + 2, 1);
    if (!t->at || !make_tables(t, lines + 1))
        return weir_error_status();
    memcpy(t->at, text, n);
    for (; *t->at && !t->wrong; t->line++) {
        char *const end = strchr(t->at, '\n');
        if (!end)
            break;
        read_line(t, list, externals);
        t->at = end + 1;
        *end = '\0';
    }
    if (!t->wrong)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "graph_save_onnx: line %zu of the recorded step is not "
                     "understood", t->line);
}

weir_status weir_recording_read(weir_onnx_recording *r, weir_onnx_pool *pool, weir_graph *g)
{
    reader      t = {.r = r, .pool = pool};
    char *const text = weir_graph_recorded(g);

    *r = (weir_onnx_recording){0};
    const weir_status s = text ? read_text(&t, text, g) : weir_error_status();
    weir_text_free(text);
    return s;
}
