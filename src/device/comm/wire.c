/* wire.c - the wire thread: a queue of collectives, deadlines, and who is to blame. See wire.h.
 *
 * Before its messages each collective sends a header to every rank that it sends to: number, kind,
 * type, size, order, graph and run. So ranks that call different collectives learn it at once, and
 * messages are posted only where their sizes fit, as an MPI needs. */
#include "device/comm/wire.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/status.h"
#include "core/trace.h"
#include "device/comm/blame.h"
#include "device/comm/watch.h"
#include "device/comm/kinds.h"
#include "device/comm/order.h"
#include "device/comm/pace.h"
#include "device/comm/prompt.h"

/* Seconds that opening waits for other ranks, at least: programs do not start at the same time. */
#define OPEN_SECONDS 60.0

/* Seconds for which closing a broken communicator waits until other ranks have failed, too. */
#define GRACE_SECONDS 5.0

/* QUEUE: collectives that may be posted before the first is done. */
enum { QUEUE = 64, LEAVE_NS = 50000, IDLE_NS = 4000000 };

typedef enum note_kind { NOTE_ASK = 1, NOTE_TELL, NOTE_LEFT, NOTE_BROKEN } note_kind;

/* What this rank knows of another. */
typedef struct other_rank {
    bool            answered, left;
    weir_rank_place at;         /* when it answered or left */
    weir_rank_place head;       /* of the collective at hand, once it has arrived */
} other_rank;

/* A collective in the queue, and the run that it belongs to. */
typedef struct entry {
    weir_collective job;
    uint64_t        graph, run;
} entry;

struct weir_comm_wire {
    weir_comm_link       link;
    double          timeout;
    weir_sum_order  order;
    const char     *spec;
    weir_status   (*perform)(weir_comm_wire *w, const weir_collective *job);
    pthread_t       thread;
    pthread_mutex_t lock;       /* of the fields up to `peers` */
    pthread_cond_t  work, done_one;
    bool            opened, stop, waited;
    bool            closed, abandoned;      /* the transport is; nobody waits for that any more */
    double          closing;    /* since when it is being closed; 0: it is not */
    entry           job[QUEUE];
    uint64_t        graph, run; /* that the device's thread is in */
    uint64_t        posted, done;
    weir_comm_stats stats;
    weir_status     opening;    /* how it ended */
    weir_status     broken;     /* WEIR_OK: not */
    weir_failure    failure;    /* of opening, or why it is broken */
    /* The wire thread's alone: */
    other_rank     *peers;      /* [world] */
    const void    **operands;   /* [world] */
    weir_move      *send, *recv;        /* [2 world] */
    int             ns, nr;
    uint64_t        number;     /* collectives of all ranks begun so far */
    uint64_t        begun;      /* the same with sends and receives */
    const weir_collective *now; /* at hand; NULL: none */
    weir_rank_place        head; /* its header */
    double          until, ask;
    weir_pace       pace;
    weir_stream_watch watch;    /* set before anything is queued */
};

const weir_comm_link *weir_wire_link(const weir_comm_wire *w)
{
    return &w->link;
}

weir_status weir_wire_sum(void *wire, const weir_rank_sum *sum)
{
    weir_comm_wire *const w = wire;
    const char           *other = sum->others;

    for (int r = 0; r < w->link.world; r++) {
        w->operands[r] = r == w->link.rank ? sum->own : other;
        other += r == w->link.rank ? 0 : sum->stride;
    }
    weir_ordered_sum(sum->to, w->operands, w->link.world, sum->count, sum->dtype, w->order);
    return WEIR_OK;
}

static bool of_all(const weir_collective *job)
{
    return job->kind != WEIR_SEND && job->kind != WEIR_RECV;
}

/* ---- failures ---- */

/* Tells all others why this rank gives up. */
static weir_status give_up(weir_comm_wire *w, weir_blame_reason why, int culprit,
                           const weir_rank_place *its)
{
    const weir_blame b = {why, culprit, w->link.rank, w->head, *its};
    uint64_t         word[WEIR_NOTE_WORDS];

    weir_blame_write(&b, NOTE_BROKEN, word);
    for (int r = 0; r < w->link.world; r++)
        if (r != w->link.rank)
            w->link.ops->note(&w->link, r, word);
    return weir_fail_blame(&b, w->timeout);
}

/* The deadline has passed: finds the rank that is missing. A rank that answers and is at this
 * collective waits as this one does. */
static weir_status blame_one(weir_comm_wire *w, int waited_for)
{
    for (int r = 0; r < w->link.world; r++)
        if (r != w->link.rank && !w->peers[r].answered && !w->peers[r].left)
            return give_up(w, WEIR_SILENT, r, &w->peers[r].at);
    for (int r = 0; r < w->link.world && w->now && of_all(w->now); r++)
        if (r != w->link.rank && w->peers[r].at.number < w->number)
            return give_up(w, w->peers[r].left ? WEIR_LEFT : WEIR_BEHIND, r, &w->peers[r].at);
    return give_up(w, WEIR_LOST, waited_for, &w->peers[waited_for].at);
}

/* ---- notes ---- */

static void tell(weir_comm_wire *w, int to, note_kind kind)
{
    uint64_t        word[WEIR_NOTE_WORDS] = {kind};
    weir_rank_place at = {.number = w->number};

    if (w->now) {
        at = w->head;
        at.number = w->number;
    } else {
        pthread_mutex_lock(&w->lock);
        at.graph = w->graph;
        at.run = w->run;
        pthread_mutex_unlock(&w->lock);
    }
    memcpy(word + 1, &at, sizeof at);
    w->link.ops->note(&w->link, to, word);
}

static void tell_all(weir_comm_wire *w, note_kind kind)
{
    for (int r = 0; r < w->link.world; r++)
        if (r != w->link.rank)
            tell(w, r, kind);
}

/* Fails if a collective on the device's stream is late. */
static weir_status look_at_stream(weir_comm_wire *w)
{
    const weir_watch_state state = weir_watch_look(&w->watch, w->timeout);

    if (state == WEIR_WATCH_BEGUN)
        tell_all(w, NOTE_ASK);
    return state == WEIR_WATCH_LATE ? blame_one(w, w->link.rank == 0) : WEIR_OK;
}

/* Reads what other ranks have noted, and answers. Fails if one of them has given up. */
static weir_status hear(weir_comm_wire *w)
{
    uint64_t word[WEIR_NOTE_WORDS];
    int      from;

    WEIR_TRY(look_at_stream(w));
    while (w->link.ops->noted(&w->link, &from, word)) {
        other_rank *const p = &w->peers[from];
        switch ((note_kind)(word[0] & 0xff)) {
        case NOTE_ASK:
            tell(w, from, NOTE_TELL);
            break;
        case NOTE_TELL:
        case NOTE_LEFT:
            p->answered = true;
            p->left |= (word[0] & 0xff) == NOTE_LEFT;
            memcpy(&p->at, word + 1, sizeof p->at);
            break;
        case NOTE_BROKEN:
            return weir_fail_told(word, w->timeout);
        }
    }
    return WEIR_OK;
}

/* ---- exchanges ---- */

void weir_wire_send(void *wire, const void *at, size_t bytes, int peer)
{
    weir_comm_wire *const w = wire;

    w->send[w->ns++] = (weir_move){(void *)(uintptr_t)at, bytes, peer, false};
}

void weir_wire_recv(void *wire, void *at, size_t bytes, int peer)
{
    weir_comm_wire *const w = wire;

    w->recv[w->nr++] = (weir_move){at, bytes, peer, false};
}

/* Fails if a header that has arrived is not this rank's. */
static weir_status check_heads(weir_comm_wire *w)
{
    for (int i = 0; i < w->nr; i++) {
        const weir_move *const       m = &w->recv[i];
        const weir_rank_place *const its = &w->peers[m->peer].head;
        if (m->done && m->at == its && memcmp(its, &w->head, sizeof w->head) != 0)
            return give_up(w, WEIR_DIFFERS, m->peer, its);
    }
    return WEIR_OK;
}

/* A rank that has left and is missing here will not come. */
static weir_status check_left(weir_comm_wire *w)
{
    for (int r = 0; r < w->link.world && of_all(w->now); r++)
        if (w->peers[r].left && w->peers[r].at.number < w->number)
            return give_up(w, WEIR_LEFT, r, &w->peers[r].at);
    return WEIR_OK;
}

static bool is_waited_for(weir_comm_wire *w)
{
    pthread_mutex_lock(&w->lock);
    const bool waited = w->waited;
    pthread_mutex_unlock(&w->lock);
    return waited;
}

/* One test of the exchange that does not find it done: hears notes, asks, watches the deadline. */
static weir_status pause_between(weir_comm_wire *w, uint64_t tests, int waited_for)
{
    WEIR_TRY(hear(w));
    WEIR_TRY(check_heads(w));
    WEIR_TRY(check_left(w));
    const double now = weir_now();
    if (now >= w->until)
        return blame_one(w, waited_for);
    if (now >= w->ask) {
        tell_all(w, NOTE_ASK);
        w->ask = now + w->timeout / 6;
    }
    weir_pace_next(&w->pace, tests, w->link.moved, is_waited_for(w));
    return WEIR_OK;
}

/* Tests what was begun until it is done. */
static weir_status wait_for_link(weir_comm_wire *w)
{
    weir_status status = WEIR_OK;
    bool        done = false;
    int         waited_for = w->link.rank;

    for (uint64_t tests = 0; status == WEIR_OK && !done; tests++) {
        status = w->link.ops->test(&w->link, &done, &waited_for);
        if (status != WEIR_OK || done) {
            const weir_status heads = check_heads(w);
            status = heads != WEIR_OK ? heads : status;
        } else {
            status = pause_between(w, tests, waited_for);
        }
    }
    return status;
}

weir_status weir_wire_exchange(void *wire)
{
    weir_comm_wire *const w = wire;
    weir_status           status = w->link.ops->exchange(&w->link, w->send, w->ns, w->recv, w->nr);

    status = status == WEIR_OK ? wait_for_link(w) : status;
    w->ns = w->nr = 0;
    return status;
}

/* ---- collectives ---- */

/* Adds the headers to an exchange. Ranks that send and receive may be in different graphs. */
static void add_heads(weir_comm_wire *w, const entry *e)
{
    const weir_collective *const job = w->now;

    w->head = (weir_rank_place){of_all(job) ? w->number : 1, weir_rank_what(job, w->order),
                                (uint64_t)job->count, of_all(job) ? e->graph : 0,
                                of_all(job) ? e->run : 0};
    for (int r = 0; r < w->link.world; r++) {
        w->peers[r].answered = false;
        if (r == w->link.rank)
            continue;
        if (weir_collective_sends(job, w->link.rank, r))
            weir_wire_send(w, &w->head, sizeof w->head, r);
        if (weir_collective_receives(job, w->link.rank, r))
            weir_wire_recv(w, &w->peers[r].head, sizeof w->peers[r].head, r);
    }
}

static weir_status perform_now(weir_comm_wire *w, const entry *e)
{
    const weir_collective *const job = w->now;
    bool                         has = false;

    w->begun++;
    w->number += of_all(job);
    if (w->link.ops->begin && !w->link.ops->begin(&w->link, w->begun))
        return weir_fail(WEIR_ERR_COMM, "rank %d stops before collective %llu, as its spec says",
                         w->link.rank, (unsigned long long)w->begun);
    w->until = weir_now() + w->timeout;
    w->ask = weir_now() + w->timeout / 6;
    add_heads(w, e);
    WEIR_TRY(weir_wire_exchange(w));
    if (job->queued)
        return WEIR_OK;
    if (w->order == WEIR_SUM_ENGINE && job->kind == WEIR_ALL_REDUCE && w->link.ops->reduce)
        WEIR_TRY(w->link.ops->reduce(&w->link, job, &has));
    return has ? wait_for_link(w) : w->perform(w, job);
}

static weir_status perform(weir_comm_wire *w, const entry *e)
{
    w->now = &e->job;
    const weir_status status = perform_now(w, e);
    w->now = NULL;
    return status;
}

/* ---- the thread ---- */

static void breaks(weir_comm_wire *w, weir_status status)
{
    w->broken = status;
    weir_failure_get(&w->failure);
    weir_watch_abandon(&w->watch);
}

/* Waits for a signal, or a moment. The lock is held. */
static void idle(weir_comm_wire *w, pthread_cond_t *signal)
{
    struct timespec until;

    (void)weir_env_get()->clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += IDLE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(signal, &w->lock, &until);
}

static weir_status prepare(weir_comm_wire *w)
{
    w->link.deadline = weir_now() + (w->timeout > OPEN_SECONDS ? w->timeout : OPEN_SECONDS);
    WEIR_TRY(w->link.ops->open(&w->link, w->spec));
    const size_t n = (size_t)w->link.world;
    w->peers = weir_mem_zalloc(n, sizeof *w->peers);
    w->operands = weir_mem_zalloc(n, sizeof *w->operands);
    w->send = weir_mem_zalloc(2 * n, sizeof *w->send);
    w->recv = weir_mem_zalloc(2 * n, sizeof *w->recv);
    if (w->peers && w->operands && w->send && w->recv)
        return WEIR_OK;
    w->link.ops->close(&w->link, false);
    return WEIR_ERR_NOMEM;
}

static void count_one(weir_comm_wire *w, const weir_collective *job, double seconds)
{
    w->stats.collectives++;
    w->stats.bytes += (uint64_t)job->count * weir_dtype_size(job->dtype);
    w->stats.wire_ms += 1e3 * seconds;
}

/* Performs what is posted until the communicator is closed. The lock is held. */
static void serve(weir_comm_wire *w)
{
    while (!w->stop || (w->posted > w->done && w->broken == WEIR_OK)) {
        if (w->broken != WEIR_OK) {
            w->done = w->posted;
            pthread_cond_broadcast(&w->done_one);
            idle(w, &w->work);
            continue;
        }
        const bool busy = w->posted > w->done;
        if (!busy)
            idle(w, &w->work);
        const entry *const job = &w->job[w->done % QUEUE];
        const double       begin = weir_now();
        pthread_mutex_unlock(&w->lock);
        const weir_status status = busy ? perform(w, job) : hear(w);
        pthread_mutex_lock(&w->lock);
        if (status != WEIR_OK)
            breaks(w, status);
        else if (busy)
            count_one(w, &job->job, weir_now() - begin);
        w->done += busy;
        pthread_cond_broadcast(&w->done_one);
    }
}

/* Waits until all others have left, too, or for this long. */
static bool all_leave(weir_comm_wire *w, double seconds)
{
    const double until = weir_now() + seconds;
    int          here = w->link.world;

    tell_all(w, NOTE_LEFT);
    while (here > 1 && weir_now() < until) {
        (void)hear(w);
        here = 1;
        for (int r = 0; r < w->link.world; r++)
            here += r != w->link.rank && !w->peers[r].left;
        weir_nap(LEAVE_NS);
    }
    return here == 1;
}

static void destroy(weir_comm_wire *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done_one);
    weir_mem_free(w->peers);
    weir_mem_free(w->operands);
    weir_mem_free(w->send);
    weir_mem_free(w->recv);
    weir_mem_free(w);
}

/* A library may hang here (MPI_Finalize of MPICH 4.0 over UCX and TCP does at times); the thread
 * that waits for this one then leaves it, and what it uses, behind. */
static void close_link(weir_comm_wire *w, bool orderly)
{
    pthread_mutex_lock(&w->lock);
    w->closing = weir_now();
    pthread_mutex_unlock(&w->lock);
    w->link.ops->close(&w->link, orderly);
    pthread_mutex_lock(&w->lock);
    w->closed = true;
    const bool abandoned = w->abandoned;
    pthread_cond_broadcast(&w->done_one);
    pthread_mutex_unlock(&w->lock);
    if (abandoned)
        destroy(w);
}

static void *run(void *arg)
{
    weir_comm_wire *const w = arg;

    weir_thread_be_prompt();
    const weir_status status = prepare(w);
    pthread_mutex_lock(&w->lock);
    if (status != WEIR_OK)
        breaks(w, status);
    w->opening = status;
    w->opened = true;
    pthread_cond_broadcast(&w->done_one);
    if (status == WEIR_OK)
        serve(w);
    pthread_mutex_unlock(&w->lock);
    if (status != WEIR_OK)
        return NULL;
    const bool whole = w->broken == WEIR_OK;
    bool       left = false;
    if (w->link.ops->waits)     /* a launcher may end the others as soon as this process is gone */
        left = all_leave(w, whole || w->timeout < GRACE_SECONDS ? w->timeout : GRACE_SECONDS);
    else if (whole)
        tell_all(w, NOTE_LEFT);
    close_link(w, whole && left);
    return NULL;
}

/* ---- the device's thread ---- */

weir_comm_wire *weir_wire_new(const weir_wire_options *o)
{
    weir_comm_wire *const w = weir_mem_zalloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->link.ops = o->ops;
    w->spec = o->spec;
    w->timeout = o->timeout;
    w->order = o->order;
    w->perform = o->perform;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done_one, NULL);
    if (weir_env_get()->pthread_create(&w->thread, NULL, run, w) != 0) {
        destroy(w);
        return WEIR_FAIL_NULL(WEIR_ERR_NOMEM, "weir_comm_open: no thread for the wire can be "
                                              "started");
    }
    pthread_mutex_lock(&w->lock);
    while (!w->opened)
        pthread_cond_wait(&w->done_one, &w->lock);
    const weir_status status = w->opening;  /* it may have broken since: that is told later */
    pthread_mutex_unlock(&w->lock);
    if (status == WEIR_OK)
        return w;
    (void)weir_env_get()->pthread_join(w->thread, NULL);
    weir_failure_set(&w->failure);
    destroy(w);
    return NULL;
}

void weir_wire_free(weir_comm_wire *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    const pthread_t thread = w->thread;
    w->stop = true;
    pthread_cond_signal(&w->work);
    while (!w->closed && (w->closing == 0 || weir_now() < w->closing + w->timeout))
        idle(w, &w->done_one);
    const bool abandoned = w->abandoned = !w->closed;
    pthread_mutex_unlock(&w->lock);
    if (abandoned) {
        (void)weir_env_get()->pthread_detach(thread);
        return;
    }
    (void)weir_env_get()->pthread_join(thread, NULL);
    destroy(w);
}

void weir_wire_at(weir_comm_wire *w, uint64_t graph, uint64_t run)
{
    pthread_mutex_lock(&w->lock);
    w->graph = graph;
    w->run = run;
    pthread_mutex_unlock(&w->lock);
}

void weir_wire_watch(weir_comm_wire *w, const weir_stream_comm_ops *ops, weir_stream_comm *s)
{
    pthread_mutex_lock(&w->lock);
    w->watch = (weir_stream_watch){.ops = ops, .stream = s};
    pthread_mutex_unlock(&w->lock);
}

/* Waits until that many collectives are done. The lock is held. */
static void wait_until_done(weir_comm_wire *w, uint64_t ticket)
{
    if (w->done >= ticket)
        return;
    const double begin = weir_now();
    while (w->done < ticket)
        pthread_cond_wait(&w->done_one, &w->lock);
    w->stats.waited_ms += 1e3 * (weir_now() - begin);
}

uint64_t weir_wire_post(weir_comm_wire *w, const weir_collective *job)
{
    pthread_mutex_lock(&w->lock);
    if (w->posted >= QUEUE)
        wait_until_done(w, w->posted - QUEUE + 1);
    w->job[w->posted++ % QUEUE] = (entry){*job, w->graph, w->run};
    const uint64_t ticket = w->posted;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    return ticket;
}

weir_status weir_wire_wait(weir_comm_wire *w, uint64_t ticket)
{
    pthread_mutex_lock(&w->lock);
    w->waited = true;
    wait_until_done(w, ticket);
    w->waited = false;
    const weir_status status = w->broken;
    if (status != WEIR_OK)
        weir_failure_set(&w->failure);
    pthread_mutex_unlock(&w->lock);
    return status;
}

weir_comm_stats weir_wire_stats(weir_comm_wire *w)
{
    pthread_mutex_lock(&w->lock);
    const weir_comm_stats stats = w->stats;
    pthread_mutex_unlock(&w->lock);
    return stats;
}
