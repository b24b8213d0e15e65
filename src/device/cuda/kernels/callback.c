/* callback.c - CALLBACK and CALLBACK_GRAD: the user's functions on operands copied to the host.
 *
 * The kernel's state owns pinned memory for all operands, row-major, so a run allocates nothing. An
 * operand that is not row-major on the card is reordered through the workspace before it is copied
 * to the host, or after it was copied back. Only these runs wait: for work queued before the
 * function, and for its results, because the next run reuses the memory. */
#include "device/common/callback.h"

#include "device/cuda/kernels/kernels.h"

enum { HOST_ALIGN = 64 };

typedef struct operand {
    callback_operand lies;
    size_t           bytes;
    size_t           host_at;       /* offset in the pinned memory */
} operand;

typedef struct callback {
    callback_map map;
    operand      operand[CALLBACK_OPERANDS];    /* inputs, then outputs */
    void        *pinned;
} callback;

/* ---- running ---- */

static weir_status bring(const weir_kargs *k, const operand *o, void *from, void *host)
{
    if (o->lies.copy) {
        void *const work = (char *)k->work + o->lies.at;
        WEIR_TRY(callback_copy(k, &o->lies, true, from, work));
        from = work;
    }
    if (o->bytes > 0)
        WEIR_CUDA_TRY(k->call, cudaMemcpyAsync(host, from, o->bytes, cudaMemcpyDeviceToHost,
                                               weir_cuda_stream(k)));
    return WEIR_OK;
}

static weir_status give(const weir_kargs *k, const operand *o, const void *host, void *dst)
{
    void *const to = o->lies.copy ? (char *)k->work + o->lies.at : dst;

    if (o->bytes > 0)
        WEIR_CUDA_TRY(k->call, cudaMemcpyAsync(to, host, o->bytes, cudaMemcpyHostToDevice,
                                               weir_cuda_stream(k)));
    return o->lies.copy ? callback_copy(k, &o->lies, false, to, dst) : WEIR_OK;
}

static weir_status run(const weir_kargs *k,
                       weir_status (*call)(const callback_map *m, void *const *host))
{
    const callback *const s = k->state;
    const int             nin = s->map.nin, all = nin + s->map.nout;
    void                 *host[CALLBACK_OPERANDS];

    for (int i = 0; i < all; i++)
        host[i] = (char *)s->pinned + s->operand[i].host_at;
    for (int i = 0; i < nin; i++)
        WEIR_TRY(bring(k, &s->operand[i], k->src[i], host[i]));
    WEIR_CUDA_TRY(k->call, cudaStreamSynchronize(weir_cuda_stream(k)));
    WEIR_TRY(call(&s->map, host));
    for (int i = nin; i < all; i++)
        WEIR_TRY(give(k, &s->operand[i], host[i], k->dst[i - nin]));
    WEIR_CUDA_TRY(k->call, cudaStreamSynchronize(weir_cuda_stream(k)));
    return WEIR_OK;
}

static weir_status forward_run(const weir_kargs *k)
{
    return run(k, callback_forward);
}

static weir_status backward_run(const weir_kargs *k)
{
    return run(k, callback_backward);
}

/* ---- selecting ---- */

static void destroy(void *state)
{
    callback *const s = state;

    if (s->pinned)
        (void)cudaFreeHost(s->pinned);
    weir_mem_free(s);
}

/* Appends `bytes` at an aligned offset *at; false on overflow. */
static bool reserve(size_t *so_far, size_t bytes, size_t align, size_t *at)
{
    *at = *so_far;
    return weir_size_add(*so_far, bytes, so_far) && weir_size_align(*so_far, align, so_far);
}

static weir_status plan(weir_device *d, const weir_call *c, void *state, size_t *work)
{
    callback *const s = state;
    size_t          pinned = 0;

    for (int i = 0; i < c->nin + c->nout; i++) {
        operand *const           o = &s->operand[i];
        const weir_layout *const l = i < c->nin ? &c->in[i] : &c->out[i - c->nin];
        o->bytes = weir_shape_bytes(&l->desc);
        if (!reserve(&pinned, o->bytes, HOST_ALIGN, &o->host_at))
            return weir_fail(WEIR_ERR_NOMEM, "callback: its operands are too large");
        WEIR_TRY(callback_plan(d, l, i < c->nin, &o->lies, work));
    }
    WEIR_CUDA_TRY(c, cudaMallocHost(&s->pinned, pinned > 0 ? pinned : HOST_ALIGN));
    return WEIR_OK;
}

static const callback_back_end back_end = {sizeof(callback), plan, forward_run, backward_run,
                                            destroy};

weir_status weir_cuda_callback(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return callback_choose(d, c, false, &back_end, out);
}

weir_status weir_cuda_callback_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return callback_choose(d, c, true, &back_end, out);
}
