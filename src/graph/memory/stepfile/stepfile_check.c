/* stepfile_check.c - reads a plan for a step description, whichever program wrote it, and checks
 * it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/verify/check.h"
#include "graph/memory/stepfile/stepfile.h"
#include "graph/memory/verify/simulate.h"

#ifdef WEIR_JANSSON
#include <jansson.h>

enum { MOST_ACTIONS = 1 << 24 };

/* Tensors or ops, sorted by their numbers in the file. */
typedef struct weir_numbered {
    int64_t  id;
    uint32_t number;
} weir_numbered;

typedef struct weir_plan_reader {
    const char          *path;
    const weir_stepfile *o;
    weir_mem_plan       *a;
    weir_numbered       *tensors, *ops;
    size_t               at; /* index of the step being read */
} weir_plan_reader;

static weir_status wrong(const weir_plan_reader *r, const char *why)
{
    return weir_fail(WEIR_ERR_IO, "%s: action %zu: %s", r->path, r->at, why);
}

static int by_id(const void *a, const void *b)
{
    const weir_numbered *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static weir_numbered *number(const int64_t *id, uint32_t n)
{
    weir_numbered *const list = weir_mem_alloc((n + 1u) * sizeof *list);

    for (uint32_t i = 0; list && i < n; i++)
        list[i] = (weir_numbered){id[i], i};
    if (list && n)
        qsort(list, n, sizeof *list, by_id);
    return list;
}

/* Returns the index of that id; UINT32_MAX if no entry has it. */
static uint32_t find(const weir_numbered *list, uint32_t n, int64_t id)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (list[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && list[lo].id == id ? list[lo].number : UINT32_MAX;
}

static uint32_t tensor_of(const weir_plan_reader *r, const json_t *id)
{
    return json_is_integer(id) ? find(r->tensors, r->o->problem.tensors.n, json_integer_value(id))
                               : WEIR_NO_TENSOR;
}

/* Returns the tensor that a key of an object names, its number as text; *end points behind it. */
static uint32_t tensor_of_text(const weir_plan_reader *r, const char *text, char **end)
{
    if (*text < '0' || *text > '9')
        return WEIR_NO_TENSOR;
    const long long id = strtoll(text, end, 10);    /* if out of range, no tensor has that number */
    return find(r->tensors, r->o->problem.tensors.n, id);
}

/* Reads an offset, a whole number from 0 to 2^62. Returns false on error. */
static bool offset_of(const json_t *v, size_t *offset)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT64_MAX / 2)
        return false;
    *offset = (size_t)json_integer_value(v);
    return true;
}

/* ---- runs ---- */

/* Reads the offset of output `tensor`. */
static weir_status read_spot(const weir_plan_reader *r, const json_t *x, uint32_t tensor)
{
    char             key[24];
    weir_output_slot slot = {.over = WEIR_NO_TENSOR};

    snprintf(key, sizeof key, "%lld", (long long)r->o->tensor_id.at[tensor]);
    const json_t *where = json_object_get(json_object_get(x, "scratch"), key);
    slot.scratch = where != NULL;
    if (!where)
        where = json_object_get(json_object_get(x, "out"), key);
    if (!offset_of(where, &slot.offset))
        return weir_fail(WEIR_ERR_IO, "%s: action %zu: tensor %s has no offset in out or scratch",
                         r->path, r->at, key);
    return weir_vec_push(&r->a->slots, slot) ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status read_pairs(const weir_plan_reader *r, const json_t *list, uint32_t op,
                              uint32_t slots)
{
    const weir_mem_op *t = &r->o->problem.ops.at[op];

    if ((list && !json_is_array(list)) || json_array_size(list) > t->out.n)
        return wrong(r, "inplace must be a list of pairs, at most one for each output");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t  *pair = json_array_get(list, i);
        const uint32_t from = tensor_of(r, json_array_get(pair, 0)),
                       to = tensor_of(r, json_array_get(pair, 1));
        uint32_t       k = 0;
        while (k < t->out.n && weir_refs(&r->o->problem, t->out)[k] != to)
            k++;
        if (from == WEIR_NO_TENSOR || k == t->out.n)
            return wrong(r, "inplace must be a list of pairs of an input and an output");
        r->a->slots.at[slots + k].over = from;
    }
    return WEIR_OK;
}

static weir_status read_masks(const weir_plan_reader *r, const json_t *list, uint32_t most)
{
    if ((list && !json_is_array(list)) || json_array_size(list) > most)
        return wrong(r, "use_mask must be a list of inputs");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const uint32_t tensor = tensor_of(r, json_array_get(list, i));
        if (tensor == WEIR_NO_TENSOR)
            return wrong(r, "use_mask names an unknown tensor");
        if (!weir_vec_push(&r->a->masks, tensor))
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

static weir_status read_run(const weir_plan_reader *r, const json_t *x)
{
    const json_t  *number = json_object_get(x, "op"), *work = json_object_get(x, "ws");
    const uint32_t op = json_is_integer(number)
                            ? find(r->ops, r->o->problem.ops.n, json_integer_value(number))
                            : WEIR_NO_OP;
    weir_mem_step  v = {
         .what = op, .kind = WEIR_EVENT_RUN, .slots = r->a->slots.n, .masks = {r->a->masks.n, 0}};

    if (op == WEIR_NO_OP)
        return wrong(r, "op is not an operation of the step");
    const weir_mem_op *t = &r->o->problem.ops.at[op];
    v.work = work != NULL;
    if (work && !offset_of(work, &v.offset))
        return wrong(r, "ws is not an offset");
    for (uint32_t i = 0; i < t->out.n; i++)
        WEIR_TRY(read_spot(r, x, weir_refs(&r->o->problem, t->out)[i]));
    WEIR_TRY(read_pairs(r, json_object_get(x, "inplace"), op, v.slots));
    WEIR_TRY(read_masks(r, json_object_get(x, "use_mask"), t->in.n));
    v.masks.n = r->a->masks.n - v.masks.first;
    return weir_vec_push(&r->a->list, v) ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* ---- the other steps ---- */

/* Reads "t": a number, or a text such as "7#pack" or "7#mask". Returns false on error. */
static bool read_target(const weir_plan_reader *r, const json_t *t, weir_mem_step *v)
{
    const char *const text = json_string_value(t);
    char             *end;

    v->form = WEIR_FORM_PLAIN;
    v->what = text ? tensor_of_text(r, text, &end) : tensor_of(r, t);
    if (v->what == WEIR_NO_TENSOR || !text)
        return v->what != WEIR_NO_TENSOR;
    v->form = strcmp(end, "#pack") == 0 ? WEIR_FORM_COMPRESSED : WEIR_FORM_MASK;
    return v->form == WEIR_FORM_COMPRESSED || strcmp(end, "#mask") == 0;
}

static weir_status read_other(const weir_plan_reader *r, const json_t *x, uint8_t kind)
{
    const json_t *drop = json_object_get(x, "drop_host");
    weir_mem_step v = {.kind = kind, .forget = !drop || !json_is_false(drop)};
    const bool    coded = kind == WEIR_EVENT_COMPRESS || kind == WEIR_EVENT_DECOMPRESS;

    if (!read_target(r, json_object_get(x, "t"), &v) || (coded && v.form != WEIR_FORM_PLAIN))
        return wrong(r, "t is not a tensor of the step");
    if (drop && !json_is_boolean(drop))
        return wrong(r, "drop_host must be true or false");
    if (coded) {
        const char *const code = json_string_value(json_object_get(x, "kind"));
        if (!code || (strcmp(code, "pack") != 0 && strcmp(code, "mask") != 0))
            return wrong(r, "unknown kind (expected pack or mask)");
        if (strcmp(code, "mask") == 0 && kind == WEIR_EVENT_DECOMPRESS)
            return wrong(r, "a mask cannot be decoded");
        v.kind = strcmp(code, "mask") == 0 ? WEIR_EVENT_MASK : kind;
    }
    if ((coded || kind == WEIR_EVENT_PREFETCH) && !offset_of(json_object_get(x, "off"), &v.offset))
        return wrong(r, "off is not an offset");
    return weir_vec_push(&r->a->list, v) ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status read_action(const weir_plan_reader *r, const json_t *x)
{
    static const struct { const char *name; uint8_t kind;
    } names[] = {{"compute", WEIR_EVENT_RUN},         {"free", WEIR_EVENT_FREE},
                 {"swap_out", WEIR_EVENT_OFFLOAD},    {"swap_in", WEIR_EVENT_PREFETCH},
                 {"host_free", WEIR_EVENT_FREE_HOST}, {"encode", WEIR_EVENT_COMPRESS},
                 {"decode", WEIR_EVENT_DECOMPRESS}};
    const char *const name = json_string_value(json_object_get(x, "a"));

    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].kind == WEIR_EVENT_RUN ? read_run(r, x)
                                                   : read_other(r, x, names[i].kind);
    return wrong(r, "unknown action a (expected compute, free, swap_out, swap_in, host_free, "
                    "encode or decode)");
}

/* ---- the whole file ---- */

/* Reads where resident tensors are between steps; each must be in exactly one of the two lists. */
static weir_status read_places(const weir_plan_reader *r, const json_t *root)
{
    const json_t  *offloaded = json_object_get(root, "host_resident");
    json_t *const  resident = json_object_get(root, "resident");
    const uint32_t n = r->o->problem.tensors.n;
    uint8_t *const seen = weir_mem_zalloc(n + 1u, 1);
    weir_status    status = seen ? WEIR_OK : WEIR_ERR_NOMEM;
    const char    *key;
    json_t        *v;

    if (status == WEIR_OK &&
        ((resident && !json_is_object(resident)) || (offloaded && !json_is_array(offloaded))))
        status = weir_fail(WEIR_ERR_IO, "%s: resident must be an object and host_resident a list",
                                        r->path);
    if (status == WEIR_OK && resident)
        json_object_foreach(resident, key, v) {
            char          *end = NULL;
            const uint32_t k = tensor_of_text(r, key, &end);
            if (k == WEIR_NO_TENSOR || *end || !weir_mem_tensor_is_resident(&r->o->problem, k) ||
                seen[k] || !offset_of(v, &r->a->start[k])) {
                status = weir_fail(WEIR_ERR_IO, "%s: resident: '%.40s' is not a persistent tensor "
                                   "with an offset", r->path, key);
                break;
            }
            seen[k] = 1;
        }
    for (size_t i = 0; status == WEIR_OK && i < json_array_size(offloaded); i++) {
        const uint32_t k = tensor_of(r, json_array_get(offloaded, i));
        if (k == WEIR_NO_TENSOR || !weir_mem_tensor_is_resident(&r->o->problem, k) || seen[k])
            status = weir_fail(WEIR_ERR_IO, "%s: host_resident: entry %zu must be a persistent "
                               "tensor that is listed nowhere else", r->path, i);
        else
            seen[k] = r->a->offloaded[k] = 1;
    }
    for (uint32_t k = 0; status == WEIR_OK && k < n; k++)
        if (weir_mem_tensor_is_resident(&r->o->problem, k) && !seen[k])
            status = weir_fail(WEIR_ERR_IO, "%s: persistent tensor %lld is in neither resident nor "
                               "host_resident", r->path, (long long)r->o->tensor_id.at[k]);
    weir_mem_free(seen);
    return status;
}

static weir_status read_plan(weir_plan_reader *r, const json_t *root)
{
    const weir_stepfile *o = r->o;
    const json_t        *list = json_object_get(root, "actions");
    const json_t        *align = json_object_get(root, "alignment");
    const size_t         n = json_array_size(list);

    r->tensors = number(o->tensor_id.at, o->tensor_id.n);
    r->ops = number(o->op_id.at, o->op_id.n);
    if (!r->tensors || !r->ops)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 1; i < o->op_id.n; i++)
        if (r->ops[i].id == r->ops[i - 1].id)
            return weir_fail(WEIR_ERR_IO, "%s: the step has two operations %lld", r->path,
                             (long long)r->ops[i].id);
    if (!offset_of(json_object_get(root, "budget_bytes"), &r->a->limit) ||
        (align && !offset_of(align, &r->a->align)) || !json_is_array(list) || n > MOST_ACTIONS)
        return weir_fail(WEIR_ERR_IO, "%s: needs budget_bytes and a list of actions; alignment "
                         "must be a number", r->path);
    WEIR_TRY(read_places(r, root));
    for (r->at = 0; r->at < n; r->at++)
        WEIR_TRY(read_action(r, json_array_get(list, r->at)));
    return WEIR_OK;
}

static weir_status read_file(const char *path, const weir_stepfile *o, weir_mem_plan *a)
{
    json_error_t     e;
    json_t *const    root = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    weir_plan_reader r = {.path = path, .o = o, .a = a};

    if (!root)
        return e.line < 0 ? weir_fail(WEIR_ERR_IO, "%s", e.text)      /* which names the path */
                          : weir_fail(WEIR_ERR_IO, "%s: line %d: %s", path, e.line, e.text);
    const weir_status status = read_plan(&r, root);
    weir_mem_free(r.tensors);
    weir_mem_free(r.ops);
    json_decref(root);
    return status;
}
#else
static weir_status read_file(const char *path, const weir_stepfile *o, weir_mem_plan *a)
{
    (void)o;
    (void)a;
    return weir_fail(WEIR_ERR_NOKERNEL,
                     "%s cannot be read: this library was built without jansson", path);
}
#endif

static void tell(const weir_mem_problem *p, const weir_check_result *f, const weir_sim_result *c,
                 weir_stepfile_check_stats *v)
{
    *v = (weir_stepfile_check_stats){.time_ms = c->time * 1e3,
                                     .base_ms = p->time * 1e3,
                                     .compute_ms = c->compute * 1e3,
                                     .stall_ms = c->stall * 1e3,
                                     .compress_ms = c->compress * 1e3,
                                     .recomputed = f->recomputed,
                                     .peak_bytes = f->height,
                                     .live_bytes = f->live,
                                     .out_bytes = c->out,
                                     .in_bytes = c->in,
                                     .host_bytes = c->host};
}

weir_status weir_stepfile_check(const weir_stepfile *o, const char *path,
                                const weir_stepfile_options *options,
                                weir_stepfile_check_stats   *verdict)
{
    weir_stepfile_options     how = options ? *options : (weir_stepfile_options){0};
    weir_stepfile_check_stats unread;
    weir_mem_plan             a;
    weir_check_result         found;
    weir_sim_result           clock;

    if (!o || !path)
        return weir_fail_null("weir_stepfile_check", o ? "the path" : "the step");
    how.link_out = how.link_out == 0 ? 12 : how.link_out;
    how.link_in = how.link_in == 0 ? 12 : how.link_in;
    weir_mem_problem p = o->problem;
    WEIR_TRY(weir_stepfile_rates(&how, &p));
    weir_status status = weir_mem_plan_init(&a, &p) ? read_file(path, o, &a) : WEIR_ERR_NOMEM;
    a.addresses = true;
    a.name = path;
    a.tensor_id = o->tensor_id.at;
    a.op_id = o->op_id.at;
    if (status == WEIR_OK)
        status = weir_mem_plan_check(&a, &found, NULL);
    if (status == WEIR_OK && !weir_mem_plan_simulate(&a, &clock))
        status = WEIR_ERR_NOMEM;
    if (status == WEIR_OK)
        tell(&p, &found, &clock, verdict ? verdict : &unread);
    weir_mem_plan_free(&a);
    return status;
}
