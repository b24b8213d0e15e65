/* progress.h - what this thread plans, for whom it reports, and whether it was told to stop.
 *
 * A planner begins a watch; the loops of searches and placements poll it, whatever their depth.
 * After a poll has returned false every later one does, and the planner unwinds as it does when
 * memory runs out. weir_progress_end then replaces that status. Nothing that is planned may depend
 * on a watch. Without one a poll is true and the other calls do nothing. */
#ifndef WEIR_GRAPH_PLACEMENT_PROGRESS_H
#define WEIR_GRAPH_PLACEMENT_PROGRESS_H

#include "weir/base.h"

typedef struct weir_progress_watch {
    weir_progress_fn            fn;         /* NULL: nobody is told */
    void                       *context;
    weir_progress               now;
    double                      began;      /* seconds of weir_now */
    size_t                      fixed;      /* bytes that no plan counts */
    bool                        stopped;
    struct weir_progress_watch *outer;      /* of a planner that this one runs inside of */
} weir_progress_watch;

/* Begins to watch this thread. *w must live until weir_progress_end. */
void weir_progress_begin(weir_progress_watch *w, weir_progress_fn fn, void *context);

/* Ends the watch. Returns `status`, or ERR_CANCELLED with a sentence that begins with `function` if
 * a poll returned false. */
weir_status weir_progress_end(weir_progress_watch *w, const char *function, weir_status status);

/* Reports; returns false if the work must stop. */
bool weir_progress_poll(void);

/* The part that begins: a static text. Its share is unknown. */
void weir_progress_phase(const char *phase);

/* `done` of `all` steps of the part are done. */
void weir_progress_share(uint64_t done, uint64_t all);

/* Another plan was tried. */
void weir_progress_tried(void);

/* Bytes that every plan from now on needs besides those that weir_progress_best is told. */
void weir_progress_fixed(size_t bytes);

/* The best plan so far: live bytes, and the seconds that it adds to a step. */
void weir_progress_best(size_t bytes, double seconds);

#endif
