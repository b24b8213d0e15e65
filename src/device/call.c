/* call.c - runs one call at once: selects its kernel, takes a workspace, checks guard zones. */
#include "device/call.h"

#include "core/rng.h"
#include "core/status.h"
#include "device/kernel.h"
#include "device/memory/guard.h"
#include "device/memory/pool.h"

void weir_call_trace(weir_device *d, const weir_call *c, const char *phase, double begin)
{
    weir_trace_event(d->trace, c->def->name, phase, 0, begin, weir_device_clock(d),
                     (uint64_t)weir_call_bytes(c));
}

static char *address(const weir_tensor *t)
{
    const weir_block *b = t->block;
    return (char *)b->data + (size_t)t->offset * weir_dtype_size(t->layout.desc.dtype);
}

/* Runs with a workspace that lives as long as the call. w: checks its guard zones; NULL: none. */
static weir_status run_with_work(weir_device *d, const weir_kernel *kernel, weir_kargs *k,
                                 weir_watch *w)
{
    const weir_call *const c = k->call;
    const size_t           chunk = weir_guard_work(d, kernel->work);
    size_t                 got = 0;
    weir_status            status = WEIR_OK;

    if (kernel->work)
        WEIR_TRY(weir_pool_take(d, chunk, &k->work, &got));
    if (w && kernel->work)
        status = weir_guard_fill(d, k->work, kernel->work, chunk);
    if (status == WEIR_OK)
        status = weir_kernel_run(kernel, k);
    if (w && kernel->work) {
        const weir_status checked = weir_guard_look(w, c->nin + c->nout, k->work, kernel->work,
                                                    chunk);
        status = status != WEIR_OK ? status : checked;
    }
    if (kernel->work)
        weir_pool_give(d, k->work, got);
    return status;
}

static weir_status check_tensors(weir_watch *w, weir_tensor *const *in, weir_tensor *const *out)
{
    for (int i = 0; i < w->call->nin; i++)
        WEIR_TRY(weir_guard_look_block(w, i, in[i]->block));
    for (int i = 0; i < w->call->nout; i++)
        WEIR_TRY(weir_guard_look_block(w, w->call->nin + i, out[i]->block));
    return WEIR_OK;
}

/* Runs the call and checks the guard zones of its operands before and after. */
static weir_status run_watched_call(weir_device *d, const weir_kernel *kernel, weir_kargs *k,
                                    weir_tensor *const *in, weir_tensor *const *out)
{
    weir_watch before = {.dev = d, .call = k->call}, w = {.dev = d, .call = k->call, .ran = true};

    WEIR_TRY(check_tensors(&before, in, out));
    WEIR_TRY(weir_guard_verdict(&before, WEIR_OK));
    const weir_status status = run_with_work(d, kernel, k, &w);
    const weir_status checked = check_tensors(&w, in, out);
    return weir_guard_verdict(&w, status != WEIR_OK ? status : checked);
}

weir_status weir_run_once(weir_device *d, const weir_call *c, weir_tensor *const *in,
                          weir_tensor *const *out, uint64_t rng)
{
    void              *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    const weir_kernel *kernel;

    const weir_opdef *const def = c->def;

    WEIR_TRY(weir_kernel_of(d, c, &kernel));
    for (int i = 0; i < c->nin; i++) {
        if (def->write_only >> i & 1)
            WEIR_TRY(weir_block_touch(in[i]->block));
        src[i] = address(in[i]);
    }
    for (int i = 0; i < c->nout; i++) {
        WEIR_TRY(weir_block_touch(out[i]->block));
        dst[i] = address(out[i]);
    }
    weir_kargs k = {.call = c, .src = src, .dst = dst, .state = kernel->state,
                    .threads = d->threads, .seed = d->seed, .rng = rng, .dev = d};
    const double begin = d->trace ? weir_device_clock(d) : 0;
    WEIR_TRY(d->guard ? run_watched_call(d, kernel, &k, in, out)
                      : run_with_work(d, kernel, &k, NULL));
    for (int i = 0; i < c->nout; i++)
        ((weir_block *)out[i]->block)->written = true;
    for (int i = 0; i < c->nin; i++)
        if (def->write_only >> i & 1)
            ((weir_block *)in[i]->block)->written = true;
    if (d->trace)
        weir_call_trace(d, c, "graph off", begin);
    return WEIR_OK;
}

weir_status weir_run_raw(weir_device *d, const weir_call *c, void *const *src, void *const *dst,
                         int operand, const weir_block *b)
{
    const weir_kernel *kernel;
    weir_watch         w = {.dev = d, .call = c, .ran = true};

    WEIR_TRY(weir_kernel_of(d, c, &kernel));
    weir_kargs k = {.call = c, .src = src, .dst = dst, .state = kernel->state,
                    .threads = d->threads, .seed = d->seed, .dev = d};
    if (c->def->flags & WEIR_RANDOM)
        k.rng = weir_device_draw(d, weir_rng_blocks(weir_shape_count(&c->out[0].desc)));
    if (!d->guard)
        return run_with_work(d, kernel, &k, NULL);
    const weir_status status = run_with_work(d, kernel, &k, &w);
    const weir_status checked = b ? weir_guard_look_block(&w, operand, b) : WEIR_OK;
    return weir_guard_verdict(&w, status != WEIR_OK ? status : checked);
}
