/* dnn.c - the only file that calls cuDNN: descriptors, selection of an engine, running a plan.
 *
 * If the library refuses what a plan asks for (a shape, a type, an alignment), there is no plan,
 * and the caller uses its own kernels. Other errors are failures unless another engine has a plan.
 * Numerical notes say how an engine computes; for f32, the note about tensor cores means TF32. */
#include "device/cuda/lib/dnn.h"

#include "core/mem.h"
#include "core/status.h"

/* ---- rules ---- */

static bool is_one(const char *value)
{
    return value && strcmp(value, "1") == 0;
}

weir_dnn_rules weir_dnn_rules_of(bool tf32, const char *nondeterministic, const char *winograd,
                                 const char *work)
{
    char *end = NULL;

    const unsigned long long n = work ? strtoull(work, &end, 10) : 0;
    return (weir_dnn_rules){.tf32 = tf32,
                            .nondeterministic = is_one(nondeterministic),
                            .transforms = is_one(winograd),
                            .work = work && end != work && !*end ? (size_t)n : WEIR_DNN_WORK};
}

static bool is_transform(cudnnBackendNumericalNote_t note)
{
    return note == CUDNN_NUMERICAL_NOTE_FFT || note == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
}

bool weir_dnn_allows(const weir_dnn_rules *r, weir_dtype t,
                     const cudnnBackendNumericalNote_t *note, int64_t notes)
{
    for (int64_t i = 0; i < notes; i++)
        if ((note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && t == WEIR_F32 && !r->tf32) ||
            (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && !r->nondeterministic) ||
            (is_transform(note[i]) && !r->transforms) ||
            note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            note[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
            return false;
    return true;
}

const char *weir_dnn_impl(weir_dtype t, const cudnnBackendNumericalNote_t *note, int64_t notes)
{
    static const char *const name[2][2][2] = {
        {{"cudnn", "cudnn nondeterministic"},
         {"cudnn transform", "cudnn transform nondeterministic"}},
        {{"cudnn tf32", "cudnn tf32 nondeterministic"},
         {"cudnn tf32 transform", "cudnn tf32 transform nondeterministic"}}};
    bool tf32 = false, transform = false, nondeterministic = false;

    for (int64_t i = 0; i < notes; i++) {
        tf32 = tf32 || (t == WEIR_F32 && note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
        transform = transform || is_transform(note[i]);
        nondeterministic = nondeterministic || note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
    return name[tf32][transform][nondeterministic];
}

int64_t weir_dnn_pad_end(int64_t size, int64_t reach, int64_t stride, int64_t before,
                         int64_t places)
{
    const int64_t least = (places - 1) * stride + reach - size - before;
    const int64_t most = least + stride - 1;

    if (before >= least && before <= most)
        return before;
    return least < 0 && most >= 0 ? 0 : least;
}

/* ---- the library ---- */

enum { WHY = 256 };             /* bytes of the library's own words */

/* more: the library's words on its last error. */
static weir_status fail_of(const weir_cuda_lib_dnn *lib, cudnnStatus_t s, const weir_call *c,
                           const char *what, const char *more)
{
    return weir_call_fail(s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                                  s == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                              ? WEIR_ERR_NOMEM
                              : WEIR_ERR_DEVICE,
                          c, "%s: %s (%d%s%s)", what, lib->cudnnGetErrorString(s), (int)s,
                          more[0] ? ": " : "", more);
}

static weir_status status_of(const weir_cuda_lib_dnn *lib, cudnnStatus_t s, const weir_call *c,
                             const char *what)
{
    char more[WHY] = "";

    if (s == CUDNN_STATUS_SUCCESS)
        return WEIR_OK;
    lib->cudnnGetLastErrorString(more, sizeof more);
    return fail_of(lib, s, c, what, more);
}

static weir_status open_dnn(const weir_cuda_context *u, const weir_call *c, weir_cuda_dnn *n)
{
    const weir_status        before = weir_error_status();
    const weir_cuda_lib_dnn *lib;

    if (weir_cuda_open_dnn(&lib) != WEIR_OK) {
        if (before == WEIR_OK)
            (void)weir_fail(WEIR_OK, "%s", "");     /* a missing library is no failure */
        return WEIR_OK;
    }
    WEIR_TRY(status_of(lib, lib->cudnnCreate(&n->handle), c, "cudnnCreate"));
    n->lib = lib;
    n->rules = weir_dnn_rules_of(u->tf32, getenv("WEIR_CUDNN_NONDETERMINISTIC"),
                                 getenv("WEIR_WINOGRAD"), getenv("WEIR_CUDNN_WORKSPACE"));
    return WEIR_OK;
}

weir_status weir_cuda_dnn_of(weir_device *d, const weir_call *c, weir_cuda_dnn **out)
{
    weir_cuda_context *const u = weir_cuda_context_of(d);

    if (!u->dnn) {
        weir_cuda_dnn *const n = weir_mem_zalloc(1, sizeof *n);
        if (!n)
            return WEIR_ERR_NOMEM;
        const weir_status s = open_dnn(u, c, n);
        if (s != WEIR_OK) {
            weir_mem_free(n);
            return s;
        }
        u->dnn = n;
    }
    *out = u->dnn;
    return WEIR_OK;
}

void weir_cuda_dnn_close(weir_cuda_context *u)
{
    if (u->dnn && u->dnn->lib)
        (void)u->dnn->lib->cudnnDestroy(u->dnn->handle);
    weir_mem_free(u->dnn);
    u->dnn = NULL;
}

/* ---- descriptors ---- */

/* Creates descriptors. The first error is kept, and nothing is done after it. */
typedef struct maker {
    const weir_cuda_lib_dnn *lib;
    cudnnStatus_t            status;
} maker;

static cudnnBackendDescriptor_t make(maker *m, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;

    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->lib->cudnnBackendCreateDescriptor(type, &d);
    return d;
}

static void set(maker *m, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->lib->cudnnBackendSetAttribute(d, name, type, n, value);
}

static void set_one(maker *m, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                    cudnnBackendDescriptor_t value)
{
    set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(maker *m, cudnnBackendDescriptor_t d)
{
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->lib->cudnnBackendFinalize(d);
}

/* Reads up to n values of an attribute; returns their number, 0 after an error. */
static int64_t get(maker *m, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t n, void *value)
{
    int64_t count = 0;

    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = m->lib->cudnnBackendGetAttribute(d, name, type, n, &count, value);
    return m->status == CUDNN_STATUS_SUCCESS ? count : 0;
}

static void drop(const weir_cuda_lib_dnn *lib, cudnnBackendDescriptor_t *d)
{
    if (*d)
        (void)lib->cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

/* ---- the graph of a convolution ---- */

/* SUM, if there is a bias: the convolution's result before the bias is added, a virtual tensor. */
enum { X, W, Y, BIAS, SUM, CONVOLUTION, OPERATION, ADDITION, ADD, GRAPH, DESCS };

/* Identifiers of the tensors for the library; tensors in memory come first. */
static const int64_t unique_id[] = {[X] = 'x', [W] = 'w', [Y] = 'y', [BIAS] = 'b', [SUM] = 's'};

typedef struct graph {
    cudnnBackendDescriptor_t desc[DESCS];
} graph;

static void graph_drop(const weir_cuda_lib_dnn *lib, graph *g)
{
    for (int i = DESCS - 1; i >= 0; i--)
        drop(lib, &g->desc[i]);
}

static cudnnDataType_t type_of(weir_dtype t)
{
    return t == WEIR_F64    ? CUDNN_DATA_DOUBLE
           : t == WEIR_F16  ? CUDNN_DATA_HALF
           : t == WEIR_BF16 ? CUDNN_DATA_BFLOAT16
                            : CUDNN_DATA_FLOAT;
}

/* The type of accumulation. */
static weir_dtype wide_of(weir_dtype t)
{
    return t == WEIR_F64 ? WEIR_F64 : WEIR_F32;
}

/* Describes (n,c,h,w) stored as (n,h,w,c). */
static cudnnBackendDescriptor_t tensor(maker *m, int which, weir_dtype t, const int64_t dim[4])
{
    const cudnnDataType_t type = type_of(t);
    const bool            nowhere = which == SUM;
    const int64_t         align = WEIR_DNN_ALIGN;
    const int64_t stride[4] = {dim[1] * dim[2] * dim[3], 1, dim[1] * dim[3], dim[1]};

    cudnnBackendDescriptor_t d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
        &unique_id[which]);
    set(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (nowhere)
        set(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &nowhere);
    finalize(m, d);
    return d;
}

static cudnnBackendDescriptor_t convolution(maker *m, const weir_conv *g)
{
    const cudnnDataType_t        sum = type_of(wide_of(g->dtype));
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t                spatial = 2;
    const int64_t end[2] = {
        weir_dnn_pad_end(g->h, g->dilation[0] * (g->kh - 1) + 1, g->stride[0], g->pad[0], g->oh),
        weir_dnn_pad_end(g->w, g->dilation[1] * (g->kw - 1) + 1, g->stride[1], g->pad[1], g->ow)};

    cudnnBackendDescriptor_t d = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sum);
    set(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, g->pad);
    set(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, end);
    set(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, g->dilation);
    set(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, g->stride);
    finalize(m, d);
    return d;
}

/* Names of the attributes of the three convolution operations. */
static const struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t  x, w, y, convolution, alpha, beta;
} operations[] = {
    [WEIR_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [WEIR_CONV_GRAD_X] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [WEIR_CONV_GRAD_W] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnBackendDescriptor_t operation(maker *m, const weir_conv *g,
                                          weir_conv_pass pass, const graph *of, bool bias)
{
    const struct operation *const   o = &operations[pass];
    const bool                      wide = g->dtype == WEIR_F64;
    const cudnnBackendAttributeType_t type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    const double                    one = 1, zero = 0;
    const float                     one_f = 1, zero_f = 0;

    cudnnBackendDescriptor_t d = make(m, o->type);
    set_one(m, d, o->convolution, of->desc[CONVOLUTION]);
    set_one(m, d, o->x, of->desc[X]);
    set_one(m, d, o->w, of->desc[W]);
    set_one(m, d, o->y, of->desc[bias ? SUM : Y]);
    set(m, d, o->alpha, type, 1, wide ? (const void *)&one : &one_f);
    set(m, d, o->beta, type, 1, wide ? (const void *)&zero : &zero_f);
    finalize(m, d);
    return d;
}

/* Adds the operation Y = SUM + BIAS. */
static void addition(maker *m, const weir_conv *g, graph *of)
{
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    const cudnnDataType_t      type = type_of(wide_of(g->dtype));

    cudnnBackendDescriptor_t add = of->desc[ADDITION] = make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(m, add, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(m, add, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    finalize(m, add);
    cudnnBackendDescriptor_t d = of->desc[ADD] =
        make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
    set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of->desc[SUM]);
    set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of->desc[BIAS]);
    set_one(m, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of->desc[Y]);
    finalize(m, d);
}

static void graph_make(maker *m, const weir_cuda_dnn *d, const weir_conv *g,
                       weir_conv_pass pass, bool bias, graph *out)
{
    const int64_t b[4] = {1, g->o, 1, 1};
    const int64_t x[4] = {g->n, g->c, g->h, g->w}, y[4] = {g->n, g->o, g->oh, g->ow};
    const int64_t w[4] = {g->o, g->c / g->groups, g->kh, g->kw};

    out->desc[X] = tensor(m, X, g->dtype, x);
    out->desc[W] = tensor(m, W, g->dtype, w);
    out->desc[Y] = tensor(m, Y, g->dtype, y);
    if (bias) {
        out->desc[SUM] = tensor(m, SUM, wide_of(g->dtype), y);
        out->desc[BIAS] = tensor(m, BIAS, g->dtype, b);
        addition(m, g, out);
    }
    out->desc[CONVOLUTION] = convolution(m, g);
    out->desc[OPERATION] = operation(m, g, pass, out, bias);
    out->desc[GRAPH] = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const cudnnBackendDescriptor_t all[2] = {out->desc[OPERATION], out->desc[ADD]};
    set(m, out->desc[GRAPH], CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        bias ? 2 : 1, all);
    if (d->handle)
        set(m, out->desc[GRAPH], CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
            &d->handle);
    finalize(m, out->desc[GRAPH]);
}

/* ---- engines ---- */

enum { CONFIGS = 64 };          /* most engine configurations requested from the heuristics */

/* Makes a plan of the configuration, which it takes over, if the rules allow the engine. */
static cudnnStatus_t consider(const weir_cuda_dnn *d, weir_dtype t,
                              cudnnBackendDescriptor_t *config, weir_dnn_plan *out)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    maker                       m = {.lib = d->lib};
    int64_t                     work = 0;

    cudnnBackendDescriptor_t engine = make(&m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    (void)get(&m, *config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    const int64_t notes = get(&m, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                              CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, note);
    drop(d->lib, &engine);
    if (m.status != CUDNN_STATUS_SUCCESS || !weir_dnn_allows(&d->rules, t, note, notes))
        return m.status;

    cudnnBackendDescriptor_t plan = make(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_one(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config);
    if (d->card)
        set_one(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, d->card);
    else
        set(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    finalize(&m, plan);
    (void)get(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &work);
    if (m.status != CUDNN_STATUS_SUCCESS || work < 0 || (uint64_t)work > d->rules.work) {
        drop(d->lib, &plan);
        return m.status;
    }
    *out = (weir_dnn_plan){.dnn = d,
                           .plan = plan,
                           .config = *config,
                           .work = (size_t)work,
                           .impl = weir_dnn_impl(t, note, notes)};
    *config = NULL;
    return CUDNN_STATUS_SUCCESS;
}

/* A search for plans of one convolution. fault: the first failure, unless one of memory follows. */
typedef struct search {
    const weir_cuda_dnn *d;
    const weir_conv     *g;
    weir_conv_pass       pass;
    int                  most, *found;
    weir_dnn_plan       *plan;
    cudnnStatus_t        fault;
    char                 why[WHY];
} search;

static bool no_memory(cudnnStatus_t s)
{
    return s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/* True if the library refuses a graph or an engine: another may do. Codes are thousands by kind. */
static bool refused(cudnnStatus_t s)
{
    const int kind = (int)s / 1000 * 1000;
    return kind == CUDNN_STATUS_BAD_PARAM || kind == CUDNN_STATUS_NOT_SUPPORTED;
}

static void note(search *q, cudnnStatus_t s)
{
    if (s == CUDNN_STATUS_SUCCESS || refused(s) ||
        (q->fault != CUDNN_STATUS_SUCCESS && !no_memory(s)))
        return;
    q->fault = s;
    q->d->lib->cudnnGetLastErrorString(q->why, sizeof q->why);
}

/* Adds the plans that one mode of the heuristics finds. */
static void ask(search *q, const graph *g, cudnnBackendHeurMode_t mode)
{
    const weir_cuda_lib_dnn *const lib = q->d->lib;
    cudnnBackendDescriptor_t       config[CONFIGS] = {NULL};
    maker                          m = {.lib = lib};

    cudnnBackendDescriptor_t heuristics = make(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_one(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->desc[GRAPH]);
    set(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (q->d->card)
        set_one(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, q->d->card);
    finalize(&m, heuristics);
    int64_t n = get(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                    NULL);
    for (int64_t i = 0; i < n && i < CONFIGS; i++)
        config[i] = make(&m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    n = n > 0 ? get(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    n < CONFIGS ? n : CONFIGS, config)
              : 0;
    note(q, m.status);
    for (int64_t i = 0; i < n && i < CONFIGS && *q->found < q->most && !no_memory(q->fault); i++) {
        weir_dnn_plan *const next = &q->plan[*q->found];
        note(q, consider(q->d, q->g->dtype, &config[i], next));
        *q->found += next->plan != NULL;
    }
    for (int i = 0; i < CONFIGS; i++)
        drop(lib, &config[i]);
    drop(lib, &heuristics);
}

static void search_with(search *q, bool bias)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                   CUDNN_HEUR_MODE_FALLBACK};
    graph                               descs = {{NULL}};
    maker                               m = {.lib = q->d->lib};

    graph_make(&m, q->d, q->g, q->pass, bias, &descs);
    note(q, m.status);
    for (size_t i = 0; m.status == CUDNN_STATUS_SUCCESS && i < sizeof modes / sizeof *modes &&
                       *q->found == 0 && !no_memory(q->fault); i++)
        ask(q, &descs, modes[i]);
    graph_drop(q->d->lib, &descs);
    for (int i = 0; i < *q->found; i++)
        q->plan[i].bias = bias;
}

weir_status weir_dnn_plans(const weir_cuda_dnn *d, const weir_call *c, const weir_conv *g,
                           weir_conv_pass pass, bool bias, int most, weir_dnn_plan *plan,
                           int *found)
{
    search q = {.d = d, .g = g, .pass = pass, .most = most, .plan = plan, .found = found};

    *found = 0;
    memset(plan, 0, (size_t)most * sizeof *plan);
    if (bias)
        search_with(&q, true);
    if (*found == 0 && !no_memory(q.fault))
        search_with(&q, false);
    if (q.fault == CUDNN_STATUS_SUCCESS || (*found > 0 && !no_memory(q.fault)))
        return WEIR_OK;
    while (*found > 0)
        weir_dnn_plan_drop(&plan[--*found]);
    return fail_of(d->lib, q.fault, c, "no plan by cuDNN (WEIR_CONV=own does without)", q.why);
}

void weir_dnn_plan_drop(weir_dnn_plan *p)
{
    if (!p->dnn)
        return;
    drop(p->dnn->lib, &p->plan);
    drop(p->dnn->lib, &p->config);
}

/* ---- running ---- */

weir_status weir_dnn_run(const weir_dnn_plan *p, const weir_call *c, cudaStream_t stream,
                         const weir_dnn_operands *o)
{
    const weir_cuda_lib_dnn *const lib = p->dnn->lib;
    const int                      n = p->bias ? 4 : 3;
    void *const                    data[] = {[X] = o->x, [W] = o->w, [Y] = o->y, [BIAS] = o->bias};
    maker                          m = {.lib = lib};

    m.status = lib->cudnnSetStream(p->dnn->handle, stream);
    cudnnBackendDescriptor_t pack = make(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, unique_id);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, data);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &o->work);
    finalize(&m, pack);
    if (m.status == CUDNN_STATUS_SUCCESS)
        m.status = lib->cudnnBackendExecute(p->dnn->handle, p->plan, pack);
    const weir_status s = status_of(lib, m.status, c, "cuDNN");
    drop(lib, &pack);
    return s;
}
