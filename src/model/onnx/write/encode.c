/* encode.c - writes varints, tags and ranges of protobuf.
 * Format: protobuf.dev/programming-guides/encoding. */
#include "model/onnx/write/encode.h"

#include <string.h>

enum { NUMBER = 0, RANGE = 2, FIXED32 = 5, VARINT_BYTES = 10 };

static bool reserve(weir_message *m, size_t n)
{
    if (m->failed || n <= m->room - m->n)
        return !m->failed;
    const size_t         room = 2 * m->room > m->n + n ? 2 * m->room : m->n + n + 256;
    unsigned char *const at = weir_host_alloc(room);
    m->failed = !at;
    if (!at)
        return false;
    if (m->n)
        memcpy(at, m->at, m->n);
    weir_host_free(m->at);
    m->at = at;
    m->room = room;
    return true;
}

static void put_varint(weir_message *m, uint64_t v)
{
    if (!reserve(m, VARINT_BYTES))
        return;
    for (; v > 0x7f; v >>= 7)
        m->at[m->n++] = (unsigned char)(v | 0x80);
    m->at[m->n++] = (unsigned char)v;
}

static void put_tag(weir_message *m, uint32_t field, unsigned kind)
{
    put_varint(m, (uint64_t)field << 3 | kind);
}

void weir_put_raw(weir_message *m, const void *at, size_t n)
{
    if (n == 0 || !reserve(m, n))
        return;
    memcpy(m->at + m->n, at, n);
    m->n += n;
}

void weir_put_int(weir_message *m, uint32_t field, int64_t v)
{
    put_tag(m, field, NUMBER);
    put_varint(m, (uint64_t)v);
}

void weir_put_float(weir_message *m, uint32_t field, float v)
{
    uint32_t      bits;
    unsigned char bytes[4];

    memcpy(&bits, &v, sizeof bits);
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    put_tag(m, field, FIXED32);
    weir_put_raw(m, bytes, sizeof bytes);
}

void weir_put_head(weir_message *m, uint32_t field, uint64_t n)
{
    put_tag(m, field, RANGE);
    put_varint(m, n);
}

void weir_put_bytes(weir_message *m, uint32_t field, const void *at, size_t n)
{
    weir_put_head(m, field, n);
    weir_put_raw(m, at, n);
}

void weir_put_text(weir_message *m, uint32_t field, const char *text)
{
    weir_put_bytes(m, field, text, strlen(text));
}

void weir_put_message(weir_message *m, uint32_t field, const weir_message *part)
{
    m->failed = m->failed || part->failed;
    weir_put_bytes(m, field, part->at, part->n);
}

void weir_put_ints(weir_message *m, uint32_t field, const int64_t *v, size_t n)
{
    weir_message list = {0};

    for (size_t i = 0; i < n; i++)
        put_varint(&list, (uint64_t)v[i]);
    weir_put_message(m, field, &list);
    weir_message_free(&list);
}

weir_status weir_message_check(const weir_message *m)
{
    return m->failed ? WEIR_ERR_NOMEM : WEIR_OK;
}

void weir_message_free(weir_message *m)
{
    weir_host_free(m->at);
    *m = (weir_message){0};
}
