/* recorded.c - writes a recording as lines of text: its views of storages and its calls. */
#include "graph/report/recorded.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/attr.h"
#include "core/status.h"
#include "graph/ops/saved_call.h"
#include "weir/callback.h"

void weir_recorded_free(weir_recorded_step *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->bound.n; i++) {
        weir_mem_free(r->bound.at[i].name);
        weir_release(r->bound.at[i].tensor);
    }
    weir_vec_free(&r->bound);
    weir_vec_free(&r->list);
    weir_vec_free(&r->made);
    weir_mem_free(r->body.at);
    weir_mem_free(r);
}

/* What is known while the lines are written: numbers of storages and values in the text, WEIR_NONE
 * before they have one. */
typedef struct writer {
    weir_graph    *g;
    weir_recorded_step *r;
    uint32_t      *storage, *value;
    uint32_t      *path, *called;   /* numbers of paths, by position, and of the program's calls */
    uint32_t       storages, paths, calls;
    uint32_t       region, segment; /* lowest numbers in use: the text counts from 1 */
} writer;

/* ---- lines ---- */

const char *const weir_name_mark_word[] = {[WEIR_NAME_CALL] = "for", [WEIR_NAME_GRAD] = "grad",
                                           [WEIR_NAME_RECOMPUTE] = "recompute"};

/* Control characters and %. */
static const char escaped[] =
    "\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16"
    "\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f%\x7f";

/* A line under construction. Calls have at most 8 inputs, 4 results of 8 axes and WEIR_SAVED_WORDS
 * attributes, all numbers of at most 20 digits. */
typedef struct line {
    char   text[4096];
    size_t n;
} line;

static void add_text(line *l, const char *text)
{
    const size_t n = strlen(text);

    if (l->n + n < sizeof l->text) {
        memcpy(l->text + l->n, text, n + 1);
        l->n += n;
    }
}

/* Without snprintf: this is done for every recording. */
static void add_number(line *l, uint64_t v)
{
    char  digits[24];
    char *p = digits + sizeof digits - 1;

    *p = '\0';
    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    add_text(l, p);
}

static void add_whole(line *l, int64_t v)
{
    if (v < 0)
        add_text(l, "-");
    add_number(l, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* The bits of a double, "x" and 16 digits. */
static void add_bits(line *l, uint64_t bits)
{
    char text[18] = "x";

    for (int i = 0; i < 16; i++)
        text[1 + i] = "0123456789abcdef"[bits >> (60 - 4 * i) & 15];
    text[17] = '\0';
    add_text(l, text);
}

static void add_list(line *l, int n, const int64_t *v)
{
    add_text(l, "[");
    for (int i = 0; i < n; i++) {
        add_text(l, i ? "," : "");
        add_whole(l, v[i]);
    }
    add_text(l, "]");
}

static void add_layout(line *l, const weir_layout *layout)
{
    weir_layout dense = {.desc = layout->desc};

    add_text(l, weir_dtype_name(layout->desc.dtype));
    add_list(l, layout->desc.ndim, layout->desc.dim);
    weir_shape_dense(&dense);
    if (memcmp(dense.stride, layout->stride, (size_t)layout->desc.ndim * sizeof(int64_t)) == 0)
        return;
    add_text(l, "/");
    add_list(l, layout->desc.ndim, layout->stride);
}

void weir_recorded_layout(weir_string *s, const weir_layout *l)
{
    line one = {.n = 0};

    add_layout(&one, l);
    weir_string_add(s, "%s", one.text);
}

/* ---- views and calls ---- */

/* Writes "view STORAGE OFFSET LAYOUT" and returns the number of the value. */
static uint32_t write_view(weir_recorded_step *r, uint32_t storage, int64_t offset,
                           const weir_layout *layout)
{
    line l = {.n = 0};

    add_text(&l, "view ");
    add_number(&l, storage);
    add_text(&l, " ");
    add_whole(&l, offset);
    add_text(&l, " ");
    add_layout(&l, layout);
    weir_string_add(&r->body, "%s\n", l.text);
    return r->values++;
}

static uint32_t value_of(writer *w, uint32_t v)
{
    const weir_value *const value = &w->g->values.at[v];

    if (w->value[v] == WEIR_NONE)
        w->value[v] = write_view(w->r, w->storage[value->storage], value->offset, &value->layout);
    return w->value[v];
}

static void add_attr(line *l, const weir_node *n, const char *letters)
{
    add_text(l, " ");
    add_number(l, n->attr_bytes / 8);
    for (size_t i = 0; letters[i]; i++) {
        uint64_t word;
        memcpy(&word, (const char *)n->attr + 8 * i, sizeof word);
        add_text(l, " ");
        if (letters[i] == 'f')
            add_bits(l, word);
        else
            add_whole(l, (int64_t)word);
    }
}

/* The letters of the node's attributes; NULL, and a note of its name, if no file holds it. */
static const char *letters_of(writer *w, const weir_node *n)
{
    const char *const letters = weir_saved_attr(n->op);

    if (letters && strlen(letters) * 8 == n->attr_bytes && strlen(letters) <= WEIR_SAVED_WORDS)
        return letters;
    if (!w->r->refused) {
        const bool own = n->op == WEIR_OP_CALLBACK || n->op == WEIR_OP_CALLBACK_GRAD;
        const weir_callback_attr *const a = own ? n->attr : NULL;
        const weir_callback_def *const def =
            own ? (const weir_callback_def *)(uintptr_t)a->def : NULL;
        w->r->refused = def && def->name ? def->name : n->def->name;
    }
    return NULL;
}

/* Appends the text with a newline. It ends a line, so only characters that end one, and the sign of
 * this escape, are escaped. */
void weir_recorded_text(weir_string *s, const char *text)
{
    for (size_t n; text[n = strcspn(text, escaped)]; text += n + 1)
        weir_string_add(s, "%.*s%%%02x", (int)n, text, (unsigned)(unsigned char)text[n]);
    weir_string_add(s, "%s\n", text);
}

/* The number of the path with this position, 0 for "". */
static uint32_t path_of(writer *w, uint32_t at)
{
    const char *const path = w->g->names.text.at + at;

    if (!*path || w->path[at] != WEIR_NONE)
        return *path ? w->path[at] : 0;
    weir_string_add(&w->r->body, "scope ");
    weir_recorded_text(&w->r->body, path);
    return w->path[at] = ++w->paths;
}

/* Appends which call of the program the node stands for, and how. */
static void add_origin(writer *w, line *l, const weir_node *n)
{
    const weir_names *const names = &w->g->names;

    if (n->name.n != 1)
        return;
    const uint32_t              use = names->uses.at[n->name.first], i = use >> 2;
    const weir_call_name *const c = &names->calls.at[i];
    if (w->called[i] == WEIR_NONE) {
        line           one = {.n = 0};
        const uint32_t path = path_of(w, c->path);
        add_text(&one, "called ");
        add_text(&one, c->def->name);
        add_text(&one, " ");
        add_number(&one, c->number);
        add_text(&one, " ");
        add_number(&one, path);
        weir_string_add(&w->r->body, "%s\n", one.text);
        w->called[i] = w->calls++;
    }
    add_text(l, " ");
    add_text(l, weir_name_mark_word[use & 3]);
    add_text(l, " ");
    add_number(l, w->called[i]);
}

/* Names that the program gave to results; those that are kept have theirs as outputs. */
static void write_names(writer *w, const weir_node *n)
{
    for (int i = 0; i < n->nout; i++) {
        const uint32_t    storage = weir_storage_of(w->g, n->out[i]);
        const char *const name = weir_storage_name(w->g, storage);
        if (!*name || w->g->storages.at[storage].made)
            continue;
        weir_string_add(&w->r->body, "name %u ", w->storage[storage]);
        weir_recorded_text(&w->r->body, name);
    }
}

/* call OP PHASE REGION SEGMENT RANDOM, counted lists of inputs, results and attributes, and which
 * call of the program it is for. */
static void write_call(writer *w, const weir_node *n)
{
    const char *const letters = letters_of(w, n);
    line              l = {.n = 0};

    if (!letters)
        return;
    uint32_t in[WEIR_EW_MAX_IN];
    for (int i = 0; i < n->nin; i++)
        in[i] = value_of(w, n->in[i]);
    const uint64_t head[] = {n->region ? n->region - w->region + 1 : 0,
                             n->segment ? n->segment - w->segment + 1 : 0, n->rng, n->nin};
    add_text(&l, "call ");
    add_text(&l, weir_op_name(n->op));
    add_text(&l, " ");
    add_text(&l, weir_phase_name[n->phase]);
    for (int i = 0; i < 4; i++) {
        add_text(&l, " ");
        add_number(&l, head[i]);
    }
    for (int i = 0; i < n->nin; i++) {
        add_text(&l, " ");
        add_number(&l, in[i]);
    }
    add_text(&l, " ");
    add_number(&l, n->nout);
    for (int i = 0; i < n->nout; i++) {
        w->storage[weir_storage_of(w->g, n->out[i])] = w->storages++;
        w->value[n->out[i]] = w->r->values++;
        add_text(&l, " ");
        add_layout(&l, &w->g->values.at[n->out[i]].layout);
    }
    add_attr(&l, n, letters);
    add_origin(w, &l, n);
    weir_string_add(&w->r->body, "%s\n", l.text);
    write_names(w, n);
}

/* ---- storages from outside, and results that are kept ---- */

static weir_role role_of(const weir_storage *s)
{
    return s->kind == WEIR_KIND_PARAM   ? WEIR_ROLE_PARAM
           : s->kind == WEIR_KIND_INPUT ? WEIR_ROLE_INPUT
                                        : WEIR_ROLE_STATE;
}

/* A handle of the whole storage, with the shape of the tensor that it was made for, though the
 * program passed views of it; failing that the elements one after the other, as they are in
 * memory. */
static weir_tensor *whole_of(weir_graph *g, uint32_t storage)
{
    const weir_storage *const s = &g->storages.at[storage];
    weir_layout               l = {.desc = g->values.at[s->values].layout.desc};
    const weir_dtype          t = l.desc.dtype;
    const weir_block *const   b = s->block;

    if (s->handle && !(b->shaped && !weir_desc_equal(&s->handle->layout.desc, &b->desc)))
        return weir_retain(s->handle);
    l.desc = b->shaped && b->desc.dtype == t
                 ? b->desc : weir_1d(t, (int64_t)(s->bytes / weir_dtype_size(t)));
    weir_shape_dense(&l);
    return weir_tensor_make(g->dev, &l, 0, s->block);
}

static weir_status add_external(writer *w, uint32_t storage)
{
    const weir_storage *const s = &w->g->storages.at[storage];

    if (!s->external || s->made || w->storage[storage] != WEIR_NONE)
        return WEIR_OK;
    const weir_bound_tensor b = {.role = role_of(s), .tensor = whole_of(w->g, storage)};
    if (!b.tensor)
        return weir_error_status();
    if (!weir_vec_push(&w->r->bound, b)) {
        weir_release(b.tensor);
        return WEIR_ERR_NOMEM;
    }
    w->storage[storage] = w->storages++;
    w->r->externals++;
    return WEIR_OK;
}

/* The storage of a block in the graph; WEIR_NONE if it has none. */
static uint32_t storage_of(const weir_graph *g, const weir_block *b)
{
    if (b->storage < g->storages.n && g->storages.at[b->storage].block == b)
        return b->storage;
    for (uint32_t i = 0; i < g->storages.n; i++)
        if (g->storages.at[i].block == b)
            return i;
    return WEIR_NONE;
}

static bool views(const weir_value *v, const weir_tensor *t)
{
    return v->offset == t->offset && weir_desc_equal(&v->layout.desc, &t->layout.desc) &&
           memcmp(v->layout.stride, t->layout.stride,
                  (size_t)t->layout.desc.ndim * sizeof *t->layout.stride) == 0;
}

/* The number in the text of the value that t is: of the graph, of an earlier output, or a view that
 * nothing in the graph reads. */
static uint32_t output_value(writer *w, uint32_t storage, const weir_tensor *t)
{
    uint32_t v = w->g->storages.at[storage].values;

    while (v != WEIR_NONE && !views(&w->g->values.at[v], t))
        v = w->g->values.at[v].next;
    if (v != WEIR_NONE)
        return value_of(w, v);
    for (uint32_t i = w->r->externals; i < w->r->bound.n; i++) {
        const weir_tensor *const other = w->r->bound.at[i].tensor;
        const weir_value         of = {.layout = other->layout, .offset = other->offset};
        if (other->block == t->block && views(&of, t))
            return w->r->bound.at[i].value;
    }
    return write_view(w->r, w->storage[storage], t->offset, &t->layout);
}

static weir_status add_output(writer *w, weir_tensor *t)
{
    const uint32_t storage = t->block ? storage_of(w->g, t->block) : WEIR_NONE;

    if (storage == WEIR_NONE || w->storage[storage] == WEIR_NONE)
        return WEIR_OK;         /* computed or made outside, and not used inside */
    const weir_bound_tensor b = {.role = WEIR_ROLE_OUTPUT, .tensor = t,
                          .value = output_value(w, storage, t)};
    if (!weir_vec_push(&w->r->bound, b))
        return WEIR_ERR_NOMEM;
    weir_retain(t);
    return WEIR_OK;
}

weir_bound_tensor *weir_recorded_output(weir_recorded_step *r, weir_tensor *t)
{
    uint32_t i = 0;

    while (i < r->made.n && r->made.at[i].block != t->block)
        i++;
    if (!t->block || i == r->made.n || !weir_vec_reserve(&r->bound, r->bound.n + 1))
        return NULL;
    weir_bound_tensor *const b = &r->bound.at[r->bound.n];
    *b = (weir_bound_tensor){.role = WEIR_ROLE_OUTPUT, .tensor = t,
                             .value = write_view(r, r->made.at[i].storage, t->offset, &t->layout)};
    if (r->body.failed)
        return NULL;
    r->bound.n++;
    weir_retain(t);
    return b;
}

/* ---- the whole recording ---- */

/* Counts the calls that only training makes, once each: not those of gradients and of second runs
 * of a checkpoint. */
static void note_training(weir_graph *g, const weir_node *n)
{
    const bool once = n->phase == WEIR_FORWARD && n->segment == 0;

    g->dropouts += once && n->op == WEIR_OP_DROPOUT;
    g->batch_statistics += once && n->op == WEIR_OP_BN_STATS;
    g->trains |= n->phase != WEIR_FORWARD;
}

static weir_status collect(writer *w)
{
    for (uint32_t i = 0; i < w->g->nodes.n; i++) {
        const weir_node *const n = &w->g->nodes.at[i];
        if (n->dead)
            continue;
        note_training(w->g, n);
        if (n->region && n->region < w->region)
            w->region = n->region;
        if (n->segment && n->segment < w->segment)
            w->segment = n->segment;
        for (int k = 0; k < n->nin; k++)
            WEIR_TRY(add_external(w, weir_storage_of(w->g, n->in[k])));
    }
    return WEIR_OK;
}

static weir_status write_all(writer *w)
{
    weir_graph *const g = w->g;

    WEIR_TRY(collect(w));
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (!g->nodes.at[i].dead)
            write_call(w, &g->nodes.at[i]);
    for (uint32_t i = 0; i < g->kept.n && !w->r->refused; i++)
        WEIR_TRY(add_output(w, g->kept.at[i]));
    for (uint32_t i = 0; i < g->storages.n; i++) {
        const weir_lasting made = {g->storages.at[i].block, w->storage[i]};
        if (g->storages.at[i].made && made.storage != WEIR_NONE &&
            !weir_vec_push(&w->r->made, made))
            return WEIR_ERR_NOMEM;
    }
    return w->r->body.failed ? WEIR_ERR_NOMEM : WEIR_OK;
}

weir_status weir_recorded_make(weir_graph *g)
{
    const size_t n[] = {g->storages.n, g->values.n, g->names.calls.n, g->names.text.n};
    const size_t all = n[0] + n[1] + n[2] + n[3];
    writer       w = {.g = g, .r = weir_mem_zalloc(1, sizeof *w.r), .region = WEIR_NONE,
                      .segment = WEIR_NONE};

    if (!w.r)
        return WEIR_ERR_NOMEM;
    g->form = w.r;
    w.r->random = g->rng_total;
    w.storage = weir_mem_alloc((all + 1) * sizeof *w.storage);
    if (!w.storage)
        return WEIR_ERR_NOMEM;
    memset(w.storage, 0xff, all * sizeof *w.storage);
    w.value = w.storage + n[0];
    w.called = w.value + n[1];
    w.path = w.called + n[2];
    const weir_status s = write_all(&w);
    weir_mem_free(w.storage);
    return s;
}
