/* offload.c - copies between a card and pinned memory, on a stream out and a stream in.
 *
 * Slots below `near` lie in one block of pinned memory; their copies are asynchronous and ordered
 * with the kernels' streams by events in both directions. Slots above lie in the device's spill
 * file. Their chunks pass through two pinned buffers a direction in turn: while the card copies one
 * chunk, a host function on a second stream of the direction writes the chunk before it to the
 * file, or reads the next one. The host never waits here, so runs with copies can be captured.
 * $WEIR_PINNED bytes are pinned, by default half of the machine's memory. */
#include "device/cuda/runtime/offload.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { OUT, IN, DIRECTIONS };

/* The streams of a direction: copies by the card, and host functions that access the file. */
enum { CARD, FILES, STREAMS };

enum { BUFFERS = 2 };                   /* of a direction */

#define STAGING ((size_t)4 << 20)       /* bytes of a chunk: a multiple of WEIR_SPILL_ALIGN */

enum { LATE_TEXT = 512 };               /* bytes kept of a failure's sentence */

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
    int                       buffer;
    struct chunk             *next;
} chunk;

/* Pinned memory between card and file. `full` and `empty` are recorded behind the step that fills
 * or empties the buffer. */
typedef struct buffer {
    char       *at;                     /* NULL until a value goes to the file */
    cudaEvent_t full, empty;
    bool        used;                   /* by the current run: only then `empty` is recorded */
} buffer;

/* One direction of the copies. */
typedef struct way {
    cudaStream_t stream[STREAMS];
    cudaEvent_t  end[STREAMS];
    bool         used[STREAMS];         /* by the current run */
    buffer       buffer[BUFFERS];
    int          next;                  /* buffer of the next chunk */
} way;

struct weir_cuda_offload {
    weir_spill      *file; /* the device's */
    char            *pinned;
    size_t           near, capacity; /* bytes pinned; bytes in all */
    way              way[DIRECTIONS];
    cudaEvent_t      here;
    chunk           *chunks;
    pthread_mutex_t  lock; /* guards `late` and `why`, never held during a transfer */
    weir_status      late; /* the first unreported failure */
    char             why[LATE_TEXT];
    WEIR_VEC(ticket) tickets;
};

static struct weir_cuda_offload *offload_of(const weir_device *d)
{
    return weir_cuda_context_of(d)->offload;
}

/* ---- opening ---- */

static weir_status open_event(cudaEvent_t *event)
{
    WEIR_CUDA_TRY(NULL, cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    return WEIR_OK;
}

static weir_status open_way(way *y)
{
    for (int k = 0; k < STREAMS; k++) {
        WEIR_CUDA_TRY(NULL, cudaStreamCreateWithFlags(&y->stream[k], cudaStreamNonBlocking));
        WEIR_TRY(open_event(&y->end[k]));
    }
    for (int k = 0; k < BUFFERS; k++) {
        WEIR_TRY(open_event(&y->buffer[k].full));
        WEIR_TRY(open_event(&y->buffer[k].empty));
    }
    return WEIR_OK;
}

static weir_status open_streams(struct weir_cuda_offload *s)
{
    for (int direction = OUT; direction < DIRECTIONS; direction++)
        WEIR_TRY(open_way(&s->way[direction]));
    return open_event(&s->here);
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

static void close_event(cudaEvent_t event)
{
    if (event)
        (void)cudaEventDestroy(event);
}

/* Every stream is idle before a buffer or an event of the others goes. */
static void close_way(way *y)
{
    for (int k = 0; k < STREAMS; k++)
        if (y->stream[k])
            (void)cudaStreamSynchronize(y->stream[k]);
    for (int k = 0; k < STREAMS; k++) {
        if (y->stream[k])
            (void)cudaStreamDestroy(y->stream[k]);
        close_event(y->end[k]);
    }
    for (int k = 0; k < BUFFERS; k++) {
        close_event(y->buffer[k].full);
        close_event(y->buffer[k].empty);
        (void)cudaFreeHost(y->buffer[k].at);
    }
}

void weir_cuda_offload_close(weir_cuda_context *u)
{
    struct weir_cuda_offload *const s = u->offload;

    if (!s)
        return;
    for (int direction = OUT; direction < DIRECTIONS; direction++)
        close_way(&s->way[direction]);
    close_event(s->here);
    for (uint32_t i = 0; i < s->tickets.n; i++)
        close_event(s->tickets.at[i].done);
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
    for (int k = 0; k < DIRECTIONS * BUFFERS; k++) {
        buffer *const b = &s->way[k / BUFFERS].buffer[k % BUFFERS];
        if (!b->at)
            WEIR_CUDA_TRY(NULL, cudaHostAlloc((void **)&b->at, STAGING, cudaHostAllocDefault));
    }
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
        WEIR_TRY(open_event(&t.done));
        if (!weir_vec_push(&s->tickets, t)) {
            close_event(t.done);
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

/* Keeps the first failure of a transfer with its sentence, for the thread that asks next. */
static void keep_late(struct weir_cuda_offload *s, weir_status status)
{
    pthread_mutex_lock(&s->lock);
    if (s->late == WEIR_OK) {
        s->late = status;
        snprintf(s->why, sizeof s->why, "%s", weir_error());
    }
    pthread_mutex_unlock(&s->lock);
}

/* Host function called by a stream, in which no CUDA function may be called. Those of the two
 * directions may run at the same time. */
static void CUDART_CB pass(void *argument)
{
    chunk *const                    c = argument;
    struct weir_cuda_offload *const s = c->offload;
    char *const                     at = s->way[c->in].buffer[c->buffer].at;
    uint64_t                        job;

    weir_status status = c->in ? weir_spill_in(s->file, c->slot, at, c->bytes, &job)
                               : weir_spill_out(s->file, c->slot, at, c->bytes, &job);
    if (status == WEIR_OK)
        status = weir_spill_wait(s->file, job);
    if (status != WEIR_OK)
        keep_late(s, status);
}

static chunk *chunk_of(struct weir_cuda_offload *s, chunk want)
{
    for (chunk *c = s->chunks; c; c = c->next)
        if (c->slot == want.slot && c->bytes == want.bytes && c->in == want.in &&
            c->buffer == want.buffer)
            return c;
    chunk *const c = weir_mem_alloc(sizeof *c);
    if (c) {
        *c = want;
        c->next = s->chunks;
        s->chunks = c;
    }
    return c;
}

/* The two steps of a chunk: one stream fills the buffer, the other one empties it. */
static weir_status pass_chunk(way *y, buffer *b, chunk *c, char *there)
{
    const cudaStream_t card = y->stream[CARD], files = y->stream[FILES];
    const cudaStream_t from = c->in ? files : card, to = c->in ? card : files;

    if (b->used)
        WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(from, b->empty, 0));
    if (c->in)
        WEIR_CUDA_TRY(NULL, cudaLaunchHostFunc(files, pass, c));
    else
        WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(b->at, there, c->bytes, cudaMemcpyDeviceToHost, card));
    WEIR_CUDA_TRY(NULL, cudaEventRecord(b->full, from));
    WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(to, b->full, 0));
    if (c->in)
        WEIR_CUDA_TRY(NULL, cudaMemcpyAsync(there, b->at, c->bytes, cudaMemcpyHostToDevice, card));
    else
        WEIR_CUDA_TRY(NULL, cudaLaunchHostFunc(files, pass, c));
    WEIR_CUDA_TRY(NULL, cudaEventRecord(b->empty, to));
    b->used = true;
    return WEIR_OK;
}

static weir_status copy_far(struct weir_cuda_offload *s, const weir_swap *w)
{
    way *const y = &s->way[w->in];

    for (size_t at = 0; at < w->bytes; at += STAGING) {
        const size_t n = w->bytes - at < STAGING ? w->bytes - at : STAGING;
        chunk *const c = chunk_of(s, (chunk){s, w->slot + at, n, w->in, y->next, NULL});
        if (!c)
            return WEIR_ERR_NOMEM;
        WEIR_TRY(pass_chunk(y, &y->buffer[y->next], c, (char *)w->at + at));
        y->next = (y->next + 1) % BUFFERS;
    }
    return WEIR_OK;
}

/* ---- copies ---- */

static bool is_far(const struct weir_cuda_offload *s, const weir_swap *w)
{
    return w->slot + w->bytes > s->near;
}

static weir_status copy_near(const struct weir_cuda_offload *s, const weir_swap *w)
{
    const cudaStream_t stream = s->way[w->in].stream[CARD];
    char *const        there = s->pinned + w->slot;

    WEIR_CUDA_TRY(NULL, w->in ? cudaMemcpyAsync(w->at, there, w->bytes, cudaMemcpyHostToDevice,
                                                stream)
                              : cudaMemcpyAsync(there, w->at, w->bytes, cudaMemcpyDeviceToHost,
                                                stream));
    return WEIR_OK;
}

static cudaStream_t stream_of(weir_device *d, weir_stream *s)
{
    const cudaStream_t first = weir_cuda_compute(d);
    return s ? (cudaStream_t)s : first;
}

/* Makes stream k of the copy's direction wait for `here`, and for copies of this run in the other
 * direction that touch the same bytes. */
static weir_status begin(struct weir_cuda_offload *s, const weir_swap *w, int k)
{
    way *const y = &s->way[w->in];

    WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(y->stream[k], s->here, 0));
    y->used[k] = true;
    for (uint32_t i = 0; i < s->tickets.n; i++) {
        const ticket *const t = &s->tickets.at[i];
        if (t->used && t->in != w->in && t->slot < w->slot + w->bytes &&
            w->slot < t->slot + t->bytes)
            WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(y->stream[k], t->done, 0));
    }
    return WEIR_OK;
}

/* Copies behind the work that the stream `after` has so far. *last: the stream that ends with the
 * copy. */
static weir_status copy(struct weir_cuda_offload *s, const weir_swap *w, cudaStream_t after,
                        cudaStream_t *last)
{
    if (w->slot > s->capacity || w->bytes > s->capacity - w->slot)
        return weir_fail(WEIR_ERR_INVALID, "device cuda: a copy of %zu bytes at %zu exceeds an "
                         "offload store of %zu bytes", w->bytes, w->slot, s->capacity);
    const bool far = is_far(s, w);
    *last = s->way[w->in].stream[far && !w->in ? FILES : CARD];
    WEIR_CUDA_TRY(NULL, cudaEventRecord(s->here, after));
    WEIR_TRY(begin(s, w, CARD));
    if (far)
        WEIR_TRY(begin(s, w, FILES));
    return far ? copy_far(s, w) : copy_near(s, w);
}

/* Makes the kernels' stream wait for a direction's copies of this run. */
static weir_status join(weir_device *d, way *y)
{
    for (int k = 0; k < BUFFERS; k++)
        y->buffer[k].used = false;
    y->next = 0;
    for (int k = 0; k < STREAMS; k++) {
        if (!y->used[k])
            continue;
        y->used[k] = false;
        WEIR_CUDA_TRY(NULL, cudaEventRecord(y->end[k], y->stream[k]));
        WEIR_CUDA_TRY(NULL, cudaStreamWaitEvent(weir_cuda_compute(d), y->end[k], 0));
    }
    return WEIR_OK;
}

/* Waits for all copies of the direction, since they share its buffers. */
static weir_status copy_now(weir_device *d, const weir_swap *w)
{
    struct weir_cuda_offload *const s = offload_of(d);
    cudaStream_t                    last;
    const weir_status               copied = copy(s, w, weir_cuda_compute(d), &last);
    const weir_status               joined = join(d, &s->way[w->in]);

    WEIR_TRY(copied);
    WEIR_TRY(joined);
    WEIR_CUDA_TRY(NULL, cudaStreamSynchronize(weir_cuda_compute(d)));
    return weir_cuda_offload_late(weir_cuda_context_of(d));
}

weir_status weir_cuda_swap(weir_device *d, const weir_swap *w)
{
    struct weir_cuda_offload *const s = offload_of(d);
    cudaStream_t                    last;

    if (w->ticket == WEIR_SWAP_NOW)
        return copy_now(d, w);
    ticket *const t = &s->tickets.at[w->ticket];
    WEIR_TRY(copy(s, w, stream_of(d, w->stream), &last));
    WEIR_CUDA_TRY(NULL, cudaEventRecord(t->done, last));
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

weir_status weir_cuda_swap_settle(weir_device *d, weir_status so_far)
{
    struct weir_cuda_offload *const s = offload_of(d);
    weir_status                     status = so_far;

    if (!s)
        return so_far;
    for (int direction = OUT; direction < DIRECTIONS; direction++) {
        const weir_status joined = join(d, &s->way[direction]);
        status = status == WEIR_OK ? joined : status;
    }
    for (uint32_t i = 0; i < s->tickets.n; i++)
        s->tickets.at[i].used = false;
    return status;
}

cudaError_t weir_cuda_offload_wait(const weir_cuda_context *u)
{
    cudaError_t e = cudaSuccess;

    for (int k = 0; u->offload && k < DIRECTIONS * STREAMS && e == cudaSuccess; k++)
        e = cudaStreamSynchronize(u->offload->way[k / STREAMS].stream[k % STREAMS]);
    return e;
}

weir_status weir_cuda_offload_late(weir_cuda_context *u)
{
    struct weir_cuda_offload *const s = u->offload;
    char                            why[LATE_TEXT];

    if (!s)
        return WEIR_OK;
    pthread_mutex_lock(&s->lock);
    const weir_status late = s->late;
    memcpy(why, s->why, sizeof why);
    s->late = WEIR_OK;
    pthread_mutex_unlock(&s->lock);
    return late == WEIR_OK ? WEIR_OK
                           : weir_fail(late, "device cuda: a copy to or from the spill file "
                                       "failed in an earlier run: %s", why);
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
