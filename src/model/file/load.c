/* load.c - reads a safetensors file into a model or a run: all of it fits, or nothing changes. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/file/items.h"
#include "model/file/ranks.h"

/* What is being loaded. */
typedef struct loading {
    weir_file_items   items;
    weir_file_sources from;
    weir_comm        *comm;     /* ranks that load together, or not at all; NULL: this one alone */
    bool              partial;
    weir_load_counts  found;
} loading;

static weir_status finish(loading *l, weir_status s)
{
    weir_sources_close(&l->from);
    weir_items_free(&l->items);
    return s;
}

/* ---- what fits ---- */

static bool same(const weir_desc *a, const weir_file_entry *e)
{
    if (!e->known || a->dtype != e->desc.dtype || a->ndim != e->desc.ndim)
        return false;
    return a->ndim == 0 || memcmp(a->dim, e->desc.dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

/* Whether the file must have the item: it has another state of the parameter. */
static bool group_present(const weir_file_items *l, const weir_file_item *item)
{
    for (size_t i = 0; i < l->list.n; i++) {
        const weir_file_item *const other = l->list.at[i];
        if (other->kind == WEIR_FILE_PART && other->param == item->param && other->entry)
            return true;
    }
    return false;
}

static bool needed(const weir_file_items *l, const weir_file_item *item)
{
    return item->kind == WEIR_FILE_PLAIN || item->kind == WEIR_FILE_LR ||
           (item->kind == WEIR_FILE_PART && group_present(l, item));
}

/* Tensors of a run's file that a model does not have. */
static bool of_the_run(const loading *l, const weir_file_entry *e)
{
    static const char *const prefix[] = {"optim.", "scaler.", "program."};

    for (int i = 0; i < 3; i++)
        if (strncmp(e->name, prefix[i], strlen(prefix[i])) == 0)
            return !l->items.model && weir_sources_note(&l->from, "weir_step");
    return false;
}

enum { SHOWN = 3 };

/* A sentence of bounded length. */
typedef struct sentence {
    char   text[800];
    size_t n;
} sentence;

__attribute__((format(printf, 2, 3))) static void say(sentence *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(s->text + s->n, sizeof s->text - s->n, format, args);
    va_end(args);
    s->n = n > 0 && s->n + (size_t)n < sizeof s->text ? s->n + (size_t)n : sizeof s->text - 1;
}

/* "; 5 missing: a, b, c, ..." as names come one by one. */
static void list(sentence *s, size_t count, const char *kind, const char *name)
{
    if (count <= SHOWN)
        say(s, "%s%s '%.60s'", count > 1 ? "," : "; ", count > 1 ? "" : kind, name);
    else if (count == SHOWN + 1)
        say(s, ", ...");
}

static void list_different(sentence *s, size_t count, const weir_file_item *item)
{
    char here[WEIR_SHAPE_TEXT], there[WEIR_SHAPE_TEXT];

    if (count > SHOWN)
        return;
    weir_shape_text(&item->desc, weir_type_name(item->desc.dtype), here);
    weir_shape_text(&item->entry->desc, item->entry->type, there);
    say(s, "; '%.60s' is %.60s here and %.60s in the file", item->name, here, there);
}

/* ---- sums of micro-batches ----
 *
 * Between two updates they are 0, and their shapes depend on how many micro-batches a rank adds. So
 * those of another number of ranks are as good as none, if they are 0. */

static bool is_zero(weir_file_source *from, const weir_file_entry *e)
{
    const size_t         bytes = (size_t)(e->end - e->begin);
    unsigned char *const data = e->known ? weir_host_alloc(bytes + 1) : NULL;

    bool zero = data && weir_header_elements(&from->header, &from->file, e, data) == WEIR_OK;

    for (size_t i = 0; i < bytes && zero; i++)
        zero = data[i] == 0;
    weir_host_free(data);
    return zero;
}

static bool is_sum(const weir_file_entry *e)
{
    static const char end[] = ".sum";
    const size_t      n = strlen(e->name);

    return strcmp(e->name, "optim.summed") == 0 ||
           (strncmp(e->name, "optim.", 6) == 0 && n > sizeof end &&
            strcmp(e->name + n + 1 - sizeof end, end) == 0);
}

/* Counts the tensors of one file that nobody has taken. */
static void list_unexpected(loading *l, weir_file_source *from, sentence *s)
{
    for (size_t i = 0; i < from->header.entries; i++) {
        const weir_file_entry *const e = &from->header.entry[i];
        if (!e->taken && !of_the_run(l, e) && !(l->from.parts > 0 && weir_source_of_rank(e)) &&
            !(l->items.optim && is_sum(e) && is_zero(from, e)))
            list(s, ++l->found.unexpected, "not expected:", e->name);
    }
}

static weir_status match(loading *l)
{
    const weir_file_items *const items = &l->items;
    sentence                     s = {.text = ""};
    weir_load_counts *const      c = &l->found;

    for (size_t i = 0; i < items->list.n; i++) {
        weir_file_item *const item = items->list.at[i];
        if (!(item->entry = weir_sources_find(&l->from, item->name, &item->from)))
            continue;
        if (item->entry->taken)
            return weir_fail(WEIR_ERR_INVALID, "%s: two tensors are called '%.100s'", items->what,
                             item->name);
        item->entry->taken = true;
        if (same(&item->desc, item->entry))
            c->loaded++;
        else if (item->kind == WEIR_FILE_SUM && is_zero(item->from, item->entry))
            item->entry = NULL;
        else
            list_different(&s, ++c->different, item);
    }
    for (size_t i = 0; i < items->list.n; i++) {
        const weir_file_item *const item = items->list.at[i];
        if (!item->entry && needed(items, item))
            list(&s, ++c->missing, "missing in the file:", item->name);
    }
    list_unexpected(l, &l->from.main, &s);
    for (size_t r = 0; r < l->from.parts; r++)
        list_unexpected(l, &l->from.part[r], &s);
    if (l->partial || c->missing + c->unexpected + c->different == 0)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_IO, "%s: %.150s: %zu missing, %zu unexpected and %zu different "
                     "tensors%s", items->what, l->from.main.file.path, c->missing, c->unexpected,
                     c->different, s.text);
}

/* ---- reading ---- */

static weir_status read_item(const weir_file_item *item, void *to)
{
    return weir_header_elements(&item->from->header, &item->from->file, item->entry, to);
}

static bool fits(const weir_file_item *item)
{
    return item->entry && same(&item->desc, item->entry);
}

/* Reads everything once, so that a bad disk is found before anything changes. */
static weir_status try_items(loading *l, void *buffer)
{
    for (size_t i = 0; i < l->items.list.n; i++) {
        const weir_file_item *const item = l->items.list.at[i];
        double                      lr;
        if (!fits(item))
            continue;
        WEIR_TRY(read_item(item, buffer));
        if (item->kind != WEIR_FILE_LR)
            continue;
        memcpy(&lr, buffer, sizeof lr);
        if (!isfinite(lr))
            return weir_file_fail(&item->from->file, "the learning rate is %g but must be finite",
                                  lr);
    }
    return WEIR_OK;
}

/* Makes the states of the optimiser that the file has and no update has made yet. */
static weir_status make_states(const loading *l)
{
    for (size_t i = 0; i < l->items.list.n; i++) {
        weir_file_item *const item = l->items.list.at[i];
        if (!fits(item) || item->tensor || item->kind == WEIR_FILE_LR)
            continue;
        if (item->kind == WEIR_FILE_RATE) {
            if (!(item->tensor = weir_optim_lr(l->items.optim, item->desc.dtype)))
                return weir_error_status();
        } else {
            WEIR_TRY(weir_optim_make(l->items.optim, item->param, item->kind == WEIR_FILE_SUM));
        }
    }
    return WEIR_OK;
}

/* The tensor of an item, states that make_states made included. */
static weir_tensor *tensor_of(const loading *l, const weir_file_item *item)
{
    weir_part part[WEIR_PARTS];

    if (item->tensor || !item->param)
        return item->tensor;
    if (item->kind == WEIR_FILE_SUM)
        return weir_optim_find(l->items.optim, item->param)->sum;
    const int    n = weir_optim_parts(l->items.optim, item->param, part);
    const size_t head = strlen(item->name);
    for (int i = 0; i < n; i++) {
        const size_t tail = strlen(part[i].name);
        if (head > tail && strcmp(item->name + head - tail, part[i].name) == 0 &&
            item->name[head - tail - 1] == '.')
            return part[i].tensor;
    }
    return NULL;
}

static weir_status take_items(loading *l, void *buffer)
{
    for (size_t i = 0; i < l->items.list.n; i++) {
        const weir_file_item *const item = l->items.list.at[i];
        double                      lr;
        if (!fits(item)) {
            /* A file without the states of a parameter is from before its first update. */
            if (item->tensor && !item->entry && !l->partial &&
                (item->kind == WEIR_FILE_PART || item->kind == WEIR_FILE_SUM))
                WEIR_TRY(weir_write_fill(item->tensor,
                                         item->kind == WEIR_FILE_PART ? l->items.optim->first : 0));
            continue;
        }
        WEIR_TRY(read_item(item, buffer));
        if (item->kind == WEIR_FILE_LR) {
            memcpy(&lr, buffer, sizeof lr);
            WEIR_TRY(weir_optim_set_lr(l->items.optim, lr));
            continue;
        }
        weir_tensor *const t = tensor_of(l, item);
        WEIR_TRY(weir_write(t, buffer, weir_tensor_bytes(t)));
    }
    return WEIR_OK;
}

/* How reading has ended on this rank becomes how it has ended on all. */
static weir_status agree(const loading *l, weir_status s)
{
    return l->comm ? weir_ranks_verdict(l->comm, l->items.what, s) : s;
}

/* so_far: what was found before. Nothing changes unless all ranks have read all that is theirs. */
static weir_status take_all(loading *l, weir_status so_far)
{
    uint64_t most = 8;

    if (so_far != WEIR_OK)
        return agree(l, so_far);
    for (size_t i = 0; i < l->items.list.n; i++) {
        const weir_file_item *const item = l->items.list.at[i];
        if (fits(item) && item->entry->end - item->entry->begin > most)
            most = item->entry->end - item->entry->begin;
    }
    void *const buffer = weir_host_alloc((size_t)most);
    weir_status s = agree(l, buffer ? try_items(l, buffer) : weir_error_status());
    s = s == WEIR_OK ? make_states(l) : s;
    s = s == WEIR_OK ? take_items(l, buffer) : s;
    weir_host_free(buffer);
    return s;
}

/* ---- a model ---- */

weir_status weir_model_load(weir_model *m, const char *path, const weir_load_options *options)
{
    loading     l = {.partial = options && options->partial, .from.main.file.fd = -1};
    weir_status s = weir_items_of_model(&l.items, "model_load", m);

    s = s == WEIR_OK ? weir_sources_open(&l.from, l.items.what, path, 0) : s;
    s = s == WEIR_OK ? match(&l) : s;
    if (options && options->counts)
        *options->counts = l.found;
    return finish(&l, take_all(&l, s));
}

/* ---- a run ---- */

static weir_status check_method(const loading *l)
{
    const char *const there = weir_sources_note(&l->from, "weir_optim");
    char              here[WEIR_METHOD_TEXT] = "";

    if (l->items.optim)
        weir_optim_method(l->items.optim, here);
    if (there && strcmp(there, here) == 0)
        return WEIR_OK;
    return weir_file_fail(&l->from.main.file, "has the states of the optimiser '%.80s', the run's "
                          "is '%s'", there ? there : "", here);
}

/* The reader's place in the file. Numbers above 2^63 - 1 are negative in it, which no reader takes.
 */
static weir_status reader_place(const loading *l, const weir_run *run, weir_batches_state *at)
{
    uint64_t   n[WEIR_READER_NUMBERS] = {0};
    const bool there = weir_sources_note(&l->from, weir_reader_key[0]);

    if (there != (run->batches != NULL))
        return weir_file_fail(&l->from.main.file, "%s",
                              there ? "has the place of a reader of batches, but the run has no "
                                      "reader"
                                    : "has no place of a reader of batches, but the run has a "
                                      "reader");
    for (int i = 0; there && i < WEIR_READER_NUMBERS; i++)
        WEIR_TRY(weir_sources_number(&l->from, weir_reader_key[i], &n[i]));
    for (int i = WEIR_READER_NUMBERS - 2; i < WEIR_READER_NUMBERS; i++)
        if (n[i] > 1)
            return weir_file_fail(&l->from.main.file, "%s is %" PRIu64 ", not 0 or 1",
                                  weir_reader_key[i], n[i]);
    weir_reader_place(n, at);
    return WEIR_OK;
}

/* Moves the run's reader; *before is where it was. */
static weir_status move_reader(const loading *l, const weir_run *run, weir_batches_state *before)
{
    weir_batches_state at = {0};

    WEIR_TRY(reader_place(l, run, &at));
    if (!run->batches)
        return WEIR_OK;
    WEIR_TRY(weir_batches_get_state(run->batches, before));
    if (weir_batches_set_state(run->batches, &at) == WEIR_OK)
        return WEIR_OK;
    return weir_file_fail(&l->from.main.file, "the place of the reader of batches does not fit: %s",
                          weir_error());
}

/* Opens the file, and reads and checks the numbers of the run. */
static weir_status begin_run(loading *l, const char *path, uint64_t *step, weir_random *random)
{
    WEIR_TRY(weir_sources_open(&l->from, l->items.what, path, weir_comm_rank(l->comm)));
    WEIR_TRY(weir_sources_number(&l->from, "weir_step", step));
    WEIR_TRY(weir_sources_number(&l->from, "weir_seed", &random->seed));
    WEIR_TRY(weir_sources_number(&l->from, "weir_position", &random->position));
    if (*step > INT64_MAX)
        return weir_file_fail(&l->from.main.file, "the step %" PRIu64 " is above 2^63 - 1", *step);
    WEIR_TRY(check_method(l));
    return match(l);
}

weir_status weir_run_load(weir_run *run, const char *path)
{
    loading     l = {.from.main.file.fd = -1, .comm = run ? run->comm : NULL};
    uint64_t    step = 0;
    weir_random random = {0};
    weir_batches_state before = {0};
    weir_status s = weir_items_of_run(&l.items, "run_load", run);

    s = s == WEIR_OK ? begin_run(&l, path, &step, &random) : s;
    const bool moved = s == WEIR_OK && (s = move_reader(&l, run, &before)) == WEIR_OK;
    s = take_all(&l, s);
    s = s == WEIR_OK ? weir_device_set_random(run->model->dev,
                                              weir_optim_random(run->optim, random)) : s;
    if (s == WEIR_OK)
        run->step = (int64_t)step;
    else if (moved && run->batches)
        (void)weir_batches_set_state(run->batches, &before);
    return finish(&l, s);
}
