/* walk.h - what a set of decisions means: the tasks that run, the pieces that live, the peak.
 *
 * The first runs of all tasks keep the problem's order. Between two accesses of a piece lies a gap
 * (before its use number j; one more lies behind its last use), and each gap is decided: keep the
 * piece, or drop it and make it anew when its next reader, or somebody who makes something else
 * anew, asks for it. A piece made anew on somebody's behalf in the middle of a gap stays until the
 * next use, or is dropped again at once. */
#ifndef WEIR_GRAPH_POLICY_WALK_H
#define WEIR_GRAPH_POLICY_WALK_H

#include "graph/policy/problem.h"

typedef enum weir_gap {
    WEIR_KEEP,          /* stays (in the gap behind the last use: not at all) */
    WEIR_DROP,          /* goes; once made anew it stays until the next use */
    WEIR_DROP_AGAIN,    /* goes; what is made anew for others goes again at once */
    WEIR_TAIL,          /* behind the last use only: stays for those who make others anew */
    WEIR_EARLY          /* this + s: WEIR_DROP, made anew s + 1 steps before the next use already */
} weir_gap;

/* A run of a task. */
typedef struct weir_event {
    uint32_t task;
    bool     again;     /* not the first run */
} weir_event;

/* A piece from the run that makes it to the last one that reads it (events, both included). */
typedef struct weir_life {
    uint32_t piece;
    uint32_t first, last;
} weir_life;

/* Decisions are numbered piece by piece: gap j of piece k is first_gap[k] + j, j from 0 (before the
 * first use) to uses.n (behind the last). */
typedef struct weir_walk_room {
    const weir_problem *p;
    uint32_t           *first_gap;      /* [pieces + 1] */
    uint32_t            gaps;
    WEIR_VEC(weir_event) events;
    WEIR_VEC(weir_life) lives;
    WEIR_VEC(int64_t) live;             /* [events] bytes of pieces and workspace during each */
    WEIR_VEC(uint32_t) life_of;         /* per event: lives of its inputs, then of its outputs */
    WEIR_VEC(uint32_t) life_first;      /* [events + 1] where an event's begin in life_of */
    uint32_t *now;                      /* [pieces] its life, WEIR_NO_PIECE: not there */
    uint32_t *next;                     /* [pieces] number of its next use */
    uint32_t *early, *early_next;       /* [tasks] pieces to make anew before it: first, [pieces] */
    uint32_t  step;                     /* tasks in one step of WEIR_EARLY */
    WEIR_VEC(uint32_t) burst;           /* pieces made anew since the last first run */
    WEIR_VEC(uint32_t) stack;
    size_t   peak;                      /* the answer: bytes without `resident` */
    uint32_t peak_event;
    double   extra;                     /* seconds of tasks run again */
    bool     valid;                     /* false: a task would run again too late, or endlessly */
} weir_walk_room;

bool weir_walk_init(weir_walk_room *w, const weir_problem *p);
void weir_walk_free(weir_walk_room *w);

/* Walks the step under decisions gap[w->gaps]. False when memory is short. */
bool weir_walk(weir_walk_room *w, const uint8_t *gap);

/* The task whose first run the event belongs to: itself, or the one it prepares. */
uint32_t weir_walk_stage(const weir_walk_room *w, uint32_t event);

#endif
