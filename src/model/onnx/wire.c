/* wire.c - reads varints, tags and ranges of protobuf from a file by a window, or from memory. */
#include "model/onnx/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 16 };

weir_status weir_wire_fail(const weir_wire_source *s, const char *format, ...)
{
    char    sentence[400];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return weir_file_fail(&s->file, "%s", sentence);
}

weir_status weir_wire_open(weir_wire_source *s, const char *what, const char *path,
                           const void *bytes, size_t n)
{
    *s = (weir_wire_source){
        .file = {.what = what, .path = "(bytes)", .fd = -1}, .bytes = bytes, .size = n};
    if (!path)
        return bytes ? WEIR_OK : weir_fail_null(what, "bytes");
    s->bytes = NULL;
    WEIR_TRY(weir_file_open(&s->file, what, path));
    s->size = s->file.size;
    s->window = weir_host_alloc(WINDOW);
    if (s->window)
        return WEIR_OK;
    weir_wire_close(s);
    return weir_error_status();
}

void weir_wire_close(weir_wire_source *s)
{
    weir_file_close(&s->file);
    weir_host_free(s->window);
    s->window = NULL;
    s->size = 0;
}

weir_status weir_wire_pread(const weir_file *f, uint64_t at, void *to, size_t bytes)
{
    char *const p = to;

    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(f->fd, p + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return weir_file_fail(f, "cannot be read at offset %" PRIu64 " (%s)", at + done,
                                  n < 0 ? strerror(errno) : "the file became shorter");
        done += (size_t)n;
    }
    return WEIR_OK;
}

weir_status weir_wire_copy(weir_wire_source *s, weir_wire_range from, void *to)
{
    if (from.end > s->size || from.at > from.end)
        return weir_wire_fail(s, "ends before byte %" PRIu64, from.end);
    const size_t n = (size_t)(from.end - from.at);
    if (!s->bytes)
        return weir_wire_pread(&s->file, from.at, to, n);
    if (n)
        memcpy(to, s->bytes + from.at, n);
    return WEIR_OK;
}

/* The byte at offset `at`, which is below s->size. */
static weir_status byte_at(weir_wire_source *s, uint64_t at, unsigned char *b)
{
    if (s->bytes) {
        *b = s->bytes[at];
        return WEIR_OK;
    }
    if (at < s->window_at || at >= s->window_end) {
        const uint64_t left = s->size - at;
        const size_t   n = left < WINDOW ? (size_t)left : WINDOW;
        s->window_end = s->window_at = 0;
        WEIR_TRY(weir_wire_pread(&s->file, at, s->window, n));
        s->window_at = at;
        s->window_end = at + n;
    }
    *b = s->window[at - s->window_at];
    return WEIR_OK;
}

weir_wire weir_wire_over(weir_wire_source *s, weir_wire_range message)
{
    return (weir_wire){s, message.at, message.end < s->size ? message.end : s->size};
}

weir_status weir_wire_varint(weir_wire *w, uint64_t *value)
{
    const uint64_t from = w->at;

    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char b;
        if (w->at >= w->end)
            return weir_wire_fail(w->from, "is cut off in a number at byte %" PRIu64, from);
        WEIR_TRY(byte_at(w->from, w->at++, &b));
        *value |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return WEIR_OK;
    }
    return weir_wire_fail(w->from, "has a number of more than 64 bits at byte %" PRIu64, from);
}

weir_status weir_wire_fixed(weir_wire *w, int bytes, uint64_t *value)
{
    *value = 0;
    if (w->end - w->at < (uint64_t)bytes)
        return weir_wire_fail(w->from, "is cut off in a number at byte %" PRIu64, w->at);
    for (int i = 0; i < bytes; i++) {
        unsigned char b;
        WEIR_TRY(byte_at(w->from, w->at++, &b));
        *value |= (uint64_t)b << 8 * i;
    }
    return WEIR_OK;
}

weir_status weir_wire_next(weir_wire *w, weir_wire_field *f, bool *more)
{
    uint64_t       tag, n;
    const uint64_t from = w->at;

    *f = (weir_wire_field){0};
    if (!(*more = w->at < w->end))
        return WEIR_OK;
    WEIR_TRY(weir_wire_varint(w, &tag));
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return weir_wire_fail(w->from, "is no ONNX model: no field at byte %" PRIu64, from);
    f->number = (uint32_t)(tag >> 3);
    f->kind = (weir_wire_kind)(tag & 7);
    switch (tag & 7) {
    case WEIR_WIRE_NUMBER:
        return weir_wire_varint(w, &f->value);
    case WEIR_WIRE_FIXED64:
        return weir_wire_fixed(w, 8, &f->value);
    case WEIR_WIRE_FIXED32:
        return weir_wire_fixed(w, 4, &f->value);
    case WEIR_WIRE_RANGE:
        break;
    default:
        return weir_wire_fail(w->from, "is no ONNX model: a field of kind %d at byte %" PRIu64,
                              (int)(tag & 7), from);
    }
    WEIR_TRY(weir_wire_varint(w, &n));
    if (n > w->end - w->at)
        return weir_wire_fail(w->from,
                              "is cut off: %" PRIu64 " bytes at byte %" PRIu64 ", where %" PRIu64
                              " are left",
                              n, w->at, w->end - w->at);
    f->range = (weir_wire_range){w->at, w->at + n};
    w->at += n;
    return WEIR_OK;
}
