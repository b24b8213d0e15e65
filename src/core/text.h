/* text.h - a growing string, for all longer texts of the library. */
#ifndef WEIR_CORE_TEXT_H
#define WEIR_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_string {
    char  *at;          /* owned; terminated once something was added; NULL before */
    size_t n, cap;
    bool   failed;      /* memory ran out: later additions do nothing */
} weir_string;

void weir_string_add(weir_string *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds text in which the characters that JSON forbids in strings are escaped (quotes aside, the
 * same serves DOT and XML: see escape.c). */
void weir_string_add_json(weir_string *s, const char *text);

/* Whether a text is well-formed UTF-8. */
bool weir_text_is_utf8(const char *text);

/* The first control character of ASCII in the text; NULL if it has none. */
const char *weir_text_control(const char *text);

/* Bytes of a unit: "", "B", "kB", "MB" ..., "KiB", "GiB" ..., in any case; -1 for anything else. */
double weir_unit_bytes(const char *name);

/* Returns the text, which the caller frees with weir_mem_free, and empties the string. NULL, with
 * ERR_NOMEM remembered, if memory ran out. */
char *weir_string_take(weir_string *s);

#endif
