/* conv.c - selects who computes a convolution or a gradient of one: cuBLASLt if it is a matrix
 * product as it stands, else cuDNN if it is found and has an allowed engine, else our own kernels.
 * WEIR_CONV = own or cudnn requests one of them.
 *
 * cuDNN's engine is the first of its heuristics or, with WEIR_AUTOTUNE=1, the fastest of the first
 * few, timed on separate memory. Plans assume aligned operands; less aligned ones (a part of a
 * tensor may begin anywhere) use our own kernels, without a workspace. */
#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/cuda/kernels/conv_direct.h"
#include "device/cuda/kernels/conv_product.h"
#include "device/cuda/kernels/conv_suits.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/lib/dnn.h"

/* State of a kernel of cuDNN's. */
typedef struct plan {
    weir_conv      g;
    weir_conv_pass pass;
    weir_dnn_plan  dnn;
    weir_kernel    own;
    size_t         bias_at; /* byte offset of the bias gradient's partial sums */
} plan;

static void plan_free(void *state)
{
    plan *const p = state;

    weir_dnn_plan_drop(&p->dnn);
    weir_kernel_drop(&p->own);
    weir_mem_free(p);
}

/* ---- running ---- */

static weir_dnn_operands operands_of(const weir_kargs *k, const plan *p)
{
    if (p->pass == WEIR_CONV_FORWARD)
        return (weir_dnn_operands){k->src[0], k->src[1], k->dst[0],
                                   p->dnn.bias ? k->src[2] : NULL, k->work};
    if (p->pass == WEIR_CONV_GRAD_X)
        return (weir_dnn_operands){k->dst[0], k->src[1], k->src[0], NULL, k->work};
    return (weir_dnn_operands){k->src[0], k->dst[0], k->src[1], NULL, k->work};
}

static bool aligned(const weir_dnn_operands *o)
{
    return (((uintptr_t)o->x | (uintptr_t)o->w | (uintptr_t)o->y | (uintptr_t)o->bias) &
            (WEIR_DNN_ALIGN - 1)) == 0;
}

static weir_status run(const weir_kargs *k)
{
    const plan *const       p = k->state;
    const weir_dnn_operands o = operands_of(k, p);

    if (!aligned(&o)) {
        weir_kargs own = *k;
        own.state = p->own.state;
        return p->own.run(&own);
    }
    WEIR_TRY(weir_dnn_run(&p->dnn, k->call, weir_cuda_stream(k), &o));
    if (p->pass == WEIR_CONV_FORWARD && k->call->nin == 3 && !p->dnn.bias)
        return weir_cuda_conv_add_bias(k, &p->g, k->src[2], k->dst[0]);
    if (p->pass == WEIR_CONV_GRAD_W && k->call->nout == 2)
        return weir_cuda_conv_bias_grad(k, &p->g, k->src[1], k->dst[1],
                                        k->work ? (char *)k->work + p->bias_at : NULL);
    return WEIR_OK;
}

/* ---- timing ---- */

enum { CANDIDATES = 8, RUNS = 3 };

/* Memory and events for timing; all of them or none. */
typedef struct bench {
    weir_dnn_operands at;
    cudaEvent_t       begin, end;
} bench;

static void bench_free(bench *b)
{
    (void)cudaFree(b->at.x);
    (void)cudaFree(b->at.w);
    (void)cudaFree(b->at.y);
    (void)cudaFree(b->at.bias);
    (void)cudaFree(b->at.work);
    if (b->begin)
        (void)cudaEventDestroy(b->begin);
    if (b->end)
        (void)cudaEventDestroy(b->end);
}

static bool alloc_zeroed(void **p, size_t elements, size_t size, cudaStream_t s)
{
    return cudaMalloc(p, elements * size) == cudaSuccess &&
           cudaMemsetAsync(*p, 0, elements * size, s) == cudaSuccess;
}

static bool bench_make(bench *b, const weir_conv *g, size_t work, cudaStream_t s)
{
    const size_t size = weir_dtype_size(g->dtype);

    return alloc_zeroed(&b->at.x, (size_t)(g->n * g->h * g->w * g->c), size, s) &&
           alloc_zeroed(&b->at.w, (size_t)(g->o * g->kh * g->kw * (g->c / g->groups)), size, s) &&
           alloc_zeroed(&b->at.y, (size_t)(weir_conv_pixels(g) * g->o), size, s) &&
           alloc_zeroed(&b->at.bias, (size_t)g->o, size, s) &&
           alloc_zeroed(&b->at.work, work > 0 ? work : 1, 1, s) &&
           cudaEventCreate(&b->begin) == cudaSuccess && cudaEventCreate(&b->end) == cudaSuccess;
}

/* Milliseconds of RUNS runs after a first one; negative if they failed. */
static float time_of(const weir_dnn_plan *p, const weir_call *c, const bench *b, cudaStream_t s)
{
    float ms = -1;

    for (int i = 0; i <= RUNS; i++) {
        if (i == 1 && cudaEventRecord(b->begin, s) != cudaSuccess)
            return -1;
        if (weir_dnn_run(p, c, s, &b->at) != WEIR_OK)
            return -1;
    }
    return cudaEventRecord(b->end, s) == cudaSuccess &&
                   cudaEventSynchronize(b->end) == cudaSuccess &&
                   cudaEventElapsedTime(&ms, b->begin, b->end) == cudaSuccess
               ? ms
               : -1;
}

/* Index of the fastest of n plans; 0 if nothing can be timed. */
static int quickest(weir_device *d, const weir_call *c, const weir_conv *g,
                    const weir_dnn_plan *p, int n)
{
    const cudaStream_t s = weir_cuda_context_of(d)->compute;
    bench              b = {.begin = NULL};
    size_t             work = 0;
    float              least = -1;
    int                best = 0;

    for (int i = 0; i < n; i++)
        work = p[i].work > work ? p[i].work : work;
    const bool ready = bench_make(&b, g, work, s);
    for (int i = 0; i < n && ready; i++) {
        const float ms = time_of(&p[i], c, &b, s);
        if (ms >= 0 && (least < 0 || ms < least)) {
            least = ms;
            best = i;
        }
    }
    (void)cudaStreamSynchronize(s);
    (void)cudaGetLastError();
    bench_free(&b);
    return best;
}

/* ---- selecting ---- */

static bool asked_for(const char *variable, const char *value)
{
    const char *const is = getenv(variable);

    return is && strcmp(is, value) == 0;
}

/* Plans with the bias, if there is one and the library adds it in the same pass; *out is all zero
 * if the library has no plan. */
static weir_status choose_plan(weir_device *d, const weir_call *c, const weir_conv *g,
                               weir_conv_pass pass, weir_dnn_plan *out)
{
    weir_dnn_plan  some[CANDIDATES] = {{NULL}};
    weir_cuda_dnn *dnn;
    int            n = 0;

    WEIR_TRY(weir_cuda_dnn_of(d, c, &dnn));
    const int most = asked_for("WEIR_AUTOTUNE", "1") ? CANDIDATES : 1;
    if (dnn->lib)
        WEIR_TRY(weir_dnn_plans(dnn, c, g, pass, pass == WEIR_CONV_FORWARD && c->nin == 3, most,
                                some, &n));
    const int best = n > 1 ? quickest(d, c, g, some, n) : 0;
    *out = some[best];
    some[best] = (weir_dnn_plan){NULL};
    for (int i = 0; i < n; i++)
        weir_dnn_plan_drop(&some[i]);
    return WEIR_OK;
}

/* Selects the library's plan together with the bias kernels around it. */
static weir_status choose_dnn(const weir_call *c, const weir_conv *g, weir_conv_pass pass,
                              weir_dnn_plan *dnn, weir_kernel *out)
{
    plan *const p = weir_mem_zalloc(1, sizeof *p);

    if (!p) {
        weir_dnn_plan_drop(dnn);
        return WEIR_ERR_NOMEM;
    }
    p->g = *g;
    p->pass = pass;
    p->dnn = *dnn;
    p->bias_at = (dnn->work + WEIR_CUDA_ALIGN - 1) / WEIR_CUDA_ALIGN * WEIR_CUDA_ALIGN;
    const weir_status s = weir_cuda_conv_own(c, g, pass, false, &p->own);
    if (s != WEIR_OK) {
        plan_free(p);
        return s;
    }
    const size_t bias = pass == WEIR_CONV_GRAD_W && c->nout == 2 ? weir_cuda_conv_bias_work(g)
                                                                       : 0;
    *out = (weir_kernel){.run = run,
                         .work = bias > 0 ? p->bias_at + bias : dnn->work,
                         .state = p,
                         .destroy = plan_free,
                         .impl = dnn->impl};
    return WEIR_OK;
}

static weir_status or_drop(weir_status s, const weir_kernel *c)
{
    if (s != WEIR_OK)
        weir_kernel_drop(c);
    return s;
}

static weir_status choose(weir_device *d, const weir_call *c, const weir_conv *g,
                          weir_conv_pass pass, weir_kernel *out)
{
    const bool    own = asked_for("WEIR_CONV", "own"), must = asked_for("WEIR_CONV", "cudnn");
    bool          library = false;
    weir_dnn_plan dnn = {NULL};
    weir_kernel   product = {NULL};

    if (weir_cuda_conv_is_product(g) && !own && !must)
        WEIR_TRY(weir_cuda_conv_product(d, c, g, pass, &library, &product));
    if (weir_cuda_conv_suits_dnn(g) && !own && !library)
        WEIR_TRY(or_drop(choose_plan(d, c, g, pass, &dnn), &product));
    if (dnn.dnn) {
        weir_kernel_drop(&product);
        return choose_dnn(c, g, pass, &dnn, out);
    }
    if (product.run) {
        *out = product;
        return WEIR_OK;
    }
    if (must)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "WEIR_CONV=cudnn, but cuDNN is missing or has "
                              "no algorithm for this");
    return weir_cuda_conv_own(c, g, pass, true, out);
}

weir_status weir_cuda_conv2d(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_conv g = weir_conv_forward_of(c);

    return choose(d, c, &g, WEIR_CONV_FORWARD, out);
}

weir_status weir_cuda_conv2d_grad_x(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_conv g = weir_conv_grad_x_of(c);

    return choose(d, c, &g, WEIR_CONV_GRAD_X, out);
}

weir_status weir_cuda_conv2d_grad_w(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_conv g = weir_conv_grad_w_of(c);

    return choose(d, c, &g, WEIR_CONV_GRAD_W, out);
}
