/* pool.c - memory of a parsed model, its texts, the table of its names, names of element types. */
#include <string.h>

#include "model/onnx/proto.h"

typedef struct weir_onnx_chunk {
    struct weir_onnx_chunk *before;
    max_align_t             at[];
} weir_onnx_chunk;

enum { CHUNK = 1 << 14 };

void *weir_onnx_pool_get(weir_onnx_pool *p, uint64_t n, size_t size)
{
    if (n > (SIZE_MAX / 4) / (size ? size : 1))
        return (void)weir_fail(WEIR_ERR_NOMEM, "onnx: a list of %llu elements",
                               (unsigned long long)n),
               NULL;
    const size_t unit = sizeof(max_align_t);
    const size_t bytes = ((size_t)n * size + unit - 1) / unit * unit;
    if (!p->last || bytes > p->room - p->used) {
        const size_t           room = bytes > CHUNK ? bytes : CHUNK;
        weir_onnx_chunk *const c = weir_host_alloc(sizeof *c + room);
        if (!c)
            return NULL;
        *c = (weir_onnx_chunk){.before = p->last};
        *p = (weir_onnx_pool){c, 0, room};
    }
    void *const at = (char *)p->last->at + p->used;
    p->used += bytes;
    return at;
}

void weir_onnx_pool_free(weir_onnx_pool *p)
{
    for (weir_onnx_chunk *c = p->last; c;) {
        weir_onnx_chunk *const before = c->before;
        weir_host_free(c);
        c = before;
    }
    *p = (weir_onnx_pool){0};
}

/* FNV-1a (Fowler, Noll, Vo). Chains of equal hashes are walked, so a hostile file is only slow. */
static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h ^ h >> 15;
}

static weir_status grow(weir_onnx_names *t)
{
    const uint32_t room = t->room ? 2 * t->room : 256;
    const int      bits = t->room ? t->bits + 1 : 9;
    const char   **name = weir_host_alloc(room * sizeof *name);
    uint32_t      *next = weir_host_alloc(room * sizeof *next);
    uint32_t      *head = weir_host_alloc(sizeof *head << bits);

    if (!name || !next || !head) {
        weir_host_free((void *)name);
        weir_host_free(next);
        weir_host_free(head);
        return weir_error_status();
    }
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t *const h = &head[hash(t->name[i]) & ((1u << bits) - 1)];
        name[i] = t->name[i];
        next[i] = *h;
        *h = i + 1;
    }
    const uint32_t n = t->n;
    weir_onnx_names_free(t);
    *t = (weir_onnx_names){name, next, head, n, room, bits};
    return WEIR_OK;
}

weir_status weir_onnx_names_add(weir_onnx_names *t, const char *name, uint32_t *number)
{
    if (t->n == t->room) {
        if (t->n >= 1u << 26)
            return weir_fail(WEIR_ERR_IO, "onnx: more than %u names", t->n);
        WEIR_TRY(grow(t));
    }
    uint32_t *const head = &t->head[hash(name) & ((1u << t->bits) - 1)];
    for (uint32_t i = *head; i; i = t->next[i - 1])
        if (strcmp(t->name[i - 1], name) == 0) {
            *number = i - 1;
            return WEIR_OK;
        }
    *number = t->n;
    t->name[t->n] = name;
    t->next[t->n] = *head;
    *head = ++t->n;
    return WEIR_OK;
}

void weir_onnx_names_free(weir_onnx_names *t)
{
    weir_host_free((void *)t->name);
    weir_host_free(t->next);
    weir_host_free(t->head);
    *t = (weir_onnx_names){0};
}

/* ---- texts of fields ---- */

weir_status weir_onnx_text(weir_onnx_proto *p, weir_wire_range r, const char **text, size_t *n)
{
    const uint64_t bytes = r.end - r.at;
    char *const    to = weir_onnx_pool_get(&p->pool, bytes + 1, 1);

    if (!to)
        return weir_error_status();
    WEIR_TRY(weir_wire_copy(&p->source, r, to));
    *text = to;
    if (n)
        *n = (size_t)bytes;
    return WEIR_OK;
}

weir_status weir_onnx_slot(weir_onnx_proto *p, weir_wire_range r, uint32_t *slot, const char **name)
{
    const char *text = "";

    WEIR_TRY(weir_onnx_text(p, r, &text, NULL));
    if (name)
        *name = text;
    if (*text)
        return weir_onnx_names_add(&p->names, text, slot);
    *slot = WEIR_ONNX_ABSENT;
    return WEIR_OK;
}

weir_status weir_onnx_count(weir_onnx_proto *p, weir_wire_range r, uint32_t number, uint64_t *n)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    *n = 0;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        *n += f.number == number && f.kind == WEIR_WIRE_RANGE;
    }
}

/* ---- element types ---- */

static const char *const types[] = {
    "undefined",      "float",      "uint8",          "int8",       "uint16",   "int16",
    "int32",          "int64",      "string",         "bool",       "float16",  "double",
    "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
    "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",     "float4e2m1",
    "float8e8m0",     "uint2",      "int2",
};

const char *weir_onnx_type_name(int64_t type)
{
    return type >= 0 && type < (int64_t)(sizeof types / sizeof *types) ? types[type] : "unknown";
}

bool weir_onnx_dtype(int64_t type, weir_dtype *t)
{
    switch (type) {
    case WEIR_ONNX_FLOAT:
        *t = WEIR_F32;
        return true;
    case WEIR_ONNX_DOUBLE:
        *t = WEIR_F64;
        return true;
    case WEIR_ONNX_INT32:
        *t = WEIR_I32;
        return true;
    case WEIR_ONNX_INT64:
        *t = WEIR_I64;
        return true;
    case WEIR_ONNX_UINT8:
        *t = WEIR_U8;
        return true;
    case WEIR_ONNX_BOOL:
        *t = WEIR_BOOL;
        return true;
    case WEIR_ONNX_FLOAT16:
        *t = WEIR_F16;
        return true;
    case WEIR_ONNX_BFLOAT16:
        *t = WEIR_BF16;
        return true;
    case WEIR_ONNX_INT8:
        *t = WEIR_I8;
        return true;
    case WEIR_ONNX_INT16:
        *t = WEIR_I16;
        return true;
    case WEIR_ONNX_UINT16:
        *t = WEIR_U16;
        return true;
    case WEIR_ONNX_UINT32:
        *t = WEIR_U32;
        return true;
    case WEIR_ONNX_UINT64:
        *t = WEIR_U64;
        return true;
    default:
        return false;
    }
}
