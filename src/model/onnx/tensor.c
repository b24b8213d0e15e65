/* tensor.c - reads a tensor: first its shape, then its elements from the file to their place. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/onnx/proto.h"

/* ---- the head ---- */

static weir_status add_dim(weir_onnx_proto *p, weir_onnx_tensor *t, uint64_t v)
{
    if (t->ndim == WEIR_MAX_DIMS || v > INT64_MAX)
        return weir_wire_fail(&p->source, "a tensor has more than %d axes, or the size %" PRId64,
                              WEIR_MAX_DIMS, (int64_t)v);
    t->dim[t->ndim++] = (int64_t)v;
    return WEIR_OK;
}

static weir_status parse_dims(weir_onnx_proto *p, const weir_wire_field *f, weir_onnx_tensor *t)
{
    uint64_t v;

    if (f->kind == WEIR_WIRE_NUMBER)
        return add_dim(p, t, f->value);
    for (weir_wire w = weir_wire_over(&p->source, f->range); w.at < w.end;) {
        WEIR_TRY(weir_wire_varint(&w, &v));
        WEIR_TRY(add_dim(p, t, v));
    }
    return WEIR_OK;
}

/* An entry (key, value) of external_data. */
static weir_status parse_external(weir_onnx_proto *p, weir_wire_range r, weir_onnx_tensor *t)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;
    const char     *key = "", *value = "";

    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.kind == WEIR_WIRE_RANGE && (f.number == 1 || f.number == 2))
            WEIR_TRY(weir_onnx_text(p, f.range, f.number == 1 ? &key : &value, NULL));
    }
    if (strcmp(key, "location") == 0)
        t->location = value;
    uint64_t *const number = strcmp(key, "offset") == 0   ? &t->offset
                             : strcmp(key, "length") == 0 ? &t->length
                                                          : NULL;
    if (!number)
        return WEIR_OK;
    const size_t digits = strspn(value, "0123456789");
    if (digits == 0 || digits > 18 || value[digits])
        return weir_wire_fail(&p->source, "external data: '%.30s' is no %s", value, key);
    *number = strtoull(value, NULL, 10);
    return WEIR_OK;
}

weir_status weir_onnx_parse_tensor(weir_onnx_proto *p, weir_wire_range r, weir_onnx_tensor *t)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    t->name = "";
    t->message = r;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        const bool range = f.kind == WEIR_WIRE_RANGE, number = f.kind == WEIR_WIRE_NUMBER;
        if (f.number == 1 && (range || number))
            WEIR_TRY(parse_dims(p, &f, t));
        else if (f.number == 2 && number)
            t->type = (int64_t)f.value;
        else if (f.number == 8 && range)
            WEIR_TRY(weir_onnx_text(p, f.range, &t->name, NULL));
        else if (f.number == 9 && range)
            t->raw = f.range, t->has_raw = true;
        else if (f.number == 13 && range)
            WEIR_TRY(parse_external(p, f.range, t));
        else if (f.number == 14 && number)
            t->external = f.value == 1;
    }
}

weir_status weir_onnx_desc(const weir_onnx_proto *p, const weir_onnx_tensor *t, weir_desc *d)
{
    *d = (weir_desc){.ndim = t->ndim};
    memcpy(d->dim, t->dim, sizeof d->dim);
    if (weir_onnx_dtype(t->type, &d->dtype))
        return WEIR_OK;
    return weir_wire_fail(&p->source,
                          "the tensor '%.60s' has elements of the type %s, which Weir "
                          "lacks",
                          t->name, weir_onnx_type_name(t->type));
}

/* ---- external data ---- */

/* The path of the file beside the model. Only names below the model's folder; a link that leads
 * out of it is found by comparing the real paths. */
static weir_status external_path(const weir_onnx_proto *p, const weir_onnx_tensor *t,
                                 char path[PATH_MAX])
{
    const char *const model = p->source.file.path, *const l = t->location;
    const char *const slash = strrchr(model, '/');
    const int         folder = slash ? (int)(slash - model) + 1 : 0;
    char              inside[PATH_MAX], real[PATH_MAX];

    if (p->source.bytes)
        return weir_wire_fail(&p->source, "'%.60s' is in another file: open the model by its path",
                              t->name);
    if (!l || !*l || *l == '/' || strcmp(l, "..") == 0 || strncmp(l, "../", 3) == 0 ||
        strstr(l, "/../") || (strlen(l) > 3 && strcmp(l + strlen(l) - 3, "/..") == 0))
        return weir_wire_fail(&p->source, "'%.60s' lies outside the model's folder, in '%.100s'",
                              t->name, l ? l : "");
    if (snprintf(path, PATH_MAX, "%.*s%s", folder, model, l) >= PATH_MAX)
        return weir_wire_fail(&p->source, "the path of '%.60s' is too long", t->name);
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%.*s.", folder, model);
    if (!realpath(at, inside) || !realpath(path, real))
        return weir_wire_fail(&p->source,
                              "the elements of '%.60s' are in '%.100s', which is "
                              "missing",
                              t->name, l);
    const size_t n = strcmp(inside, "/") == 0 ? 0 : strlen(inside);
    if (strncmp(real, inside, n) != 0 || real[n] != '/')
        return weir_wire_fail(&p->source,
                              "'%.60s' lies outside the model's folder: '%.100s' is a "
                              "link",
                              t->name, l);
    return WEIR_OK;
}

static weir_status external_open(const weir_onnx_proto *p, const weir_onnx_tensor *t, size_t bytes,
                                 weir_file *f)
{
    char path[PATH_MAX];

    WEIR_TRY(external_path(p, t, path));
    WEIR_TRY(weir_file_open(f, p->source.file.what, path));
    f->path = p->source.file.path; /* `path` does not outlive this function */
    const uint64_t length = t->length ? t->length : bytes;
    if (length == bytes && t->offset <= f->size && bytes <= f->size - t->offset)
        return WEIR_OK;
    const uint64_t size = f->size;
    weir_file_close(f);
    return weir_wire_fail(&p->source,
                          "'%.60s' needs %zu bytes; '%.80s' has %" PRIu64 " from offset %" PRIu64
                          " of %" PRIu64,
                          t->name, bytes, t->location, length, t->offset, size);
}

/* ---- elements ---- */

/* The field with the elements of a type, and the bytes of each of its numbers; 0: varints. */
static uint32_t typed_field(weir_dtype t, int *fixed)
{
    *fixed = t == WEIR_F32 ? 4 : t == WEIR_F64 ? 8 : 0;
    return t == WEIR_F32                      ? 4
           : t == WEIR_F64                    ? 10
           : t == WEIR_I64                    ? 7
           : t == WEIR_U32 || t == WEIR_U64 ? 11
                                              : 5;
}

static void put(weir_dtype t, uint64_t v, uint64_t i, void *to)
{
    const size_t size = weir_dtype_size(t);

    v = t == WEIR_BOOL ? v != 0 : v;
    memcpy((char *)to + i * size, &v, size); /* little-endian, as all of Weir's machines */
}

/* Goes over the elements in a typed field: counts up to `most` of them, and stores them in `to`. */
static weir_status typed(weir_onnx_proto *p, const weir_onnx_tensor *t, weir_dtype type,
                         uint64_t most, void *to, uint64_t *n)
{
    int             fixed;
    const uint32_t  number = typed_field(type, &fixed);
    weir_wire       w = weir_wire_over(&p->source, t->message);
    weir_wire_field f;
    bool            more;

    *n = 0;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        if (f.number != number)
            continue;
        weir_wire  in = weir_wire_over(&p->source, f.range);
        const bool one = f.kind != WEIR_WIRE_RANGE;
        for (bool first = true; one ? first : in.at < in.end; first = false) {
            uint64_t v = f.value;
            if (!one)
                WEIR_TRY(fixed ? weir_wire_fixed(&in, fixed, &v) : weir_wire_varint(&in, &v));
            if (*n < most && to)
                put(type, v, *n, to);
            ++*n;
        }
    }
}

weir_status weir_onnx_tensor_check(weir_onnx_proto *p, const weir_onnx_tensor *t, size_t *bytes)
{
    weir_desc d;
    uint64_t  n = 1, has;

    WEIR_TRY(weir_onnx_desc(p, t, &d));
    const size_t size = weir_dtype_size(d.dtype);
    for (int i = 0; i < d.ndim; i++)
        if (d.dim[i] && n > (uint64_t)INT64_MAX / size / (uint64_t)d.dim[i])
            return weir_wire_fail(&p->source, "the tensor '%.60s' is too large", t->name);
        else
            n *= (uint64_t)d.dim[i];
    *bytes = (size_t)n * size;
    if (t->external) {
        weir_file f;
        WEIR_TRY(external_open(p, t, *bytes, &f));
        weir_file_close(&f);
        return WEIR_OK;
    }
    if (t->has_raw)
        has = (t->raw.end - t->raw.at) / size * size == t->raw.end - t->raw.at
                  ? (t->raw.end - t->raw.at) / size
                  : UINT64_MAX;
    else
        WEIR_TRY(typed(p, t, d.dtype, 0, NULL, &has));
    if (has == n)
        return WEIR_OK;
    return weir_wire_fail(&p->source,
                          "the tensor '%.60s' has %" PRIu64 " elements where its shape "
                          "needs %" PRIu64,
                          t->name, has, n);
}

/* Elements that lie in one place of a file are read `part` bytes at a time. */
static weir_status read_parts(const weir_file *f, uint64_t at, size_t bytes,
                              const weir_onnx_taker *to)
{
    for (size_t done = 0; done < bytes;) {
        const size_t n = bytes - done < to->part ? bytes - done : to->part;
        WEIR_TRY(weir_wire_pread(f, at + done, to->buffer, n));
        WEIR_TRY(to->take(to->context, to->buffer, done, n));
        done += n;
    }
    return WEIR_OK;
}

bool weir_onnx_tensor_parts(const weir_onnx_proto *p, const weir_onnx_tensor *t)
{
    return t->external || (t->has_raw && !p->source.bytes);
}

weir_status weir_onnx_tensor_take(weir_onnx_proto *p, const weir_onnx_tensor *t, size_t bytes,
                                  const weir_onnx_taker *to)
{
    weir_file f;

    if (!t->external)
        return read_parts(&p->source.file, t->raw.at, bytes, to);
    WEIR_TRY(external_open(p, t, bytes, &f));
    const weir_status s = read_parts(&f, t->offset, bytes, to);
    weir_file_close(&f);
    return s;
}

weir_status weir_onnx_tensor_read(weir_onnx_proto *p, const weir_onnx_tensor *t, void *to,
                                  size_t bytes)
{
    weir_desc d;
    uint64_t  n;

    WEIR_TRY(weir_onnx_desc(p, t, &d));
    if (t->external) {
        weir_file f;
        WEIR_TRY(external_open(p, t, bytes, &f));
        const weir_status s = weir_wire_pread(&f, t->offset, to, bytes);
        weir_file_close(&f);
        return s;
    }
    if (t->has_raw)
        return weir_wire_copy(&p->source, t->raw, to);
    return typed(p, t, d.dtype, bytes / weir_dtype_size(d.dtype), to, &n);
}
