/* text.c - a growing string: formatted additions, JSON escapes; bytes of units. */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"

/* Grows the buffer for `more` bytes and the terminator. */
static bool reserve(weir_string *s, size_t more)
{
    size_t need, capacity;
    if (s->failed)
        return false;
    s->failed = !weir_size_add(s->n, more, &need) || !weir_size_add(need, 1, &need);
    if (s->failed || need <= s->cap)
        return !s->failed;
    if (!weir_size_mul(s->cap, 2, &capacity) || capacity < need)
        capacity = need < 256 ? 256 : need;
    char *at = weir_mem_realloc(s->at, s->n, capacity);
    s->failed = !at;
    if (!at)
        return false;
    s->at = at;
    s->cap = capacity;
    return true;
}

void weir_string_add(weir_string *s, const char *format, ...)
{
    va_list args, copy;
    va_start(args, format);
    va_copy(copy, args);
    const int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->at + s->n, (size_t)n + 1, format, copy);
        s->n += (size_t)n;
    }
    va_end(copy);
    va_end(args);
}

/* Bytes of the UTF-8 character at s: 1 to 4, or 0 for an invalid sequence. */
static size_t utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char end;      /* a first byte below this ... */
        unsigned char length;   /* ... begins a character of this many bytes */
    } kind[] = {{0x80, 1}, {0xc2, 0}, {0xe0, 2}, {0xf0, 3}, {0xf5, 4}};
    size_t k = 0;
    while (k < sizeof kind / sizeof *kind && s[0] >= kind[k].end)
        k++;
    const size_t n = k < sizeof kind / sizeof *kind ? kind[k].length : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    const bool no_char = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong || no_char ? 0 : n;
}

const char *weir_text_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return text;
    return NULL;
}

bool weir_text_is_utf8(const char *text)
{
    for (size_t n; *text; text += n)
        if ((n = utf8_length((const unsigned char *)text)) == 0)
            return false;
    return true;
}

void weir_string_add_json(weir_string *s, const char *text)
{
    for (const char *p = text; *p;) {
        const size_t n = utf8_length((const unsigned char *)p);
        if (n == 0)
            weir_string_add(s, "\\ufffd");
        else if (*p == '"' || *p == '\\')
            weir_string_add(s, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            weir_string_add(s, "\\u%04x", (unsigned)(unsigned char)*p);
        else
            weir_string_add(s, "%.*s", (int)n, p);
        p += n > 0 ? n : 1;
    }
}

double weir_unit_bytes(const char *name)
{
    static const struct { const char *name; double bytes; } units[] = {
        {"", 1},       {"b", 1},        {"k", 1e3},          {"kb", 1e3},          {"m", 1e6},
        {"mb", 1e6},   {"g", 1e9},      {"gb", 1e9},         {"t", 1e12},          {"tb", 1e12},
        {"kib", 1024}, {"mib", 0x1p20}, {"gib", 0x1p30},     {"tib", 0x1p40}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcasecmp(name, units[i].name) == 0)
            return units[i].bytes;
    return -1;
}

char *weir_string_take(weir_string *s)
{
    weir_string_add(s, "%s", "");
    char *at = s->at;
    if (s->failed) {
        weir_mem_free(at);
        at = NULL;
    }
    *s = (weir_string){0};
    return at;
}
