/* words.c - the lines of a graph's text, word by word, from a text that may be anything. */
#include "graph/saved/words.h"

#include <string.h>

#include "core/status.h"
#include "graph/saved/saved.h"

weir_status weir_words_next(weir_words *r)
{
    r->at = r->line_end;
    if (r->line > 0 && r->at < r->end)
        r->at++;
    r->line++;
    if (r->at == r->end)
        return WEIR_MISTAKE(r, "the text ends before its last line, 'end'", r->line);
    const char *const end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    r->line_end = end ? end : r->end;
    return WEIR_OK;
}

static void skip_space(weir_words *r)
{
    while (r->at < r->line_end && *r->at == ' ')
        r->at++;
}

weir_status weir_words_end(weir_words *r)
{
    skip_space(r);
    if (r->at == r->line_end)
        return WEIR_OK;
    return WEIR_MISTAKE(r, "'%.*s' is more than expected", r->line,
                   (int)(r->line_end - r->at < 40 ? r->line_end - r->at : 40), r->at);
}

void weir_words_word(weir_words *r, char word[WEIR_WORD])
{
    size_t n = 0;

    skip_space(r);
    while (r->at < r->line_end && *r->at != ' ' && *r->at != '[' && n < WEIR_WORD - 1)
        word[n++] = *r->at++;
    word[n] = '\0';
}

weir_status weir_words_whole(weir_words *r, int64_t least, int64_t most, int64_t *value)
{
    uint64_t   v = 0;
    bool       some = false, over = false;

    skip_space(r);
    const bool minus = r->at < r->line_end && *r->at == '-';
    r->at += minus;
    for (; r->at < r->line_end && *r->at >= '0' && *r->at <= '9'; r->at++, some = true)
        over |= __builtin_mul_overflow(v, 10u, &v) ||
                __builtin_add_overflow(v, (uint64_t)(*r->at - '0'), &v);
    over |= v > (uint64_t)INT64_MAX + minus;
    *value = over ? 0 : minus ? (int64_t)(0 - v) : (int64_t)v;
    if (some && !over && *value >= least && *value <= most)
        return WEIR_OK;
    return WEIR_MISTAKE(r, "expected a number from %lld to %lld", r->line, (long long)least,
                   (long long)most);
}

weir_status weir_words_bits(weir_words *r, int64_t *bits)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t          v = 0;

    skip_space(r);
    if (r->line_end - r->at < 17 || *r->at != 'x')
        return WEIR_MISTAKE(r, "expected x and the 16 digits of a double", r->line);
    for (int i = 1; i <= 16; i++) {
        const char *const digit = r->at[i] ? strchr(digits, r->at[i]) : NULL;
        if (!digit)
            return WEIR_MISTAKE(r, "expected x and the 16 digits of a double", r->line);
        v = v << 4 | (uint64_t)(digit - digits);
    }
    r->at += 17;
    memcpy(bits, &v, sizeof v);
    return WEIR_OK;
}

/* "[2,3]" into at most WEIR_MAX_DIMS numbers. */
static weir_status read_list(weir_words *r, int64_t *v, int *n)
{
    *n = 0;
    if (r->at == r->line_end || *r->at++ != '[')
        return WEIR_MISTAKE(r, "expected a list in brackets", r->line);
    while (r->at < r->line_end && *r->at != ']') {
        if (*n == WEIR_MAX_DIMS)
            return WEIR_MISTAKE(r, "a shape of more than %d axes", r->line, WEIR_MAX_DIMS);
        WEIR_TRY(weir_words_whole(r, 0, INT64_MAX / 2, &v[(*n)++]));
        if (r->at < r->line_end && *r->at == ',')
            r->at++;
        else
            break;
    }
    if (r->at < r->line_end && *r->at++ == ']')
        return WEIR_OK;
    return WEIR_MISTAKE(r, "expected the end of a list", r->line);
}

weir_status weir_words_layout(weir_words *r, weir_layout *l)
{
    char word[WEIR_WORD];
    int  n;

    *l = (weir_layout){.desc = {.ndim = 0}};
    weir_words_word(r, word);
    while (weir_dtype_size(l->desc.dtype) > 0 &&
           strcmp(weir_dtype_name(l->desc.dtype), word) != 0)
        l->desc.dtype++;
    if (weir_dtype_size(l->desc.dtype) == 0)
        return WEIR_MISTAKE(r, "unknown element type '%s'", r->line, word);
    WEIR_TRY(read_list(r, l->desc.dim, &l->desc.ndim));
    if (weir_shape_check("a shape", &l->desc) != WEIR_OK)
        return WEIR_MISTAKE(r, "%s", r->line, weir_error());
    weir_shape_dense(l);
    if (r->at == r->line_end || *r->at != '/')
        return WEIR_OK;
    r->at++;
    WEIR_TRY(read_list(r, l->stride, &n));
    return n == l->desc.ndim ? WEIR_OK : WEIR_MISTAKE(r, "%d strides of %d axes", r->line, n,
                                                 l->desc.ndim);
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

weir_status weir_words_text(weir_words *r, char **text)
{
    size_t n = 0;

    skip_space(r);
    *text = weir_mem_alloc((size_t)(r->line_end - r->at) + 1);
    if (!*text)
        return WEIR_ERR_NOMEM;
    char *const to = *text;
    for (; r->at < r->line_end; r->at++) {
        to[n] = *r->at;
        if (*r->at == '%') {
            const int high = r->line_end - r->at > 2 ? hex(r->at[1]) : -1;
            const int low = high >= 0 ? hex(r->at[2]) : -1;
            if (low < 0)
                return WEIR_MISTAKE(r, "%% without two digits", r->line);
            to[n] = (char)(high * 16 + low);
            r->at += 2;
        }
        if (to[n] == '\0')
            return WEIR_MISTAKE(r, "a name with a zero byte", r->line);
        n++;
    }
    to[n] = '\0';
    return n > 0 ? WEIR_OK : WEIR_MISTAKE(r, "expected a name", r->line);
}

weir_status weir_words_name(weir_words *r, char *name)
{
    char       *text;
    weir_status s = weir_words_text(r, &text);

    if (s == WEIR_OK && weir_binding_check_name("a tensor", text) != WEIR_OK)
        s = WEIR_MISTAKE(r, "%s", r->line, weir_error());
    if (s == WEIR_OK)
        memcpy(name, text, strlen(text) + 1);
    weir_mem_free(text);
    return s;
}
