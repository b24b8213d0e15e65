/* csv.c - lines of numbers separated by commas.
 *
 * The file is read into memory and parsed twice. The first pass counts lines and requires the same
 * number of columns in each, so rows x columns cannot exceed the size of the file. The second reads
 * the numbers, which are decimal with a point, whatever the locale. */
#include "model/data/data.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __APPLE__
#include <xlocale.h>
#endif

/* A cell without blanks and quotes around it. */
typedef struct cell {
    const char *at;
    size_t      n;
} cell;

typedef struct csv {
    weir_file   file;
    char       *text;        /* owned, size bytes and a 0 */
    const char *first, *end; /* after a byte order mark; after the last byte */
    char        separator;
    bool        header;
    int64_t     rows, columns, label; /* label: its column, -1: none */
    locale_t    plain;
} csv;

/* A position in the file: the rest of a line, and the line's number from 1. */
typedef struct place {
    const char *at, *end;
    int64_t     line;
} place;

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next line that is not empty; p begins as {NULL, first, 0}: before the first line. */
static bool next_line(const csv *c, place *p)
{
    const char *at = p->end;

    for (p->at = NULL; at < c->end; at = p->end) {
        at += p->line > 0 && *at == '\n';
        const char *newline = memchr(at, '\n', (size_t)(c->end - at));
        p->end = newline ? newline : c->end;
        p->line++;
        const char *seen = at;
        while (seen < p->end && blank(*seen))
            seen++;
        if (seen < p->end) {
            p->at = at;
            return true;
        }
    }
    return false;
}

/* Reads the next cell of the line; false after the last one. */
static bool next_cell(const csv *c, place *p, cell *out)
{
    if (!p->at)
        return false;
    const char *stop = memchr(p->at, c->separator, (size_t)(p->end - p->at));
    const char *from = p->at, *to = stop ? stop : p->end;
    p->at = stop ? stop + 1 : NULL;
    while (from < to && blank(*from))
        from++;
    while (to > from && blank(to[-1]))
        to--;
    if (to - from >= 2 && *from == '"' && to[-1] == '"') {
        from++;
        to--;
    }
    *out = (cell){from, (size_t)(to - from)};
    return true;
}

static int64_t count_cells(const csv *c, place p)
{
    int64_t n = 0;
    for (cell x; next_cell(c, &p, &x);)
        n++;
    return n;
}

/* Lines and columns. */
static weir_status measure(csv *c)
{
    place   p = {NULL, c->first, 0};
    int64_t lines = 0;

    for (; next_line(c, &p); lines++) {
        const int64_t n = count_cells(c, p);
        if (lines == 0)
            c->columns = n;
        if (n != c->columns)
            return weir_file_fail(&c->file,
                                  "line %lld (offset %lld) has %lld columns, the lines before it "
                                  "have %lld",
                                  (long long)p.line, (long long)(p.at - c->text), (long long)n,
                                  (long long)c->columns);
    }
    c->rows = lines - c->header;
    if (c->rows < 1)
        return weir_file_fail(&c->file, "has %llu bytes, but no line of numbers",
                              (unsigned long long)c->file.size);
    return WEIR_OK;
}

/* The column of options->label in the header, or the last one. */
static weir_status find_label(csv *c, const weir_csv_options *o)
{
    place p = {NULL, c->first, 0};
    cell  x;

    c->label = o->no_label ? -1 : c->columns - 1;
    if (c->label == 0)
        return weir_file_fail(&c->file, "has 1 column, but needs values beside the label");
    if (o->no_label || !o->label)
        return WEIR_OK;
    next_line(c, &p);
    for (c->label = 0; next_cell(c, &p, &x); c->label++)
        if (x.n == strlen(o->label) && memcmp(x.at, o->label, x.n) == 0)
            return WEIR_OK;
    return weir_file_fail(&c->file, "the header names %lld columns, none of them \"%.60s\"",
                          (long long)c->columns, o->label);
}

/* strtod also takes blanks, hexadecimal numbers, "inf" and "nan". */
static bool decimal(const cell *x)
{
    for (size_t i = 0; i < x->n; i++)
        if (!strchr("0123456789+-.eE", x->at[i]) || x->at[i] == '\0')
            return false;
    return x->n > 0;
}

static weir_status fail_number(const csv *c, const cell *x, int64_t line, int64_t column,
                               const char *why)
{
    char   shown[25] = "";
    size_t n = 0;
    for (; n < x->n && n < sizeof shown - 1; n++)
        shown[n] = x->at[n] >= ' ' && x->at[n] <= '~' ? x->at[n] : '?';
    return weir_file_fail(&c->file, "line %lld, column %lld (offset %lld): '%s' %s%s",
                          (long long)line, (long long)column + 1, (long long)(x->at - c->text),
                          shown, why, line == 1 && !c->header ? "; is line 1 a header?" : "");
}

static double to_double(const char *text, char **end, locale_t plain)
{
#ifdef WEIR_PORTABLE
    const locale_t before = uselocale(plain);
    const double   value = strtod(text, end);
    (void)uselocale(before);
    return value;
#else
    return strtod_l(text, end, plain);
#endif
}

static weir_status read_cell(const csv *c, const cell *x, int64_t line, int64_t column, double *out)
{
    char *end = NULL;

    if (!decimal(x))
        return fail_number(c, x, line, column, "is not a number");
    *out = to_double(x->at, &end, c->plain);
    if (end != x->at + x->n)
        return fail_number(c, x, line, column, "is not a number");
    if (fabs(*out) > (double)FLT_MAX)
        return fail_number(c, x, line, column, "is too large for f32");
    return WEIR_OK;
}

static bool class_number(double v)
{
    return v >= 0 && v < (double)INT32_MAX && v == floor(v);
}

static weir_status read_row(const csv *c, place p, int64_t row, weir_data *d)
{
    float *value = (float *)d->value + row * d->elements;
    cell   x;

    for (int64_t column = 0; next_cell(c, &p, &x); column++) {
        double v = 0;
        WEIR_TRY(read_cell(c, &x, p.line, column, &v));
        if (column == c->label)
            d->real[row] = v;
        else
            *value++ = (float)v;
    }
    return WEIR_OK;
}

static weir_status read_rows(const csv *c, weir_data *d)
{
    place p = {NULL, c->first, 0};

    if (c->header)
        next_line(c, &p);
    for (int64_t row = 0; next_line(c, &p); row++)
        WEIR_TRY(read_row(c, p, row, d));
    return WEIR_OK;
}

static void count_classes(weir_data *d)
{
    double largest = -1;

    for (int64_t i = 0; d->real && i < d->n; i++) {
        if (!class_number(d->real[i]))
            return;
        largest = fmax(largest, d->real[i]);
    }
    d->classes = (int64_t)largest + 1;
}

/* Measured first: a cell takes a byte with its separator, so rows * columns <= size + 1. */
static weir_data *to_data(csv *c, const weir_csv_options *o)
{
    if (measure(c) != WEIR_OK || find_label(c, o) != WEIR_OK)
        return NULL;
    const int64_t values = c->label < 0 ? c->columns : c->columns - 1;
    weir_data    *d = weir_data_new(weir_1d(WEIR_F32, values), c->rows, true);
    if (!d)
        return NULL;
    d->labels = c->label < 0 ? 0 : 1;
    if ((d->labels && !(d->real = weir_host_alloc((size_t)d->n * sizeof *d->real))) ||
        read_rows(c, d) != WEIR_OK) {
        weir_data_free(d);
        return NULL;
    }
    count_classes(d);
    return d;
}

/* Reads the file and appends a 0, at which strtod stops. */
static weir_status read_text(csv *c)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t      n = (size_t)c->file.size;

    if (c->file.size >= SIZE_MAX || !(c->text = weir_host_alloc(n + 1)))
        return weir_fail(WEIR_ERR_NOMEM, "data_csv: %.150s: no memory for %llu bytes", c->file.path,
                         (unsigned long long)c->file.size);
    WEIR_TRY(weir_file_read(&c->file, c->text, n));
    c->end = c->text + n;
    c->first = c->text + (n >= 3 && memcmp(c->text, mark, 3) == 0 ? 3 : 0);
    return WEIR_OK;
}

/* Fails if the separator is a blank, line end, quote or a character of numbers. */
static weir_status check_options(const weir_csv_options *o)
{
    if (o->label && !o->header)
        return weir_fail(WEIR_ERR_INVALID, "data_csv: label \"%.60s\" needs a header", o->label);
    if (o->label && o->no_label)
        return weir_fail(WEIR_ERR_INVALID, "data_csv: label \"%.60s\" and no_label exclude each "
                         "other", o->label);
    if (o->separator && strchr(" \r\n\"0123456789+-.eE", o->separator))
        return weir_fail(WEIR_ERR_INVALID, "data_csv: character %d cannot be the separator",
                         o->separator);
    return WEIR_OK;
}

weir_data *weir_data_csv(const char *path, const weir_csv_options *options)
{
    const weir_csv_options o = options ? *options : (weir_csv_options){0};
    csv                    c = {.separator = o.separator ? o.separator : ',', .header = o.header};
    weir_data             *d = NULL;

    if (check_options(&o) != WEIR_OK || weir_file_open(&c.file, "data_csv", path) != WEIR_OK)
        return NULL;
    c.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c.plain)
        weir_fail(WEIR_ERR_NOMEM, "data_csv: %.150s: no memory for a locale", path);
    else if (read_text(&c) == WEIR_OK)
        d = to_data(&c, &o);
    if (c.plain)
        freelocale(c.plain);
    weir_host_free(c.text);
    weir_file_close(&c.file);
    return d;
}
