/* simulate.c - three streams in issue order; an event that reuses memory waits for its
 * last user.
 *
 * Freeing takes no time and waits for nothing: the bytes become quiet when the last run or copy
 * that touches them ends, and the next owner begins no earlier. All times are seconds. */
#include "graph/memory/verify/simulate.h"

#include <math.h>

#include "graph/memory/problem/intervals.h"

typedef struct weir_sim_held {
    size_t offset;
    double ready, quiet; /* on the device: when readable, when last touched */
    double offloaded;    /* when its host copy is complete */
    bool   host;
} weir_sim_held;

typedef struct weir_streams {
    const weir_mem_plan    *a;
    const weir_mem_problem *p;
    weir_intervals          space;
    weir_sim_held          *held; /* [tensors * WEIR_FORM_COUNT] */
    uint8_t                *ran;  /* [ops] */
    double                  compute, out, in;
    size_t                  host;
    weir_sim_result        *clock;
} weir_streams;

static weir_sim_held *held(const weir_streams *x, uint32_t tensor, uint8_t form)
{
    return &x->held[tensor * WEIR_FORM_COUNT + form];
}

static double acquire(weir_streams *x, size_t offset, size_t bytes)
{
    return x->a->addresses ? weir_intervals_acquire(&x->space, offset, bytes) : 0;
}

static void release(weir_streams *x, size_t offset, size_t bytes, double time)
{
    if (x->a->addresses)
        weir_intervals_release(&x->space, offset, bytes, time);
}

/* The host holds the form from `time` on; a negative time means that it no longer does. */
static void set_host_copy(weir_streams *x, uint32_t tensor, uint8_t form, double time)
{
    weir_sim_held *const h = held(x, tensor, form);
    const size_t         bytes = weir_form_bytes(x->p, tensor, form);

    x->host -= h->host ? bytes : 0;
    h->host = time >= 0;
    h->offloaded = time;
    x->host += h->host ? bytes : 0;
    x->clock->host = x->host > x->clock->host ? x->host : x->clock->host;
}

/* Appends `seconds` to the compute stream from time `begin` on. Returns the time at their end. */
static double compute(weir_streams *x, double begin, double seconds)
{
    x->clock->stall += begin - x->compute;
    return x->compute = begin + seconds;
}

/* ---- runs ---- */

/* Returns the form of input i that the run reads; NULL for a write-only input that the first run
 * has updated. */
static weir_sim_held *input(const weir_streams *x, const weir_mem_step *v, uint32_t i)
{
    const weir_mem_op *t = &x->p->ops.at[v->what];
    const uint32_t     tensor = weir_refs(x->p, t->in)[i];

    if (i >= t->in.n - t->n_write_only && x->ran[v->what])
        return NULL;
    return held(x, tensor,
                weir_mem_step_reads_mask(x->a, v, tensor) ? WEIR_FORM_MASK : WEIR_FORM_PLAIN);
}

static double inputs_ready(const weir_streams *x, const weir_mem_step *v)
{
    const weir_mem_op *t = &x->p->ops.at[v->what];
    double             begin = x->compute;

    for (uint32_t i = 0; i < t->in.n; i++) {
        const weir_sim_held *h = input(x, v, i);
        begin = h ? fmax(begin, h->ready) : begin;
    }
    for (uint32_t i = 0; i < t->changes.n && !x->ran[v->what]; i++)
        begin = fmax(begin, held(x, weir_refs(x->p, t->changes)[i], WEIR_FORM_PLAIN)->quiet);
    return begin;
}

/* Takes the memory of workspace and outputs. Returns the time at which all of it is quiet. */
static double outputs_quiet(weir_streams *x, const weir_mem_step *v)
{
    const weir_mem_op *t = &x->p->ops.at[v->what];
    double             begin = acquire(x, v->offset, t->work);

    for (uint32_t i = 0; i < t->out.n; i++) {
        const weir_output_slot *slot = &x->a->slots.at[v->slots + i];
        const size_t            bytes = x->p->tensors.at[weir_refs(x->p, t->out)[i]].bytes;
        begin = fmax(begin, slot->over != WEIR_NO_TENSOR && !slot->scratch
                                ? held(x, slot->over, WEIR_FORM_PLAIN)->quiet
                                : acquire(x, slot->offset, bytes));
    }
    return begin;
}

static void run(weir_streams *x, const weir_mem_step *v)
{
    const weir_mem_op *t = &x->p->ops.at[v->what];
    const double       begin = fmax(inputs_ready(x, v), outputs_quiet(x, v));
    const double       done = compute(x, begin, t->time);

    x->clock->compute += t->time;
    for (uint32_t i = 0; i < t->in.n; i++) {
        weir_sim_held *const h = input(x, v, i);
        if (h)
            h->quiet = fmax(h->quiet, done);
    }
    for (uint32_t i = 0; i < t->changes.n && !x->ran[v->what]; i++) {
        const uint32_t tensor = weir_refs(x->p, t->changes)[i];
        held(x, tensor, WEIR_FORM_PLAIN)->ready = done;
        for (uint8_t f = 0; f < WEIR_FORM_COUNT; f++)
            set_host_copy(x, tensor, f, -1);
    }
    release(x, v->offset, t->work, done);
    for (uint32_t i = 0; i < t->out.n; i++) {
        const weir_output_slot *slot = &x->a->slots.at[v->slots + i];
        const uint32_t          tensor = weir_refs(x->p, t->out)[i];
        weir_sim_held *const    h = held(x, tensor, WEIR_FORM_PLAIN);
        if (slot->scratch) {
            release(x, slot->offset, x->p->tensors.at[tensor].bytes, done);
            continue;
        }
        h->offset = slot->offset;
        h->ready = h->quiet = done;
    }
    x->ran[v->what] = 1;
}

/* ---- the other steps ---- */

static void copy(weir_streams *x, const weir_mem_step *v)
{
    weir_sim_held *const h = held(x, v->what, v->form);
    const size_t     bytes = weir_form_bytes(x->p, v->what, v->form);

    if (v->kind == WEIR_EVENT_OFFLOAD) {
        x->out = fmax(x->out, h->ready) + (double)bytes / x->p->link_out;
        x->clock->out += bytes;
        h->quiet = fmax(h->quiet, x->out);
        set_host_copy(x, v->what, v->form, x->out);
        return;
    }
    const double quiet = acquire(x, v->offset, bytes);
    x->in = fmax(fmax(x->in, h->offloaded), quiet) + (double)bytes / x->p->link_in;
    x->clock->in += bytes;
    h->offset = v->offset;
    h->ready = h->quiet = x->in;
    if (v->forget)
        set_host_copy(x, v->what, v->form, -1);
}

static void compress(weir_streams *x, const weir_mem_step *v)
{
    weir_sim_held *const from = held(x, v->what, weir_mem_step_reads(v));
    weir_sim_held *const to = held(x, v->what, weir_mem_step_writes(v));
    const uint8_t        form = v->kind == WEIR_EVENT_MASK ? WEIR_FORM_MASK : WEIR_FORM_COMPRESSED;
    const size_t     bytes = x->p->tensors.at[v->what].bytes + weir_form_bytes(x->p, v->what, form);
    const double     quiet = acquire(x, v->offset,
                                     weir_form_bytes(x->p, v->what, weir_mem_step_writes(v)));
    const double     seconds = (double)bytes / x->p->pack_bandwidth;

    x->clock->compress += seconds;
    const double done = compute(x, fmax(fmax(x->compute, from->ready), quiet), seconds);
    from->quiet = fmax(from->quiet, done);
    to->offset = v->offset;
    to->ready = to->quiet = done;
}

static void free_form(weir_streams *x, const weir_mem_step *v)
{
    const weir_sim_held *h = held(x, v->what, v->form);

    if (v->kind == WEIR_EVENT_FREE_HOST)
        set_host_copy(x, v->what, v->form, -1);
    else
        release(x, h->offset, weir_form_bytes(x->p, v->what, v->form), fmax(h->ready, h->quiet));
}

static void begin(weir_streams *x)
{
    for (uint32_t k = 0; k < x->p->tensors.n; k++) {
        if (!weir_mem_tensor_is_resident(x->p, k))
            continue;
        held(x, k, WEIR_FORM_PLAIN)->offset = x->a->start[k];
        if (x->a->offloaded[k])
            set_host_copy(x, k, WEIR_FORM_PLAIN, 0);
        else
            (void)acquire(x, x->a->start[k], x->p->tensors.at[k].bytes);
    }
}

static void run_all(weir_streams *x)
{
    begin(x);
    for (uint32_t i = 0; i < x->a->list.n; i++) {
        const weir_mem_step *v = &x->a->list.at[i];
        if (v->kind == WEIR_EVENT_RUN)
            run(x, v);
        else if (v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH)
            copy(x, v);
        else if (v->kind >= WEIR_EVENT_FREE)
            free_form(x, v);
        else
            compress(x, v);
    }
    x->clock->time = fmax(x->compute, fmax(x->out, x->in));
}

bool weir_mem_plan_simulate(const weir_mem_plan *a, weir_sim_result *clock)
{
    weir_streams x = {.a = a, .p = a->p, .clock = clock};

    *clock = (weir_sim_result){0};
    x.held = weir_mem_zalloc(((size_t)a->p->tensors.n + 1) * WEIR_FORM_COUNT, sizeof *x.held);
    x.ran = weir_mem_zalloc(a->p->ops.n + 1u, 1);
    const bool ok = x.held && x.ran && (!a->addresses || weir_intervals_init(&x.space, a));
    if (ok)
        run_all(&x);
    weir_mem_free(x.held);
    weir_mem_free(x.ran);
    weir_intervals_free(&x.space);
    return ok;
}

bool weir_schedule_simulate(const weir_schedule *s, const weir_offsets *offsets,
                            weir_sim_result *clock)
{
    weir_mem_plan a;
    const bool    ok =
        weir_mem_plan_from_schedule(s, offsets, &a) && weir_mem_plan_simulate(&a, clock);

    weir_mem_plan_free(&a);
    return ok;
}
