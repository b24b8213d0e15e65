/* stepfile.c - reads a step description: JSON with tensors and ops, which are checked one by one.
 * docs/reference/step-file.md describes the format. */
#include "graph/memory/stepfile/stepfile.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"

#ifdef WEIR_JANSSON
#include <jansson.h>

/* most tensors or ops in a file; most entries of a list */
enum { MOST = 1 << 24, MOST_LIST = 1 << 16 };

enum { FORMAT = 1 }; /* of the file; taken for granted where it is missing */

/* Most bytes of all tensors in a file, and most microseconds of an op: sums of sums, with repeated
 * runs, stay far from the limits of their types. */
#define MOST_BYTES (INT64_C(1) << 53)
#define MOST_TIME  1e18

/* A tensor by its number in the file. */
typedef struct weir_named {
    int64_t  id;
    uint32_t number;
} weir_named;

/* The place of a tensor of the file in the problem. */
typedef struct weir_place {
    uint32_t tensor;
    bool     resident;
    uint32_t overwritten; /* if resident: first op that overwrites it; UINT32_MAX: none */
} weir_place;

typedef struct weir_reader {
    const char        *path;
    weir_stepfile     *o;
    json_t            *tensors, *ops;
    weir_named        *named;        /* [tensors] sorted once all have been read */
    int64_t            bytes;        /* bytes of all tensors and workspaces so far */
    weir_place        *place;        /* [tensors] */
    uint32_t          *made;         /* [tensors] the op that makes it, if read so far */
    uint32_t           n_write_only; /* inputs that the op changes but does not read */
    WEIR_VEC(uint32_t) in, out, pairs, masked, changes;
} weir_reader;

static weir_status wrong(const weir_reader *r, const char *what, size_t i, const char *why)
{
    return weir_fail(WEIR_ERR_IO, "%s: %s %zu: %s", r->path, what, i, why);
}

/* Reads a whole number from 0 to 2^62 of the object into *out. A missing key gives `fallback`, or
 * is an error if that is -1. Returns false on error. */
static bool whole(const json_t *object, const char *key, int64_t fallback, int64_t *out)
{
    const json_t *v = json_object_get(object, key);
    if (!v && fallback >= 0) {
        *out = fallback;
        return true;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT64_MAX / 2)
        return false;
    *out = json_integer_value(v);
    return true;
}

/* Adds n to the bytes of the file. Returns false if they are too many. */
static bool count_bytes(weir_reader *r, int64_t n)
{
    if (n > MOST_BYTES - r->bytes)
        return false;
    r->bytes += n;
    return true;
}

static int by_id(const void *a, const void *b)
{
    const weir_named *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Returns the index of the tensor with that number in the file; UINT32_MAX if no tensor has it. */
static uint32_t find(const weir_reader *r, const json_t *id)
{
    size_t lo = 0, hi = json_array_size(r->tensors);

    if (!json_is_integer(id))
        return UINT32_MAX;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (r->named[mid].id < json_integer_value(id))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < json_array_size(r->tensors) && r->named[lo].id == json_integer_value(id)
               ? r->named[lo].number : UINT32_MAX;
}

/* Returns the kind of that name; WEIR_KIND_COUNT if it is unknown. */
static weir_kind kind_of(const char *name)
{
    static const weir_kind kinds[] = {WEIR_KIND_PARAM, WEIR_KIND_STATE, WEIR_KIND_INPUT,
                                      WEIR_KIND_ACTIVATION, WEIR_KIND_GRADIENT};

    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, weir_kind_name[kinds[i]]) == 0)
            return kinds[i];
    return WEIR_KIND_COUNT;
}

static bool is_resident(weir_kind kind)
{
    return kind == WEIR_KIND_PARAM || kind == WEIR_KIND_STATE || kind == WEIR_KIND_INPUT;
}

static bool is_flag(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return !v || json_is_boolean(v);
}

/* Adds tensor i of the file to the problem if it is resident, or if it is not, as requested:
 * resident tensors must come last. */
static weir_status read_tensor(weir_reader *r, uint32_t i, bool resident)
{
    weir_stepfile  *o = r->o;
    const json_t   *t = json_array_get(r->tensors, i);
    const char     *name = json_string_value(json_object_get(t, "kind"));
    const weir_kind kind = kind_of(name);
    int64_t         id, bytes, packed;

    if (!whole(t, "id", -1, &id) || !whole(t, "bytes", -1, &bytes) || !name)
        return wrong(r, "tensor", i, "needs id, bytes and kind");
    if (!whole(t, "enc_bytes", 0, &packed) || packed > bytes)
        return wrong(r, "tensor", i, "enc_bytes must be a number up to bytes");
    if (!is_flag(t, "output"))
        return wrong(r, "tensor", i, "output must be true or false");
    if (kind == WEIR_KIND_COUNT)
        return wrong(r, "tensor", i, "unknown kind (expected param, state, input, activation or "
                                     "gradient)");
    if (is_resident(kind) != resident)
        return WEIR_OK;
    if (!count_bytes(r, bytes))
        return wrong(r, "tensor", i, "too many bytes");
    r->place[i] = (weir_place){o->problem.tensors.n, resident, UINT32_MAX};
    r->named[i] = (weir_named){id, i};
    return weir_mem_problem_add_tensor(&o->problem, (size_t)bytes, (size_t)packed,
                                       json_is_true(json_object_get(t, "output"))) &&
                   weir_vec_push(&o->tensor_id, id) && weir_vec_push(&o->kind, (uint8_t)kind)
               ? WEIR_OK
               : WEIR_ERR_NOMEM;
}

/* Notes the resident tensors that an op without outputs overwrites. */
static void note_overwritten(weir_reader *r, uint32_t i)
{
    const json_t *op = json_array_get(r->ops, i);
    const json_t *mutates = json_object_get(op, "mutates");

    if (json_array_size(json_object_get(op, "outputs")) > 0)
        return;
    for (size_t k = 0; k < json_array_size(mutates); k++) {
        const uint32_t t = find(r, json_array_get(mutates, k));
        if (t != UINT32_MAX && r->place[t].overwritten > i)
            r->place[t].overwritten = i;
    }
}

/* Reads a list of tensors. *rerun_before becomes the first op that overwrites a resident one of
 * them, if that is earlier. */
static weir_status read_list(weir_reader *r, uint32_t i, const char *key, bool outputs,
                             uint32_t *rerun_before)
{
    const json_t *list = json_object_get(json_array_get(r->ops, i), key);

    if (!json_is_array(list))
        return wrong(r, "operation", i, "needs the lists inputs and outputs");
    if (json_array_size(list) > MOST_LIST)
        return wrong(r, "operation", i, "has too long a list");
    for (size_t k = 0; k < json_array_size(list); k++) {
        const uint32_t t = find(r, json_array_get(list, k));
        if (t == UINT32_MAX)
            return wrong(r, "operation", i, "names an unknown tensor");
        const weir_place p = r->place[t];
        if (p.resident && outputs)
            return wrong(r, "operation", i, "produces a tensor that exists before the step");
        if (p.resident)
            *rerun_before = p.overwritten < *rerun_before ? p.overwritten : *rerun_before;
        else if (outputs ? r->made[p.tensor] != WEIR_NO_TENSOR
                         : r->made[p.tensor] == WEIR_NO_TENSOR)
            return wrong(r, "operation", i,
                         outputs ? "produces a tensor a second time" : "reads a tensor that is not "
                                                                    "produced yet");
        if (outputs)
            r->made[p.tensor] = i;
        if (outputs ? !weir_vec_push(&r->out, p.tensor) : !weir_vec_push(&r->in, p.tensor))
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

static bool among(uint32_t n, const uint32_t *v, uint32_t x)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] == x)
            return true;
    return false;
}

/* Reads the pairs (input, output) of tensors that may share memory. */
static weir_status read_pairs(weir_reader *r, uint32_t i)
{
    const json_t *list = json_object_get(json_array_get(r->ops, i), "inplace");

    if (json_array_size(list) > MOST_LIST)
        return wrong(r, "operation", i, "has too long a list");
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t  *pair = json_array_get(list, k);
        const uint32_t a = find(r, json_array_get(pair, 0)), b = find(r, json_array_get(pair, 1));
        if (a == UINT32_MAX || b == UINT32_MAX)
            return wrong(r, "operation", i, "inplace names an unknown tensor");
        const uint32_t x = r->place[a].tensor, y = r->place[b].tensor;
        if (r->place[a].resident || !among(r->in.n, r->in.at, x) ||
            !among(r->out.n, r->out.at, y))
            continue;                   /* resident tensors keep their memory */
        if (!weir_vec_push(&r->pairs, x) || !weir_vec_push(&r->pairs, y))
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

/* Reads the inputs of which a mask is enough, and the overwritten resident tensors, which become
 * inputs. */
static weir_status read_more(weir_reader *r, uint32_t i)
{
    const json_t *op = json_array_get(r->ops, i);
    const json_t *masks = json_object_get(op, "mask_inputs");
    const json_t *mutates = json_object_get(op, "mutates");

    if (json_array_size(masks) > MOST_LIST || json_array_size(mutates) > MOST_LIST)
        return wrong(r, "operation", i, "has too long a list");
    for (size_t k = 0; k < json_array_size(masks); k++) {
        const uint32_t t = find(r, json_array_get(masks, k));
        if (t == UINT32_MAX || !among(r->in.n, r->in.at, r->place[t].tensor))
            return wrong(r, "operation", i, "mask_inputs names a tensor that is not an input");
        if (!r->place[t].resident && !weir_vec_push(&r->masked, r->place[t].tensor))
            return WEIR_ERR_NOMEM;
    }
    for (size_t k = 0; k < json_array_size(mutates); k++) {
        const uint32_t t = find(r, json_array_get(mutates, k));
        if (t == UINT32_MAX || !r->place[t].resident)
            return wrong(r, "operation", i, "mutates a tensor that does not exist before the step");
        const uint32_t tensor = r->place[t].tensor;
        const bool     read = among(r->in.n, r->in.at, tensor);
        if ((!read && !weir_vec_push(&r->in, tensor)) || !weir_vec_push(&r->changes, tensor))
            return WEIR_ERR_NOMEM;
        r->n_write_only += !read;
    }
    return WEIR_OK;
}

static bool is_list(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return !v || json_is_array(v);
}

/* Checks the types of the optional keys of an op. */
static weir_status check_fields(const weir_reader *r, uint32_t i)
{
    const json_t     *op = json_array_get(r->ops, i), *phase = json_object_get(op, "phase");
    const json_t     *pairs = json_object_get(op, "inplace");
    const char *const text = json_string_value(phase);

    if (phase && (!text || (strcmp(text, "fwd") && strcmp(text, "bwd") && strcmp(text, "opt"))))
        return wrong(r, "operation", i, "unknown phase (expected fwd, bwd or opt)");
    if (!is_flag(op, "once"))
        return wrong(r, "operation", i, "once must be true or false");
    if (!is_list(op, "inplace") || !is_list(op, "mask_inputs") || !is_list(op, "mutates"))
        return wrong(r, "operation", i, "inplace, mask_inputs and mutates must be lists");
    for (size_t k = 0; k < json_array_size(pairs); k++)
        if (json_array_size(json_array_get(pairs, k)) != 2)
            return wrong(r, "operation", i, "inplace must be a list of pairs of tensors");
    return WEIR_OK;
}

/* Checks that the ids of ops are unique, since plans name ops by them. */
static weir_status check_ids(const weir_reader *r)
{
    const uint32_t    n = r->o->op_id.n;
    weir_named *const named = weir_mem_alloc((n + 1u) * sizeof *named);
    weir_status       status = named ? WEIR_OK : WEIR_ERR_NOMEM;

    for (uint32_t i = 0; named && i < n; i++)
        named[i] = (weir_named){r->o->op_id.at[i], i};
    if (named)
        qsort(named, n, sizeof *named, by_id);
    for (uint32_t i = 1; status == WEIR_OK && i < n; i++)
        if (named[i].id == named[i - 1].id)
            status = weir_fail(WEIR_ERR_IO, "%s: operation %u: id %lld is already used by "
                                            "operation %u",
                               r->path, named[i].number, (long long)named[i].id,
                               named[i - 1].number);
    weir_mem_free(named);
    return status;
}

static weir_phase phase_of(const char *phase)
{
    return !phase || strcmp(phase, "fwd") == 0 ? WEIR_FORWARD
           : strcmp(phase, "bwd") == 0         ? WEIR_BACKWARD : WEIR_UPDATES;
}

static weir_status read_op(weir_reader *r, uint32_t i)
{
    const json_t *op = json_array_get(r->ops, i);
    const json_t *time = json_object_get(op, "time_us");
    uint32_t      rerun_before = (uint32_t)json_array_size(r->ops);
    int64_t       id, work;

    if (!whole(op, "id", -1, &id) || !whole(op, "workspace_bytes", 0, &work) ||
        !json_is_number(time) || !(json_number_value(time) >= 0) ||
        json_number_value(time) > MOST_TIME)
        return wrong(r, "operation", i, "needs id and time_us; workspace_bytes must be a number");
    if (!count_bytes(r, work))
        return wrong(r, "operation", i, "too many bytes");
    WEIR_TRY(check_fields(r, i));
    r->n_write_only = r->in.n = r->out.n = r->pairs.n = r->masked.n = r->changes.n = 0;
    WEIR_TRY(read_list(r, i, "inputs", false, &rerun_before));
    WEIR_TRY(read_list(r, i, "outputs", true, &rerun_before));
    WEIR_TRY(read_pairs(r, i));
    WEIR_TRY(read_more(r, i));
    const char *const   name = json_string_value(json_object_get(op, "name"));
    const weir_mem_op_def def = {
        .time = json_number_value(time) * 1e-6,
        .work = (size_t)work,
        .rerun_before = r->out.n && !json_is_true(json_object_get(op, "once")) ? rerun_before : 0,
        .kind = weir_op_class_of(name ? name : ""),
        .phase = phase_of(json_string_value(json_object_get(op, "phase"))),
        .nin = r->in.n,
        .in = r->in.at,
        .nout = r->out.n,
        .out = r->out.at,
        .npairs = r->pairs.n,
        .pairs = r->pairs.at,
        .nmasked = r->masked.n,
        .masked = r->masked.at,
        .nchanges = r->changes.n,
        .changes = r->changes.at,
        .n_write_only = r->n_write_only};
    return weir_mem_problem_add_op(&r->o->problem, &def) &&
                   weir_stepfile_name_op(r->o, id, name ? name : "")
               ? WEIR_OK
               : WEIR_ERR_NOMEM;
}

static weir_status read_all(weir_reader *r, const json_t *root)
{
    const char   *name = json_string_value(json_object_get(root, "name"));
    const json_t *format = json_object_get(root, "format");

    if (format && json_integer_value(format) != FORMAT)
        return weir_fail(WEIR_ERR_IO, "%s: format must be %d, the only one that is known", r->path,
                         FORMAT);
    r->tensors = json_object_get(root, "tensors");
    r->ops = json_object_get(root, "ops");
    const size_t nt = json_array_size(r->tensors), no = json_array_size(r->ops);
    if (!json_is_array(r->tensors) || !json_is_array(r->ops) || no == 0 || nt > MOST || no > MOST)
        return weir_fail(WEIR_ERR_IO, "%s: needs the lists tensors and ops", r->path);
    r->o->name = weir_mem_strdup(name ? name : "");
    r->named = weir_mem_alloc((nt + 1) * sizeof *r->named);
    r->place = weir_mem_alloc((nt + 1) * sizeof *r->place);
    r->made = weir_mem_alloc((nt + 1) * sizeof *r->made);
    if (!r->o->name || !r->named || !r->place || !r->made)
        return WEIR_ERR_NOMEM;
    memset(r->made, 0xff, (nt + 1) * sizeof *r->made);
    for (uint32_t i = 0; i < nt; i++)
        WEIR_TRY(read_tensor(r, i, false));
    const uint32_t temporary = r->o->problem.tensors.n;
    for (uint32_t i = 0; i < nt; i++)
        WEIR_TRY(read_tensor(r, i, true));
    qsort(r->named, nt, sizeof *r->named, by_id);
    for (uint32_t i = 1; i < nt; i++)
        if (r->named[i].id == r->named[i - 1].id)
            return wrong(r, "tensor", r->named[i].number, "its id is already used");
    for (uint32_t i = 0; i < no; i++)
        note_overwritten(r, i);
    for (uint32_t i = 0; i < no; i++)
        WEIR_TRY(read_op(r, i));
    WEIR_TRY(check_ids(r));
    for (uint32_t k = 0; k < temporary; k++)
        if (r->made[k] == WEIR_NO_TENSOR)
            return wrong(r, "tensor", (size_t)r->o->tensor_id.at[k], "(its id) is produced by no "
                                                                     "operation");
    return weir_mem_problem_end(&r->o->problem) ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status read_file(const char *path, weir_stepfile *o)
{
    json_error_t  e;
    json_t *const root = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
    weir_reader   r = {.path = path, .o = o};

    if (!root)
        return e.line < 0 ? weir_fail(WEIR_ERR_IO, "%s", e.text)      /* which names the path */
                          : weir_fail(WEIR_ERR_IO, "%s: line %d: %s", path, e.line, e.text);
    const weir_status status = read_all(&r, root);
    weir_mem_free(r.named);
    weir_mem_free(r.place);
    weir_mem_free(r.made);
    weir_vec_free(&r.in);
    weir_vec_free(&r.out);
    weir_vec_free(&r.pairs);
    weir_vec_free(&r.masked);
    weir_vec_free(&r.changes);
    json_decref(root);
    return status;
}
#else
static weir_status read_file(const char *path, weir_stepfile *o)
{
    (void)o;
    return weir_fail(WEIR_ERR_NOKERNEL,
                     "%s cannot be read: this library was built without jansson", path);
}
#endif

weir_stepfile *weir_stepfile_read(const char *path)
{
    if (!path) {
        (void)weir_fail_null("weir_stepfile_read", "the path");
        return NULL;
    }
    weir_stepfile *o = weir_mem_zalloc(1, sizeof *o);
    if (o && read_file(path, o) != WEIR_OK) {
        weir_stepfile_free(o);
        o = NULL;
    }
    return o;
}

bool weir_stepfile_name_op(weir_stepfile *o, int64_t id, const char *name)
{
    char *const copy = weir_mem_strdup(name);

    if (!copy || !weir_vec_push(&o->op_name, copy)) {
        weir_mem_free(copy);
        return false;
    }
    return weir_vec_push(&o->op_id, id);
}

void weir_stepfile_free(weir_stepfile *o)
{
    if (!o)
        return;
    weir_mem_problem_free(&o->problem);
    weir_mem_free(o->name);
    weir_vec_free(&o->tensor_id);
    weir_vec_free(&o->op_id);
    for (uint32_t i = 0; i < o->op_name.n; i++)
        weir_mem_free(o->op_name.at[i]);
    weir_vec_free(&o->op_name);
    weir_vec_free(&o->kind);
    weir_mem_free(o);
}
