/* summary_text.c - the rows of a summary as a table or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "model/writer.h"

enum { NUMBER = 32, DESC = 24 + 21 * WEIR_MAX_DIMS };

/* 11689512 as "11,689,512". */
static const char *with_commas(char buf[NUMBER], double value)
{
    char      digits[NUMBER];
    const int n = snprintf(digits, sizeof digits, "%.0f", value);
    int       k = 0;

    for (int i = 0; i < n && k < NUMBER - 2; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buf[k++] = ',';
        buf[k++] = digits[i];
    }
    buf[k] = '\0';
    return buf;
}

static const char *desc_text(char buf[DESC], const weir_desc *d)
{
    int n = snprintf(buf, DESC, "%s(", weir_dtype_name(d->dtype));

    for (int i = 0; i < d->ndim; i++)
        n += snprintf(buf + n, DESC - (size_t)n, "%s%" PRId64, i ? "," : "", d->dim[i]);
    snprintf(buf + n, DESC - (size_t)n, ")");
    return buf;
}

/* Everything below depth `most` counts for the row above it. */
static size_t fold(size_t n, weir_summary_row *rows, int most)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (rows[i].depth <= most) {
            rows[kept++] = rows[i];
            continue;
        }
        weir_summary_row *const to = &rows[kept - 1];
        to->params += rows[i].params;
        to->trainable += rows[i].trainable;
        to->param_bytes += rows[i].param_bytes;
        to->states += rows[i].states;
        to->state_bytes += rows[i].state_bytes;
        to->flops += rows[i].flops;
        to->multiply_adds += rows[i].multiply_adds;
    }
    return kept;
}

static weir_summary_row total_of(size_t n, const weir_summary_row *rows)
{
    weir_summary_row t = {0};

    for (size_t i = 0; i < n; i++) {
        t.params += rows[i].params;
        t.trainable += rows[i].trainable;
        t.param_bytes += rows[i].param_bytes;
        t.states += rows[i].states;
        t.state_bytes += rows[i].state_bytes;
        t.flops += rows[i].flops;
        t.multiply_adds += rows[i].multiply_adds;
    }
    return t;
}

/* ---- the table ---- */

typedef struct widths {
    int name, kind, output;
} widths;

static int larger(int a, size_t b)
{
    return b > (size_t)a ? (int)b : a;
}

static widths widths_of(size_t n, const weir_summary_row *rows)
{
    widths w = {(int)strlen("layer"), (int)strlen("kind"), (int)strlen("output")};
    char   buf[DESC];

    for (size_t i = 0; i < n; i++) {
        w.name = larger(w.name, 2 * (size_t)rows[i].depth + strlen(rows[i].name));
        w.kind = larger(w.kind, strlen(rows[i].kind));
        if (rows[i].applied)
            w.output = larger(w.output, strlen(desc_text(buf, &rows[i].output)));
    }
    return w;
}

static void number(weir_writer *t, int width, double value)
{
    char buf[NUMBER];

    weir_writer_add(t, "  %*s", width, value != 0 ? with_commas(buf, value) : "-");
}

static void numbers(weir_writer *t, const weir_summary_row *r)
{
    number(t, 14, (double)r->params);
    number(t, 14, (double)r->param_bytes);
    number(t, 18, r->flops);
    number(t, 18, r->multiply_adds);
    weir_writer_add(t, "%s\n", r->shared ? "  (shared)" : "");
}

static void table(weir_writer *t, size_t n, const weir_summary_row *rows, weir_desc x)
{
    const widths           w = widths_of(n, rows);
    const weir_summary_row all = total_of(n, rows);
    char                   buf[DESC], a[NUMBER], b[NUMBER];

    weir_writer_add(t, "%-*s  %-*s  %-*s  %14s  %14s  %18s  %18s\n", w.name, "layer", w.kind,
                    "kind", w.output, "output", "parameters", "bytes", "flops", "multiply-adds");
    for (size_t i = 0; i < n; i++) {
        weir_writer_add(t, "%*s%-*s  %-*s  %-*s", 2 * rows[i].depth, "",
                        w.name - 2 * rows[i].depth, rows[i].name, w.kind, rows[i].kind, w.output,
                        rows[i].applied ? desc_text(buf, &rows[i].output) : "not applied");
        numbers(t, &rows[i]);
    }
    weir_writer_add(t, "%-*s  %-*s  %-*s", w.name, "total", w.kind, "", w.output, "");
    numbers(t, &all);
    weir_writer_add(t, "input %s; ", desc_text(buf, &x));
    weir_writer_add(t, "trainable parameters %s, frozen %s; ",
                    with_commas(a, (double)all.trainable),
                    with_commas(b, (double)(all.params - all.trainable)));
    weir_writer_add(t, "states %s (%s bytes)\n", with_commas(a, (double)all.states),
                    with_commas(b, (double)all.state_bytes));
}

/* ---- JSON ---- */

static void json_shape(weir_writer *t, const weir_desc *d)
{
    weir_writer_add(t, "\"dtype\":\"%s\",\"shape\":[", weir_dtype_name(d->dtype));
    for (int i = 0; i < d->ndim; i++)
        weir_writer_add(t, "%s%" PRId64, i ? "," : "", d->dim[i]);
    weir_writer_add(t, "]");
}

static void json_numbers(weir_writer *t, const weir_summary_row *r)
{
    weir_writer_add(t, "\"parameters\":%zu,\"trainable\":%zu,\"parameter_bytes\":%zu,", r->params,
                    r->trainable, r->param_bytes);
    weir_writer_add(t, "\"states\":%zu,\"state_bytes\":%zu,\"flops\":%.0f,\"multiply_adds\":%.0f",
                    r->states, r->state_bytes, r->flops, r->multiply_adds);
}

static void json(weir_writer *t, size_t n, const weir_summary_row *rows, weir_desc x)
{
    const weir_summary_row all = total_of(n, rows);

    weir_writer_add(t, "{\"input\":{");
    json_shape(t, &x);
    weir_writer_add(t, "},\"layers\":[");
    for (size_t i = 0; i < n; i++) {
        weir_writer_add(t, "%s\n{\"depth\":%d,\"name\":", i ? "," : "", rows[i].depth);
        weir_writer_string(t, rows[i].name);
        weir_writer_add(t, ",\"kind\":");
        weir_writer_string(t, rows[i].kind);
        weir_writer_add(t, ",\"shared\":%s,\"output\":", rows[i].shared ? "true" : "false");
        if (rows[i].applied) {
            weir_writer_add(t, "{");
            json_shape(t, &rows[i].output);
            weir_writer_add(t, "},");
        } else {
            weir_writer_add(t, "null,");
        }
        json_numbers(t, &rows[i]);
        weir_writer_add(t, "}");
    }
    weir_writer_add(t, "\n],\"total\":{");
    json_numbers(t, &all);
    weir_writer_add(t, "}}\n");
}

/* ---- both ---- */

static weir_status rows_check(size_t n, const weir_summary_row *rows)
{
    for (size_t i = 0; i < n; i++) {
        const int before = i ? rows[i - 1].depth : -1;
        if (!rows[i].name || !rows[i].kind)
            return weir_fail_null("summary_text", rows[i].name ? "kind" : "name");
        if (rows[i].depth < 0 || rows[i].depth > before + 1)
            return weir_fail(WEIR_ERR_INVALID, "summary_text: row %zu has depth %d after depth %d",
                             i, rows[i].depth, before);
        if (rows[i].applied && (rows[i].output.ndim < 0 || rows[i].output.ndim > WEIR_MAX_DIMS))
            return weir_fail(WEIR_ERR_SHAPE, "summary_text: the output of row %zu has %d axes", i,
                             rows[i].output.ndim);
    }
    return WEIR_OK;
}

char *weir_summary_text(size_t n, const weir_summary_row *rows, weir_desc x,
                        const weir_summary_options *options)
{
    const weir_summary_options o = options ? *options : (weir_summary_options){0};
    void (*const write)(weir_writer *, size_t, const weir_summary_row *, weir_desc) =
        o.json ? json : table;

    if (n > 0 && !rows)
        return (void)weir_fail_null("summary_text", "rows"), NULL;
    if (o.depth < 0 || x.ndim < 0 || x.ndim > WEIR_MAX_DIMS) {
        weir_fail(WEIR_ERR_INVALID, "summary_text: depth is %d but must be 0 or more, axes of x %d "
                  "but must be 0 to %d", o.depth, x.ndim, WEIR_MAX_DIMS);
        return NULL;
    }
    if (rows_check(n, rows) != WEIR_OK)
        return NULL;
    weir_summary_row *const copy = weir_host_alloc((n + 1) * sizeof *copy);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, rows, n * sizeof *copy);
    const size_t kept = o.depth > 0 ? fold(n, copy, o.depth - 1) : n;
    weir_writer  t = {0};
    write(&t, kept, copy, x);
    t = (weir_writer){.at = weir_host_alloc(t.n + 1), .capacity = t.n + 1};
    if (t.at)
        write(&t, kept, copy, x);
    weir_host_free(copy);
    return t.at;
}
