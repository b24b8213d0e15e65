/* json.c - a strict reader of objects, arrays, strings and whole numbers (RFC 8259). */
#include "model/file/json.h"

#include <string.h>

static void *wrong(weir_json *j, const char *wanted)
{
    if (!j->wanted)
        j->wanted = wanted;
    return NULL;
}

static void skip(weir_json *j)
{
    while (j->at < j->end &&
           (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
}

bool weir_json_accept(weir_json *j, char c)
{
    skip(j);
    if (j->at == j->end || *j->at != c)
        return false;
    j->at++;
    return true;
}

bool weir_json_expect(weir_json *j, char c, const char *wanted)
{
    return weir_json_accept(j, c) || wrong(j, wanted) != NULL;
}

bool weir_json_finished(weir_json *j)
{
    skip(j);
    return j->at == j->end || wrong(j, "the end") != NULL;
}

bool weir_json_whole(weir_json *j, int64_t *value)
{
    int64_t v = 0;

    skip(j);
    if (j->at == j->end || *j->at < '0' || *j->at > '9')
        return wrong(j, "a whole number") != NULL;
    if (*j->at == '0' && j->at + 1 < j->end && j->at[1] >= '0' && j->at[1] <= '9')
        return wrong(j, "a number without leading zeros") != NULL;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *j->at - '0', &v))
            return wrong(j, "a number below 2^63") != NULL;
    *value = v;
    return true;
}

/* ---- strings ---- */

/* The value of four hexadecimal digits at `at`, or -1. */
static int32_t hex4(const weir_json *j, const char *at)
{
    int32_t v = 0;

    if (j->end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        const int  digit = c >= '0' && c <= '9'   ? c - '0'
                           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                  : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

/* The code point of \uXXXX, or of a pair of surrogates; `at` is behind the first "\u" and is moved
 * behind the escape. -1 for a mistake and for U+0000. */
static int32_t escaped(weir_json *j)
{
    const int32_t high = hex4(j, j->at);

    if (high <= 0 || (high >= 0xdc00 && high < 0xe000))
        return -1;
    j->at += 4;
    if (high < 0xd800 || high >= 0xe000)
        return high;
    if (j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u')
        return -1;
    const int32_t low = hex4(j, j->at + 2);
    if (low < 0xdc00 || low >= 0xe000)
        return -1;
    j->at += 6;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static char *put_utf8(char *to, int32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

/* Bytes of the well-formed UTF-8 sequence at `at` (Unicode 15, table 3-7), or 0. */
static int utf8(const char *at, const char *end)
{
    const unsigned char *const p = (const unsigned char *)at;
    const int n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 :
                  p[0] < 0xf5 ? 4 : 0;

    if (end - at < n)
        return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool weir_json_is_utf8(const char *text)
{
    const char *const end = text + strlen(text);

    for (int n; text < end; text += n)
        if (!(n = utf8(text, end)))
            return false;
    return true;
}

/* Decodes the escape behind a backslash to `to`; returns the new end of the string. */
static char *escape(weir_json *j, char *to)
{
    static const char from[] = "\"\\/bfnrt", as[] = "\"\\/\b\f\n\r\t";

    if (j->at < j->end && *j->at == 'u') {
        j->at++;
        const int32_t c = escaped(j);
        return c > 0 ? put_utf8(to, c) : wrong(j, "a code point after \\u");
    }
    const char *const which = j->at < j->end && *j->at ? strchr(from, *j->at) : NULL;
    if (!which)
        return wrong(j, "an escape");
    j->at++;
    *to++ = as[which - from];
    return to;
}

char *weir_json_string(weir_json *j)
{
    if (!weir_json_expect(j, '"', "a string"))
        return NULL;
    char *const start = j->at;
    char       *to = start;

    while (j->at < j->end && *j->at != '"') {
        if (*j->at == '\\') {
            j->at++;
            if (!(to = escape(j, to)))
                return NULL;
            continue;
        }
        const int n = utf8(j->at, j->end);
        if (n == 0 || (n == 1 && (unsigned char)*j->at < 0x20))
            return wrong(j, "UTF-8 without control characters");
        memmove(to, j->at, (size_t)n);
        to += n;
        j->at += n;
    }
    if (j->at == j->end)
        return wrong(j, "the end of the string");
    j->at++;
    *to = '\0';
    return start;
}
