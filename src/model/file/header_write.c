/* header_write.c - the header of a safetensors file as text, and shapes in messages. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/file/header.h"

/* Text that is counted first (at NULL) and written then. */
typedef struct text {
    char  *at;
    size_t n, capacity;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(t->at ? t->at + t->n : NULL, t->at ? t->capacity - t->n : 0, format,
                            args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
}

static void add_string(text *t, const char *s)
{
    add(t, "\"");
    for (; *s; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
            add(t, "\\u%04x", (unsigned)(unsigned char)*s);
        else
            add(t, "%c", *s);
    add(t, "\"");
}

static void add_entry(text *t, const weir_file_entry *e)
{
    add_string(t, e->name);
    add(t, ":{\"dtype\":\"%s\",\"shape\":[", e->type);
    for (int i = 0; i < e->desc.ndim; i++)
        add(t, "%s%" PRId64, i ? "," : "", e->desc.dim[i]);
    add(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", e->begin, e->end);
}

static void add_all(text *t, const weir_file_entry *entry, size_t n, const weir_note *note,
                    size_t notes)
{
    add(t, "{\"__metadata__\":{");
    for (size_t i = 0; i < notes; i++) {
        add(t, i ? "," : "");
        add_string(t, note[i].key);
        add(t, ":");
        add_string(t, note[i].value);
    }
    add(t, "}");
    for (size_t i = 0; i < n; i++) {
        add(t, ",");
        add_entry(t, &entry[i]);
    }
    add(t, "}");
}

char *weir_header_write(const weir_file_entry *entry, size_t n, const weir_note *note, size_t notes,
                        size_t *bytes)
{
    text count = {0}, t = {0};

    add_all(&count, entry, n, note, notes);
    const size_t padded = (count.n + 7) / 8 * 8;
    if (padded > WEIR_HEADER_MAX) {
        weir_fail(WEIR_ERR_INVALID, "a header of %zu bytes, at most %u are allowed", padded,
                  WEIR_HEADER_MAX);
        return NULL;
    }
    t.capacity = padded + 1;
    char *const whole = weir_host_alloc(8 + t.capacity);
    if (!whole)
        return NULL;
    t.at = whole + 8;
    add_all(&t, entry, n, note, notes);
    memset(t.at + t.n, ' ', padded - t.n);
    for (int i = 0; i < 8; i++)
        whole[i] = (char)(padded >> 8 * i & 0xff);
    *bytes = 8 + padded;
    return whole;
}

const char *weir_shape_text(const weir_desc *d, const char *type, char buf[WEIR_SHAPE_TEXT])
{
    int n = snprintf(buf, WEIR_SHAPE_TEXT, "%s (", type);

    for (int i = 0; i < d->ndim; i++)
        n += snprintf(buf + n, WEIR_SHAPE_TEXT - (size_t)n, "%s%" PRId64, i ? ", " : "",
                      d->dim[i]);
    snprintf(buf + n, WEIR_SHAPE_TEXT - (size_t)n, ")");
    return buf;
}
