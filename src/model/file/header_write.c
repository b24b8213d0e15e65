/* header_write.c - the header of a safetensors file as text, and shapes in messages. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/file/header.h"
#include "model/writer.h"

static void add_entry(weir_writer *t, const weir_file_entry *e)
{
    weir_writer_string(t, e->name);
    weir_writer_add(t, ":{\"dtype\":\"%s\",\"shape\":[", e->type);
    for (int i = 0; i < e->desc.ndim; i++)
        weir_writer_add(t, "%s%" PRId64, i ? "," : "", e->desc.dim[i]);
    weir_writer_add(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", e->begin, e->end);
}

static void add_all(weir_writer *t, const weir_file_entry *entry, size_t n, const weir_note *note,
                    size_t notes)
{
    weir_writer_add(t, "{\"__metadata__\":{");
    for (size_t i = 0; i < notes; i++) {
        weir_writer_add(t, i ? "," : "");
        weir_writer_string(t, note[i].key);
        weir_writer_add(t, ":");
        weir_writer_string(t, note[i].value);
    }
    weir_writer_add(t, "}");
    for (size_t i = 0; i < n; i++) {
        weir_writer_add(t, ",");
        add_entry(t, &entry[i]);
    }
    weir_writer_add(t, "}");
}

char *weir_header_write(const weir_file_entry *entry, size_t n, const weir_note *note, size_t notes,
                        size_t *bytes)
{
    weir_writer count = {0}, t = {0};

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
