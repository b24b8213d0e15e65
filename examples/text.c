/* text.c - reads a file into tokens, cuts batches, samples tokens.
 *
 * Random numbers are hashes (SplitMix64; Steele, Lea and Flood 2014) of the step or turn. */
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPERATURE 0.8     /* of the logits: below 1 likely tokens become likelier */

enum { BYTES = 256, MOST = 1 << 26 };

static uint64_t hash(uint64_t key)
{
    uint64_t state = key * WEIR_SPLITMIX64_STEP;

    return weir_splitmix64(&state);
}

/* All bytes of a file up to MOST, as numbers; NULL if it cannot be read or memory is short. */
static int32_t *read_bytes(FILE *f, size_t *n)
{
    size_t   capacity = 1 << 16;
    int32_t *at = malloc(capacity * sizeof *at);

    *n = 0;
    for (int c; at && *n < MOST && (c = getc(f)) != EOF; at[(*n)++] = c)
        if (*n == capacity) {
            int32_t *const more = realloc(at, 2 * capacity * sizeof *at);
            if (!more) {
                free(at);
                return NULL;
            }
            capacity *= 2;
            at = more;
        }
    if (!ferror(f))
        return at;
    free(at);
    return NULL;
}

/* Bytes become tokens, numbered in the order of the bytes. */
static void number(text *t)
{
    bool    seen[BYTES] = {false};
    int32_t token[BYTES] = {0};

    for (size_t i = 0; i < t->n; i++)
        seen[t->token[i]] = true;
    for (int c = 0; c < BYTES; c++)
        if (seen[c]) {
            t->byte[t->vocab] = (char)c;
            token[c] = t->vocab++;
        }
    for (size_t i = 0; i < t->n; i++)
        t->token[i] = token[t->token[i]];
}

/* The licence that comes with every Debian, else this file. */
static const char *usual(void)
{
    static const char *const licence = "/usr/share/common-licenses/GPL-3";
    FILE *const              f = fopen(licence, "rb");
    return f && fclose(f) == 0 ? licence : __FILE__;
}

bool text_load(const char *program, const char *path, size_t least, text *t)
{
    *t = (text){0};
    if (!path)
        path = usual();
    FILE *f = fopen(path, "rb");
    t->token = f ? read_bytes(f, &t->n) : NULL;
    if (f)
        fclose(f);
    const char *wrong = !t->token ? "cannot be read" : t->n <= least ? "is too short" : NULL;
    if (wrong) {
        fprintf(stderr, "%s: %s %s\n", program, path, wrong);
        text_free(t);
        return false;
    }
    number(t);
    return true;
}

void text_free(text *t)
{
    free(t->token);
    t->token = NULL;
}

weir_status text_write_batch(const text *t, uint64_t step, weir_tensor *x, weir_tensor *y)
{
    const weir_desc d = weir_tensor_desc(x);
    const size_t    n = (size_t)d.dim[0], length = (size_t)d.dim[1];
    int32_t *const  v = malloc((2 * n * length + 1) * sizeof *v), *const next = v + n * length;
    if (!v)
        return WEIR_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const int32_t *from = t->token + hash(step * n + i) % (t->n - length);
        memcpy(v + i * length, from, length * sizeof *v);
        memcpy(next + i * length, from + 1, length * sizeof *v);
    }
    weir_status s = weir_write(x, v, n * length * sizeof *v);
    if (s == WEIR_OK)
        s = weir_write(y, next, n * length * sizeof *v);
    free(v);
    return s;
}

/* A token drawn from softmax(logits / TEMPERATURE), logits[t->vocab]; equal for equal turns. */
static int32_t draw(const text *t, uint64_t turn, const float *logits)
{
    double most = (double)logits[0], sum = 0;

    for (int i = 1; i < t->vocab; i++)
        most = fmax(most, (double)logits[i]);
    for (int i = 0; i < t->vocab; i++)
        sum += exp(((double)logits[i] - most) / TEMPERATURE);
    double left = (double)(hash(turn) >> 11) * 0x1p-53 * sum;
    for (int32_t i = 0; i < t->vocab; i++)
        if ((left -= exp(((double)logits[i] - most) / TEMPERATURE)) < 0)
            return i;
    return t->vocab - 1;
}

/* Draws a token from the last row of logits and appends it to the `context` tokens at v. */
static weir_status append(const text *t, uint64_t turn, size_t context, int32_t *v,
                          const weir_tensor *logits)
{
    const size_t bytes = weir_tensor_bytes(logits);
    float *const row = malloc(bytes);
    if (!row)
        return WEIR_ERR_NOMEM;
    const weir_status s = weir_read(logits, row, bytes);
    if (s == WEIR_OK)
        v[context] = draw(t, turn, row + (context - 1) * (size_t)t->vocab);
    free(row);
    return s;
}

weir_status text_continue(const text *t, size_t count, weir_tensor *x, weir_step *step,
                          weir_tensor *const *logits)
{
    const size_t   context = (size_t)weir_tensor_desc(x).dim[1];
    int32_t *const v = malloc((context + count) * sizeof *v);
    weir_status    s = WEIR_OK;

    if (!v)
        return WEIR_ERR_NOMEM;
    memcpy(v, t->token, context * sizeof *v);
    for (size_t i = 0; s == WEIR_OK && i < count; i++) {
        s = weir_write(x, v + i, context * sizeof *v);
        if (s == WEIR_OK)
            s = weir_step_run(step);
        if (s == WEIR_OK)
            s = append(t, i, context, v + i, *logits);
        if (s == WEIR_OK)
            putchar(t->byte[v[context + i]]);
    }
    putchar('\n');
    free(v);
    return s;
}
