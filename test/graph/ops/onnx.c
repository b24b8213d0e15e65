/* onnx.c - the way of a row through an ONNX file: written, read again, computed.
 *
 * WEIR_TEST_ONNX=FOLDER keeps the files there, each with its result as bytes beside it, for
 * bench/onnx/written.py, which asks the package onnx and onnxruntime about them. */
#include <stdlib.h>
#include <unistd.h>

#include "graph/ops/way.h"

static const int opsets[] = {13, 18, 28};

/* What a row computed, and where its file is. */
typedef struct written {
    char           path[400];
    bool           kept;
    weir_desc      desc;
    unsigned char *at;
    size_t         n;
} written;

/* ---- rows that differ ---- */

static bool is_one_of(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* Rows of operations that no operator of ONNX computes: gradients, updates, draws. */
static const char *const unwritten[] = {
    "uniform", "normal", "bernoulli", "assign", "accumulate", "accumulate_tree", "increment",
    "reset", "lr_schedule", "sgd_update", "sgd_update (momentum)", "sgd_update (first step whole)",
    "adam_update", "adamw_update", "adagrad_update", "rmsprop_update", NULL};

/* Rows whose results are drawn. */
static const char *const drawn[] = {"dropout", NULL};

/* Rows that are written by several operators, since at some shape ONNX has none that computes what
 * was recorded: numbers are rounded in other places. All others have the same bits. */
static const char *const composed[] = {
    "attention", "attention_added_mask", "attention_bool_mask", "attention_lengths",
    "attention_lengths_i64", "attention_options", "batch_norm (train)", "bce_logits_loss",
    "cosine_similarity", "cross_entropy (dense)", "expm1", "expm1 (near 0)", "log1p",
    "log1p (near 0)", "remainder", "var", "var (unbiased)", NULL};
enum { NEWEST = 28 };           /* the opset that has an operator for most */

/* ---- writing ---- */

static void place(const op_check *c, int opset, written *y)
{
    const char *const folder = getenv("WEIR_TEST_ONNX");

    y->kept = folder != NULL;
    snprintf(y->path, sizeof y->path, "%s/%s-%d-%s-%d%s.onnx", folder ? folder : "/tmp",
             c->row->name, (int)(c->set - c->row->sets), weir_dtype_name(c->type), opset,
             folder ? "" : "-XXXXXX");
    if (folder)
        return;
    const int fd = mkstemps(y->path, 5);
    CHECK(fd >= 0);
    close(fd);
}

static void keep_bytes(const written *y)
{
    char path[420];

    snprintf(path, sizeof path, "%s.out", y->path);
    FILE *const f = y->kept ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(y->at, 1, y->n, f);
        fclose(f);
    }
}

/* All operands become initializers, so that the file says everything. */
static void bind(weir_graph *g)
{
    const weir_binding *list;
    size_t              n;
    char                name[24];

    CHECK_OK(weir_graph_bindings(g, &list, &n));
    for (size_t i = 0; i < n; i++) {
        weir_tensor *const t = list[i].tensor;
        snprintf(name, sizeof name, "in%zu", i);
        if (list[i].role != WEIR_ROLE_OUTPUT)
            CHECK_OK(weir_graph_bind(g, t, WEIR_ROLE_STATE, name));
        CHECK_OK(weir_graph_bindings(g, &list, &n));
    }
}

/* True if the file is there. */
static bool save(const op_check *c, weir_graph *g, int opset, const char *path)
{
    const weir_status s =
        weir_graph_save_onnx(g, path, &(weir_onnx_save_options){.opset = opset});

    if (s == WEIR_OK)
        return CHECK(!is_one_of(c->row->name, unwritten));
    CHECK(s == WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "cannot be written to opset");
    check_that(is_one_of(c->row->name, unwritten) || strstr(weir_error(), "from opset"), __FILE__,
               __LINE__, "%s", weir_error());
    return false;
}

/* ---- reading again ---- */

static double number_at(weir_dtype type, const unsigned char *at, size_t i)
{
    const unsigned char *const p = at + i * weir_dtype_size(type);
    float   f;
    double  d;
    int32_t n;
    int64_t l;

    memcpy(&f, p, sizeof f > weir_dtype_size(type) ? weir_dtype_size(type) : sizeof f);
    if (type == WEIR_F32)
        return (double)f;
    if (type == WEIR_F64)
        return memcpy(&d, p, sizeof d), d;
    if (type == WEIR_I32)
        return memcpy(&n, p, sizeof n), n;
    return type == WEIR_I64 ? (memcpy(&l, p, sizeof l), (double)l) : *p;
}

/* The largest difference, relative to the largest number. */
static double difference(const written *y, const unsigned char *again)
{
    const size_t n = y->n / weir_dtype_size(y->desc.dtype);
    double       worst = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        const double a = number_at(y->desc.dtype, y->at, i);
        const double b = number_at(y->desc.dtype, again, i);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        worst = fmax(worst, isfinite(a) && isfinite(b) ? fabs(a - b) : HUGE_VAL);
    }
    for (size_t i = 0; i < n; i++)
        if (isfinite(number_at(y->desc.dtype, y->at, i)))
            most = fmax(most, fabs(number_at(y->desc.dtype, y->at, i)));
    return worst > 0 ? worst / most : 0;
}

static void compare(const op_check *c, int opset, const written *y, const unsigned char *again)
{
    const bool half = (OP_HALVES >> y->desc.dtype & 1) != 0;

    if (memcmp(y->at, again, y->n) == 0 || half || is_one_of(c->row->name, drawn))
        return;
    check_that(difference(y, again) <= 2e-6, __FILE__, __LINE__, "%s: off by %g", y->path,
               difference(y, again));
    if (c->type == WEIR_F32 && opset == NEWEST)
        check_that(is_one_of(c->row->name, composed), __FILE__, __LINE__,
                   "%s: other bits, off by %g", y->path, difference(y, again));
}

static void read_again(const op_check *c, const op_fixture *t, int opset, const written *y)
{
    weir_onnx *const     net = weir_onnx_open(t->dev, y->path, NULL);
    weir_tensor         *out = NULL;
    unsigned char *const again = calloc(y->n + 1, 1);

    CHECK_OK(weir_scope_begin(t->dev));
    if (check_that(net && weir_onnx_apply(net, 0, NULL, 1, &out) == WEIR_OK, __FILE__, __LINE__,
                   "%s: %s", y->path, weir_error())) {
        const weir_desc d = weir_tensor_desc(out);
        if (check_that(d.dtype == y->desc.dtype && d.ndim == y->desc.ndim &&
                           memcmp(d.dim, y->desc.dim, (size_t)d.ndim * sizeof *d.dim) == 0,
                       __FILE__, __LINE__, "%s: another shape or type", y->path) &&
            CHECK_OK(weir_read(out, again, y->n)))
            compare(c, opset, y, again);
    }
    CHECK_OK(weir_scope_end(t->dev));
    free(again);
    weir_onnx_free(net);
}

/* The row as a graph; a view of an operand, which is no result, is copied. */
static weir_graph *record(const op_fixture *t, bool copied, weir_tensor **out)
{
    const weir_binding *list;
    size_t              n;
    weir_graph *const   g = weir_graph_begin(t->dev);

    *out = op_apply(t);
    *out = weir_keep(copied ? weir_copy(*out) : *out);
    if (!CHECK(*out) || !CHECK_OK(weir_graph_end(g, NULL)) ||
        !CHECK_OK(weir_graph_bindings(g, &list, &n))) {
        weir_graph_free(g);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (list[i].role == WEIR_ROLE_OUTPUT)
            return g;
    weir_graph_free(g);
    return copied ? NULL : record(t, true, out);
}

static void by_file(const op_check *c, const op_fixture *t, int opset)
{
    written           y = {.kept = false};
    weir_tensor      *out;
    weir_graph *const g = record(t, false, &out);

    place(c, opset, &y);
    if (CHECK(g)) {
        bind(g);
        y.desc = weir_tensor_desc(out);
        y.n = weir_tensor_bytes(out);
        y.at = malloc(y.n + 1);
        const bool saved = save(c, g, opset, y.path);
        if (saved && CHECK_OK(weir_graph_run(g)) && CHECK_OK(weir_read(out, y.at, y.n))) {
            keep_bytes(&y);
            read_again(c, t, opset, &y);
        }
        free(y.at);
    }
    weir_graph_free(g);
    if (!y.kept)
        unlink(y.path);
}

void op_way_onnx(const op_check *c)
{
    op_fixture t;

    for (size_t i = 0; i < sizeof opsets / sizeof *opsets; i++) {
        if (op_open(&t, c->row, c->set, c->type, 1))
            by_file(c, &t, opsets[i]);
        op_close(&t);
    }
}
