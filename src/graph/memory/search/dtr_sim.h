/* dtr_sim.h - runs a step in order within a limit of bytes; when they run out, evicts the tensor
 * with the smallest score, which is recomputed when it is read again. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H

#include "graph/memory/search/dtr_score.h"
#include "graph/memory/search/job.h"

/* The evicted tensors that depend on one tensor or that it depends on, through evicted ones. */
typedef struct weir_dtr_neighborhood {
    double   above;             /* seconds to recompute its evicted ancestors */
    double   below;             /* seconds to recompute its evicted descendants */
    double   bytes;             /* of the ancestors */
    uint32_t count;             /* of the descendants */
    bool     known;
} weir_dtr_neighborhood;

/* A union-find class of connected evicted tensors. */
typedef struct weir_dtr_class {
    uint32_t parent;
    double   seconds;           /* in the root: of the whole class */
} weir_dtr_class;

typedef struct weir_dtr_sim {
    const weir_mem_problem *p;
    size_t                  limit;       /* of tensors and workspace */
    bool                    use_classes; /* maintain classes */
    double       (*score)(struct weir_dtr_sim *v, uint32_t tensor);
    weir_dtr_rule            rule;                    /* of dtr.c */
    double                   time_power, bytes_power; /* of dtr_lookahead.c */
    weir_schedule            s;     /* the answer, ended; not valid: recomputation did not end */
    double                  *when;  /* [ops + 1] seconds before each, all first runs */
    double                   clock; /* seconds of all that ran */
    uint32_t                 done;  /* first runs so far; also the number of the next op */
    uint32_t                 recomputed; /* other runs so far */
    size_t                   live;       /* bytes of tensors on the device */
    uint32_t                *next;       /* [tensors] number of its next use by a first run */
    uint32_t                *locks;      /* [tensors] pending runs that read it */
    double                  *used;       /* [tensors] clock when it was last read or made */
    weir_dtr_neighborhood   *near;       /* [tensors] */
    uint32_t                *class_of;   /* [tensors] of evicted tensors */
    uint32_t                *place;      /* [tensors] index in `there` */
    uint32_t                *stamp, *op_stamp, *barred; /* [tensors], [ops], [tensors] */
    uint32_t                 stamps;
    WEIR_VEC(uint32_t)       there; /* temporary tensors on the device */
    WEIR_VEC(uint32_t)       stack, frames, roots;
    WEIR_VEC(weir_dtr_class) class_nodes;
} weir_dtr_sim;

/* These return false when memory is short; free the simulation either way. */
bool weir_dtr_sim_init(weir_dtr_sim *v, const weir_mem_problem *p);
void weir_dtr_sim_free(weir_dtr_sim *v);

/* Runs the step and ends v->s. An op that does not fit within the limit runs beyond it. */
bool weir_dtr_sim_run(weir_dtr_sim *v);

/* For scores: evicted ancestors and descendants; seconds of the classes that the tensor touches. */
const weir_dtr_neighborhood *weir_dtr_sim_neighborhood(weir_dtr_sim *v, uint32_t tensor);
double weir_dtr_sim_class_cost(weir_dtr_sim *v, uint32_t tensor);

/* Runs the step within the job's limit or, if it does not fit, within the smallest limit found that
 * works. Keeps the better of this schedule and job->s in job->s. WEIR_OK or ERR_NOMEM. */
weir_status weir_dtr_sim_plan(weir_dtr_sim *v, weir_policy_job *job);

#endif
