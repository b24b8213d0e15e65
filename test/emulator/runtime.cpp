/* runtime.cpp - the emulated runtime's cards, streams and events. See runtime.h. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/splitmix.h"
#include "emulate.h"
#include "inject.h"

namespace {

uint64_t         state;             /* of the random generator; 0: not seeded */

/* Creates the built-in streams of the current card. */
void always(uint64_t id, unsigned flags)
{
    emulate_stream *&s = emulate_streams[id];
    if (s && s->queue.empty())
        s->card = emulate_card();
    if (!s)
        s = new emulate_stream{id, flags, 0, emulate_card(), {}, 0, 0, false, false, NULL, {}};
}

cudaError_t stream_new(cudaStream_t *out, unsigned flags, int priority)
{
    if (!out || flags > cudaStreamNonBlocking)
        return cudaErrorInvalidValue;
    if (emulate_cards() == 0)
        return cudaErrorNoDevice;
    const uint64_t id = emulate_id();
    emulate_streams[id] =
        new emulate_stream{id, flags, priority, emulate_card(), {}, 0, 0, false, false, NULL, {}};
    *out = (cudaStream_t)(uintptr_t)id;
    return cudaSuccess;
}

cudaError_t record(emulate_event *e, uint64_t id, emulate_stream *s, unsigned flags)
{
    const bool inside = s->capture && !(flags & cudaEventRecordExternal);

    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (inside) {
        e->recorded = e->captured = true;
        e->capture = s->capture->id;
        e->frontier = s->frontier;
        return cudaSuccess;
    }
    emulate_work *const w = emulate_work_new(RECORD, 0);
    w->event = id;
    const emulate_mark at = emulate_push(s, w);
    if (s->capture)
        return cudaSuccess;                 /* a node of the graph: recorded by each launch */
    e->recorded = true;
    e->captured = e->ended = false;
    e->at = at;
    return cudaSuccess;
}

/* Such an event cannot be waited for, and trying to invalidates its capture. */
cudaError_t captured(const emulate_event *e)
{
    emulate_capture *const c = emulate_capture_of(e->capture);

    if (c)
        c->invalid = true;
    return cudaErrorCapturedEvent;
}

/* The stream joins the capture in which the event was recorded, or waits for more of it. */
cudaError_t join(emulate_stream *s, const emulate_event *e)
{
    emulate_capture *const c = emulate_capture_of(e->capture);

    if (!c)
        return cudaErrorCapturedEvent;
    if (s->capture && s->capture != c) {
        s->capture->invalid = c->invalid = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (c->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s->id == EMULATE_LEGACY) {
        c->invalid = true;
        return cudaErrorStreamCaptureImplicit;
    }
    if (!s->capture)
        s->frontier.clear();
    s->capture = c;
    std::set<int> all(s->frontier.begin(), s->frontier.end());
    all.insert(e->frontier.begin(), e->frontier.end());
    s->frontier.assign(all.begin(), all.end());
    return cudaSuccess;
}

cudaError_t wait_event(emulate_stream *s, emulate_event *e, uint64_t id, unsigned flags)
{
    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (s->capture && (flags & cudaEventWaitExternal)) {
        emulate_work *const w = emulate_work_new(WAIT_EVENT, 0);
        w->event = id;
        emulate_push(s, w);
        return cudaSuccess;
    }
    if (!e->recorded)
        return cudaSuccess;
    if (e->captured)
        return join(s, e);
    if (s->capture) {
        s->capture->invalid = true;
        return cudaErrorStreamCaptureIsolation;
    }
    emulate_work *const w = emulate_work_new(WAIT, 0);
    w->until = e->at;
    emulate_push(s, w);
    return cudaSuccess;
}

}

size_t emulate_bytes(void)
{
    const char *const asked = getenv("WEIR_EMULATED_BYTES");
    return asked && *asked ? strtoull(asked, NULL, 0) : (size_t)2 << 30;
}

uint64_t emulate_id(void)
{
    static uint64_t last = 0x5e0000;
    return last += 16;
}

uint64_t emulate_draw(uint64_t below)
{
    const char *const asked = getenv("WEIR_EMULATED_SEED");

    if (state == 0)
        state = asked && *asked ? strtoull(asked, NULL, 0) : 1;
    return weir_splitmix_next(&state) % below;
}

emulate_stream *emulate_stream_of(cudaStream_t handle)
{
    const uint64_t id = handle ? (uint64_t)(uintptr_t)handle : (uint64_t)EMULATE_LEGACY;

    if (id == EMULATE_LEGACY || id == EMULATE_PER_THREAD)
        always(id, cudaStreamDefault);
    emulate_stream *const s = emulate_find(emulate_streams, (void *)id);
    return s && !s->dying ? s : NULL;
}

cudaError_t emulate_queue_kernel(dim3 grid, dim3 block, cudaStream_t stream,
                                 void (*thread)(const void *), const void *arguments, size_t bytes)
{
    static emulate_point point = {"cudaLaunchKernel", 0, NULL};
    const emulate_entry  entry(&point);

    if (entry.error != cudaSuccess)
        return entry.say(entry.error);
    emulate_stream *const s = emulate_stream_of(stream);
    if (!s || s->card != emulate_card())          /* the thread's current card is another one */
        return entry.say(cudaErrorInvalidResourceHandle);
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffff || grid.y > 65535 ||
        grid.z > 65535 || block.x < 1 || block.y < 1 || block.z < 1 || block.x > 1024 ||
        block.y > 1024 || block.z > 64 || block.x * block.y * block.z > 1024 || bytes > 4096)
        return entry.say(cudaErrorInvalidConfiguration);
    const cudaError_t e = emulate_implicit(s);
    if (e != cudaSuccess)
        return entry.say(e);
    emulate_work *const w = emulate_work_new(KERNEL, bytes);
    w->kernel.grid = uint3{grid.x, grid.y, grid.z};
    w->kernel.block = uint3{block.x, block.y, block.z};
    w->kernel.thread = thread;
    memcpy(w->more, arguments, bytes);
    emulate_push(s, w);
    return cudaSuccess;
}

extern "C" {

void emulate_seed(uint64_t seed)
{
    emulate_lock();
    state = seed;
    emulate_unlock();
}

size_t emulate_handles(void)
{
    emulate_lock();
    size_t n = emulate_events.size() + emulate_graphs.size() + emulate_execs.size() +
               emulate_pinned_ranges() + emulate_held();
    for (const auto &at : emulate_streams)
        n += at.first > EMULATE_PER_THREAD;
    emulate_unlock();
    return n;
}

cudaError_t cudaDeviceSynchronize(void)
{
    EMULATE_ENTER;
    if (!emulate_captures.empty()) {
        for (emulate_capture *c : emulate_captures)
            c->invalid = true;
        return entry.say(cudaErrorStreamCaptureUnsupported);
    }
    return entry.say(emulate_wait_all());
}

cudaError_t cudaDeviceReset(void)
{
    static emulate_point point = {__func__, 0, NULL};
    const emulate_entry  entry(&point, true);
    emulate_forget();
    return cudaSuccess;
}

/* ---- streams ---- */

cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    EMULATE_ENTER;
    return entry.say(stream_new(s, cudaStreamDefault, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    EMULATE_ENTER;
    return entry.say(stream_new(s, flags, 0));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    EMULATE_ENTER;
    return entry.say(stream_new(s, flags, priority));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    EMULATE_ENTER;
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
    EMULATE_ENTER;
    const emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    *priority = s->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags)
{
    EMULATE_ENTER;
    const emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    *flags = s->flags;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    EMULATE_ENTER;
    emulate_stream *const s = emulate_stream_of(handle);
    if (!s || s->id <= EMULATE_PER_THREAD)
        return entry.say(cudaErrorInvalidResourceHandle);
    if (s->capture) {
        s->capture->invalid = true;
        return entry.say(cudaErrorStreamCaptureUnsupported);
    }
    s->dying = true;
    if (s->queue.empty()) {
        emulate_streams.erase(s->id);
        delete s;
    }
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    EMULATE_ENTER;
    emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t e = emulate_unsafe_on(s);
    return entry.say(e != cudaSuccess ? e : emulate_wait(emulate_mark{s->id, s->pushed}));
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    EMULATE_ENTER;
    emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t e = emulate_unsafe_on(s);
    if (e != cudaSuccess)
        return entry.say(e);
    const emulate_mark end = {s->id, s->pushed};
    emulate_some();
    return entry.say(emulate_lost() != cudaSuccess ? emulate_lost()
                     : emulate_reached(end)        ? cudaSuccess
                                                   : cudaErrorNotReady);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t call, void *context)
{
    EMULATE_ENTER;
    emulate_stream *const s = emulate_stream_of(handle);
    if (!s)
        return entry.say(cudaErrorInvalidResourceHandle);
    if (!call)
        return entry.say(cudaErrorInvalidValue);
    const cudaError_t e = emulate_implicit(s);
    if (e != cudaSuccess)
        return entry.say(e);
    emulate_work *const w = emulate_work_new(HOST, 0);
    w->host.call = call;
    w->host.context = context;
    emulate_push(s, w);
    return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    EMULATE_ENTER;
    if (!out || (flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming)))
        return entry.say(cudaErrorInvalidValue);
    if (emulate_cards() == 0)
        return entry.say(cudaErrorNoDevice);
    const uint64_t id = emulate_id();
    emulate_events[id] =
        new emulate_event{flags, emulate_card(), false, false, false, {0, 0}, 0, 0, {}};
    *out = (cudaEvent_t)(uintptr_t)id;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    EMULATE_ENTER;
    emulate_event *const e = emulate_find(emulate_events, handle);
    if (!e)
        return entry.say(cudaErrorInvalidResourceHandle);
    emulate_events.erase((uint64_t)(uintptr_t)handle);
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned flags)
{
    EMULATE_ENTER;
    emulate_event *const  e = emulate_find(emulate_events, handle);
    emulate_stream *const s = emulate_stream_of(stream);
    if (!e || !s || e->card != s->card)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t implicit = emulate_implicit(s);
    if (implicit != cudaSuccess)
        return entry.say(implicit);
    return entry.say(record(e, (uint64_t)(uintptr_t)handle, s, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(handle, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned flags)
{
    EMULATE_ENTER;
    emulate_event *const  e = emulate_find(emulate_events, handle);
    emulate_stream *const s = emulate_stream_of(stream);
    if (!e || !s)
        return entry.say(cudaErrorInvalidResourceHandle);
    return entry.say(wait_event(s, e, (uint64_t)(uintptr_t)handle, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    EMULATE_ENTER;
    const emulate_event *const e = emulate_find(emulate_events, handle);
    if (!e)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t unsafe = e->captured ? captured(e) : emulate_unsafe();
    if (unsafe != cudaSuccess)
        return entry.say(unsafe);
    emulate_some();
    return entry.say(emulate_lost() != cudaSuccess               ? emulate_lost()
                     : !e->recorded || emulate_reached(e->at) ? cudaSuccess
                                                              : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    EMULATE_ENTER;
    const emulate_event *const e = emulate_find(emulate_events, handle);
    if (!e)
        return entry.say(cudaErrorInvalidResourceHandle);
    const cudaError_t unsafe = e->captured ? captured(e) : emulate_unsafe();
    if (unsafe != cudaSuccess)
        return entry.say(unsafe);
    return entry.say(e->recorded ? emulate_wait(e->at) : cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    EMULATE_ENTER;
    const emulate_event *const a = emulate_find(emulate_events, from);
    const emulate_event *const b = emulate_find(emulate_events, to);
    if (!a || !b || (a->flags | b->flags) & cudaEventDisableTiming || !a->recorded || !b->recorded)
        return entry.say(cudaErrorInvalidResourceHandle);
    if (a->captured || b->captured)
        return entry.say(cudaErrorCapturedEvent);
    if (!a->ended || !b->ended)
        return entry.say(cudaErrorNotReady);
    *ms = (float)(b->time - a->time);
    return cudaSuccess;
}

}
