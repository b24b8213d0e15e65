/* watch.h - the deadline of collectives that run on the device's stream. */
#ifndef WEIR_DEVICE_COMM_WATCH_H
#define WEIR_DEVICE_COMM_WATCH_H

#include "device/collective.h"

/* Used by the wire thread alone. All 0: nothing is watched. */
typedef struct weir_stream_watch {
    const weir_stream_comm_ops *ops;
    weir_stream_comm           *stream;         /* NULL: nothing is watched */
    uint64_t                    number;         /* under way when last looked at; 0: none */
    double                      until;          /* its deadline */
} weir_stream_watch;

typedef enum weir_watch_state {
    WEIR_WATCH_FINE,
    WEIR_WATCH_BEGUN,           /* a collective has begun since the last look */
    WEIR_WATCH_LATE             /* one has been under way for `timeout` seconds */
} weir_watch_state;

weir_watch_state weir_watch_look(weir_stream_watch *w, double timeout);

/* Lets the stream go on, with the thread's last failure as the reason. */
void weir_watch_abandon(const weir_stream_watch *w);

#endif
