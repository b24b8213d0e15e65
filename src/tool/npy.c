/* npy.c - tensors of a graph by name from and to arrays in files of NumPy. */
#include "tool/tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The element type as NumPy writes it; NULL for bf16, which it lacks. */
static const char *descr_of(weir_dtype t)
{
    static const char *const names[] = {[WEIR_F32] = "<f4", [WEIR_F64] = "<f8", [WEIR_I32] = "<i4",
                                        [WEIR_I64] = "<i8", [WEIR_U8] = "|u1", [WEIR_BOOL] = "|b1",
                                        [WEIR_F16] = "<f2", [WEIR_BF16] = NULL, [WEIR_I8] = "|i1",
                                        [WEIR_I16] = "<i2", [WEIR_U16] = "<u2", [WEIR_U32] = "<u4",
                                        [WEIR_U64] = "<u8"};
    return names[t];
}

/* ---- arrays of NumPy: format 1.0, C order ---- */

enum { NPY_BYTES = 320 };

/* The first bytes of the file of an array: magic, version, length of the header, header. There is
 * one such text for each shape and type, so a file is read by comparing. Returns its length. */
static size_t npy_header(const weir_desc *d, char text[NPY_BYTES])
{
    char shape[WEIR_MAX_DIMS * 22 + 4] = "";
    int  n = 0;

    for (int i = 0; i < d->ndim; i++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%" PRId64 "%s", i ? " " : "",
                      d->dim[i], i < d->ndim - 1 || d->ndim == 1 ? "," : "");
    n = snprintf(text + 10, NPY_BYTES - 10,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr_of(d->dtype),
                 shape);
    const size_t length = ((size_t)n + 10 + 1 + 63) / 64 * 64;
    memset(text + 10 + n, ' ', length - 10 - (size_t)n);
    text[length - 1] = '\n';
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = (char)((length - 10) & 0xff);
    text[9] = (char)((length - 10) >> 8);
    return length;
}

static int refuse_type(const tool_options *o, const weir_binding *b)
{
    return tool_say(o, TOOL_FAILED, "'%s' is bf16, which a file of NumPy cannot hold", b->name);
}

static int read_npy(const tool_options *o, const weir_binding *b, const char *path)
{
    const weir_desc d = weir_tensor_desc(b->tensor);
    const size_t    bytes = weir_tensor_bytes(b->tensor);
    char            want[NPY_BYTES], have[NPY_BYTES];

    if (!descr_of(d.dtype))
        return refuse_type(o, b);
    const size_t length = npy_header(&d, want);
    FILE *const  from = fopen(path, "rb");
    char *const  data = malloc(bytes + 1);
    const bool   same = from && data && fread(have, 1, length, from) == length &&
                        memcmp(have, want, length) == 0;
    const bool   whole = same && fread(data, 1, bytes + 1, from) == bytes;
    int          code = TOOL_DONE;
    if (!from)
        code = tool_say(o, TOOL_FAILED, "cannot read '%s'", path);
    else if (!whole)
        code = tool_say(o, TOOL_FAILED, "'%s' is no array for '%s', which needs %.*s", path,
                        b->name,
                        (int)strcspn(want + 10, "}") + 1, want + 10);
    else if (weir_write(b->tensor, data, bytes) != WEIR_OK)
        code = tool_failed(o);
    if (from)
        fclose(from);
    free(data);
    return code;
}

static int write_npy(const tool_options *o, const weir_binding *b, const char *path)
{
    const weir_desc d = weir_tensor_desc(b->tensor);
    const size_t    bytes = weir_tensor_bytes(b->tensor);
    char            head[NPY_BYTES];

    if (!descr_of(d.dtype))
        return refuse_type(o, b);
    char *const data = malloc(bytes + 1);
    if (!data || weir_read(b->tensor, data, bytes) != WEIR_OK) {
        free(data);
        return tool_failed(o);
    }
    const size_t length = npy_header(&d, head);
    FILE *const  to = tool_open(o, path);
    const bool   done = to && fwrite(head, 1, length, to) == length &&
                        fwrite(data, 1, bytes, to) == bytes;
    free(data);
    const int code = to ? tool_close(o, path, to) : TOOL_FAILED;
    return done ? code : TOOL_FAILED;
}

/* ---- inputs and outputs ---- */

/* The path that "NAME=PATH,NAME=PATH" gives to the name, copied into path; false: none. */
static bool path_of(const char *pairs, const char *name, char path[4096])
{
    const size_t n = strlen(name);

    for (const char *p = pairs; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            snprintf(path, 4096, "%.*s", (int)strcspn(p + n + 1, ","), p + n + 1);
            return true;
        }
    return false;
}

/* The same, and a path alone, without a name, for the only tensor of its role in the list. */
static bool path_for(const char *pairs, const weir_binding *list, size_t n, size_t i,
                     char path[4096])
{
    size_t alike = 0;

    if (!pairs || strchr(pairs, '='))
        return path_of(pairs, list[i].name, path);
    for (size_t k = 0; k < n; k++)
        alike += list[k].role == list[i].role;
    snprintf(path, 4096, "%s", pairs);
    return alike == 1 && (list[i].role == WEIR_ROLE_INPUT || list[i].role == WEIR_ROLE_OUTPUT);
}

/* Numbers from 0 to 1, and 0 for integers, which may be indices; the same in every run. */
static int fill(const tool_options *o, const weir_binding *b)
{
    const weir_desc d = weir_tensor_desc(b->tensor);
    const size_t    bytes = weir_tensor_bytes(b->tensor);
    uint64_t        state = TOOL_SEED;

    if (d.dtype != WEIR_F32)
        return weir_write_fill(b->tensor, 0) == WEIR_OK ? TOOL_DONE : tool_failed(o);
    float *const v = malloc(bytes + 1);
    for (size_t i = 0; v && i < bytes / sizeof *v; i++)
        v[i] = (float)(weir_splitmix64(&state) >> 40) * 0x1p-24f;
    const int code = v && weir_write(b->tensor, v, bytes) == WEIR_OK ? TOOL_DONE : tool_failed(o);
    free(v);
    return code;
}

int tool_npy_inputs(const tool_options *o, const weir_binding *list, size_t n)
{
    char path[4096];
    int  code = TOOL_DONE;

    for (size_t i = 0; i < n && code == TOOL_DONE; i++) {
        if (list[i].role == WEIR_ROLE_OUTPUT)
            continue;
        if (path_for(o->inputs, list, n, i, path))
            code = read_npy(o, &list[i], path);
        else if (list[i].role == WEIR_ROLE_INPUT && weir_tensor_desc(list[i].tensor).ndim > 0)
            code = fill(o, &list[i]);
    }
    return code;
}

int tool_npy_outputs(const tool_options *o, const weir_binding *list, size_t n)
{
    char path[4096];
    int  code = TOOL_DONE;

    for (size_t i = 0; i < n && code == TOOL_DONE; i++)
        if ((list[i].role == WEIR_ROLE_OUTPUT || strchr(o->outputs ? o->outputs : "", '=')) &&
            path_for(o->outputs, list, n, i, path))
            code = write_npy(o, &list[i], path);
    return code;
}

/* How many tensors have the role, in words with their names. */
static int say_several(const tool_options *o, const weir_binding *list, size_t n, weir_role role)
{
    char   names[300] = "";
    size_t at = 0, alike = 0;

    for (size_t i = 0; i < n; i++) {
        if (list[i].role != role)
            continue;
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
                                   list[i].name);
        alike++;
    }
    if (alike == 1)
        return TOOL_DONE;
    return tool_say(o, TOOL_USAGE, "there are %zu %ss (%s): name them, NAME=FILE", alike,
                    role == WEIR_ROLE_INPUT ? "input" : "output", names);
}

int tool_npy_names(const tool_options *o, weir_graph *g, const char *pairs)
{
    const weir_binding *list;
    size_t              n;

    if (pairs && !strchr(pairs, '=')) {
        const weir_role role = pairs == o->inputs ? WEIR_ROLE_INPUT : WEIR_ROLE_OUTPUT;
        return weir_graph_bindings(g, &list, &n) == WEIR_OK ? say_several(o, list, n, role)
                                                            : tool_failed(o);
    }
    for (const char *p = pairs; p && *p; p += strcspn(p, ","), p += *p == ',') {
        char name[300];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "=,"), p);
        if (p[strcspn(p, "=,")] != '=')
            return tool_say(o, TOOL_USAGE, "'%s' is not NAME=FILE", name);
        if (!weir_graph_tensor(g, name))
            return tool_failed(o);
    }
    return TOOL_DONE;
}

/* ---- arrays whose first axis is free ---- */

/* The first size of d, and those below 0, become those that the header of an array says. */
static void take_sizes(const char *head, weir_desc *d)
{
    static const char start[] = "'shape': (";
    const char       *at = strstr(head, start);
    char             *end;

    at = at ? at + strlen(start) : "";
    for (int i = 0; i < d->ndim; i++, at = *end == ',' ? end + 1 : end) {
        const int64_t size = strtoll(at, &end, 10);
        if (i == 0 || d->dim[i] < 0)
            d->dim[i] = end > at ? size : -1;
    }
}

/* 0 if there are none, or more than a file can have. */
static size_t bytes_of(const weir_desc *d)
{
    size_t bytes = descr_of(d->dtype) ? weir_dtype_size(d->dtype) : 0;

    for (int i = 0; i < d->ndim; i++) {
        if (d->dim[i] < 1 || bytes > (size_t)INT64_MAX / (size_t)d->dim[i])
            return 0;
        bytes *= (size_t)d->dim[i];
    }
    return bytes;
}

/* TOOL_FAILED without a message where the file has another shape or type. */
static int try_rows(const char *path, weir_desc *d, void **rows)
{
    char         head[NPY_BYTES + 1] = "", want[NPY_BYTES];
    FILE *const  from = fopen(path, "rb");
    const size_t n = from ? fread(head, 1, NPY_BYTES, from) : 0;
    int          code = TOOL_FAILED;

    *rows = NULL;
    if (!from)
        return TOOL_FAILED;
    memset(head, ' ', n < 10 ? n : 10); /* the magic number has a zero */
    take_sizes(head, d);
    const size_t bytes = bytes_of(d);
    const size_t length = bytes ? npy_header(d, want) : 0;
    if (length && n >= length && memcmp(head + 10, want + 10, length - 10) == 0 &&
        (*rows = malloc(bytes)) && fseek(from, (long)length, SEEK_SET) == 0 &&
        fread(*rows, 1, bytes, from) == bytes)
        code = TOOL_DONE;
    fclose(from);
    return code;
}

int tool_npy_rows(const tool_options *o, const char *path, weir_desc *d, void **rows)
{
    const weir_desc asked = *d;
    char            shape[WEIR_MAX_DIMS * 22 + 1] = "";
    int             n = 0;

    if (try_rows(path, d, rows) == TOOL_DONE)
        return TOOL_DONE;
    *d = asked;
    for (int i = 1; i < d->ndim; i++)
        n += d->dim[i] < 0
                 ? snprintf(shape + n, sizeof shape - (size_t)n, ", any")
                 : snprintf(shape + n, sizeof shape - (size_t)n, ", %" PRId64, d->dim[i]);
    return tool_say(o, TOOL_FAILED, "'%s' is no array of %s in rows (n%s)", path,
                    weir_dtype_name(d->dtype), shape);
}

int tool_npy_labels(const tool_options *o, const char *path, weir_desc like, weir_desc *d,
                    void **rows)
{
    static const weir_dtype types[] = {WEIR_I32, WEIR_I64};
    const bool              classes = strcmp(o->loss, "cross_entropy") == 0;

    for (size_t i = 0; classes && i < sizeof types / sizeof *types; i++) {
        *d = (weir_desc){.dtype = types[i], .ndim = 1};
        if (try_rows(path, d, rows) == TOOL_DONE)
            return TOOL_DONE;
    }
    if (classes)
        return tool_say(o, TOOL_FAILED, "'%s' is no array of classes: (n), int32 or int64", path);
    *d = like;
    return tool_npy_rows(o, path, d, rows);
}
