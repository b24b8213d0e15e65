/* lower.h - what a set of decisions means: a schedule.
 *
 * The first runs of all tasks keep the problem's order. Between two accesses of a piece lies a gap
 * (before its use number j; one more lies behind its last use), and each gap is decided: keep the
 * piece on the device, or let it go in one of several ways until its next reader, or somebody who
 * makes something else anew, asks for it. A piece that came back on somebody's behalf in the middle
 * of a gap stays until the next use, or is dropped again at once. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H
#define WEIR_GRAPH_MEMORY_PROBLEM_LOWER_H

#include "graph/memory/problem/schedule.h"

typedef enum weir_gap {
    WEIR_KEEP,          /* stays (in the gap behind the last use: not at all) */
    WEIR_DROP,          /* goes; once made anew it stays until the next use */
    WEIR_DROP_AGAIN,    /* goes; what is made anew for others goes again at once */
    WEIR_TAIL,          /* behind the last use only: stays for those who make others anew */
    WEIR_SWAP,          /* goes to the host. Gap 0 of a resident piece: it lives there, between
                         * steps, too; its other gaps may be WEIR_SWAP only then. Behind the last
                         * use of another: goes there for those who make others anew */
    WEIR_CODE,          /* goes, a packed copy stays */
    WEIR_MASKED,        /* goes, a mask of it stays for those who need no more */
    WEIR_EARLY          /* this + s: WEIR_DROP, made anew s + 1 steps before the next use already */
} weir_gap;

/* Decisions are numbered piece by piece: gap j of piece k is first_gap[k] + j, j from 0 (before the
 * first use) to uses.n (behind the last). */
typedef struct weir_walk_room {
    const weir_problem *p;
    size_t              budget;         /* of pieces and workspace: when copies have to wait */
    weir_schedule       s;              /* what the last walk made */
    uint32_t           *first_gap;      /* [pieces + 1] */
    uint32_t            gaps;
    uint32_t *next;                     /* [pieces] number of its next use */
    uint8_t  *at_home;                  /* [pieces] resident, and on the host between steps */
    uint32_t *early, *early_next;       /* [tasks] pieces to make anew before it: first, [pieces] */
    uint32_t  step;                     /* tasks in one step of WEIR_EARLY */
    WEIR_VEC(uint32_t) burst;           /* pieces that came back since the last first run */
    WEIR_VEC(uint32_t) stack;
    size_t   peak;                      /* the answer: bytes without `resident` */
    uint32_t peak_event;
    double   extra;                     /* seconds more than all tasks once */
    bool     valid;                     /* false: a task would run again too late, or endlessly */
} weir_walk_room;

/* Number of all decisions. */
uint32_t weir_walk_gaps(const weir_problem *p);

bool weir_walk_init(weir_walk_room *w, const weir_problem *p);
void weir_walk_free(weir_walk_room *w);

/* Walks the step under decisions gap[w->gaps]. False when memory is short. */
bool weir_walk(weir_walk_room *w, const uint8_t *gap);

#endif
