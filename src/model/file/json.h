/* json.h - a strict reader of the part of JSON that a safetensors header is made of.
 *
 * Reads objects, arrays, strings and whole numbers in one pass, without recursion and without
 * allocations: strings are decoded where they are. Anything else in JSON is refused. */
#ifndef WEIR_MODEL_FILE_JSON_H
#define WEIR_MODEL_FILE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_json {
    char       *start, *at, *end;   /* [start, end): text, of the caller, changed by decoding */
    const char *wanted;             /* what was expected at `at`, static; NULL: no mistake yet */
} weir_json;

/* Each function skips white space first. A mistake sets wanted, returns false or NULL and leaves
 * `at` at the mistake. */

/* Skips the character c if it is next; accept does not take another one for a mistake. */
bool weir_json_accept(weir_json *j, char c);
bool weir_json_expect(weir_json *j, char c, const char *wanted);

/* A string, decoded and ended by NUL: UTF-8 without U+0000. */
char *weir_json_string(weir_json *j);

/* A whole number from 0 to INT64_MAX, without leading zeros. */
bool weir_json_whole(weir_json *j, int64_t *value);

/* Whether a text is UTF-8. */
bool weir_json_is_utf8(const char *text);

/* Whether nothing but white space is left. */
bool weir_json_finished(weir_json *j);

#endif
