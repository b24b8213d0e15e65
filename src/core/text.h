/* text.h - a growing string, for all longer texts of the library. */
#ifndef WEIR_CORE_TEXT_H
#define WEIR_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_string {
    char  *at;          /* always terminated once something was added */
    size_t n, cap;
    bool   failed;      /* memory ran short: later additions do nothing */
} weir_string;

void weir_string_add(weir_string *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds text with the characters JSON (and, quotes aside, DOT and XML: see escape.c) must not see
 * raw replaced by escapes. */
void weir_string_add_json(weir_string *s, const char *text);

/* Bytes of a unit: "", "B", "kB", "MB" ..., "KiB", "GiB" ..., in any case; -1 for anything else. */
double weir_unit_bytes(const char *name);

/* The text, yours to free with weir_mem_free; NULL (ERR_NOMEM remembered) if memory ran short. The
 * string is empty again afterwards. */
char *weir_string_take(weir_string *s);

#endif
