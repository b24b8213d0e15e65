/* ahead.c - batches that worker threads prepare ahead. See ahead.h.
 *
 * Slots are numbered by use: slot i % slots holds batch i. first <= begun <= queued count the
 * batches that were dropped, begun by a thread and queued. A batch between first and begun is ready
 * once its slot says so, since threads may finish out of order. */
#include "model/data/ahead.h"

#include <pthread.h>
#include <unistd.h>

typedef struct slot {
    weir_ahead_batch batch;
    bool             ready;
} slot;

struct weir_ahead {
    weir_ahead_options o;
    pthread_mutex_t    lock;            /* guards all below */
    pthread_cond_t     work, done;      /* there is a batch to begin; one is ready */
    int64_t            first, begun, queued;
    int                busy;            /* threads that fill a batch */
    bool               stop;
    int                threads;         /* that run */
    pid_t              process;
    slot              *ring;            /* owned, with their arrays */
    pthread_t         *thread;          /* owned */
};

static slot *slot_of(const weir_ahead *a, int64_t batch)
{
    return &a->ring[batch % a->o.slots];
}

static void *worker(void *ctx)
{
    weir_ahead *const a = ctx;

    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        if (a->begun == a->queued) {
            pthread_cond_wait(&a->work, &a->lock);
            continue;
        }
        slot *const s = slot_of(a, a->begun++);
        a->busy++;
        pthread_mutex_unlock(&a->lock);
        a->o.fill(a->o.ctx, &s->batch);
        pthread_mutex_lock(&a->lock);
        a->busy--;
        s->ready = true;
        pthread_cond_broadcast(&a->done);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* n elements, zeroed, or NULL. */
static void *array(size_t n, size_t size)
{
    size_t bytes = 0;

    return __builtin_mul_overflow(n, size, &bytes) ? NULL : weir_host_alloc(bytes);
}

static bool slots_make(weir_ahead *a)
{
    size_t bytes = 0;

    if (__builtin_mul_overflow((size_t)a->o.size, (size_t)a->o.elements, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return false;
    a->ring = array((size_t)a->o.slots, sizeof *a->ring);
    a->thread = array((size_t)a->o.threads, sizeof *a->thread);
    for (int i = 0; a->ring && i < a->o.slots; i++) {
        weir_ahead_batch *const b = &a->ring[i].batch;
        b->from = array((size_t)a->o.size, sizeof *b->from);
        b->x = weir_host_alloc(bytes);
        if (!b->from || !b->x)
            return false;
    }
    return a->ring && a->thread;
}

weir_ahead *weir_ahead_new(const weir_ahead_options *options)
{
    weir_ahead *const a = weir_host_alloc(sizeof *a);

    if (!a)
        return NULL;
    *a = (weir_ahead){.o = *options, .process = getpid()};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    pthread_cond_init(&a->done, NULL);
    if (!slots_make(a)) {
        weir_ahead_free(a);
        weir_fail(WEIR_ERR_NOMEM, "batches_new: no memory for %d batches of %lld samples with "
                                  "%lld numbers each, which are prepared ahead",
                  options->slots, (long long)options->size, (long long)options->elements);
        return NULL;
    }
    while (a->threads < a->o.threads &&
           pthread_create(&a->thread[a->threads], NULL, worker, a) == 0)
        a->threads++;
    if (a->threads == a->o.threads)
        return a;
    const int made = a->threads;
    weir_ahead_free(a);
    weir_fail(WEIR_ERR_NOMEM, "batches_new: the system made only %d of %d worker threads", made,
              options->threads);
    return NULL;
}

void weir_ahead_free(weir_ahead *a)
{
    if (!a)
        return;
    if (weir_ahead_lives(a)) {
        pthread_mutex_lock(&a->lock);
        a->stop = true;
        pthread_cond_broadcast(&a->work);
        pthread_mutex_unlock(&a->lock);
        for (int i = 0; i < a->threads; i++)
            pthread_join(a->thread[i], NULL);
        pthread_cond_destroy(&a->work);
        pthread_cond_destroy(&a->done);
        pthread_mutex_destroy(&a->lock);
    }
    for (int i = 0; a->ring && i < a->o.slots; i++) {
        weir_host_free(a->ring[i].batch.from);
        weir_host_free(a->ring[i].batch.x);
    }
    weir_host_free(a->ring);
    weir_host_free(a->thread);
    weir_host_free(a);
}

bool weir_ahead_lives(const weir_ahead *a)
{
    return a->process == getpid();
}

/* queued changes in the owner's thread only, which may read it without the lock. */
weir_ahead_batch *weir_ahead_slot(weir_ahead *a)
{
    return a->queued - a->first < a->o.slots ? &slot_of(a, a->queued)->batch : NULL;
}

void weir_ahead_queue(weir_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    slot_of(a, a->queued)->ready = false;
    a->queued++;
    pthread_cond_signal(&a->work);
    pthread_mutex_unlock(&a->lock);
}

const weir_ahead_batch *weir_ahead_take(weir_ahead *a)
{
    slot *const s = slot_of(a, a->first);

    pthread_mutex_lock(&a->lock);
    while (!s->ready)
        pthread_cond_wait(&a->done, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return &s->batch;
}

void weir_ahead_drop(weir_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->first++;
    pthread_mutex_unlock(&a->lock);
}

void weir_ahead_clear(weir_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->begun = a->queued;
    while (a->busy > 0)
        pthread_cond_wait(&a->done, &a->lock);
    a->first = a->queued;
    pthread_mutex_unlock(&a->lock);
}
