/* dnn.cpp - an emulated cuDNN: the functions that the plugin calls, on host memory, queued.
 *
 * It checks everything: an attribute that a descriptor does not have, of a wrong type or count, or
 * missing when the descriptor is finalised, and a descriptor used before that or after its
 * destruction end the program with a sentence. Its heuristics return engines that differ in their
 * numerics, and those that rules forbid really deviate: sums that change from run to run, operands
 * rounded to TF32. It does not support unequal padding. */
#include <cudnn_backend.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dnn_run.h"
#include "inject.h"
#include "work.h"

#define API __attribute__((visibility("default")))

namespace {

__attribute__((format(printf, 1, 2), noreturn)) void wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("emulated cuDNN: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    abort();
}

/* ---- descriptors ---- */

struct desc;

struct value {
    cudnnBackendAttributeType_t        type;
    std::vector<char>                  bytes;
    std::vector<std::shared_ptr<desc>> descs;
};

struct desc {
    cudnnBackendDescriptorType_t type;
    bool                         finished;
    std::map<int, value>         has;
    int                          engine;    /* of ENGINE, ENGINECFG, EXECUTION_PLAN */
};

/* The objects behind handles: a descriptor lives as long as another refers to it. */
struct holder {
    std::shared_ptr<desc> d;
};

std::set<holder *> live;
long               injected, ran[DNN_ENGINES], handles;

/* In a call that creates something, and may run out of memory. */
#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        EMULATE_CALL(cudnnStatus_t);                                                               \
        if (injected > 0 && --injected == 0)                                                       \
            return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;                             \
    } while (0)

std::shared_ptr<desc> known(cudnnBackendDescriptor_t p)
{
    if (!live.count((holder *)p))
        wrong("descriptor %p is none, or was destroyed", p);
    return ((holder *)p)->d;
}

/* ---- the attributes; all of a descriptor must be set ---- */

struct rule {
    int                         descriptor, name;
    cudnnBackendAttributeType_t type;
    int64_t                     count;
    int                         of;         /* descriptors: their required kind */
    int64_t                     more;       /* number of elements allowed beyond count */
    bool                        optional;
};

#define TENSOR_RULE(kind, name)                                                                    \
    {kind, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, CUDNN_BACKEND_TENSOR_DESCRIPTOR, 0, false}
#define OPERATION_RULES(kind, prefix, x, w, y)                                                     \
    {kind, prefix##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,                                   \
     CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 0, false},                                              \
    TENSOR_RULE(kind, prefix##x), TENSOR_RULE(kind, prefix##w), TENSOR_RULE(kind, prefix##y),      \
    {kind, prefix##_ALPHA, CUDNN_TYPE_FLOAT, 1, 0, 0, false},                                      \
    {kind, prefix##_BETA, CUDNN_TYPE_FLOAT, 1, 0, 0, false}

const rule rules[] = {
#define RULE(descriptor, name, type, count, of)                                                    \
    {CUDNN_BACKEND_##descriptor##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, count, of, 0,  \
     false}
    RULE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 0),
    RULE(TENSOR, TENSOR_DIMENSIONS, INT64, 4, 0),
    RULE(TENSOR, TENSOR_STRIDES, INT64, 4, 0),
    RULE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 0),
    RULE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 0),
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 0, 0,
     true},
    RULE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 0),
    RULE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 0),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1,
         CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1,
         CUDNN_BACKEND_TENSOR_DESCRIPTOR),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1,
         CUDNN_BACKEND_TENSOR_DESCRIPTOR),
    RULE(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1,
         CUDNN_BACKEND_TENSOR_DESCRIPTOR),
    RULE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 0),
    RULE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 0),
    RULE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 0),
    RULE(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, 0),
    RULE(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, 0),
    RULE(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2, 0),
    RULE(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, 0),
    OPERATION_RULES(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, _X, _W, _Y),
    OPERATION_RULES(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, _DX, _W, _DY),
    OPERATION_RULES(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, _X, _DW, _DY),
    RULE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, 0),
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, -1, 1, false},
    RULE(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1,
         CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    RULE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 0),
    RULE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, 0),
    RULE(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1,
         CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
     CUDNN_TYPE_INT64, 3, 0, 1, false},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, 3, 0, 1, false},
    RULE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 0),
};

size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
        return 1;
    default:
        return 4;
    }
}

bool is_convolution(int type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

/* Scaling factors may be doubles; finalising an operation checks where they are required. */
void check_rule(const rule &r, cudnnBackendAttributeType_t type, int64_t count)
{
    const bool factor = r.type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE;
    if ((type != r.type && !factor) || count < r.count || count > r.count + r.more)
        wrong("attribute %d of a descriptor of type %d takes %lld of type %d, not %lld of type %d",
              r.name, r.descriptor, (long long)r.count, (int)r.type, (long long)count, (int)type);
}

template <class T> const T *at(const desc &d, int name)
{
    const auto found = d.has.find(name);
    if (found == d.has.end())
        wrong("attribute %d of a descriptor of type %d is not set", name, (int)d.type);
    return (const T *)found->second.bytes.data();
}

const desc &part(const desc &d, int name, size_t i = 0)
{
    return *d.has.at(name).descs.at(i);
}

bool is_virtual(const desc &tensor)
{
    return tensor.has.count(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
           *at<bool>(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

/* ---- the convolution of a graph ---- */

/* The attributes of an operation's operands. */
struct names {
    int type, x, w, y, convolution, alpha;
};
const names passes[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA},
};

/* Tensors that accumulate have the wider type. */
void check_tensor(const desc &t, cudnnDataType_t type)
{
    if (is_virtual(t) && type != CUDNN_DATA_DOUBLE)
        type = CUDNN_DATA_FLOAT;
    const int64_t *const d = at<int64_t>(t, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t *const s = at<int64_t>(t, CUDNN_ATTR_TENSOR_STRIDES);
    if (*at<cudnnDataType_t>(t, CUDNN_ATTR_TENSOR_DATA_TYPE) != type)
        wrong("tensors of several types in one convolution");
    if (s[1] != 1 || s[3] != d[1] || s[2] != d[3] * d[1] || s[0] != d[2] * s[2])
        wrong("a tensor that is not channels-last");
    if (*at<int64_t>(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) % 16 != 0)
        wrong("an alignment of %lld", (long long)*at<int64_t>(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
}

/* Checks the number of windows along axis k. */
void check_places(const dnn_geometry &g, int k, int64_t after)
{
    const int64_t size = k ? g.w : g.h, kernel = k ? g.kw : g.kh, places = k ? g.ow : g.oh;
    const int64_t reach = g.dilation[k] * (kernel - 1) + 1;
    if ((size + g.before[k] + after - reach) / g.stride[k] + 1 != places)
        wrong("%lld cells, padded by %lld and %lld, do not have %lld windows of %lld cells",
              (long long)size, (long long)g.before[k], (long long)after, (long long)places,
              (long long)reach);
}

dnn_problem problem_of(const desc &op, int64_t after[2])
{
    dnn_problem p = {};
    while (passes[p.pass].type != (int)op.type)
        p.pass++;
    const names &n = passes[p.pass];
    const desc  &x = part(op, n.x), &w = part(op, n.w), &y = part(op, n.y);
    const desc  &v = part(op, n.convolution);
    p.type = *at<cudnnDataType_t>(x, CUDNN_ATTR_TENSOR_DATA_TYPE);
    check_tensor(x, p.type);
    check_tensor(w, p.type);
    check_tensor(y, p.type);
    const int64_t *const dx = at<int64_t>(x, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t *const dw = at<int64_t>(w, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t *const dy = at<int64_t>(y, CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (dx[0] != dy[0] || dw[0] != dy[1] || dx[1] % dw[1] != 0 || dy[1] % (dx[1] / dw[1]) != 0)
        wrong("tensors whose sizes do not fit together");
    p.g = {dx[0], dx[1], dx[2], dx[3], dw[0], dw[1], dw[2], dw[3], dy[2], dy[3], {}, {}, {}};
    const desc *const tensor[3] = {&x, &w, &y};
    for (int i = 0; i < 3; i++)
        p.id[i] = *at<int64_t>(*tensor[i], CUDNN_ATTR_TENSOR_UNIQUE_ID);
    for (int k = 0; k < 2; k++) {
        p.g.stride[k] = at<int64_t>(v, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[k];
        p.g.before[k] = at<int64_t>(v, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[k];
        p.g.dilation[k] = at<int64_t>(v, CUDNN_ATTR_CONVOLUTION_DILATIONS)[k];
        after[k] = at<int64_t>(v, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[k];
        check_places(p.g, k, after[k]);
    }
    return p;
}

/* A convolution, and the addition of a bias to its result if that is a virtual tensor. */
dnn_problem problem_of_graph(const desc &graph, int64_t after[2])
{
    const auto  &all = graph.has.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descs;
    const desc  &op = *all[0];
    dnn_problem  p = problem_of(op, after);
    const desc  &sum = part(op, passes[p.pass].y);
    if (is_virtual(sum) != (all.size() == 2))
        wrong("a result that is nowhere in memory goes into a second operation, no other");
    if (all.size() == 1)
        return p;
    const desc &add = *all[1], &bias = part(add, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const desc &to = part(add, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const int64_t *const d = at<int64_t>(bias, CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (p.pass != 0 || &part(add, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != &sum ||
        *at<int>(part(add, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
                 CUDNN_ATTR_POINTWISE_MODE) != CUDNN_POINTWISE_ADD)
        wrong("a second operation that does not add to the convolution's result");
    check_tensor(bias, p.type);
    check_tensor(to, p.type);
    if (d[0] != 1 || d[1] != p.g.o || d[2] != 1 || d[3] != 1 || is_virtual(to) ||
        memcmp(at<int64_t>(to, CUDNN_ATTR_TENSOR_DIMENSIONS),
               at<int64_t>(sum, CUDNN_ATTR_TENSOR_DIMENSIONS), 4 * sizeof *d) != 0)
        wrong("a bias that is not one number per channel of the result");
    p.bias = true;
    p.id[2] = *at<int64_t>(to, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    p.id[3] = *at<int64_t>(bias, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    return p;
}

/* Checks relations between attributes; false: the library does not support them. */
bool check_finished(const desc &d)
{
    const bool graph = d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
    if (!is_convolution(d.type) && !graph)
        return true;
    const desc       &op = graph ? part(d, CUDNN_ATTR_OPERATIONGRAPH_OPS) : d;
    int64_t           after[2];
    const dnn_problem p = graph ? problem_of_graph(d, after) : problem_of(d, after);
    const bool        wide = p.type == CUDNN_DATA_DOUBLE;
    const desc       &v = part(op, passes[p.pass].convolution);
    if (*at<int>(v, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
        *at<int64_t>(v, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2)
        wrong("not a correlation of images");
    if (*at<int>(v, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) !=
        (wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
        wrong("sums in another type than that of factors");
    if (op.has.at(passes[p.pass].alpha).type != (wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT))
        wrong("factors of another type than that of sums");
    return !graph || (after[0] == p.g.before[0] && after[1] == p.g.before[1]);
}

/* ---- heuristics ---- */

/* Mode A supports no f64, mode B nothing, and no engine supports a bias in f64. */
std::vector<int> engines_for(const desc &heuristics)
{
    const desc &graph = part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    int64_t     after[2];
    const dnn_problem p = problem_of_graph(graph, after);
    const bool  wide = p.type == CUDNN_DATA_DOUBLE;
    const int   mode = *at<int>(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE);
    if (wide && p.bias)
        return {};
    if (mode == CUDNN_HEUR_MODE_FALLBACK)
        return {DNN_PLAIN};
    if (mode != CUDNN_HEUR_MODE_A || wide)
        return {};
    return {DNN_UNSTEADY, DNN_CORE, DNN_WINOGRAD, DNN_LARGE, DNN_FAILING, DNN_GOOD, DNN_PLAIN};
}

void get_results(const desc &heuristics, int64_t n, int64_t *count, void **config)
{
    const std::vector<int> found = engines_for(heuristics);
    /* Like the real library it announces more engines than it returns. */
    *count = (int64_t)found.size() + (n == 0 && !found.empty());
    for (size_t i = 0; i < found.size() && (int64_t)i < n; i++) {
        desc &d = *known(config[i]);
        if (d.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || d.finished)
            wrong("results go into new descriptors of configurations");
        d.finished = true;
        d.engine = found[i];
        d.has[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
            heuristics.has.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    }
    if (n > 0 && *count > n)
        *count = n;
}

cudnnHandle_t handle_of(const void *p)
{
    cudnnHandle_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

/* ---- handles ---- */

struct context {
    uint64_t     is;
    cudaStream_t stream;
    int          card;
};

context *known_handle(cudnnHandle_t h)
{
    context *const c = (context *)h;
    if (!c || c->is != 0x4843)
        wrong("handle %p is none, or was destroyed", (void *)h);
    return c;
}
}

extern "C" {

void emulate_dnn_fail(long nth)
{
    injected = nth;
}

long emulate_dnn_live(void)
{
    return (long)live.size();
}

long emulate_dnn_ran(int i)
{
    return ran[i];
}

API size_t cudnnGetVersion(void)
{
    return 91900;
}

API const char *cudnnGetErrorString(cudnnStatus_t s)
{
    return s == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_EMULATED";
}

API void cudnnGetLastErrorString(char *message, size_t n)
{
    snprintf(message, n, "planted");
}

API cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
    MAY_FAIL();
    *h = (cudnnHandle_t) new context{0x4843, NULL, emulate_current_in_plugin()};
    handles++;
    emulate_hold_in_plugin(1);
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    context *const c = known_handle(h);
    c->is = 0;
    delete c;
    if (--handles == 0 && !live.empty())
        wrong("%zu descriptors are left when the last handle goes", live.size());
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(cudnnStatus_t);            /* the handle is gone all the same */
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
    EMULATE_CALL(cudnnStatus_t);
    known_handle(h)->stream = s;
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                               cudnnBackendDescriptor_t *out)
{
    MAY_FAIL();
    holder *const h = new holder{std::make_shared<desc>(desc{type, false, {}, -1})};
    live.insert(h);
    emulate_hold_in_plugin(1);
    *out = h;
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
    known(p);
    live.erase((holder *)p);
    delete (holder *)p;
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(cudnnStatus_t);            /* the descriptor is gone all the same */
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p,
                                           cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t count,
                                           const void *values)
{
    desc &d = *known(p);
    if (d.finished)
        wrong("attribute %d is set after the descriptor was finished", (int)name);
    for (const rule &r : rules) {
        if (r.descriptor != (int)d.type || r.name != (int)name)
            continue;
        check_rule(r, type, count);
        MAY_FAIL();
        value v = {type, {}, {}};
        if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
            for (int64_t i = 0; i < count; i++) {
                v.descs.push_back(known(((const cudnnBackendDescriptor_t *)values)[i]));
                const desc &of = *v.descs.back();
                const int   want = r.of >= 0 ? r.of : CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
                const bool  fits = r.of < 0 && i == 0 ? is_convolution(of.type)
                                                      : (int)of.type == want;
                if (!of.finished || !fits)
                    wrong("attribute %d is a descriptor of type %d, %sfinished", (int)name,
                          (int)of.type, of.finished ? "" : "not ");
            }
        } else {
            v.bytes.assign((const char *)values,
                           (const char *)values + (size_t)count * bytes_of(type));
        }
        if (type == CUDNN_TYPE_HANDLE)
            known_handle(handle_of(values));
        d.has[name] = v;
        return CUDNN_STATUS_SUCCESS;
    }
    wrong("a descriptor of type %d has no attribute %d", (int)d.type, (int)name);
}

API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
    desc &d = *known(p);
    if (d.finished)
        wrong("a descriptor of type %d is finished twice", (int)d.type);
    MAY_FAIL();
    for (const rule &r : rules)
        if (r.descriptor == (int)d.type && !d.has.count(r.name) && !r.optional)
            wrong("attribute %d of a descriptor of type %d is not set", r.name, r.descriptor);
    if (!check_finished(d))
        return CUDNN_STATUS_NOT_SUPPORTED_PADDING;
    if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        d.engine = part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine;
        if (dnn_engines[d.engine].fails)
            return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    }
    d.finished = true;
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const p,
                                           cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t n,
                                           int64_t *count, void *values)
{
    const desc &d = *known(p);
    if (!d.finished)
        wrong("attribute %d is asked for before the descriptor is finished", (int)name);
    MAY_FAIL();
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        get_results(d, n, count, (void **)values);
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
               n == 1 && d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
        desc &e = *known(*(cudnnBackendDescriptor_t *)values);
        if (e.type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
            wrong("an engine goes into a descriptor of type %d", (int)e.type);
        e.engine = d.engine;
        e.finished = true;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE &&
               n >= 2 && d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
        *count = dnn_engines[d.engine].notes;
        memcpy(values, dnn_engines[d.engine].note, (size_t)*count * sizeof(int));
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
               n == 1 && d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        memcpy(values, &dnn_engines[d.engine].work, sizeof(int64_t));
    } else {
        wrong("a descriptor of type %d is not asked for %lld of attribute %d, type %d",
              (int)d.type, (long long)n, (int)name, (int)type);
    }
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                      cudnnBackendDescriptor_t pack)
{
    const desc &e = *known(plan), &v = *known(pack);
    if (!e.finished || !v.finished || e.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        v.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        wrong("a plan and its operands are wanted");
    if (handle_of(at<char>(e, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) != h ||
        known_handle(h)->card != emulate_current_in_plugin())
        wrong("a plan is executed by another handle than its own, or on another card");
    MAY_FAIL();
    int64_t after[2];
    const desc &config = part(e, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    dnn_problem p = problem_of_graph(part(config, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), after);
    p.engine = e.engine;
    const int64_t *const id = at<int64_t>(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    void *const *const   data = at<void *>(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const size_t         tensors = p.bias ? 4 : 3;
    if (v.has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).bytes.size() != tensors * sizeof *id ||
        v.has.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).bytes.size() != tensors * sizeof *data)
        wrong("expected one operand per tensor in memory: %zu", tensors);
    for (size_t i = 0; i < tensors; i++) {
        for (size_t j = 0; j < tensors; j++)
            p.at[i] = id[j] == p.id[i] ? data[j] : p.at[i];
        if (!p.at[i] || (uintptr_t)p.at[i] % 16 != 0)
            wrong("operand %zu, %p: missing or not aligned", i, p.at[i]);
    }
    p.work = *at<void *>(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const int64_t work = dnn_engines[p.engine].work;
    if (work > 0 && (!p.work || (uintptr_t)p.work % 256 != 0))
        wrong("a workspace of %lld bytes at %p", (long long)work, p.work);
    ran[p.engine]++;
    return emulate_work_in_plugin(known_handle(h)->stream, dnn_run, &p, sizeof p) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}

}
