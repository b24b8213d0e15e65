/* text.h - a file as a row of tokens, one for each byte that occurs in it; batches; drawing. */
#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir.h"

typedef struct text {
    size_t   n;             /* tokens */
    int32_t *token;
    int      vocab;         /* different bytes: tokens are below it */
    char     byte[256];     /* of each token, in increasing order */
} text;

/* Reads the file at path (NULL: a text that every system has), which must hold more than `least`
 * bytes. On failure prints the reason to stderr and returns false. */
bool text_load(const char *program, const char *path, size_t least, text *t);
void text_free(text *t);

/* Batch number `step`: pieces from places all over the text into x (n,t), and the token after each
 * of theirs into y (n*t). Equal steps are equal batches in every process. */
weir_status text_write_batch(const text *t, uint64_t step, weir_tensor *x, weir_tensor *y);

/* Prints `count` bytes drawn one by one to follow the first of the text. For each, x (1,context)
 * gets the latest tokens, and the step makes *logits (context,vocab), of which the last row
 * counts. */
weir_status text_continue(const text *t, size_t count, weir_tensor *x, weir_step *step,
                          weir_tensor *const *logits);

#endif
