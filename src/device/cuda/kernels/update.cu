/* update.cu - optimiser updates, learning rates, counters, accumulation: memory overwritten in one
 * pass.
 *
 * Formulas, order of operations and types are those of device/cpu/kernels/update_isa.c, and so are
 * the bits. A block processes WEIR_UPDATE_CHUNK elements of one tensor of the list (update.h); its
 * first thread computes the scalars of the run. The gradient of an update in f32 may be a half,
 * which is widened as it is loaded (weir_device_ops.widens). */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/maths.h"
#include "device/cuda/kernels/update.h"

#define inline inline __host__ __device__
#include "device/common/update_rate.h"
#undef inline

static_assert(sizeof(weir_update_batch) <= 4096, "a kernel's parameters");

enum {
    SGD, SGD_MOMENTUM, ADAM, ADAGRAD,
    RMSPROP, RMSPROP_BUFFER, RMSPROP_MEAN, RMSPROP_BOTH,
    INCREMENT, ACCUMULATE, RESET, KINDS
};

/* Operands of a kind: parameter, gradient, states; all except the gradient are written. */
static __host__ __device__ constexpr int operands_of(int kind)
{
    constexpr int operands[KINDS] = {2, 3, 4, 3, 3, 4, 4, 5, 1, 2, 1};
    return operands[kind];
}

enum { GRAD = 1 };

/* Scalars of one run in the type of the elements. keep, take: for the first moment; keep2, take2:
 * for the squares; shrink: AdamW's factor of the parameter. */
template <class T> struct scalars {
    T    lr, decay, keep, take, keep2, take2, momentum, eps, step, root, shrink, by;
    bool decays, flag, shrinks, skip;
};

static __device__ double scalar(const void *at, int64_t type, int i)
{
    return type == 0 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

static __device__ double number(const weir_update_args &a, int i)
{
    return a.numbers ? scalar(a.lr, a.lr_type, 1 + i) : a.number[i];
}

template <class T> static __device__ void set_decay(scalars<T> *s, double decay)
{
    s->decay = (T)decay;
    s->decays = decay != 0;
}

template <class T> static __device__ void set_adam(scalars<T> *s, const weir_update_args &a,
                                                   double lr)
{
    const double beta1 = number(a, 0), beta2 = number(a, 1), decay = number(a, 3), t = *a.step;
    const double shrink = 1 - lr * (a.flag ? decay : 0);

    set_decay(s, a.flag ? 0 : decay);
    s->keep = (T)beta1;
    s->take = (T)(1 - beta1);
    s->keep2 = (T)beta2;
    s->take2 = (T)(1 - beta2);
    s->eps = (T)number(a, 2);
    s->shrink = (T)shrink;
    s->shrinks = shrink != 1;
    s->step = (T)(lr / (1 - weir_count_power(beta1, t)));
    s->root = (T)sqrt(1 - weir_count_power(beta2, t));
}

template <class T, int KIND> static __device__ void set(scalars<T> *s, const weir_update_args &a)
{
    const double lr = KIND <= RMSPROP_BOTH ? scalar(a.lr, a.lr_type, 0) : 0;

    s->lr = (T)lr;
    s->skip = lr != lr;
    s->flag = a.flag != 0;
    if (KIND == SGD || KIND == SGD_MOMENTUM) {
        s->momentum = (T)number(a, 0);
        set_decay(s, number(a, 1));
        s->take = a.step && *a.step == 1 ? (T)1 : (T)(1 - number(a, 2));
    } else if (KIND == ADAM) {
        set_adam(s, a, lr);
    } else if (KIND == ADAGRAD) {
        s->eps = (T)number(a, 0);
        set_decay(s, number(a, 1));
    } else if (KIND <= RMSPROP_BOTH) {
        const double alpha = number(a, 0);
        s->keep = (T)alpha;
        s->take = (T)(1 - alpha);
        s->eps = (T)number(a, 1);
        set_decay(s, number(a, 2));
        s->momentum = (T)number(a, 3);
    } else {
        s->by = (T)a.number[0];
    }
}

static __device__ inline float  root_of(float x)  { return sqrtf(x); }
static __device__ inline double root_of(double x) { return sqrt(x); }

template <class T> static __device__ inline void adam(const scalars<T> &s, T *x, T d)
{
    const T q = s.shrinks ? s.shrink * x[0] : x[0];

    x[2] = s.keep * x[2] + s.take * d;
    x[3] = s.keep2 * x[3] + s.take2 * (d * d);
    x[0] = q - s.step * (x[2] / (root_of(x[3]) / s.root + s.eps));
}

template <class T, int KIND> static __device__ inline void rmsprop(const scalars<T> &s, T *x, T d)
{
    constexpr bool buffer = KIND == RMSPROP_BUFFER || KIND == RMSPROP_BOTH;
    constexpr bool mean = KIND == RMSPROP_MEAN || KIND == RMSPROP_BOTH;
    constexpr int  at = buffer ? 4 : 3;

    x[2] = s.keep * x[2] + s.take * (d * d);
    T square = x[2];
    if constexpr (mean) {
        x[at] = s.keep * x[at] + s.take * d;
        square -= x[at] * x[at];
    }
    T step = d / (s.flag ? root_of(square + s.eps) : root_of(square) + s.eps);
    if constexpr (buffer)
        step = x[3] = s.momentum * x[3] + step;
    x[0] -= s.lr * step;
}

/* Updates one element; x[i] is that of operand i. */
template <class T, int KIND> static __device__ inline void one(const scalars<T> &s, T *x)
{
    if constexpr (KIND == RESET) {
        x[0] = s.by;
    } else if constexpr (KIND == INCREMENT) {
        x[0] += s.by;
    } else if constexpr (KIND == ACCUMULATE) {
        x[0] += x[GRAD];
    } else {
        const T d = s.decays ? x[GRAD] + s.decay * x[0] : x[GRAD];
        if constexpr (KIND == SGD) {
            x[0] -= s.lr * d;
        } else if constexpr (KIND == SGD_MOMENTUM) {
            x[2] = s.momentum * x[2] + s.take * d;
            x[0] -= s.lr * (s.flag ? d + s.momentum * x[2] : x[2]);
        } else if constexpr (KIND == ADAM) {
            adam(s, x, d);
        } else if constexpr (KIND == ADAGRAD) {
            x[2] += d * d;
            x[0] -= s.lr * (d / (s.flag ? root_of(x[2] + s.eps) : root_of(x[2]) + s.eps));
        } else {
            rmsprop<T, KIND>(s, x, d);
        }
    }
}

template <class T, int V> struct alignas(sizeof(T) * V) aligned_vector {
    T at[V];
};

/* Updates this thread's elements from `begin`, V at a time; n is a multiple of V. The gradient's
 * elements have type G. */
template <class T, class G, int KIND, int V>
static __device__ inline void many(const scalars<T> &s, void *const *p, int64_t begin, int64_t end)
{
    constexpr int operands = operands_of(KIND);

    for (int64_t i = begin + (int64_t)threadIdx.x * V; i < end; i += (int64_t)blockDim.x * V) {
        aligned_vector<T, V> x[operands];
        aligned_vector<G, V> grad = {};
        for (int k = 0; k < operands && KIND != RESET; k++)
            if (k == GRAD)
                grad = *(const aligned_vector<G, V> *)((const G *)p[k] + i);
            else
                x[k] = *(const aligned_vector<T, V> *)((const T *)p[k] + i);
        for (int v = 0; v < V; v++) {
            T one_of[operands];
            for (int k = 0; k < operands; k++)
                one_of[k] = KIND == RESET ? 0 : k == GRAD ? weir_value(grad.at[v]) : x[k].at[v];
            one<T, KIND>(s, one_of);
            for (int k = 0; k < operands; k++)
                x[k].at[v] = one_of[k];
        }
        for (int k = 0; k < operands; k++)
            if (k != GRAD)
                *(aligned_vector<T, V> *)((T *)p[k] + i) = x[k];
    }
}

/* Index of the tensor to which block b belongs. */
static __device__ int tensor_of(const weir_update_batch &b, unsigned block)
{
    int low = 0, high = (int)b.n;

    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (b.first[middle] <= block)
            low = middle;
        else
            high = middle;
    }
    return low;
}

template <class T, class G, int KIND>
static __global__ void __launch_bounds__(WEIR_CUDA_THREADS) update(const weir_update_batch b)
{
    constexpr int         operands = operands_of(KIND), wide = 16 / (int)sizeof(T);
    __shared__ scalars<T> s;
    const int             which = tensor_of(b, blockIdx.x);
    const int64_t         n = b.tensor[which].n;
    const int64_t         begin = (int64_t)(blockIdx.x - b.first[which]) * WEIR_UPDATE_CHUNK;
    const int64_t         end = begin + WEIR_UPDATE_CHUNK < n ? begin + WEIR_UPDATE_CHUNK : n;
    void                 *p[operands];
    uintptr_t             addresses = 0;

    if (threadIdx.x == 0)
        set<T, KIND>(&s, b.args);
    for (int k = 0; k < operands; k++) {
        p[k] = b.tensor[which].at[k];
        addresses |= (uintptr_t)p[k];
    }
    __syncthreads();
    if (s.skip)
        return;
    const int64_t middle = addresses % 16 == 0 ? end - end % wide : begin;
    many<T, G, KIND, wide>(s, p, begin, middle);
    many<T, G, KIND, 1>(s, p, middle, end);
}

/* ---- the list of waiting updates ---- */

typedef void (*update_kernel)(weir_update_batch);

static update_kernel kernel_of(const weir_update_args *a)
{
#define ALONE(K) update<float, float, K>, update<double, double, K>
#define KERNELS(K) {ALONE(K), update<float, weir_bf16, K>, update<float, weir_f16, K>}
    static const update_kernel kernels[KINDS][4] = {
        KERNELS(SGD), KERNELS(SGD_MOMENTUM), KERNELS(ADAM), KERNELS(ADAGRAD),
        KERNELS(RMSPROP), KERNELS(RMSPROP_BUFFER), KERNELS(RMSPROP_MEAN), KERNELS(RMSPROP_BOTH),
        {ALONE(INCREMENT)}, KERNELS(ACCUMULATE), {ALONE(RESET)},
    };
#undef KERNELS
#undef ALONE
    const int half = a->grad_type == WEIR_BF16 ? 2 : a->grad_type == WEIR_F16 ? 3 : 0;
    return kernels[a->kind][half ? half : a->type];
}

/* Launches the list; the context's pending.flush. */
static cudaError_t launch_waiting(void *arg)
{
    weir_cuda_updates *const u = (weir_cuda_updates *)arg;
    weir_update_batch *const b = &u->batch;
    if (b->n == 0)
        return cudaSuccess;
    const unsigned blocks = b->first[b->n];
    const cudaError_t e = weir_launch_on(u->stream, kernel_of(&b->args), blocks, WEIR_CUDA_THREADS,
                                         *b);
    b->n = 0;
    return e;
}

/* Bytes of operand i of the tensor. */
static size_t bytes_of(const weir_update_args *a, const weir_update_tensor *t, int i)
{
    return (size_t)t->n * (i == GRAD ? weir_dtype_size((weir_dtype)a->grad_type)
                           : a->type == 0 ? sizeof(float) : sizeof(double));
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (const char *)a < (const char *)b + b_bytes &&
           (const char *)b < (const char *)a + a_bytes;
}

/* True if one of the tensors writes what the other reads or writes. */
static bool collide(const weir_update_args *args, const weir_update_tensor *a,
                    const weir_update_tensor *b, int operands)
{
    for (int i = 0; i < operands; i++)
        for (int k = 0; k < operands; k++)
            if ((i != GRAD || k != GRAD) &&
                overlap(a->at[i], bytes_of(args, a, i), b->at[k], bytes_of(args, b, k)))
                return true;
    return false;
}

static unsigned chunks(int64_t n)
{
    return (unsigned)ceil_div(n, WEIR_UPDATE_CHUNK);
}

/* True if the update may join the list. A call never writes its own rate and step, which are those
 * of the others. */
static bool joins(const weir_cuda_updates *u, const weir_update_args *a,
                  const weir_update_tensor *t, cudaStream_t stream)
{
    const weir_update_batch *const b = &u->batch;

    if (b->n == WEIR_UPDATE_TENSORS || u->stream != stream ||
        memcmp(&b->args, a, sizeof *a) != 0 ||
        (int64_t)b->first[b->n] + chunks(t->n) > INT32_MAX)
        return false;
    for (int64_t i = 0; i < b->n; i++)
        if (collide(a, &b->tensor[i], t, u->operands))
            return false;
    return true;
}

/* Adds the update to the list; launches the list first if the update may not join it. */
static weir_status wait_in_line(const weir_kargs *k, const weir_update_args *a,
                                const weir_update_tensor *t)
{
    weir_cuda_context *const c = weir_cuda_context_of(k->dev);
    weir_cuda_updates *const u = c->updates;
    const cudaStream_t       stream = k->stream ? (cudaStream_t)k->stream : c->compute;

    if (u->batch.n > 0 && !joins(u, a, t, stream))
        (void)weir_cuda_stream(k);
    WEIR_TRY(weir_cuda_late(k->dev));
    weir_update_batch *const b = &u->batch;
    if (b->n == 0) {
        b->args = *a;
        b->first[0] = 0;
        u->operands = operands_of((int)a->kind);
        u->stream = stream;
    }
    b->tensor[b->n] = *t;
    b->first[b->n + 1] = b->first[b->n] + chunks(t->n);
    b->n++;
    return WEIR_OK;
}

/* ---- calls ---- */

enum { NONE = -1 };

/* State of a call: what it has in common with others, and the roles of its inputs. */
typedef struct call_state {
    weir_update_args args;
    int              lr, step;
    int              input[WEIR_UPDATE_OPERANDS];
    int64_t          n;
} call_state;

static weir_status update_run(const weir_kargs *k)
{
    const call_state *const s = (const call_state *)k->state;
    weir_update_args        a = s->args;
    weir_update_tensor      t = {};

    if (s->n == 0)
        return WEIR_OK;
    t.n = s->n;
    a.lr = s->lr == NONE ? NULL : k->src[s->lr];
    a.step = s->step == NONE ? NULL : (const double *)k->src[s->step];
    for (int i = 0; i < operands_of((int)a.kind); i++)
        t.at[i] = k->src[s->input[i]];
    return wait_in_line(k, &a, &t);
}

/* Creates the device's list at its first update. */
static weir_status open_list(weir_cuda_context *c)
{
    if (c->updates)
        return WEIR_OK;
    c->updates = (weir_cuda_updates *)weir_mem_zalloc(1, sizeof *c->updates);
    if (!c->updates)
        return WEIR_ERR_NOMEM;
    c->pending.flush = launch_waiting;
    c->pending.arg = c->updates;
    return WEIR_OK;
}

void weir_cuda_updates_close(weir_cuda_context *c)
{
    weir_mem_free(c->updates);
    c->updates = NULL;
    c->pending.flush = NULL;
}

/* first_state: the first input that is a state of the parameter; all later ones are too. */
static weir_status choose(weir_device *d, const weir_call *c, call_state from, int first_state,
                          weir_kernel *out)
{
    const weir_dtype type = c->in[0].desc.dtype;

    if (type != WEIR_F32 && type != WEIR_F64)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s", weir_dtype_name(type));
    WEIR_TRY(open_list(weir_cuda_context_of(d)));
    call_state *const s = (call_state *)weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    from.args.type = type == WEIR_F64;
    from.args.grad_type = operands_of((int)from.args.kind) > GRAD ? c->in[GRAD].desc.dtype : type;
    if (from.lr != NONE) {
        from.args.lr_type = c->in[from.lr].desc.dtype == WEIR_F64;
        from.args.numbers = weir_shape_count(&c->in[from.lr].desc) > 1;
    }
    from.input[GRAD] = 1;
    for (int i = 2; i < operands_of((int)from.args.kind); i++)
        from.input[i] = first_state + i - 2;
    from.n = weir_shape_count(&c->in[0].desc);
    *s = from;
    *out = (weir_kernel){.run = update_run, .state = s, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_sgd_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_sgd_attr *const a = (const weir_sgd_attr *)c->attr;
    const call_state           s = {
        .args = {.kind = c->nin > 3 ? SGD_MOMENTUM : SGD,
                 .flag = a->nesterov != 0,
                 .number = {a->momentum, a->weight_decay, a->dampening}},
        .lr = 2, .step = c->nin > 4 ? 4 : NONE};
    return choose(d, c, s, 3, out);
}

static weir_status choose_adam(weir_device *d, const weir_call *c, bool decouple, weir_kernel *out)
{
    const weir_adam_attr *const a = (const weir_adam_attr *)c->attr;
    const call_state            s = {
        .args = {.kind = ADAM,
                 .flag = decouple,
                 .number = {a->beta1, a->beta2, a->eps, a->weight_decay}},
        .lr = 5, .step = 4};
    return choose(d, c, s, 2, out);
}

weir_status weir_cuda_adam_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose_adam(d, c, false, out);
}

weir_status weir_cuda_adamw_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose_adam(d, c, true, out);
}

weir_status weir_cuda_adagrad_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_adagrad_attr *const a = (const weir_adagrad_attr *)c->attr;
    const call_state               s = {
        .args = {.kind = ADAGRAD, .flag = a->eps_inside != 0, .number = {a->eps, a->weight_decay}},
        .lr = 2, .step = NONE};
    return choose(d, c, s, 3, out);
}

weir_status weir_cuda_rmsprop_update(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_rmsprop_attr *const a = (const weir_rmsprop_attr *)c->attr;
    const int                      buffer = a->momentum != 0, mean = a->centered != 0;
    const call_state               s = {
        .args = {.kind = RMSPROP + buffer * (RMSPROP_BUFFER - RMSPROP) +
                         mean * (RMSPROP_MEAN - RMSPROP),
                 .flag = a->eps_inside != 0,
                 .number = {a->alpha, a->eps, a->weight_decay, a->momentum}},
        .lr = 2, .step = NONE};
    return choose(d, c, s, 3, out);
}

weir_status weir_cuda_increment(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const call_state s = {
        .args = {.kind = INCREMENT, .number = {((const weir_increment_attr *)c->attr)->by}},
        .lr = NONE, .step = NONE};
    return choose(d, c, s, 0, out);
}

weir_status weir_cuda_accumulate(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const call_state s = {.args = {.kind = ACCUMULATE}, .lr = NONE, .step = NONE};
    return choose(d, c, s, 0, out);
}

weir_status weir_cuda_reset(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const call_state s = {
        .args = {.kind = RESET, .number = {((const weir_reset_attr *)c->attr)->value}},
        .lr = NONE, .step = NONE};
    return choose(d, c, s, 0, out);
}

/* ---- accumulate_tree: partial sums, gradient, count ---- */

template <class T> static __global__ void accumulate_tree(T *row, const T *grad,
                                                          const double *count, int64_t rows,
                                                          int64_t n)
{
    const int carries = weir_carries(*count, rows);

    WEIR_EACH(i, n) {
        T sum = row[i] + grad[i];
        for (int at = 0; at < carries; at++) {
            row[at * n + i] = 0;
            sum += row[(at + 1) * n + i];
        }
        row[carries * n + i] = sum;
    }
}

template <class T> static weir_status accumulate_tree_run(const weir_kargs *k)
{
    const int64_t *const dim = k->call->in[0].desc.dim;

    return weir_launch(k, accumulate_tree<T>, weir_cuda_blocks(dim[1]), WEIR_CUDA_THREADS,
                       (T *)k->src[0], (const T *)k->src[1], (const double *)k->src[2], dim[0],
                       dim[1]);
}

weir_status weir_cuda_accumulate_tree(weir_device *, const weir_call *c, weir_kernel *out)
{
    const bool wide = c->in[0].desc.dtype == WEIR_F64;

    *out = (weir_kernel){.run = wide ? accumulate_tree_run<double> : accumulate_tree_run<float>,
                         .impl = "cuda"};
    return WEIR_OK;
}

/* ---- learning rate: lr, step ---- */

template <class T>
static __global__ void schedule(T *lr, const double *step, const weir_lr_attr a)
{
    *lr = (T)weir_rate_at(&a, *step);
}

template <class T> static weir_status schedule_run(const weir_kargs *k)
{
    return weir_launch(k, schedule<T>, 1, 1, (T *)k->src[0], (const double *)k->src[1],
                       *(const weir_lr_attr *)k->call->attr);
}

weir_status weir_cuda_lr_schedule(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const bool wide = c->in[0].desc.dtype == WEIR_F64;

    (void)d;
    *out = (weir_kernel){.run = wide ? schedule_run<double> : schedule_run<float>, .impl = "cuda"};
    return WEIR_OK;
}

/* ---- to, from: copies or converts input 1 into input 0 ---- */

typedef struct assign_state {
    weir_kernel inner;
    weir_call   call;
    weir_layout from, to;
} assign_state;

static weir_status assign_run(const weir_kargs *k)
{
    const assign_state *const s = (const assign_state *)k->state;
    weir_kargs                args = *k;

    args.call = &s->call;
    args.src = k->src + 1;
    args.dst = k->src;
    args.state = s->inner.state;
    return s->inner.run(&args);
}

static void assign_destroy(void *state)
{
    weir_kernel_drop(&((assign_state *)state)->inner);
    weir_mem_free(state);
}

weir_status weir_cuda_assign(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const bool           same = c->in[1].desc.dtype == c->in[0].desc.dtype;
    const weir_choose_fn choose_move = same ? weir_cuda_copy : weir_cuda_cast;

    if (!choose_move)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "device cuda has no kernel for copies");
    assign_state *const s = (assign_state *)weir_mem_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    s->to = c->in[0];
    weir_shape_expand(&c->in[1], &s->to.desc, &s->from);
    s->call.op = same ? WEIR_OP_COPY : WEIR_OP_CAST;
    s->call.nin = s->call.nout = 1;
    s->call.in = &s->from;
    s->call.out = &s->to;
    s->call.alias = -1;
    const weir_status status = choose_move(d, &s->call, &s->inner);
    if (status != WEIR_OK) {
        weir_mem_free(s);
        return status;
    }
    *out = (weir_kernel){.run = assign_run, .work = s->inner.work, .state = s,
                         .destroy = assign_destroy, .impl = s->inner.impl};
    return WEIR_OK;
}
