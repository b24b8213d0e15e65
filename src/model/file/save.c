/* save.c - writes the tensors of a model or a run to a safetensors file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/save.h"

uint64_t weir_save_bytes(const weir_file_item *item)
{
    uint64_t bytes = weir_dtype_size(item->desc.dtype);

    for (int i = 0; i < item->desc.ndim; i++)
        bytes *= (uint64_t)item->desc.dim[i];
    return bytes;
}

static bool in_file(const weir_file_item *item)
{
    return item->tensor || item->kind == WEIR_FILE_LR;
}

/* Long elements first, so that all lie at multiples of their size; then by name. */
static int in_order(const void *a, const void *b)
{
    const weir_file_item *const x = *(weir_file_item *const *)a;
    const weir_file_item *const y = *(weir_file_item *const *)b;
    const size_t                p = weir_dtype_size(x->desc.dtype);
    const size_t                q = weir_dtype_size(y->desc.dtype);

    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(weir_file_item *const *)a)->name, (*(weir_file_item *const *)b)->name);
}

weir_status weir_save_arrange(weir_file_items *l, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < l->list.n; i++)
        if (in_file(l->list.at[i])) {
            void *const item = l->list.at[i];
            l->list.at[i] = l->list.at[*n];
            l->list.at[(*n)++] = item;
        }
    if (*n)
        qsort(l->list.at, *n, sizeof *l->list.at, by_name);
    for (size_t i = 1; i < *n; i++)
        if (strcmp(weir_items_at(l, i - 1)->name, weir_items_at(l, i)->name) == 0)
            return weir_fail(WEIR_ERR_INVALID, "%s: two tensors are called '%.100s'", l->what,
                             weir_items_at(l, i)->name);
    if (*n)
        qsort(l->list.at, *n, sizeof *l->list.at, in_order);
    return WEIR_OK;
}

static weir_status write_header(const weir_file_items *l, size_t n, const weir_note *note,
                                size_t notes, weir_output *o)
{
    weir_file_entry *const entry = weir_host_alloc((n + 1) * sizeof *entry);
    uint64_t               at = 0;
    size_t                 bytes = 0;

    if (!entry)
        return weir_error_status();
    for (size_t i = 0; i < n; i++) {
        const weir_file_item *const item = weir_items_at(l, i);
        entry[i] = (weir_file_entry){.name = item->name, .type = weir_type_name(item->desc.dtype),
                                     .desc = item->desc, .begin = at,
                                     .end = at + weir_save_bytes(item)};
        at = entry[i].end;
    }
    char *const            text = weir_header_write(entry, n, note, notes, &bytes);
    const weir_status      s = text ? weir_output_add(o, text, bytes) : weir_error_status();
    weir_host_free(text);
    weir_host_free(entry);
    return s;
}

weir_status weir_save_read(const weir_file_items *l, const weir_file_item *item, void *to)
{
    const size_t bytes = (size_t)weir_save_bytes(item);

    if (item->tensor)
        return weir_read(item->tensor, to, bytes);
    memcpy(to, &l->optim->rate, bytes);
    return WEIR_OK;
}

static weir_status write_elements(const weir_file_items *l, size_t n, weir_output *o)
{
    uint64_t most = sizeof(double);

    for (size_t i = 0; i < n; i++)
        if (weir_save_bytes(weir_items_at(l, i)) > most)
            most = weir_save_bytes(weir_items_at(l, i));
    void *const buffer = weir_host_alloc((size_t)most);
    weir_status s = buffer ? WEIR_OK : weir_error_status();
    for (size_t i = 0; s == WEIR_OK && i < n; i++) {
        const weir_file_item *const item = weir_items_at(l, i);
        s = weir_save_read(l, item, buffer);
        s = s == WEIR_OK ? weir_output_add(o, buffer, (size_t)weir_save_bytes(item)) : s;
    }
    weir_host_free(buffer);
    return s;
}

weir_status weir_save_write(const weir_file_items *l, size_t n, const weir_note *note, size_t notes,
                            weir_output *o)
{
    WEIR_TRY(write_header(l, n, note, notes, o));
    return write_elements(l, n, o);
}

static weir_status save(weir_file_items *l, const char *path, const weir_note *note, size_t notes,
                        const weir_save_options *options)
{
    weir_output o;
    size_t      n;

    WEIR_TRY(weir_save_arrange(l, &n));
    WEIR_TRY(weir_output_begin(&o, l->what, path));
    const weir_status s = weir_save_write(l, n, note, notes, &o);
    if (s == WEIR_OK)
        return weir_output_finish(&o, options && options->keep_previous);
    weir_output_discard(&o);
    return s;
}

weir_status weir_model_save(const weir_model *m, const char *path,
                            const weir_save_options *options)
{
    const weir_note note = {"weir_format", "1"};
    weir_file_items l;
    weir_status     s = weir_items_of_model(&l, "model_save", m);

    s = s == WEIR_OK ? save(&l, path, &note, 1, options) : s;
    weir_items_free(&l);
    return s;
}

/* Adds a number to the notes. */
__attribute__((format(printf, 3, 4)))
static void add_number(weir_run_notes *l, const char *key, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(l->number[l->n], sizeof l->number[l->n], format, args);
    va_end(args);
    l->note[l->n] = (weir_note){key, l->number[l->n]};
    l->n++;
}

/* Adds the reader's place. */
static weir_status note_reader(weir_run_notes *l, const weir_batches *b)
{
    weir_batches_state at = {0};
    uint64_t           number[WEIR_READER_NUMBERS];

    if (!b)
        return WEIR_OK;
    WEIR_TRY(weir_batches_get_state(b, &at));
    weir_reader_numbers(&at, number);
    for (int i = 0; i < WEIR_READER_NUMBERS; i++)
        add_number(l, weir_reader_key[i], "%" PRIu64, number[i]);
    return WEIR_OK;
}

weir_status weir_run_notes_make(weir_run_notes *l, const weir_run *run)
{
    const weir_random random = weir_device_random(run->model->dev);

    l->n = 0;
    l->method[0] = '\0';
    if (run->step < 0)
        return weir_fail(WEIR_ERR_INVALID, "run_save: the step is %lld but must be 0 or more",
                         (long long)run->step);
    if (run->optim)
        weir_optim_method(run->optim, l->method);
    l->note[l->n++] = (weir_note){"weir_format", "1"};
    l->note[l->n++] = (weir_note){"weir_optim", l->method};
    add_number(l, "weir_position", "%" PRIu64, random.position);
    add_number(l, "weir_seed", "%" PRIu64, random.seed);
    add_number(l, "weir_step", "%" PRId64, run->step);
    return note_reader(l, run->batches);
}

weir_status weir_save_alone(const weir_run *run, const char *path,
                            const weir_save_options *options)
{
    weir_run_notes  notes;
    weir_file_items l;
    weir_status     s = weir_items_of_run(&l, "run_save", run);

    s = s == WEIR_OK ? weir_run_notes_make(&notes, run) : s;
    s = s == WEIR_OK ? save(&l, path, notes.note, notes.n, options) : s;
    weir_items_free(&l);
    return s;
}
