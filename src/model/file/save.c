/* save.c - writes the tensors of a model or a run to a safetensors file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/file/items.h"
#include "model/file/replace.h"

static uint64_t bytes_of(const weir_file_item *item)
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

/* The items that are saved, in the order of the file, at the front of l->list; *n is their number.
 */
static weir_status arrange(weir_file_items *l, size_t *n)
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
                                     .desc = item->desc, .begin = at, .end = at + bytes_of(item)};
        at = entry[i].end;
    }
    char *const            text = weir_header_write(entry, n, note, notes, &bytes);
    const weir_status      s = text ? weir_output_add(o, text, bytes) : weir_error_status();
    weir_host_free(text);
    weir_host_free(entry);
    return s;
}

static weir_status write_elements(const weir_file_items *l, size_t n, weir_output *o)
{
    uint64_t most = sizeof(double);

    for (size_t i = 0; i < n; i++)
        if (bytes_of(weir_items_at(l, i)) > most)
            most = bytes_of(weir_items_at(l, i));
    void *const buffer = weir_host_alloc((size_t)most);
    weir_status s = buffer ? WEIR_OK : weir_error_status();
    for (size_t i = 0; s == WEIR_OK && i < n; i++) {
        const weir_file_item *const item = weir_items_at(l, i);
        const size_t                bytes = (size_t)bytes_of(item);
        if (item->tensor)
            s = weir_read(item->tensor, buffer, bytes);
        else
            memcpy(buffer, &l->optim->rate, bytes);
        s = s == WEIR_OK ? weir_output_add(o, buffer, bytes) : s;
    }
    weir_host_free(buffer);
    return s;
}

static weir_status save(weir_file_items *l, const char *path, const weir_note *note, size_t notes,
                        const weir_save_options *options)
{
    weir_output o;
    size_t      n;

    WEIR_TRY(arrange(l, &n));
    WEIR_TRY(weir_output_begin(&o, l->what, path));
    weir_status s = write_header(l, n, note, notes, &o);
    s = s == WEIR_OK ? write_elements(l, n, &o) : s;
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

/* Adds the reader's place to the notes; text: where its numbers are written. */
static weir_status note_reader(const weir_batches *b, weir_note *note, size_t *n,
                               char text[WEIR_READER_NUMBERS][24])
{
    weir_batches_state at = {0};
    uint64_t           number[WEIR_READER_NUMBERS];

    if (!b)
        return WEIR_OK;
    WEIR_TRY(weir_batches_get_state(b, &at));
    weir_reader_numbers(&at, number);
    for (int i = 0; i < WEIR_READER_NUMBERS; i++) {
        snprintf(text[i], sizeof text[i], "%" PRIu64, number[i]);
        note[(*n)++] = (weir_note){weir_reader_key[i], text[i]};
    }
    return WEIR_OK;
}

weir_status weir_run_save(const weir_run *run, const char *path, const weir_save_options *options)
{
    char            step[24], seed[24], position[24], method[WEIR_METHOD_TEXT] = "";
    char            place[WEIR_READER_NUMBERS][24];
    weir_file_items l;
    weir_status     s = weir_items_of_run(&l, "run_save", run);

    if (s == WEIR_OK && run->step < 0)
        s = weir_fail(WEIR_ERR_INVALID, "run_save: the step is %lld but must be 0 or more",
                      (long long)run->step);
    if (s == WEIR_OK) {
        const weir_random random = weir_device_random(run->model->dev);
        snprintf(step, sizeof step, "%" PRId64, run->step);
        snprintf(seed, sizeof seed, "%" PRIu64, random.seed);
        snprintf(position, sizeof position, "%" PRIu64, random.position);
        if (run->optim)
            weir_optim_method(run->optim, method);
        enum { PLAIN = 5 };
        weir_note note[PLAIN + WEIR_READER_NUMBERS] = {{"weir_format", "1"},
                                                   {"weir_optim", method},
                                                   {"weir_position", position},
                                                   {"weir_seed", seed},
                                                   {"weir_step", step}};
        size_t    notes = PLAIN;
        s = note_reader(run->batches, note, &notes, place);
        s = s == WEIR_OK ? save(&l, path, note, notes, options) : s;
    }
    weir_items_free(&l);
    return s;
}
