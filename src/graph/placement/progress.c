/* progress.c - the watch of the calling thread. */
#include "graph/placement/progress.h"

#include "core/status.h"
#include "core/trace.h"

static _Thread_local weir_progress_watch *watch;

void weir_progress_begin(weir_progress_watch *w, weir_progress_fn fn, void *context)
{
    *w = (weir_progress_watch){.fn = fn,
                               .context = context,
                               .now = {.phase = "passes", .fraction = -1},
                               .began = weir_now(),
                               .outer = watch};
    watch = w;
}

weir_status weir_progress_end(weir_progress_watch *w, const char *function, weir_status status)
{
    watch = w->outer;
    if (!w->stopped)
        return status;
    return weir_fail(WEIR_ERR_CANCELLED, "%s: planning was stopped by its progress callback "
                     "(part: %s, %llu plans tried)", function, w->now.phase,
                     (unsigned long long)w->now.plans);
}

bool weir_progress_poll(void)
{
    weir_progress_watch *const w = watch;

    if (!w || !w->fn)
        return true;
    if (w->stopped)
        return false;
    w->now.seconds = weir_now() - w->began;
    watch = NULL;                       /* what the callback does is watched by nobody */
    w->stopped = !w->fn(w->context, &w->now);
    watch = w;
    return !w->stopped;
}

void weir_progress_phase(const char *phase)
{
    if (watch) {
        watch->now.phase = phase;
        watch->now.fraction = -1;
    }
}

void weir_progress_share(uint64_t done, uint64_t all)
{
    if (watch && all > 0)
        watch->now.fraction = (double)done / (double)all;
}

void weir_progress_tried(void)
{
    if (watch)
        watch->now.plans++;
}

void weir_progress_fixed(size_t bytes)
{
    if (watch)
        watch->fixed = bytes;
}

void weir_progress_best(size_t bytes, double seconds)
{
    if (watch) {
        watch->now.best_bytes = watch->fixed + bytes;
        watch->now.best_extra_ms = seconds * 1e3;
    }
}
