/* header.c - reads the header of a safetensors file and checks every number in it. */
#include "model/file/header.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/file/json.h"

/* All types of the format; those that Weir lacks have its sizes alone. */
static const struct type {
    const char *name;
    unsigned    size;
    bool        known;
    weir_dtype  dtype;
} types[] = {
    {"F32", 4, true, WEIR_F32},   {"F64", 8, true, WEIR_F64},   {"F16", 2, true, WEIR_F16},
    {"BF16", 2, true, WEIR_BF16}, {"I32", 4, true, WEIR_I32},   {"I64", 8, true, WEIR_I64},
    {"U8", 1, true, WEIR_U8},     {"BOOL", 1, true, WEIR_BOOL}, {"I8", 1, true, WEIR_I8},
    {"I16", 2, true, WEIR_I16},   {"U16", 2, true, WEIR_U16},   {"U32", 4, true, WEIR_U32},
    {"U64", 8, true, WEIR_U64},   {"C64", 8, false, WEIR_F32},  {"F8_E4M3", 1, false, WEIR_F32},
    {"F8_E5M2", 1, false, WEIR_F32}};

enum { TYPES = sizeof types / sizeof *types };

/* The fewest bytes of a tensor and of a note in a header: they bound the counts. */
#define ENTRY_BYTES (sizeof "\"\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,0]}" - 1)
#define NOTE_BYTES  (sizeof "\"\":\"\"" - 1)

/* The bound in header.h: the text, its tensors and its notes. */
_Static_assert(sizeof(weir_file_entry) * NOTE_BYTES + sizeof(weir_note) * ENTRY_BYTES <
                   6 * ENTRY_BYTES * NOTE_BYTES, "memory of a header");

const char *weir_type_name(weir_dtype t)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].known && types[i].dtype == t)
            return types[i].name;
    return "?";
}

/* What a header is read with. */
typedef struct reader {
    weir_json    json;
    weir_header *h;
    weir_file   *file;
    size_t       entries_max, notes_max;
} reader;

static weir_status syntax(const reader *r)
{
    return weir_file_fail(r->file, "byte %td of the header: expected %s",
                          r->json.at - r->json.start, r->json.wanted ? r->json.wanted : "JSON");
}

/* ---- a tensor ---- */

static weir_status read_type(reader *r, weir_file_entry *e)
{
    const char *const name = weir_json_string(&r->json);

    if (!name)
        return syntax(r);
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            e->type = types[i].name;
            e->known = types[i].known;
            e->desc.dtype = types[i].dtype;
            return WEIR_OK;
        }
    return weir_file_fail(r->file, "'%.60s' has the unknown dtype '%.20s'", e->name, name);
}

static weir_status read_shape(reader *r, weir_file_entry *e)
{
    weir_json *const j = &r->json;

    if (!weir_json_expect(j, '[', "the [ of a shape"))
        return syntax(r);
    if (weir_json_accept(j, ']'))
        return WEIR_OK;
    do {
        if (e->desc.ndim == WEIR_MAX_DIMS)
            return weir_file_fail(r->file, "'%.60s' has more than %d axes", e->name,
                                  WEIR_MAX_DIMS);
        if (!weir_json_whole(j, &e->desc.dim[e->desc.ndim++]))
            return syntax(r);
    } while (weir_json_accept(j, ','));
    return weir_json_expect(j, ']', "a comma or ]") ? WEIR_OK : syntax(r);
}

static weir_status read_offsets(reader *r, weir_file_entry *e)
{
    weir_json *const j = &r->json;
    int64_t          begin, end;

    if (!weir_json_expect(j, '[', "the [ of data_offsets") || !weir_json_whole(j, &begin) ||
        !weir_json_expect(j, ',', "two data_offsets") || !weir_json_whole(j, &end) ||
        !weir_json_expect(j, ']', "two data_offsets and ]"))
        return syntax(r);
    e->begin = (uint64_t)begin;
    e->end = (uint64_t)end;
    return WEIR_OK;
}

/* Bytes of the tensor's elements; false if they do not fit into 64 bits. */
static bool bytes_of(const weir_file_entry *e, uint64_t *bytes)
{
    *bytes = 0;
    for (int i = 0; i < TYPES; i++)
        if (types[i].name == e->type)
            *bytes = types[i].size;
    for (int i = 0; i < e->desc.ndim; i++)
        if (e->desc.dim[i] == 0) {
            *bytes = 0;
            return true;
        }
    for (int i = 0; i < e->desc.ndim; i++)
        if (__builtin_mul_overflow(*bytes, (uint64_t)e->desc.dim[i], bytes))
            return false;
    return true;
}

static weir_status check_bytes(const reader *r, const weir_file_entry *e)
{
    char     shape[WEIR_SHAPE_TEXT];
    uint64_t bytes;

    weir_shape_text(&e->desc, e->type, shape);
    if (!bytes_of(e, &bytes))
        return weir_file_fail(r->file, "'%.60s': %s has more bytes than a file", e->name, shape);
    if (e->end < e->begin || e->end - e->begin != bytes)
        return weir_file_fail(r->file, "'%.60s': %s has %llu bytes, but its data_offsets are "
                              "%llu and %llu", e->name, shape, (unsigned long long)bytes,
                              (unsigned long long)e->begin, (unsigned long long)e->end);
    return WEIR_OK;
}

static weir_status read_entry(reader *r, const char *name)
{
    static const char *const key[] = {"dtype", "shape", "data_offsets"};
    static weir_status (*const field[])(reader *, weir_file_entry *) = {read_type, read_shape,
                                                                   read_offsets};
    unsigned seen = 0;

    if (r->h->entries == r->entries_max)
        return weir_file_fail(r->file, "the header has more tensors than its bytes can hold");
    weir_file_entry *const e = &r->h->entry[r->h->entries];
    *e = (weir_file_entry){.name = name};
    if (!weir_json_expect(&r->json, '{', "the { of a tensor"))
        return syntax(r);
    do {
        const char *const which = weir_json_string(&r->json);
        unsigned          i = 0;
        if (!which || !weir_json_expect(&r->json, ':', "a colon"))
            return syntax(r);
        while (i < 3 && strcmp(key[i], which) != 0)
            i++;
        if (i == 3 || seen & 1u << i)
            return weir_file_fail(r->file, "'%.60s': field '%.20s' is %s", name, which,
                                  i == 3 ? "unknown" : "there twice");
        seen |= 1u << i;
        WEIR_TRY(field[i](r, e));
    } while (weir_json_accept(&r->json, ','));
    if (!weir_json_expect(&r->json, '}', "a comma or }"))
        return syntax(r);
    if (seen != 7)
        return weir_file_fail(r->file, "'%.60s' lacks dtype, shape or data_offsets", name);
    r->h->entries++;
    return check_bytes(r, e);
}

/* ---- the whole header ---- */

static weir_status read_notes(reader *r)
{
    weir_json *const j = &r->json;

    if (!weir_json_expect(j, '{', "the { of __metadata__"))
        return syntax(r);
    if (weir_json_accept(j, '}'))
        return WEIR_OK;
    do {
        if (r->h->notes == r->notes_max)
            return weir_file_fail(r->file, "__metadata__ has more lines than its bytes can hold");
        weir_note *const n = &r->h->note[r->h->notes];
        if (!(n->key = weir_json_string(j)) || !weir_json_expect(j, ':', "a colon") ||
            !(n->value = weir_json_string(j)))
            return syntax(r);
        r->h->notes++;
    } while (weir_json_accept(j, ','));
    return weir_json_expect(j, '}', "a comma or }") ? WEIR_OK : syntax(r);
}

static weir_status read_all(reader *r)
{
    weir_json *const j = &r->json;
    bool             notes = false;

    if (j->at == j->end || *j->at != '{' || !weir_json_expect(j, '{', "{"))
        return weir_file_fail(r->file, "the header does not begin with {");
    if (!weir_json_accept(j, '}')) {
        do {
            const char *const name = weir_json_string(j);
            if (!name || !weir_json_expect(j, ':', "a colon"))
                return syntax(r);
            if (strcmp(name, "__metadata__") != 0) {
                WEIR_TRY(read_entry(r, name));
                continue;
            }
            if (notes)
                return weir_file_fail(r->file, "__metadata__ is there twice");
            notes = true;
            WEIR_TRY(read_notes(r));
        } while (weir_json_accept(j, ','));
        if (!weir_json_expect(j, '}', "a comma or }"))
            return syntax(r);
    }
    return weir_json_finished(j) ? WEIR_OK : syntax(r);
}

static int by_place(const void *a, const void *b)
{
    const weir_file_entry *const x = a, *const y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const weir_file_entry *)a)->name, ((const weir_file_entry *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const weir_note *)a)->key, ((const weir_note *)b)->key);
}

/* Names and keys differ; the elements fill the rest of the file without holes or overlaps. */
static weir_status check_all(weir_header *h, const weir_file *f)
{
    const uint64_t left = f->size - h->elements;
    uint64_t       at = 0;

    if (h->entries)
        qsort(h->entry, h->entries, sizeof *h->entry, by_place);
    for (size_t i = 0; i < h->entries; i++) {
        if (h->entry[i].begin != at)
            return weir_file_fail(f, "'%.60s' begins at byte %llu of the elements, but those "
                                  "before it end at byte %llu", h->entry[i].name,
                                  (unsigned long long)h->entry[i].begin, (unsigned long long)at);
        at = h->entry[i].end;
    }
    if (at != left)
        return weir_file_fail(f, "the tensors have %llu bytes of elements, the file %llu",
                              (unsigned long long)at, (unsigned long long)left);
    if (h->entries)
        qsort(h->entry, h->entries, sizeof *h->entry, by_name);
    if (h->notes)
        qsort(h->note, h->notes, sizeof *h->note, by_key);
    for (size_t i = 1; i < h->entries; i++)
        if (by_name(&h->entry[i - 1], &h->entry[i]) == 0)
            return weir_file_fail(f, "the name '%.60s' is there twice", h->entry[i].name);
    for (size_t i = 1; i < h->notes; i++)
        if (by_key(&h->note[i - 1], &h->note[i]) == 0)
            return weir_file_fail(f, "__metadata__ has '%.60s' twice", h->note[i].key);
    return WEIR_OK;
}

/* How often c occurs in the text, at most `most`. */
static size_t occurrences(const char *text, size_t bytes, char c, size_t most)
{
    size_t n = 0;

    for (const char *p = text; n < most && (p = memchr(p, c, bytes - (size_t)(p - text))); p++)
        n++;
    return n;
}

/* Memory for as many tensors and notes as the text may hold. */
static weir_status reserve(reader *r, size_t bytes)
{
    weir_header *const h = r->h;

    r->entries_max = occurrences(h->text, bytes, '{', bytes / ENTRY_BYTES) + 1;
    r->notes_max = occurrences(h->text, bytes, ':', bytes / NOTE_BYTES) + 1;
    h->entry = weir_host_alloc(r->entries_max * sizeof *h->entry);
    h->note = weir_host_alloc(r->notes_max * sizeof *h->note);
    return h->entry && h->note ? WEIR_OK : weir_error_status();
}

static weir_status read_text(reader *r)
{
    unsigned char size[8];
    uint64_t      bytes = 0;

    if (r->file->size < sizeof size)
        return weir_file_fail(r->file, "%llu bytes are no safetensors file",
                              (unsigned long long)r->file->size);
    WEIR_TRY(weir_file_read(r->file, size, sizeof size));
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | size[i];
    if (bytes > WEIR_HEADER_MAX || bytes > r->file->size - sizeof size)
        return weir_file_fail(r->file, "a header of %llu bytes in a file of %llu; at most %u are "
                              "allowed", (unsigned long long)bytes,
                              (unsigned long long)r->file->size, WEIR_HEADER_MAX);
    if (!(r->h->text = weir_host_alloc((size_t)bytes + 1)))
        return weir_error_status();
    WEIR_TRY(weir_file_read(r->file, r->h->text, (size_t)bytes));
    r->h->elements = sizeof size + bytes;
    r->json = (weir_json){.start = r->h->text, .at = r->h->text, .end = r->h->text + bytes};
    return reserve(r, (size_t)bytes);
}

weir_status weir_header_read(weir_header *h, weir_file *f)
{
    *h = (weir_header){0};
    reader      r = {.h = h, .file = f};
    weir_status s = read_text(&r);

    s = s == WEIR_OK ? read_all(&r) : s;
    s = s == WEIR_OK ? check_all(h, f) : s;
    if (s != WEIR_OK)
        weir_header_free(h);
    return s;
}

void weir_header_free(weir_header *h)
{
    weir_host_free(h->text);
    weir_host_free(h->entry);
    weir_host_free(h->note);
    *h = (weir_header){0};
}

weir_file_entry *weir_header_find(const weir_header *h, const char *name)
{
    const weir_file_entry key = {.name = name};

    return h->entries ? bsearch(&key, h->entry, h->entries, sizeof key, by_name) : NULL;
}

const char *weir_header_note(const weir_header *h, const char *key)
{
    const weir_note        wanted = {.key = key};
    const weir_note *const n =
        h->notes ? bsearch(&wanted, h->note, h->notes, sizeof wanted, by_key) : NULL;

    return n ? n->value : NULL;
}

weir_status weir_header_number(const weir_header *h, const weir_file *f, const char *writer,
                               const char *key, uint64_t *value)
{
    const char *const text = weir_header_note(h, key);
    uint64_t          v = 0;
    const char       *p = text;

    if (!text)
        return weir_file_fail(f, "is no file of %s: it lacks %s", writer, key);
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, *p - '0', &v))
            break;
    if (*p || p == text)
        return weir_file_fail(f, "%s is '%.30s', no whole number of 64 bits", key, text);
    *value = v;
    return WEIR_OK;
}

weir_status weir_header_elements(const weir_header *h, weir_file *f, const weir_file_entry *e,
                                 void *to)
{
    const uint64_t at = h->elements + e->begin;

    if (lseek(f->fd, (off_t)at, SEEK_SET) < 0)
        return weir_file_fail(f, "has no byte %llu", (unsigned long long)at);
    f->at = at;
    return weir_file_read(f, to, (size_t)(e->end - e->begin));
}
