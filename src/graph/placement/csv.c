/* csv.c - placement of buffers given as text in MiniMalloc's format: id,lower,upper,size, upper
 * exclusive. The answer adds the column offset. Columns are found by name; others are kept. */
#include <string.h>

#include "core/status.h"
#include "core/text.h"
#include "core/vec.h"
#include "weir/plan.h"

enum { LOWER, UPPER, SIZE, ALIGNMENT, OFFSET, COLUMNS };

static const char *const column_name[COLUMNS] = {"lower", "upper", "size", "alignment", "offset"};

typedef struct weir_text_span {
    const char *at;
    size_t      n;
} weir_text_span;

typedef struct weir_csv {
    const char              *at, *end;        /* what is left of the text */
    size_t                   line;            /* number of the line read last */
    size_t                   column[COLUMNS]; /* index of each column; SIZE_MAX: missing */
    size_t                   columns;
    WEIR_VEC(weir_text_span) field; /* of the line read last; they point into the text */
    WEIR_VEC(weir_buffer)    buffers;
} weir_csv;

/* Splits at commas outside quotes. Returns false if memory runs out. */
static bool split(weir_csv *c, const char *at, const char *end)
{
    c->field.n = 0;
    for (;;) {
        const char *begin = at;
        bool        quoted = false;
        for (; at < end && (quoted || *at != ','); at++)
            quoted = quoted != (*at == '"');
        if (!weir_vec_push(&c->field, (weir_text_span){begin, (size_t)(at - begin)}))
            return false;
        if (at == end)
            return true;
        at++;
    }
}

/* Splits the next line that is not empty into fields; no fields at the end of the text. */
static weir_status next_line(weir_csv *c)
{
    c->field.n = 0;
    while (c->at < c->end) {
        const char *begin = c->at;
        const char *stop = memchr(begin, '\n', (size_t)(c->end - begin));
        const char *end = stop ? stop : c->end;
        c->at = stop ? stop + 1 : c->end;
        c->line++;
        if (begin < end && end[-1] == '\r')
            end--;
        if (end == begin)
            continue;
        if (memchr(begin, 0, (size_t)(end - begin)))
            return weir_fail(WEIR_ERR_IO, "line %zu: a byte 0", c->line);
        return split(c, begin, end) ? WEIR_OK : WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

static weir_text_span trim(weir_text_span f)
{
    for (; f.n > 0 && (*f.at == ' ' || *f.at == '\t'); f.n--)
        f.at++;
    while (f.n > 0 && (f.at[f.n - 1] == ' ' || f.at[f.n - 1] == '\t'))
        f.n--;
    return f;
}

static weir_status read_header(weir_csv *c)
{
    if (c->end - c->at >= 3 && memcmp(c->at, "\xef\xbb\xbf", 3) == 0)
        c->at += 3;
    WEIR_TRY(next_line(c));
    c->columns = c->field.n;
    for (int k = 0; k < COLUMNS; k++) {
        c->column[k] = SIZE_MAX;
        for (size_t i = 0; i < c->columns; i++) {
            const weir_text_span f = trim(c->field.at[i]);
            if (f.n != strlen(column_name[k]) || memcmp(f.at, column_name[k], f.n) != 0)
                continue;
            if (c->column[k] != SIZE_MAX)
                return weir_fail(WEIR_ERR_IO, "line %zu: two columns are named %s", c->line,
                                 column_name[k]);
            c->column[k] = i;
        }
        if (c->column[k] == SIZE_MAX && k <= SIZE)
            return weir_fail(WEIR_ERR_IO, "line %zu: no column %s", c->line ? c->line : 1,
                             column_name[k]);
    }
    return WEIR_OK;
}

/* Parses a field as one whole decimal number. */
static weir_status whole(const weir_csv *c, int column, bool negative, int64_t *out)
{
    const weir_text_span f = trim(c->field.at[c->column[column]]);
    const bool           minus = f.n > 0 && *f.at == '-';
    int64_t              value = 0;
    bool                 ok = f.n > minus && (!minus || negative);

    for (size_t i = minus; i < f.n && ok; i++) {
        const int digit = f.at[i] - '0';
        ok = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(value, 10, &value) &&
             !__builtin_add_overflow(value, digit, &value);
    }
    *out = minus ? -value : value;
    if (!ok)
        return weir_fail(WEIR_ERR_IO, "line %zu: %s '%.*s' is not a whole number%s below 2^63",
                         c->line, column_name[column], f.n < 40 ? (int)f.n : 40, f.at,
                         negative ? "" : " from 0");
    return WEIR_OK;
}

static weir_status read_buffer(weir_csv *c)
{
    weir_buffer b = {0};
    int64_t     size = 0, alignment = 1;

    if (c->field.n != c->columns)
        return weir_fail(WEIR_ERR_IO, "line %zu: %u values for %zu columns", c->line, c->field.n,
                         c->columns);
    WEIR_TRY(whole(c, LOWER, true, &b.lower));
    WEIR_TRY(whole(c, UPPER, true, &b.upper));
    WEIR_TRY(whole(c, SIZE, false, &size));
    if (b.lower >= b.upper)
        return weir_fail(WEIR_ERR_IO, "line %zu: lower %lld is not before upper %lld", c->line,
                         (long long)b.lower, (long long)b.upper);
    if (c->column[ALIGNMENT] != SIZE_MAX && trim(c->field.at[c->column[ALIGNMENT]]).n > 0)
        WEIR_TRY(whole(c, ALIGNMENT, false, &alignment));
    if (alignment > 1)
        return weir_fail(WEIR_ERR_IO, "line %zu: alignment %lld of a single buffer is not "
                         "supported; the alignment option applies to all",
                         c->line, (long long)alignment);
    b.size = (size_t)size;
    return weir_vec_push(&c->buffers, b) ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status read_all(weir_csv *c)
{
    WEIR_TRY(read_header(c));
    for (;;) {
        WEIR_TRY(next_line(c));
        if (c->field.n == 0)
            return WEIR_OK;
        WEIR_TRY(read_buffer(c));
    }
}

/* Adds the fields of the line read last, without an old offset. */
static void add_fields(const weir_csv *c, weir_string *s)
{
    for (uint32_t i = 0; i < c->field.n; i++)
        if (i != c->column[OFFSET])
            weir_string_add(s, "%.*s,", (int)c->field.at[i].n, c->field.at[i].at);
}

/* Writes the text again, line by line, with the offsets. */
static weir_status write_all(weir_csv *c, const char *text, weir_string *s)
{
    c->at = text;
    WEIR_TRY(read_header(c));
    add_fields(c, s);
    weir_string_add(s, "offset\n");
    for (uint32_t i = 0; i < c->buffers.n; i++) {
        WEIR_TRY(next_line(c));
        add_fields(c, s);
        weir_string_add(s, "%zu\n", c->buffers.at[i].offset);
    }
    return WEIR_OK;
}

char *weir_place_csv(const char *text, size_t bytes, const weir_place_options *options,
                     weir_place_stats *stats)
{
    weir_csv    c = {.at = text, .end = text + bytes};
    weir_string s = {0};

    if (!text) {
        (void)weir_fail_null("weir_place_csv", "the text");
        return NULL;
    }
    weir_status status = read_all(&c);
    if (status == WEIR_OK)
        status = weir_place_buffers(c.buffers.at, c.buffers.n, options, stats);
    if (status == WEIR_OK)
        status = write_all(&c, text, &s);
    weir_vec_free(&c.field);
    weir_vec_free(&c.buffers);
    if (status == WEIR_OK)
        return weir_string_take(&s);
    weir_mem_free(weir_string_take(&s));
    return NULL;
}
