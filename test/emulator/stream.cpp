/* stream.cpp - streams as queues, and the order in which a wait runs their work items. See
 * runtime.h.
 *
 * Each wait draws one of three orders: only items of the awaited stream, as long as events allow;
 * items of any stream, evenly; or those of the other streams first. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fiber.h"
#include "inject.h"
#include "promise.h"
#include "runtime.h"

std::unordered_map<uint64_t, emulate_stream *> emulate_streams;
std::unordered_map<uint64_t, emulate_event *>  emulate_events;

namespace {

std::vector<emulate_stream *> waiting;      /* streams with queued items */
std::set<uint64_t>            signals;      /* not given yet */
std::set<uint64_t>            promises;     /* signals that libraries give */
long                          legacy;       /* items given to the legacy default stream */
thread_local bool             inside;       /* in a host function, which may call no function */

enum style { ALONE, EVENLY, OTHERS_FIRST, STYLES };

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* False if the memory of a copy has been freed since it was queued. */
bool copy_is_sound(const emulate_work *w)
{
    const emulate_copy *const c = &w->copy;
    const size_t              to = (c->height - 1) * c->to_pitch + c->width;
    const size_t              from = (c->height - 1) * c->from_pitch + c->width;

    return (!c->to_card || emulate_on_card(c->to, to)) &&
           (w->kind == FILL || !c->from_card || emulate_on_card(c->from, from));
}

void run_copy(const emulate_work *w)
{
    const emulate_copy *const c = &w->copy;

    if (!copy_is_sound(w))
        return emulate_lose(cudaErrorIllegalAddress);
    for (size_t row = 0; row < c->height; row++)
        if (w->kind == FILL)
            memset(c->to + row * c->to_pitch, w->byte, c->width);
        else
            memmove(c->to + row * c->to_pitch, c->from + row * c->from_pitch, c->width);
}

void run_kernel(const emulate_work *w)
{
    const cudaError_t e = emulate_kernel_failure();

    if (e != cudaSuccess)
        return emulate_lose(e);
    emulate_run_kernel(w->kernel.grid, w->kernel.block, w->kernel.thread, w->more,
                       emulate_draw(1 << 16));
}

void run_host(const emulate_work *w)
{
    const cudaHostFn_t call = w->host.call;
    void *const        context = w->host.context;

    emulate_access(false);
    emulate_unlock();
    inside = true;
    call(context);
    inside = false;
    emulate_lock();
    emulate_access(true);
}

void run_record(const emulate_work *w)
{
    emulate_event *const e = emulate_find(emulate_events, (void *)w->event);

    if (e) {
        e->time = now();
        e->ended = true;
    }
}

void run(const emulate_work *w)
{
    if (emulate_lost() != cudaSuccess)
        return;
    if (w->kind == KERNEL)
        run_kernel(w);
    else if (w->kind == COPY || w->kind == FILL)
        run_copy(w);
    else if (w->kind == HOST)
        run_host(w);
    else if (w->kind == RECORD)
        run_record(w);
}

bool blocked(const emulate_work *w)
{
    if (emulate_lost() != cudaSuccess)
        return false;
    if (w->kind == WAIT)
        return !emulate_reached(w->until);
    if (w->kind != WAIT_EVENT)
        return false;
    const emulate_event *const e = emulate_find(emulate_events, (void *)w->event);
    return e && e->recorded && !e->captured && !emulate_reached(e->at);
}

/* Runs one node of the graph at the head of the queue; false if none is runnable. */
bool replay(emulate_stream *s, emulate_run *r)
{
    const size_t n = r->ready.size(), first = n ? emulate_draw(n) : 0;

    for (size_t i = 0; i < n; i++) {
        const size_t at = (first + i) % n;
        const int    node = r->ready[at];
        if (blocked(r->body->nodes[node].work))
            continue;
        r->ready[at] = r->ready.back();
        r->ready.pop_back();
        s->busy = true;
        run(r->body->nodes[node].work);
        s->busy = false;
        emulate_signal_give(r->signals[node]);
        r->left--;
        for (const int next : r->body->nodes[node].after)
            if (--r->missing[next] == 0)
                r->ready.push_back(next);
        return true;
    }
    return n == 0 && r->left == 0;
}

void pop(emulate_stream *s)
{
    emulate_work_drop(s->queue.front());
    s->queue.pop_front();
    s->done++;
    if (!s->queue.empty())
        return;
    for (size_t i = 0; i < waiting.size(); i++)
        if (waiting[i] == s) {
            waiting[i] = waiting.back();
            waiting.pop_back();
            break;
        }
    if (s->dying) {
        emulate_streams.erase(s->id);
        delete s;
    }
}

/* Runs the item at the head of the queue, or a part of it; false if it is not runnable. */
bool step(emulate_stream *s)
{
    if (s->busy || s->queue.empty() || blocked(s->queue.front()))
        return false;
    emulate_work *const w = s->queue.front();
    if (w->kind != REPLAY) {
        s->busy = true;
        run(w);
        s->busy = false;
        pop(s);
        return true;
    }
    const bool moved = w->run->left == 0 || replay(s, w->run);
    if (w->run->left == 0)
        pop(s);
    return moved;
}

/* The stream that the head of s finally waits for. */
emulate_stream *culprit(emulate_stream *s)
{
    while (s && !s->queue.empty() && s->queue.front()->kind == WAIT && blocked(s->queue.front())) {
        const auto at = emulate_streams.find(s->queue.front()->until.stream);
        s = at == emulate_streams.end() ? NULL : at->second;
    }
    return s;
}

/* Runs one item of any stream, preferably not of `last`; false if none is runnable. */
bool step_any(const emulate_stream *last)
{
    const size_t n = waiting.size(), first = n ? emulate_draw(n) : 0;

    for (size_t i = 0; i < n; i++) {
        emulate_stream *const s = waiting[(first + i) % n];
        if (s != last && step(s))
            return true;
    }
    for (size_t i = 0; i < waiting.size(); i++)
        if (waiting[i] == last)
            return step(waiting[i]);
    return false;
}

/* Lets another thread continue that runs a host function, or that will keep a promise; without one,
 * nothing will ever run. */
void let_others(void)
{
    bool busy = false;
    for (const emulate_stream *s : waiting)
        busy = busy || s->busy;
    if (!busy && promises.empty()) {
        fprintf(stderr, "emulated card: works wait for each other\n");
        abort();
    }
    emulate_access(false);
    emulate_unlock();
    sched_yield();
    emulate_lock();
    emulate_access(true);
}

}

bool emulate_in_host_function(void)
{
    return inside;
}

emulate_work *emulate_work_new(emulate_kind kind, size_t bytes)
{
    emulate_work *const w = (emulate_work *)malloc(sizeof *w + bytes);
    if (!w)
        abort();
    memset((void *)w, 0, sizeof *w);
    w->kind = kind;
    w->users = 1;
    return w;
}

void emulate_work_drop(emulate_work *w)
{
    if (--w->users > 0)
        return;
    if (w->kind == REPLAY)
        delete w->run;
    free(w);
}

emulate_run::~emulate_run()
{
    for (const uint64_t signal : signals)
        emulate_signal_give(signal);
}

uint64_t emulate_signal_new(void)
{
    return *signals.insert(emulate_id()).first;
}

void emulate_signal_give(uint64_t signal)
{
    signals.erase(signal);
}

bool emulate_reached(emulate_mark m)
{
    if (m.stream == 0)
        return !signals.count(m.seq);
    const auto at = emulate_streams.find(m.stream);
    return at == emulate_streams.end() || at->second->done >= m.seq;
}

namespace {

emulate_mark append(emulate_stream *s, emulate_work *w)
{
    if (s->queue.empty())
        waiting.push_back(s);
    s->queue.push_back(w);
    return emulate_mark{s->id, ++s->pushed};
}

void append_wait(emulate_stream *s, const emulate_stream *other)
{
    if (other == s || other->queue.empty())
        return;
    emulate_work *const w = emulate_work_new(WAIT, 0);
    w->until = emulate_mark{other->id, other->pushed};
    append(s, w);
}

}

/* The legacy stream and all blocking streams wait for each other. */
emulate_mark emulate_push(emulate_stream *s, emulate_work *w)
{
    if (s->capture) {
        emulate_capture_add(s, w);
        return emulate_mark{0, 0};
    }
    legacy += s->id == EMULATE_LEGACY;
    if (s->id == EMULATE_LEGACY) {
        const std::vector<emulate_stream *> others = waiting;
        for (const emulate_stream *o : others)
            if (!(o->flags & cudaStreamNonBlocking))
                append_wait(s, o);
    } else if (!(s->flags & cudaStreamNonBlocking)) {
        const auto at = emulate_streams.find(EMULATE_LEGACY);
        if (at != emulate_streams.end())
            append_wait(s, at->second);
    }
    return append(s, w);
}

cudaError_t emulate_wait(emulate_mark m)
{
    if (emulate_reached(m))
        return emulate_lost();
    const style how = (style)emulate_draw(STYLES);
    emulate_access(true);
    while (!emulate_reached(m)) {
        const auto            at = emulate_streams.find(m.stream);
        emulate_stream *const s = at == emulate_streams.end() ? NULL : at->second;
        emulate_stream *const c = how == ALONE ? culprit(s) : NULL;
        if (!(c && step(c)) && !step_any(how == OTHERS_FIRST ? s : NULL))
            let_others();
    }
    emulate_access(false);
    return emulate_lost();
}

cudaError_t emulate_wait_all(void)
{
    emulate_access(true);
    while (!waiting.empty())
        if (!step_any(NULL))
            let_others();
    emulate_access(false);
    return emulate_lost();
}

/* Runs at least one item every second time, so that polling ends. */
void emulate_some(void)
{
    emulate_access(true);
    for (uint64_t n = emulate_draw(2) * (1 + emulate_draw(4)); n > 0; n--)
        if (!step_any(NULL))
            break;
    emulate_access(false);
}

long emulate_legacy(void)
{
    emulate_lock();
    const long n = legacy;
    emulate_unlock();
    return n;
}

size_t emulate_unfinished(void)
{
    size_t n = 0;
    for (const emulate_stream *s : waiting)
        n += s->queue.size();
    return n;
}

void emulate_forget(void)
{
    while (!waiting.empty())
        pop(waiting.back());
}

/* ---- promises ---- */

namespace {

uint64_t promise_make(void)
{
    emulate_lock();
    const uint64_t promise = emulate_signal_new();
    promises.insert(promise);
    emulate_unlock();
    return promise;
}

cudaError_t promise_wait(cudaStream_t stream, uint64_t promise)
{
    cudaError_t e = cudaErrorInvalidResourceHandle;

    emulate_lock();
    emulate_stream *const s = emulate_stream_of(stream);
    if (s && s->capture) {
        e = cudaErrorStreamCaptureUnsupported;
    } else if (s) {
        emulate_work *const w = emulate_work_new(WAIT, 0);
        w->until = emulate_mark{0, promise};
        emulate_push(s, w);
        e = cudaSuccess;
    }
    emulate_unlock();
    return e;
}

void promise_keep_in_work(uint64_t promise)
{
    emulate_signal_give(promise);
    promises.erase(promise);
}

void promise_keep(uint64_t promise)
{
    emulate_lock();
    promise_keep_in_work(promise);
    emulate_unlock();
}

int promise_on_card(const void *p, size_t bytes)
{
    emulate_lock();
    const int is = emulate_on_card(p, bytes);
    emulate_unlock();
    return is;
}

}

const emulate_promises *emulate_promises_of(void)
{
    static const emulate_promises table = {promise_make, promise_wait, promise_keep,
                                           promise_keep_in_work, promise_on_card};
    return &table;
}
