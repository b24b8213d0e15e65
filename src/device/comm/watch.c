/* watch.c - see watch.h. The time counts from the moment at which the stream comes to a collective,
 * so work ahead of it may take as long as it likes. */
#include "device/comm/watch.h"

#include "core/status.h"
#include "core/trace.h"

weir_watch_state weir_watch_look(weir_stream_watch *w, double timeout)
{
    uint64_t number;

    if (!w->stream || !w->ops->under_way(w->stream, &number)) {
        w->number = 0;
        return WEIR_WATCH_FINE;
    }
    if (number == w->number)
        return weir_now() < w->until ? WEIR_WATCH_FINE : WEIR_WATCH_LATE;
    w->number = number;
    w->until = weir_now() + timeout;
    return WEIR_WATCH_BEGUN;
}

void weir_watch_abandon(const weir_stream_watch *w)
{
    if (w->stream)
        w->ops->abandon(w->stream, weir_error());
}
