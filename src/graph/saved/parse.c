/* parse.c - makes a graph from its text, which may come from anywhere.
 *
 * Lines are read once, from the first to the last. A line names only storages and values of lines
 * before it, so the list of calls is an execution order and no cycle can be said. Nothing is
 * allocated by a number of the text: memory grows with its lines. */
#include "graph/saved/saved.h"
#include "graph/saved/words.h"

#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/status.h"
#include "graph/compile/compile.h"
#include "graph/ir/session.h"
#include "graph/ir/tensor_name.h"
#include "graph/ops/saved_call.h"
#include "graph/report/recorded.h"

/* Bytes of all storages together: far above any memory, far below an overflow of sums. */
#define MOST_BYTES ((size_t)1 << 46)

/* The graph's storage, and what all its views must have. */
typedef struct place {
    uint32_t   storage;
    weir_dtype dtype;
} place;

typedef struct reader {
    weir_words  w;
    weir_graph *g;
    size_t      bytes;          /* of all storages so far */
    WEIR_VEC(place)    storages;        /* by number in the text */
    WEIR_VEC(uint32_t) values;          /* of the graph, by number in the text */
    WEIR_VEC(const char *) names;       /* of tensors, borrowed from these */
    WEIR_VEC(uint32_t) paths;           /* positions of name scopes, by number less 1 */
} reader;

/* ---- storages and views ---- */

static weir_status count_bytes(reader *r, size_t bytes)
{
    if (weir_size_add(r->bytes, bytes, &r->bytes) && r->bytes <= MOST_BYTES)
        return WEIR_OK;
    return WEIR_MISTAKE(r, "the tensors have more than 2^46 bytes", r->w.line);
}

/* Makes a tensor over the block, named, and notes its name. The first tensor that covers the block
 * names it too, as weir_set_name does. */
static weir_tensor *make_tensor(reader *r, const weir_layout *l, int64_t offset, weir_block *b,
                                const char *name)
{
    weir_tensor *const t = b ? weir_tensor_make(r->g->dev, l, offset, b) : NULL;
    char **const       own = t && weir_tensor_is_whole(t) && !b->name ? &b->name
                             : t                                      ? &t->name
                                                                      : NULL;

    if (t && (!(*own = weir_mem_strdup(name)) || !weir_vec_push(&r->names, *own))) {
        weir_release(t);
        return NULL;
    }
    return t;
}

static weir_status read_external(reader *r, weir_role role)
{
    static const weir_kind kind[] = {[WEIR_ROLE_INPUT] = WEIR_KIND_INPUT,
                                     [WEIR_ROLE_PARAM] = WEIR_KIND_PARAM,
                                     [WEIR_ROLE_STATE] = WEIR_KIND_STATE};
    weir_layout l;
    char        name[WEIR_BINDING_NAME + 1];

    WEIR_TRY(weir_words_layout(&r->w, &l));
    WEIR_TRY(weir_words_name(&r->w, name));
    if (!weir_shape_is_dense(&l))
        return WEIR_MISTAKE(r, "'%.60s' is not dense", r->w.line, name);
    WEIR_TRY(count_bytes(r, weir_shape_bytes(&l.desc)));
    weir_block *const  b = weir_block_new(r->g->dev, weir_shape_bytes(&l.desc), kind[role]);
    weir_tensor *const t = make_tensor(r, &l, 0, b, name);
    if (b) {
        b->desc = l.desc;
        b->shaped = true;
    }
    const uint32_t     storage = t ? weir_graph_storage_of(r->g, b) : WEIR_NONE;
    weir_ref_drop(b);
    if (storage == WEIR_NONE) {
        weir_release(t);
        return weir_error_status();
    }
    r->g->storages.at[storage].handle = t;
    return weir_vec_push(&r->storages, (place){storage, l.desc.dtype}) ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Does the view stay within `bytes` bytes? */
static bool is_inside(const weir_layout *l, int64_t offset, size_t bytes)
{
    int64_t last = offset, span;

    for (int i = 0; i < l->desc.ndim; i++) {
        if (l->desc.dim[i] == 0)
            return true;
        if (__builtin_mul_overflow(l->desc.dim[i] - 1, l->stride[i], &span) ||
            __builtin_add_overflow(last, span, &last))
            return false;
    }
    return last < (int64_t)(bytes / weir_dtype_size(l->desc.dtype));
}

static weir_status add_value(reader *r, uint32_t v)
{
    return v != WEIR_NONE && weir_vec_push(&r->values, v) ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status read_view(reader *r)
{
    int64_t     number, offset;
    weir_layout l;

    WEIR_TRY(weir_words_whole(&r->w, 0, (int64_t)r->storages.n - 1, &number));
    WEIR_TRY(weir_words_whole(&r->w, 0, INT64_MAX / 2, &offset));
    WEIR_TRY(weir_words_layout(&r->w, &l));
    WEIR_TRY(weir_words_end(&r->w));
    const place *const p = &r->storages.at[number];
    if (l.desc.dtype != p->dtype)
        return WEIR_MISTAKE(r, "a view as %s of elements of %s", r->w.line,
                            weir_dtype_name(l.desc.dtype),
                       weir_dtype_name(p->dtype));
    if (!is_inside(&l, offset, r->g->storages.at[p->storage].bytes))
        return WEIR_MISTAKE(r, "the view ends outside its storage of %zu bytes", r->w.line,
                       r->g->storages.at[p->storage].bytes);
    return add_value(r, weir_graph_value_of(r->g, p->storage, &l, offset));
}

/* ---- calls ---- */

/* A call as the line says it. */
typedef struct said {
    weir_call   call;
    weir_phase  phase;
    int64_t     region, segment, random;
    uint32_t    value[WEIR_MAX_IN];
    weir_layout in[WEIR_MAX_IN], out[WEIR_MAX_OUT];
    weir_layout said[WEIR_MAX_OUT];     /* results, by the line */
    int64_t     nout;
    int64_t     attr[WEIR_SAVED_WORDS];
    weir_name_mark mark;
    int64_t     called;     /* the program's call that it is for; -1: none */
} said;

static weir_status read_head(reader *r, said *s)
{
    char    word[WEIR_WORD];
    int64_t nin;

    weir_words_word(&r->w, word);
    s->call.op = weir_saved_op(word);
    if (s->call.op == WEIR_OP_COUNT || !weir_saved_attr(s->call.op))
        return WEIR_MISTAKE(r, "%s operation '%s'", r->w.line,
                       s->call.op == WEIR_OP_COUNT ? "unknown" : "a file cannot hold the", word);
    s->call.def = weir_opdef_of(s->call.op);
    weir_words_word(&r->w, word);
    while (s->phase < WEIR_PHASE_COUNT && strcmp(weir_phase_name[s->phase], word) != 0)
        s->phase++;
    if (s->phase == WEIR_PHASE_COUNT)
        return WEIR_MISTAKE(r, "unknown phase '%s' (expected forward, backward or update)",
                            r->w.line,
                       word);
    WEIR_TRY(weir_words_whole(&r->w, 0, INT32_MAX, &s->region));
    WEIR_TRY(weir_words_whole(&r->w, 0, INT32_MAX, &s->segment));
    WEIR_TRY(weir_words_whole(&r->w, 0, INT64_MAX, &s->random));
    WEIR_TRY(weir_words_whole(&r->w, s->call.def->nin_min, s->call.def->nin_max, &nin));
    s->call.nin = (int)nin;
    return WEIR_OK;
}

static weir_status read_operands(reader *r, said *s)
{
    int64_t v;

    for (int i = 0; i < s->call.nin; i++) {
        WEIR_TRY(weir_words_whole(&r->w, 0, (int64_t)r->values.n - 1, &v));
        s->value[i] = r->values.at[v];
        s->in[i] = r->g->values.at[s->value[i]].layout;
        if (!weir_op_takes(s->call.def, i, &s->in[i]))
            return WEIR_MISTAKE(r, "input %d of %s must be dense", r->w.line, i, s->call.def->name);
    }
    WEIR_TRY(weir_words_whole(&r->w, 0, WEIR_MAX_OUT, &s->nout));
    for (int i = 0; i < s->nout; i++)
        WEIR_TRY(weir_words_layout(&r->w, &s->said[i]));
    return WEIR_OK;
}

static weir_status read_attr(reader *r, said *s)
{
    const char *const letters = weir_saved_attr(s->call.op);
    const int64_t     n = (int64_t)strlen(letters);
    int64_t           words;

    WEIR_TRY(weir_words_whole(&r->w, n, n, &words));
    for (int64_t i = 0; i < n; i++)
        WEIR_TRY(letters[i] == 'f' ? weir_words_bits(&r->w, &s->attr[i])
                                   : weir_words_whole(&r->w, INT64_MIN, INT64_MAX, &s->attr[i]));
    s->call.attr_bytes = (size_t)n * 8;
    s->call.attr = n ? s->attr : NULL;
    return WEIR_OK;
}

/* Which call of the program it is for: the end of the line, empty in files that lack names. */
static weir_status read_origin(reader *r, said *s)
{
    char word[WEIR_WORD];

    s->called = -1;
    weir_words_word(&r->w, word);
    if (!*word)
        return weir_words_end(&r->w);
    for (s->mark = WEIR_NAME_CALL; strcmp(word, weir_name_mark_word[s->mark]) != 0;)
        if (s->mark++ == WEIR_NAME_RECOMPUTE)
            return WEIR_MISTAKE(r, "unknown word '%s' (expected for, grad or recompute)",
                                r->w.line, word);
    WEIR_TRY(weir_words_whole(&r->w, 0, (int64_t)r->g->names.calls.n - 1, &s->called));
    return weir_words_end(&r->w);
}

/* As record.c checks an input that is overwritten. */
static weir_status check_mutated(const reader *r, const said *s, int i)
{
    const weir_graph *const   g = r->g;
    const weir_value *const   v = &g->values.at[s->value[i]];
    const weir_storage *const st = &g->storages.at[v->storage];

    if (!st->external || v->offset != 0 || weir_shape_bytes(&v->layout.desc) != st->bytes ||
        !weir_shape_is_dense(&v->layout))
        return WEIR_MISTAKE(r, "%s updates input %d in place, which must be all of a parameter, "
                            "state or "
                       "input", r->w.line, s->call.def->name, i);
    for (int k = 0; k < s->call.nin; k++)
        if (k != i && g->values.at[s->value[k]].storage == v->storage)
            return WEIR_MISTAKE(r, "inputs %d and %d of %s share memory, and input %d is updated "
                                "in "
                           "place", r->w.line, i, k, s->call.def->name, i);
    return WEIR_OK;
}

/* Infers the results and compares them with what the line says. */
static weir_status check_call(const reader *r, said *s)
{
    char have[WEIR_DESC_TEXT], want[WEIR_DESC_TEXT];

    for (int i = 0; i < s->call.nin; i++)
        if (s->call.def->mutates >> i & 1)
            WEIR_TRY(check_mutated(r, s, i));
    s->call.in = s->in;
    s->call.out = s->out;
    s->call.nout = s->call.def->nout;
    s->call.alias = -1;
    if (weir_saved_check(&s->call) != WEIR_OK || s->call.def->infer(&s->call) != WEIR_OK)
        return weir_error_status() == WEIR_ERR_NOMEM ? WEIR_ERR_NOMEM
                                                     : WEIR_MISTAKE(r, "%s", r->w.line,
                                                                    weir_error());
    if (s->call.alias >= 0 || s->call.nout != s->nout)
        return WEIR_MISTAKE(r, "%s %s", r->w.line, s->call.def->name,
                       s->call.alias >= 0 ? "is a view here, no call" : "has another number of "
                                                                        "results");
    for (int i = 0; i < s->nout; i++) {
        if (weir_shape_check(s->call.def->name, &s->out[i].desc) != WEIR_OK)
            return WEIR_MISTAKE(r, "%s", r->w.line, weir_error());
        if (!weir_desc_equal(&s->out[i].desc, &s->said[i].desc) ||
            !weir_shape_is_dense(&s->said[i]))
            return WEIR_MISTAKE(r, "%s returns %s, not %s", r->w.line, s->call.def->name,
                           weir_desc_text(&s->out[i].desc, want),
                           weir_desc_text(&s->said[i].desc, have));
    }
    return WEIR_OK;
}

/* A draw lies within the numbers that a run reserves; other calls have position 0. */
static weir_status check_random(const reader *r, const said *s)
{
    const bool     draws = s->call.def->flags & WEIR_RANDOM;
    const uint64_t blocks = draws ? weir_rng_blocks(weir_shape_count(&s->out[0].desc)) : 0;
    const uint64_t from = (uint64_t)s->random;

    if (draws ? from <= r->g->rng_total && blocks <= r->g->rng_total - from : from == 0)
        return WEIR_OK;
    return WEIR_MISTAKE(r, "%s draws %llu blocks of random numbers from %llu on, of %llu in all",
                   r->w.line, s->call.def->name, (unsigned long long)blocks,
                   (unsigned long long)from, (unsigned long long)r->g->rng_total);
}

static weir_status add_results(reader *r, const said *s, uint32_t id)
{
    weir_graph *const g = r->g;

    for (int i = 0; i < s->nout; i++) {
        const size_t bytes = weir_shape_bytes(&s->out[i].desc);
        WEIR_TRY(count_bytes(r, bytes));
        const uint32_t storage = weir_graph_storage_new(
            g, bytes, s->phase == WEIR_FORWARD ? WEIR_KIND_ACTIVATION : WEIR_KIND_GRADIENT);
        if (storage == WEIR_NONE ||
            !weir_vec_push(&r->storages, (place){storage, s->out[i].desc.dtype}))
            return WEIR_ERR_NOMEM;
        const uint32_t v = weir_graph_value_of(g, storage, &s->out[i], 0);
        WEIR_TRY(add_value(r, v));
        weir_node *const n = &g->nodes.at[id];
        n->out[n->nout++] = v;
    }
    return WEIR_OK;
}

static weir_status read_call(reader *r)
{
    said        s = {.phase = WEIR_FORWARD};
    weir_graph *g = r->g;

    WEIR_TRY(read_head(r, &s));
    WEIR_TRY(read_operands(r, &s));
    WEIR_TRY(read_attr(r, &s));
    WEIR_TRY(read_origin(r, &s));
    WEIR_TRY(check_call(r, &s));
    WEIR_TRY(check_random(r, &s));
    weir_node *const n = weir_graph_node_new(g, &s.call);
    if (!n)
        return WEIR_ERR_NOMEM;
    n->phase = s.phase;
    n->region = (uint32_t)s.region;
    n->segment = (uint32_t)s.segment;
    n->rng = (uint64_t)s.random;
    bool named = true;
    if (s.called >= 0)
        n->name = weir_names_use(&g->names, (uint32_t)s.called, s.mark, &named);
    if (!named)
        return WEIR_ERR_NOMEM;
    n->nin = (uint8_t)s.call.nin;
    for (int i = 0; i < s.call.nin; i++) {
        weir_storage *const st = weir_storage_at(g, s.value[i]);
        n->in[i] = s.value[i];
        if (s.call.def->mutates >> i & 1) {
            st->changed = ++g->dev->changes;
            st->changed_by = s.call.def->name;
        }
    }
    return add_results(r, &s, g->nodes.n - 1);
}

/* ---- names ---- */

static weir_status read_scope(reader *r)
{
    char       *path;
    weir_status s = weir_words_text(&r->w, &path);
    uint32_t    at = 0;

    if (s == WEIR_OK && (strlen(path) >= WEIR_PATH_BYTES || weir_text_control(path)))
        s = WEIR_MISTAKE(r, "a path with control characters or more than %d bytes", r->w.line,
                         WEIR_PATH_BYTES - 1);
    if (s == WEIR_OK)
        at = weir_names_path(&r->g->names, path);
    if (at == UINT32_MAX || (s == WEIR_OK && !weir_vec_push(&r->paths, at)))
        s = WEIR_ERR_NOMEM;
    weir_mem_free(path);
    return s;
}

/* A call of the program: operation, number, path. */
static weir_status read_called(reader *r)
{
    char           word[WEIR_WORD];
    int64_t        number, path;
    weir_call_name c = {.path = 0};

    weir_words_word(&r->w, word);
    const weir_op op = weir_saved_op(word);
    if (op == WEIR_OP_COUNT)
        return WEIR_MISTAKE(r, "unknown operation '%s'", r->w.line, word);
    WEIR_TRY(weir_words_whole(&r->w, 0, UINT32_MAX, &number));
    WEIR_TRY(weir_words_whole(&r->w, 0, (int64_t)r->paths.n, &path));
    WEIR_TRY(weir_words_end(&r->w));
    if (weir_names_path(&r->g->names, "") == UINT32_MAX)    /* which is at 0 */
        return WEIR_ERR_NOMEM;
    c.def = weir_opdef_of(op);
    c.number = (uint32_t)number;
    c.path = path > 0 ? r->paths.at[path - 1] : 0;
    return weir_vec_push(&r->g->names.calls, c) ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* The name of a result. */
static weir_status read_name(reader *r)
{
    int64_t number;
    char   *name;

    WEIR_TRY(weir_words_whole(&r->w, 0, (int64_t)r->storages.n - 1, &number));
    weir_storage *const st = &r->g->storages.at[r->storages.at[number].storage];
    if (st->external || st->name)
        return WEIR_MISTAKE(r, "the storage %lld has a name", r->w.line, (long long)number);
    weir_status s = weir_words_text(&r->w, &name);
    if (s == WEIR_OK && weir_text_control(name))
        s = WEIR_MISTAKE(r, "a name with control characters", r->w.line);
    if (s != WEIR_OK) {
        weir_mem_free(name);
        return s;
    }
    st->name = name;
    return WEIR_OK;
}

/* ---- outputs ---- */

/* Makes a temporary storage one that outlives a run. */
static weir_status make_output(weir_graph *g, weir_storage *st)
{
    if (st->external)
        return WEIR_OK;
    st->block = weir_block_new(g->dev, st->bytes, WEIR_KIND_OUTPUT);
    if (!st->block)
        return WEIR_ERR_NOMEM;
    st->external = st->made = true;
    st->kind = WEIR_KIND_OUTPUT;
    return WEIR_OK;
}

static weir_status read_output(reader *r)
{
    weir_graph *const g = r->g;
    int64_t           number;
    char              name[WEIR_BINDING_NAME + 1];

    WEIR_TRY(weir_words_whole(&r->w, 0, (int64_t)r->values.n - 1, &number));
    WEIR_TRY(weir_words_name(&r->w, name));
    const weir_value v = g->values.at[r->values.at[number]];
    WEIR_TRY(make_output(g, &g->storages.at[v.storage]));
    weir_tensor *const t =
        make_tensor(r, &v.layout, v.offset, g->storages.at[v.storage].block, name);
    if (!t)
        return weir_error_status();
    if (weir_vec_push(&g->kept, t))
        return WEIR_OK;
    weir_release(t);
    return WEIR_ERR_NOMEM;
}

/* ---- the whole text ---- */

static weir_status read_first(reader *r)
{
    static const char format[] = "weir graph 1";
    int64_t           total;
    char              word[WEIR_WORD];

    WEIR_TRY(weir_words_next(&r->w));
    if ((size_t)(r->w.line_end - r->w.at) != strlen(format) ||
        memcmp(r->w.at, format, strlen(format)) != 0)
        return WEIR_MISTAKE(r, "'%.*s' is not '%s': this library reads format 1", r->w.line,
                       (int)(r->w.line_end - r->w.at < 40 ? r->w.line_end - r->w.at : 40),
                       r->w.at, format);
    WEIR_TRY(weir_words_next(&r->w));
    weir_words_word(&r->w, word);
    if (strcmp(word, "random") != 0)
        return WEIR_MISTAKE(r, "expected 'random' and a number", r->w.line);
    WEIR_TRY(weir_words_whole(&r->w, 0, INT64_MAX, &total));
    r->g->rng_total = (uint64_t)total;
    return weir_words_end(&r->w);
}

static weir_status read_line(reader *r, const char *word)
{
    static const struct {
        const char *word;
        weir_status (*read)(reader *r);
    } lines[] = {{"call", read_call}, {"view", read_view}, {"output", read_output},
                 {"scope", read_scope}, {"called", read_called}, {"name", read_name}};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strcmp(word, lines[i].word) == 0)
            return lines[i].read(r);
    for (int i = 0; i < WEIR_ROLE_OUTPUT; i++)
        if (strcmp(word, weir_role_word[i]) == 0 && r->g->nodes.n == 0)
            return read_external(r, (weir_role)i);
    return WEIR_MISTAKE(r, "unknown or misplaced line '%s' (expected input, param, state, view, "
                        "scope, called, call, name, output or end)", r->w.line, word);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static weir_status check_names(reader *r)
{
    if (r->names.n > 0)
        qsort(r->names.at, r->names.n, sizeof *r->names.at, by_name);
    for (uint32_t i = 1; i < r->names.n; i++)
        if (strcmp(r->names.at[i - 1], r->names.at[i]) == 0)
            return WEIR_MISTAKE(r, "two tensors are called '%.100s'", r->w.line, r->names.at[i]);
    return WEIR_OK;
}

static weir_status read_all(reader *r)
{
    char     word[WEIR_WORD];
    uint32_t externals = 0;

    WEIR_TRY(read_first(r));
    for (;;) {
        WEIR_TRY(weir_words_next(&r->w));
        weir_words_word(&r->w, word);
        if (strcmp(word, "end") == 0)
            break;
        WEIR_TRY(read_line(r, word));
    }
    WEIR_TRY(weir_words_end(&r->w));
    WEIR_TRY(check_names(r));
    for (uint32_t i = 0; i < r->g->storages.n; i++)
        externals += r->g->storages.at[i].handle != NULL;
    r->g->state = WEIR_GRAPH_BROKEN;
    WEIR_TRY(weir_recorded_make(r->g));
    if (r->g->form->externals != externals || r->w.line_end + 1 < r->w.end)
        return WEIR_MISTAKE(r, "%s", r->w.line, r->w.line_end + 1 < r->w.end
                       ? "text behind the end" : "a tensor is not used");
    return WEIR_OK;
}

static weir_graph *begin(weir_device *d)
{
    weir_session *const s = weir_device_check(d, "weir_graph_parse") == WEIR_OK
                                ? weir_session_of(d) : NULL;
    weir_graph *const   g = s ? weir_mem_zalloc(1, sizeof *g) : NULL;

    if (!g)
        return NULL;
    g->dev = weir_ref_take(d);
    g->session = s;
    g->id = ++s->graphs;
    g->began = weir_now();
    g->state = WEIR_GRAPH_RECORDING;    /* so that equal views are found by their hash */
    return g;
}

static weir_status plan(weir_graph *g, const weir_plan_options *options)
{
    uint32_t     passes;
    const double now = weir_now();

    g->record_ms = (now - g->began) * 1e3;
    g->recorded = g->nodes.n;
    WEIR_TRY(weir_passes_from(options, &passes));
    WEIR_TRY(weir_plan_make(g, passes, options));
    g->plan_ms = (weir_now() - now) * 1e3;
    g->state = WEIR_GRAPH_PLANNED;
    return WEIR_OK;
}

weir_graph *weir_graph_parse(weir_device *d, const char *text, size_t n,
                             const weir_plan_options *options)
{
    if (!text)
        return (void)weir_fail_null("weir_graph_parse", "text"), NULL;
    reader r = {.w = {.at = text, .end = text + n, .line_end = text}, .g = begin(d)};
    if (!r.g)
        return NULL;
    weir_status s = read_all(&r);
    s = s == WEIR_OK ? plan(r.g, options) : s;
    weir_vec_free(&r.storages);
    weir_vec_free(&r.values);
    weir_vec_free(&r.names);
    weir_vec_free(&r.paths);
    if (s == WEIR_OK)
        return r.g;
    r.g->state = WEIR_GRAPH_BROKEN;
    weir_graph_free(r.g);
    return NULL;
}
