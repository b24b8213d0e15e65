/* mistake.c - checks that a wrong call is refused with a clear message and has no other effect. */
#include <pthread.h>
#include <stdlib.h>

#include "graph/ops/way.h"

static const char *name_of(const op_row *row)
{
    return row->says ? row->says : row->name;
}

/* True if the message shows the shape of input i, as in "f32(2,3)" but without the type. */
static bool shows_shape(const op_fixture *t, int i)
{
    const weir_desc *const d = &t->shape[i].desc;
    char                   text[64] = "(";
    size_t                 n = 1;

    for (int k = 0; k < d->ndim; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, k ? ",%lld" : "%lld",
                              (long long)d->dim[k]);
    snprintf(text + n, sizeof text - n, ")");
    return strstr(weir_error(), text) != NULL;
}

/* The message shows the first input, against which operations check the others; if the shapes do
 * not match each other, it shows all of them. */
static void shows_shapes(const op_fixture *t, weir_status status)
{
    const bool all = strstr(weir_error(), "(inputs ") != NULL;

    for (int i = 0; i < t->nin && !t->given && (i == 0 || all); i++)
        check_that(status == WEIR_ERR_INVALID || shows_shape(t, i), __FILE__, __LINE__,
                   "no shape of input %d in \"%s\"", i, weir_error());
}

/* Checks that the call fails with the status and a message that names operation and shapes. */
static void refused(const op_fixture *t, weir_status status, const char *says)
{
    CHECK(op_apply(t) == NULL);
    CHECK_STATUS(weir_error_status(), status);
    CHECK_TEXT(weir_error(), name_of(t->row));
    CHECK_TEXT(weir_error(), says ? says : "");
    shows_shapes(t, status);
}

static bool is_update(const op_row *row)
{
    for (const op_row *r = op_update; r->name; r++)
        if (r == row)
            return true;
    return false;
}

/* Makes the mistake and then a correct call, computed and recorded. A step that lacks an update is
 * not planned, and the message says so. */
static void refused_both_ways(const op_fixture *bad, const op_fixture *good, weir_status status,
                              const char *says)
{
    refused(bad, status, says);
    double *const off = op_read(op_apply(good));
    CHECK(off != NULL);

    weir_graph *const g = weir_graph_begin(good->dev);
    CHECK(g != NULL);
    refused(bad, status, says);
    const weir_tensor *const y = weir_keep(op_apply(good));
    if (is_update(bad->row)) {
        CHECK_STATUS(weir_graph_end(g, NULL), status);
        CHECK_TEXT(weir_error(), name_of(bad->row));
    } else if (CHECK_OK(weir_graph_end(g, NULL))) {
        CHECK_OK(weir_graph_run(g));
        double *const on = op_read(y);
        CHECK(on != NULL);
        free(on);
    }
    weir_graph_free(g);
    free(off);
}

/* types[i] is the type of input i, -1 for the usual one; NULL: all are as usual. */
static void try_mistake(const op_check *c, const op_set *set, const int *types, weir_status status)
{
    weir_device *const d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    op_fixture         bad, good;

    if (op_open_on(&bad, d, c->row, set, c->asked >= 0 ? (weir_dtype)c->asked : c->type, types)) {
        if (op_open_on(&good, d, c->row, c->row->sets, c->type, NULL))
            refused_both_ways(&bad, &good, status, set->says);
        op_close(&good);
    }
    op_close(&bad);
    weir_device_close(d);
}

void op_way_mistake(const op_check *c)
{
    try_mistake(c, c->set, NULL, c->set->status);
}

/* ---- types ---- */

static bool is_class(op_kind kind)
{
    return kind == OP_CLASS_I32 || kind == OP_CLASS_I64 || kind == OP_ROW_I32 ||
           kind == OP_ROW_I64;
}

static bool has_type_under_test(op_kind kind)
{
    return kind == OP_PARAM || kind == OP_DATA || kind == OP_STATE;
}

/* Input `which` of another type than it should have. */
static void try_one_wrong(const op_check *c, int which)
{
    int           types[OP_MAX_IN] = {-1, -1, -1, -1, -1, -1};
    const op_kind kind = c->row->in[which].kind;

    types[which] = is_class(kind) ? WEIR_U8
                 : kind == OP_COUNTER ? WEIR_F32 : c->type == WEIR_F64 ? WEIR_F32 : WEIR_F64;
    try_mistake(c, c->set, types, WEIR_ERR_DTYPE);
}

/* The types that some row of the operation takes. */
static unsigned types_of(const op_row *row)
{
    unsigned types = 0;

    for (const op_row *const *family = op_families; *family; family++)
        for (const op_row *r = *family; r->name; r++)
            types |= r->build == row->build ? r->types : 0;
    return types;
}

/* All inputs under test, or the requested result, get a type that the operation lacks; the message
 * must name it. */
static void try_all_wrong(const op_check *c, weir_dtype type)
{
    const bool given = c->row->in[0].kind == OP_NONE;
    op_check   own = *c;
    op_set     set = *c->set;
    int        types[OP_MAX_IN], typed = 0;

    for (int i = 0; i < OP_MAX_IN; i++) {
        const bool under_test = has_type_under_test(c->row->in[i].kind);
        types[i] = under_test ? (int)type : -1;
        typed += under_test;
    }
    set.says = weir_dtype_name(type);
    own.asked = given ? (int)type : -1;
    if (given || typed > 0)
        try_mistake(&own, &set, types, WEIR_ERR_DTYPE);
}

void op_way_types(const op_check *c)
{
    const unsigned taken = types_of(c->row);
    op_shape       shape[OP_MAX_IN];
    const int      nin = op_parse(c->set->in, c->type, shape);
    int            typed = 0;

    for (weir_dtype type = 0; weir_dtype_size(type) > 0; type++)
        if (!(taken >> type & 1))
            try_all_wrong(c, type);
    for (int i = 0; i < nin; i++)
        typed += has_type_under_test(c->row->in[i].kind);
    for (int i = 0; i < nin; i++) {
        const op_kind kind = c->row->in[i].kind;
        if (is_class(kind) || kind == OP_COUNTER ||
            (has_type_under_test(kind) && typed > 1 && !(c->row->any_type >> i & 1)))
            try_one_wrong(c, i);
    }
}

/* ---- NULL ---- */

typedef struct null_call {
    const op_row *row;
    op_call       call;
} null_call;

/* On a thread without an earlier failure, because NULL inputs keep an earlier message. */
static void *call_with_null(void *arg)
{
    const null_call *const n = arg;

    CHECK(n->row->build(&n->call) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), name_of(n->row));
    CHECK_TEXT(weir_error(), "NULL");
    return NULL;
}

static void try_null(const op_fixture *t, int which)
{
    null_call n = {.row = t->row,
                   .call = {.dev = t->dev, .o = &t->set->o, .desc = t->shape[0].desc}};
    pthread_t thread;

    for (int i = 0; i < t->nin && !t->given; i++)
        n.call.in[i] = i == which ? NULL : t->tensor[i];
    if (t->given)
        n.call.dev = NULL;
    if (CHECK(pthread_create(&thread, NULL, call_with_null, &n) == 0))
        pthread_join(thread, NULL);

    CHECK(weir_input(t->dev, weir_1d(WEIR_F32, -7)) == NULL);
    CHECK(n.row->build(&n.call) == NULL);
    CHECK_TEXT(weir_error(), "-7");
}

void op_way_null(const op_check *c)
{
    op_fixture t;

    if (op_open(&t, c->row, c->set, c->type, 1))
        for (int i = 0; i < t.nin; i++)
            if (!(c->row->optional >> i & 1))
                try_null(&t, i);
    op_close(&t);
}
