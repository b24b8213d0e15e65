/* spill.c - the offload store: two queues of copies over one file, a thread for each queue.
 *
 * A request is an entry of a queue's ring; the queue and the request's number in it make up its
 * ticket. The requests of a queue run one after another, so one counter per queue tells which are
 * done. A request that touches bytes of the file which an unfinished request of the other queue
 * also touches waits for that one's number (read after write, write after read). Requests wait for
 * older requests only, so there is no deadlock.
 *
 * spill_copy.c performs the copies. What it knows of a block is kept in a table indexed by file
 * offset; the order of the requests keeps readers and writers of an entry apart. */
#include "device/offload/spill.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/status.h"
#include "core/trace.h"
#include "device/offload/checksum.h"
#include "device/offload/spill_copy.h"
#include "device/offload/spill_file.h"

enum { REQUESTS = 512 };            /* ring entries per queue: running, or failed and unreported */

typedef struct request {
    weir_spill_copy copy;
    uint64_t        after;          /* number in the other queue that must be done first */
    bool            reported;       /* its failure has been reported */
} request;

typedef struct queue {
    weir_spill       *s;
    weir_spill_copier copier;
    pthread_t         thread;
    pthread_cond_t    work;         /* a request was added, or quit was set */
    uint64_t          issued, done; /* requests so far; numbers begin at 1 */
    double            limit, due;   /* bytes per second (0: none); when the link is free again */
    request           request[REQUESTS];
} queue;

struct weir_spill {
    pthread_mutex_t   lock;         /* guards the counters and quit; a thread owns its request */
    pthread_cond_t    finished;     /* a request is done */
    bool              quit;
    queue             queue[2];     /* out, in */
    int               started;      /* threads */
    weir_spill_system system;
    int               fd;
    size_t            bytes;        /* size of the file */
    weir_spill_block *table;        /* [bytes / WEIR_SPILL_ALIGN] blocks by where they begin */
    uint64_t         *ticket;
    uint32_t          tickets;
    char             *folder;
};

/* ---- the threads ---- */

static double now(const weir_spill_system *y)
{
    return y->now ? y->now(y->ctx) : weir_now();
}

static void pause_for(const weir_spill_system *y, double seconds)
{
    if (y->pause) {
        y->pause(y->ctx, seconds);
        return;
    }
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (weir_env_get()->nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Performs the copy. A limited queue models a link that takes n / limit seconds for n bytes. */
static void perform(queue *q, weir_spill_copy *c)
{
    const weir_spill_system *y = &q->s->system;
    const double             began = q->limit > 0 ? now(y) : 0;

    weir_spill_copy_run(&q->copier, q->s->table, c);
    if (!(q->limit > 0))
        return;
    q->due = (q->due > began ? q->due : began) + (double)c->n / q->limit;
    const double left = q->due - now(y);
    if (left > 0)
        pause_for(y, left);
}

static request *request_of(queue *q, uint64_t number)
{
    return &q->request[number % REQUESTS];
}

static void *thread_main(void *arg)
{
    queue *const      q = arg;
    weir_spill *const s = q->s;
    const queue      *other = &s->queue[!q->copier.in];

    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (q->done == q->issued && !s->quit)
            pthread_cond_wait(&q->work, &s->lock);
        if (q->done == q->issued)
            break;
        request *const r = request_of(q, q->done + 1);
        while (other->done < r->after)
            pthread_cond_wait(&s->finished, &s->lock);
        pthread_mutex_unlock(&s->lock);
        perform(q, &r->copy);
        pthread_mutex_lock(&s->lock);
        q->done++;
        pthread_cond_broadcast(&s->finished);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* All signals are blocked in these threads: they belong to the program's own. */
static weir_status start_threads(weir_spill *s)
{
    sigset_t all, before;
    int      error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (s->started < 2 && error == 0) {
        queue *const q = &s->queue[s->started];
        error = weir_env_get()->pthread_create(&q->thread, NULL, thread_main, q);
        s->started += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? WEIR_OK
                      : weir_fail(WEIR_ERR_NOMEM, "spill store: only %d of 2 threads can start",
                                  s->started);
}

/* ---- enqueuing and waiting ---- */

/* Number of the newest unfinished request of the other queue that touches the bytes; 0: none. */
static uint64_t conflict(queue *other, size_t slot, size_t n)
{
    for (uint64_t k = other->issued; k > other->done; k--) {
        const weir_spill_copy *c = &request_of(other, k)->copy;
        if (c->slot < slot + n && slot < c->slot + c->n)
            return k;
    }
    return 0;
}

/* Fails with the sentence of a failed request, which counts as reported from then on. */
static weir_status report(const weir_spill *s, const queue *q, request *r)
{
    const weir_spill_copy *c = &r->copy;
    char                   what[256] = "";

    r->reported = true;
    if (c->fault == WEIR_SPILL_SYSTEM)
        snprintf(what, sizeof what, ": %s",
                 c->error == ENODATA ? "the file ends before" : strerror(c->error));
    else if (c->fault == WEIR_SPILL_EMPTY)
        snprintf(what, sizeof what, ", which were never written there%s%s",
                 c->error == 0 ? "" : ": writing them failed: ",
                 c->error == 0 ? "" : strerror(c->error));
    else
        snprintf(what, sizeof what, ": the block at %zu is not what was written (wrong checksum)",
                 c->where);
    return weir_fail(WEIR_ERR_IO, "spill file in \"%.300s\": %s %zu bytes at %zu%s", s->folder,
                     q->copier.in ? "reading" : "writing", c->n, c->slot, what);
}

static bool unreported(const request *r)
{
    return r->copy.fault != WEIR_SPILL_FINE && !r->reported;
}

/* Waits for a free entry. If its old request failed unreported, reports that failure. */
static weir_status free_entry(weir_spill *s, queue *q)
{
    while (q->issued - q->done == REQUESTS)
        pthread_cond_wait(&s->finished, &s->lock);
    request *const r = request_of(q, q->issued + 1);
    return unreported(r) ? report(s, q, r) : WEIR_OK;
}

static weir_status enqueue(weir_spill *s, bool in, size_t slot, char *p, size_t n, uint64_t *ticket)
{
    queue *const q = &s->queue[in];
    size_t       end;

    *ticket = 0;
    pthread_mutex_lock(&s->lock);
    weir_status status;
    if (slot % WEIR_SPILL_ALIGN != 0 || !weir_size_add(slot, n, &end) || end > s->bytes)
        status = weir_fail(WEIR_ERR_INVALID, "spill store: %zu bytes at %zu are not a slot of the "
                           "%zu bytes (slots begin at multiples of %zu)",
                           n, slot, s->bytes, WEIR_SPILL_ALIGN);
    else
        status = free_entry(s, q);
    if (status == WEIR_OK) {
        *request_of(q, ++q->issued) = (request){
            .copy = {.at = p, .n = n, .slot = slot},
            .after = conflict(&s->queue[!in], slot, n)};
        *ticket = q->issued << 1 | in;
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* The memory is only read; requests of both queues share one struct. */
weir_status weir_spill_out(weir_spill *s, size_t slot, const void *p, size_t n, uint64_t *ticket)
{
    union { const void *from; char *at; } memory = {p};
    return enqueue(s, false, slot, memory.at, n, ticket);
}

weir_status weir_spill_in(weir_spill *s, size_t slot, void *p, size_t n, uint64_t *ticket)
{
    return enqueue(s, true, slot, p, n, ticket);
}

weir_status weir_spill_wait(weir_spill *s, uint64_t ticket)
{
    queue *const   q = &s->queue[ticket & 1];
    const uint64_t number = ticket >> 1;
    weir_status    status = WEIR_OK;

    pthread_mutex_lock(&s->lock);
    assert(number <= q->issued);
    while (q->done < number)
        pthread_cond_wait(&s->finished, &s->lock);
    request *const r = request_of(q, number);
    if (number > 0 && q->issued - number < REQUESTS &&
        r->copy.fault != WEIR_SPILL_FINE)
        status = report(s, q, r);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Waits, with the lock held, until every request is done. */
static void wait_all(weir_spill *s)
{
    for (int k = 0; k < 2; k++)
        while (s->queue[k].done < s->queue[k].issued)
            pthread_cond_wait(&s->finished, &s->lock);
}

weir_status weir_spill_settle(weir_spill *s, weir_status so_far)
{
    weir_status status = so_far;

    pthread_mutex_lock(&s->lock);
    wait_all(s);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < REQUESTS; i++) {
            request *const r = &s->queue[k].request[i];
            if (unreported(r) && status == WEIR_OK)
                status = report(s, &s->queue[k], r);
            r->reported = true;
        }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- opening and closing ---- */

static weir_status open_store(weir_spill *s, const weir_spill_options *o)
{
    if (o->system)
        s->system = *o->system;
    s->folder = weir_mem_strdup(weir_spill_folder(o->dir));
    if (!s->folder)
        return WEIR_ERR_NOMEM;
    WEIR_TRY(weir_spill_file_open(s->folder, &s->fd));
    for (int k = 0; k < 2; k++) {
        queue *const q = &s->queue[k];
        q->limit = k ? o->in_limit : o->out_limit;
        WEIR_TRY(weir_spill_io_open(&q->copier.io, s->fd, k == 0, &s->system,
                                    o->mover == WEIR_SPILL_ANY));
        WEIR_TRY(weir_spill_copier_open(&q->copier, o->lz4));
    }
    WEIR_TRY(weir_spill_reserve(s, o->bytes));
    return start_threads(s);
}

weir_status weir_spill_new(const weir_spill_options *o, weir_spill **out)
{
    const weir_spill_options plain = {0};
    weir_spill *const        s = weir_mem_zalloc(1, sizeof *s);

    *out = NULL;
    if (!s)
        return WEIR_ERR_NOMEM;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->finished, NULL);
    for (int k = 0; k < 2; k++) {
        s->queue[k].s = s;
        s->queue[k].copier = (weir_spill_copier){.in = k, .io = {.ring = {.fd = -1}}};
        pthread_cond_init(&s->queue[k].work, NULL);
    }
    const weir_status status = open_store(s, o ? o : &plain);
    if (status != WEIR_OK)
        weir_spill_free(s);
    else
        *out = s;
    return status;
}

void weir_spill_free(weir_spill *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->quit = true;                         /* the threads finish all requests first */
    for (int k = 0; k < 2; k++)
        pthread_cond_signal(&s->queue[k].work);
    pthread_mutex_unlock(&s->lock);
    for (int k = 0; k < s->started; k++)
        weir_env_get()->pthread_join(s->queue[k].thread, NULL);
    for (int k = 0; k < 2; k++) {
        weir_spill_copier_close(&s->queue[k].copier);
        pthread_cond_destroy(&s->queue[k].work);
    }
    if (s->fd >= 0)
        weir_env_get()->close(s->fd);
    pthread_cond_destroy(&s->finished);
    pthread_mutex_destroy(&s->lock);
    weir_mem_free(s->table);
    weir_mem_free(s->ticket);
    weir_mem_free(s->folder);
    weir_mem_free(s);
}

/* The table is replaced while no request runs, as the threads access it in requests only. */
weir_status weir_spill_reserve(weir_spill *s, size_t bytes)
{
    size_t want;

    if (!weir_size_align(bytes, WEIR_SPILL_ALIGN, &want))
        want = SIZE_MAX;
    if (want <= s->bytes)
        return WEIR_OK;
    const size_t old = s->bytes / WEIR_SPILL_ALIGN, n = want / WEIR_SPILL_ALIGN;
    WEIR_TRY(weir_spill_file_grow(s->folder, s->fd, s->bytes, want));
    weir_spill_block *const table = weir_mem_zalloc(n, sizeof *table);
    if (!table) {
        weir_spill_file_truncate(s->fd, s->bytes);
        return WEIR_ERR_NOMEM;
    }
    pthread_mutex_lock(&s->lock);
    wait_all(s);
    if (old > 0)
        memcpy(table, s->table, old * sizeof *table);
    weir_mem_free(s->table);
    s->table = table;
    s->bytes = want;
    pthread_mutex_unlock(&s->lock);
    return WEIR_OK;
}

weir_status weir_spill_tickets(weir_spill *s, uint32_t n)
{
    WEIR_TRY(weir_spill_settle(s, WEIR_OK));
    if (n <= s->tickets)
        return WEIR_OK;
    uint64_t *const ticket = weir_mem_zalloc(n, sizeof *ticket);
    if (!ticket)
        return WEIR_ERR_NOMEM;
    weir_mem_free(s->ticket);
    s->ticket = ticket;
    s->tickets = n;
    return WEIR_OK;
}

uint32_t weir_spill_places(const weir_spill *s)
{
    return s->tickets;
}

uint64_t *weir_spill_ticket(weir_spill *s, uint32_t i)
{
    assert(i < s->tickets);
    return &s->ticket[i];
}

/* ---- sizes and counters ---- */

size_t weir_spill_memory(const weir_spill *s)
{
    return sizeof *s + strlen(s->folder) + 1 + s->tickets * sizeof *s->ticket +
           s->bytes / WEIR_SPILL_ALIGN * sizeof *s->table +
           weir_spill_copier_memory(&s->queue[0].copier) +
           weir_spill_copier_memory(&s->queue[1].copier);
}

size_t weir_spill_staging(const weir_spill *s)
{
    return weir_spill_copier_staging(&s->queue[0].copier) +
           weir_spill_copier_staging(&s->queue[1].copier);
}

size_t weir_spill_bytes(const weir_spill *s)
{
    return s->bytes;
}

int weir_spill_file(const weir_spill *s)
{
    return s->fd;
}

const char *weir_spill_backend(const weir_spill *s)
{
    return s->queue[0].copier.io.ring.fd >= 0 ? "io_uring" : "threads";
}

uint64_t weir_spill_finished(weir_spill *s, bool in)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t done = s->queue[in].done;
    pthread_mutex_unlock(&s->lock);
    return done;
}

void weir_spill_info(weir_string *text, const char *dir)
{
    static const weir_spill_system system;
    weir_spill_io                  io;

    (void)weir_spill_io_open(&io, -1, true, &system, true);
    weir_string_add(text, "spill file in %s, by %s, checksums %s, LZ4 %s\n", weir_spill_folder(dir),
                    io.ring.fd >= 0 ? "io_uring" : "threads", weir_checksum_name(),
                    weir_spill_lz4());
    weir_spill_io_close(&io);
}

/* ---- bandwidth ---- */

enum { PROBE = 4 << 20, PROBES = 4 };

/* Least seconds of PROBES copies in one direction, after one to warm up. */
static weir_status probe(weir_spill *s, bool in, void *p, double *best)
{
    *best = 1e30;
    for (int i = 0; i <= PROBES; i++) {
        uint64_t     ticket;
        const double began = now(&s->system);
        WEIR_TRY(enqueue(s, in, 0, p, PROBE, &ticket));
        WEIR_TRY(weir_spill_wait(s, ticket));
        const double seconds = now(&s->system) - began;
        if (i > 0 && seconds < *best)
            *best = seconds;
    }
    return WEIR_OK;
}

weir_status weir_spill_measure(const weir_spill_options *o, double *out, double *in)
{
    weir_spill_options options = o ? *o : (weir_spill_options){0};
    weir_spill        *s;

    options.bytes = PROBE;
    char *const p = weir_mem_pages(PROBE, false);
    if (!p)
        return WEIR_ERR_NOMEM;
    for (size_t i = 0; i < PROBE; i++)
        p[i] = (char)(i * i >> 7);
    weir_status status = weir_spill_new(&options, &s);
    if (status == WEIR_OK)
        status = probe(s, false, p, out);
    if (status == WEIR_OK)
        status = probe(s, true, p, in);
    if (status == WEIR_OK) {
        *out = PROBE / (*out > 1e-9 ? *out : 1e-9);
        *in = PROBE / (*in > 1e-9 ? *in : 1e-9);
    }
    weir_spill_free(s);
    weir_mem_pages_free(p, PROBE);
    return status;
}
