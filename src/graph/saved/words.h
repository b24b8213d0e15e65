/* words.h - reads lines of a text word by word.
 *
 * Each function fails with ERR_IO and a sentence that names the line. */
#ifndef WEIR_GRAPH_SAVED_WORDS_H
#define WEIR_GRAPH_SAVED_WORDS_H

#include "core/shape.h"

typedef struct weir_words {
    const char *at, *end;       /* the rest of the text */
    const char *line_end;       /* of the current line, at most `end` */
    size_t      line;           /* its number, from 1; 0: none yet */
} weir_words;

#define WEIR_MISTAKE(r, ...) weir_fail(WEIR_ERR_IO, "weir_graph_parse: line %zu: " __VA_ARGS__)

/* Goes to the next line; fails at the end of the text. */
weir_status weir_words_next(weir_words *r);

/* Fails unless nothing is left of the line. */
weir_status weir_words_end(weir_words *r);

enum { WEIR_WORD = 40 };        /* the longest name of an op, phase or dtype fits */

/* The next word, up to a space or '['; "" at the end of the line. */
void weir_words_word(weir_words *r, char word[WEIR_WORD]);

weir_status weir_words_whole(weir_words *r, int64_t least, int64_t most, int64_t *value);

/* The 64 bits of a double: x and 16 hexadecimal digits. */
weir_status weir_words_bits(weir_words *r, int64_t *bits);

/* A checked shape, and strides of at least 0: "f32[2,3]", "f32[2,3]/[1,2]". */
weir_status weir_words_layout(weir_words *r, weir_layout *l);

/* The rest of the line, decoded, 1 byte and more; yours (weir_mem_free), after a failure too. */
weir_status weir_words_text(weir_words *r, char **text);

/* The rest of the line as a name of a tensor; name has WEIR_BINDING_NAME + 1 bytes. */
weir_status weir_words_name(weir_words *r, char *name);

#endif
