/* damage.h - random damage to a JSON file in memory. */
#ifndef WEIR_TEST_GRAPH_MEMORY_STEPFILE_DAMAGE_H
#define WEIR_TEST_GRAPH_MEMORY_STEPFILE_DAMAGE_H

#include "check.h"

/* Changes some bytes and sometimes cuts the end off. Returns the new size. */
static inline size_t damage_bytes(char *at, size_t n)
{
    static const char special[] = "0123456789-.eE\"\\{}[],:tfn\x01\xff ";
    for (int64_t changes = check_int(1, 4); changes > 0; changes--)
        at[check_int(0, (int64_t)n - 1)] =
            check_int(0, 3) ? special[check_int(0, (int64_t)sizeof special - 2)]
                            : (char)check_int(-128, 127);
    return check_int(0, 7) ? n : (size_t)check_int(0, (int64_t)n);
}

static inline bool in_number(char c)
{
    return c >= '0' && c <= '9';
}

/* Replaces the value at or after a random byte by another one: still valid JSON. Strings are
 * values, so keys may change, too. */
static inline size_t damage_value(char *at, size_t n)
{
    static const char *const values[] = {
        "-1", "0", "1", "3", "14", "29", "30", "4611686018427387903", "9223372036854775807",
        "18446744073709551616", "9007199254740992", "1.5", "1e308", "1e999", "null", "true",
        "\"param\"", "\"outputs\"", "\"\"", "[]", "[0, 0]", "[[6, 7], 7]", "{}"};
    const int64_t kinds = (int64_t)(sizeof values / sizeof values[0]);
    const bool    strings = check_int(0, 5) == 0;
    size_t        from = (size_t)check_int(0, (int64_t)n - 1), end;
    char          value[24];

    if (check_int(0, 2))
        snprintf(value, sizeof value, "%d", (int)check_int(0, check_int(0, 1) ? 20000 : 29));
    else
        snprintf(value, sizeof value, "%s", values[check_int(0, kinds - 1)]);
    while (from > 0 && in_number(at[from]) && in_number(at[from - 1]))
        from--;
    while (from < n && !in_number(at[from]) && !(strings && at[from] == '"'))
        from++;
    if (from == n)
        return n;
    for (end = from + 1; end < n && (at[from] == '"' ? at[end] != '"' : in_number(at[end]));)
        end++;
    end += at[from] == '"' && end < n;
    const size_t length = strlen(value);
    memmove(at + from + length, at + end, n - end);
    memcpy(at + from, value, length);
    return n - (end - from) + length;
}

#endif
