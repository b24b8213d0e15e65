/* offload.c - copies between a card and pinned memory, on a stream out and a stream in.
 *
 * Slots below `near` lie in one block of pinned memory; their copies are asynchronous and ordered
 * with the kernels' streams by events in both directions. Slots above lie in the device's spill
 * file: chunks pass through pinned staging, and a host function that the stream calls writes them
 * to the file or reads them from it. The host never waits here, so runs with copies can be
 * captured. $WEIR_PINNED bytes are pinned, by default half of the machine's memory. */
#include "device/cuda/runtime/offload.h"

#include <pthread.h>
#include <unistd.h>

enum { OUT, IN, DIRECTIONS };

#define STAGING ((size_t)8 << 20)       /* bytes of a chunk: a multiple of WEIR_SPILL_ALIGN */

typedef struct ticket {
    cudaEvent_t done;
    size_t      slot, bytes;
    bool        in, used;               /* used: by the current run */
} ticket;

/* A chunk between staging and file, as argument of the host function. Chunks live as long as the
 * store, because captured runs refer to them. */
typedef struct chunk {
    struct weir_cuda_offload *offload;
    size_t                    slot, bytes;
    bool                      in;
    struct chunk             *next;
} chunk;

struct weir_cuda_offload {
    weir_spill      *file; /* the device's */
    char            *pinned;
    size_t           near, capacity;      /* bytes pinned; bytes in all */
    char            *staging[DIRECTIONS]; /* NULL until a value goes to the file */
    cudaStream_t     stream[DIRECTIONS];
    cudaEvent_t      here, end[DIRECTIONS];
    bool             used[DIRECTIONS]; /* by the current run */
    chunk           *chunks;
    pthread_mutex_t  lock; /* guards the file and `late` */
    weir_status      late;
    WEIR_VEC(ticket) tickets;
};

static struct weir_cuda_offload *offload_of(const weir_device *d)
{
    return weir_cuda_context_of(d)->offload;
}

/* ---- opening ---- */

static weir_status open_streams(struct weir_cuda_offload *s)
{
    for (int direction = OUT; direction < DIRECTIONS; direction++) {
        WEIR_CUDA_TRY(NULL,
                      cudaStreamCreateWithFlags(&s->stream[direction], cudaStreamNonBlocking));
        WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&s->end[direction], cudaEventDisableTiming));
    }
    WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&s->here, cudaEventDisableTiming));
    return WEIR_OK;
}

static weir_status offload_open(weir_device *d)
{
    struct weir_cuda_offload *const s = weir_mem_zalloc(1, sizeof *s);

    if (!s)
        return WEIR_ERR_NOMEM;
    pthread_mutex_init(&s->lock, NULL);
    weir_cuda_context_of(d)->offload = s;
    const weir_status status = open_streams(s);
    if (status != WEIR_OK)
        weir_cuda_offload_close(weir_cuda_context_of(d));
    return status;
}

void weir_cuda_offload_close(weir_cuda_context *u)
{
    struct weir_cuda_offload *const s = u->offload;

    if (!s)
        return;
    for (int direction = OUT; direction < DIRECTIONS; direction++) {
        if (s->stream[direction]) {
            (void)cudaStreamSynchronize(s->stream[direction]);
            (void)cudaStreamDestroy(s->stream[direction]);
        }
        if (s->end[direction])
            (void)cudaEventDestroy(s->end[direction]);
        (void)cudaFreeHost(s->staging[direction]);
    }
    if (s->here)
        (void)cudaEventDestroy(s->here);
    for (uint32_t i = 0; i < s->tickets.n; i++)
        (void)cudaEventDestroy(s->tickets.at[i].done);
    for (chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        weir_mem_free(c);
    }
    (void)cudaFreeHost(s->pinned);
    weir_vec_free(&s->tickets);
    pthread_mutex_destroy(&s->lock);
    weir_mem_free(s);
    u->offload = NULL;
}

/* ---- capacity ---- */

static size_t pinned_limit(void)
{
    const char *const asked = getenv("WEIR_PINNED");

    if (asked && *asked)
        return (size_t)strtoull(asked, NULL, 10) / WEIR_SPILL_ALIGN * WEIR_SPILL_ALIGN;
    return (size_t)sysconf(_SC_PHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE) / WEIR_SPILL_ALIGN *
           WEIR_SPILL_ALIGN;
}

/* Grows pinned memory; the values in it move. If the system refuses, the file takes the rest. */
static weir_status pin(weir_device *d, struct weir_cuda_offload *s, size_t bytes)
{
    void *p = NULL;

    if (bytes <= s->near)
        return WEIR_OK;
    WEIR_CUDA_TRY(NULL, cudaStreamSynchronize(weir_cuda_compute(d)));
    if (cudaHostAlloc(&p, bytes, cudaHostAllocDefault) != cudaSuccess) {
        (void)cudaGetLastError();
        return WEIR_OK;
    }
    if (s->near)
        memcpy(p, s->pinned, s->near);
    (void)cudaFreeHost(s->pinned);
    s->pinned = p;
    s->near = bytes;
    d->moves++;                         /* captured runs contain the old address */
    return WEIR_OK;
}

static weir_status open_file(weir_device *d, struct weir_cuda_offload *s, size_t bytes)
{
    for (int direction = OUT; direction < DIRECTIONS; direction++)
        if (!s->staging[direction])
            WEIR_CUDA_TRY(NULL, cudaHostAlloc((void **)&s->staging[direction], STAGING,
                                              cudaHostAllocDefault));
    if (!d->spill)
        WEIR_TRY(weir_spill_new(&(weir_spill_options){.dir = d->spill_dir}, &d->spill));
    s->file = d->spill;
    return weir_spill_reserve(d->spill, bytes);
}

/* A stored value must keep its place, so once the file is in use, pinned memory no longer grows. */
weir_status weir_cuda_swap_reserve(weir_device *d, size_t bytes, uint32_t tickets)
{
    weir_cuda_here(d);
    if (!offload_of(d))
        WEIR_TRY(offload_open(d));
    struct weir_cuda_offload *const s = offload_of(d);
    const size_t                    limit = pinned_limit();
    while (s->tickets.n < tickets) {
        ticket t = {0};
        WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(&t.done, cudaEventDisableTiming));
        if (!weir_vec_push(&s->tickets, t)) {
            (void)cudaEventDestroy(t.done);
            return WEIR_ERR_NOMEM;
        }
    }
    if (bytes <= s->capacity)
        return WEIR_OK;
    if (!s->file)
        WEIR_TRY(pin(d, s, bytes < limit ? bytes : limit));
    if (bytes > s->near)
        WEIR_TRY(open_file(d, s, bytes));
    s->capacity = bytes;
    return WEIR_OK;
}

/* ---- the file ---- */

/* Host function called by a stream, in which no CUDA function may be called. */
static void CUDART_CB pass(void *argument)
{
    chunk *const                    c = argument;
    struct weir_cuda_offload *const s = c->offload;
    uint64_t                        job;

    pthread_mutex_lock(&s->lock);
    weir_status status = c->in ? weir_spill_in(s->file, c->slot, s->staging[IN], c->bytes, &job)
                               : weir_spill_out(s->file, c->slot, s->staging[OUT], c->bytes, &job);
    if (status == WEIR_OK)
        status = weir_spill_wait(s->file, job);
    if (s->late == WEIR_OK)
        s->late = status;
    pthread_mutex_unlock(&s->lock);
}

static chunk *chunk_of(struct weir_cuda_offload *s, size_t slot, size_t bytes, bool in)
{
    for (chunk *c = s->chunks; c; c = c->next)
        if (c->slot == slot && c->bytes == bytes && c->in == in)
            return c;
    chunk *const c = weir_mem_alloc(sizeof *c);
    if (c) {
        *c = (chunk){s, slot, bytes, in, s->chunks};
        s->chunks = c;
    }
    return c;
}

static weir_status copy_far(struct weir_cuda_offload *s, const weir_swap *w, cudaStream_t stream)
{
    const int direction = w->in ? IN : OUT;

    for (size_t at = 0; at < w->bytes; at += STAGING) {
        const size_t n = w->bytes - at < STAGING ? w->bytes - at : STAGING;
        char *const  there = (char *)w->at + at;
        chunk *const c = chunk_of(s, w->slot + at, n, w->in);
        if (!c)
            return WEIR_ERR_NOMEM;
        if (!w->in)
            WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(s->staging[direction], there, n,
                                                cudaMemcpyDeviceToHost, stream));
        WEIR_CUDA_TRY(NULL, cudaLaunchHostFunc(stream, pass, c));
        if (w->in)
            WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(there, s->staging[direction], n,
                                                cudaMemcpyHostToDevice, stream));
    }
    return WEIR_OK;
}

/* ---- copies ---- */

static weir_status copy(struct weir_cuda_offload *s, const weir_swap *w, cudaStream_t stream)
{
    if (w->slot > s->capacity || w->bytes > s->capacity - w->slot)
        return weir_fail(WEIR_ERR_INVALID, "device cuda: a copy of %zu bytes at %zu exceeds an "
                         "offload store of %zu bytes", w->bytes, w->slot, s->capacity);
    if (w->slot + w->bytes > s->near)
        return copy_far(s, w, stream);
    char *const there = s->pinned + w->slot;
    WEIR_CUDA_TRY(NULL, w->in ? cudaMemcpyAsync(w->at, there, w->bytes, cudaMemcpyHostToDevice,
                                                stream)
                              : cudaMemcpyAsync(there, w->at, w->bytes, cudaMemcpyDeviceToHost,
                                                stream));
    return WEIR_OK;
}

static weir_status copy_now(weir_device *d, const weir_swap *w)
{
    struct weir_cuda_offload *const s = offload_of(d);

    WEIR_TRY(copy(s, w, weir_cuda_compute(d)));
    WEIR_CUDA_TRY(NULL, cudaStreamSynchronize(weir_cuda_compute(d)));
    return weir_cuda_offload_late(weir_cuda_context_of(d));
}

/* Makes the stream wait for copies of this run in the other direction that touch the same bytes. */
static weir_status wait_for_slot(struct weir_cuda_offload *s, const weir_swap *w,
                                 cudaStream_t stream)
{
    for (uint32_t i = 0; i < s->tickets.n; i++) {
        const ticket *const t = &s->tickets.at[i];
        if (t->used && t->in != w->in && t->slot < w->slot + w->bytes &&
            w->slot < t->slot + t->bytes)
            WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(stream, t->done, 0));
    }
    return WEIR_OK;
}

static cudaStream_t stream_of(weir_device *d, weir_stream *s)
{
    const cudaStream_t first = weir_cuda_compute(d);
    return s ? (cudaStream_t)s : first;
}

weir_status weir_cuda_swap(weir_device *d, const weir_swap *w)
{
    struct weir_cuda_offload *const s = offload_of(d);
    const int                       direction = w->in ? IN : OUT;

    if (w->ticket == WEIR_SWAP_NOW)
        return copy_now(d, w);
    ticket *const t = &s->tickets.at[w->ticket];
    WEIR_CUDA_TRY(NULL, cudaEventRecord(s->here, stream_of(d, w->stream)));
    WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(s->stream[direction], s->here, 0));
    s->used[direction] = true;
    WEIR_TRY(wait_for_slot(s, w, s->stream[direction]));
    WEIR_TRY(copy(s, w, s->stream[direction]));
    WEIR_CUDA_TRY(NULL, cudaEventRecord(t->done, s->stream[direction]));
    *t = (ticket){t->done, w->slot, w->bytes, w->in, true};
    return WEIR_OK;
}

weir_status weir_cuda_swap_wait(weir_device *d, weir_stream *stream, uint32_t number)
{
    const struct weir_cuda_offload *const s = offload_of(d);

    if (s->tickets.at[number].used)
        WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(stream_of(d, stream), s->tickets.at[number].done,
                                                0));
    return WEIR_OK;
}

static weir_status join(weir_device *d, struct weir_cuda_offload *s, int direction)
{
    s->used[direction] = false;
    WEIR_CUDA_TRY(NULL, cudaEventRecord(s->end[direction], s->stream[direction]));
    WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(weir_cuda_compute(d), s->end[direction], 0));
    return WEIR_OK;
}

weir_status weir_cuda_swap_settle(weir_device *d, weir_status so_far)
{
    struct weir_cuda_offload *const s = offload_of(d);
    weir_status                     status = so_far;

    if (!s)
        return so_far;
    for (int direction = OUT; direction < DIRECTIONS; direction++) {
        const weir_status joined = s->used[direction] ? join(d, s, direction) : WEIR_OK;
        status = status == WEIR_OK ? joined : status;
    }
    for (uint32_t i = 0; i < s->tickets.n; i++)
        s->tickets.at[i].used = false;
    return status;
}

cudaError_t weir_cuda_offload_wait(const weir_cuda_context *u)
{
    cudaError_t e = cudaSuccess;

    for (int direction = OUT; u->offload && direction < DIRECTIONS && e == cudaSuccess; direction++)
        e = cudaStreamSynchronize(u->offload->stream[direction]);
    return e;
}

weir_status weir_cuda_offload_late(weir_cuda_context *u)
{
    struct weir_cuda_offload *const s = u->offload;

    if (!s)
        return WEIR_OK;
    pthread_mutex_lock(&s->lock);
    const weir_status late = s->late;
    s->late = WEIR_OK;
    pthread_mutex_unlock(&s->lock);
    return late == WEIR_OK ? WEIR_OK
                           : weir_fail(late, "device cuda: a copy to or from the spill file "
                                       "failed in an earlier run");
}

/* ---- speed ---- */

/* Least seconds of several copies; 0 if the clock is too coarse. */
static weir_status time_copies(weir_device *d, void *to, const void *from, size_t n, double *best)
{
    enum { RUNS = 4 };

    *best = 0;
    for (int i = 0; i < RUNS; i++) {
        const double begin = weir_now();
        WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, weir_cuda_compute(d)));
        WEIR_CUDA_TRY(NULL, cudaStreamSynchronize(weir_cuda_compute(d)));
        const double seconds = weir_now() - begin;
        *best = i == 0 || seconds < *best ? seconds : *best;
    }
    return WEIR_OK;
}

/* Measures with pinned memory and a block of device memory, freed afterwards. If there is no memory
 * for them, returns what such links reach at least. */
weir_status weir_cuda_swap_speed(weir_device *d, double *out, double *in)
{
    const size_t     n = (size_t)32 << 20;
    const weir_rates rates = d->ops->rates(d);
    void            *host = NULL, *card = NULL;
    double           seconds[DIRECTIONS] = {0};
    weir_status      s = WEIR_OK;

    weir_cuda_here(d);
    if (cudaHostAlloc(&host, n, cudaHostAllocDefault) == cudaSuccess &&
        cudaMalloc(&card, n) == cudaSuccess) {
        s = weir_cuda_status(cudaMemsetAsync(card, 0, n, weir_cuda_compute(d)), NULL,
                             "cudaMemsetAsync");
        if (s == WEIR_OK)
            s = time_copies(d, host, card, n, &seconds[OUT]);
        if (s == WEIR_OK)
            s = time_copies(d, card, host, n, &seconds[IN]);
    } else {
        (void)cudaGetLastError();
    }
    (void)cudaFree(card);
    (void)cudaFreeHost(host);
    *out = seconds[OUT] > 0 ? (double)n / seconds[OUT] : rates.link_out;
    *in = seconds[IN] > 0 ? (double)n / seconds[IN] : rates.link_in;
    return s;
}

void weir_cuda_offload_info(const weir_cuda_context *u, weir_string *text)
{
    const struct weir_cuda_offload *const s = u->offload;

    weir_string_add(text, "offloaded values: pinned memory up to %.1f GB%s\n",
                    (double)pinned_limit() * 1e-9,
                    s && s->file ? ", then a spill file" : "");
}
