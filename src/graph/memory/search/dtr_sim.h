/* dtr_sim.h - a step is run in order within a number of bytes; where they do not suffice, the
 * tensor with the smallest score goes, to be made anew when it is read. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H

#include "graph/memory/search/dtr_score.h"
#include "graph/memory/search/job.h"

/* What a tensor hangs together with, by way of tensors that are gone. */
typedef struct weir_dtr_neighborhood {
    double   above;             /* seconds to make those anew that it is made from */
    double   below;             /* seconds of those that are made from it */
    double   bytes;             /* of those above */
    uint32_t count;             /* of those below */
    bool     known;
} weir_dtr_neighborhood;

/* A class of tensors that are gone and touch each other: what union-find keeps of it. */
typedef struct weir_dtr_class {
    uint32_t parent;
    double   seconds;           /* of the root: of all */
} weir_dtr_class;

typedef struct weir_dtr_sim {
    const weir_mem_problem *p;
    size_t                  limit;       /* of tensors and workspace */
    bool                    use_classes; /* keep classes */
    double       (*score)(struct weir_dtr_sim *v, uint32_t tensor);
    weir_dtr_rule            rule;                    /* of dtr.c */
    double                   time_power, bytes_power; /* of dtr_lookahead.c */
    weir_schedule            s;     /* the answer, ended; not valid: it went round in circles */
    double                  *when;  /* [ops + 1] seconds before each, all first runs */
    double                   clock; /* seconds of all that ran */
    uint32_t                 done;  /* first runs so far: the number of the next one */
    uint32_t                 recomputed; /* other runs so far */
    size_t                   live;       /* bytes of tensors that are there */
    uint32_t                *next;       /* [tensors] number of its next use by a first run */
    uint32_t                *locks;      /* [tensors] runs about to happen that read it */
    double                  *used;       /* [tensors] clock when it was read or made last */
    weir_dtr_neighborhood   *near;       /* [tensors] */
    uint32_t                *class_of;   /* [tensors] of those that are gone */
    uint32_t                *place;      /* [tensors] in there */
    uint32_t                *stamp, *op_stamp, *barred; /* [tensors], [ops], [tensors] */
    uint32_t                 stamps;
    WEIR_VEC(uint32_t)       there; /* temporary tensors that are there */
    WEIR_VEC(uint32_t)       stack, frames, roots;
    WEIR_VEC(weir_dtr_class) class_nodes;
} weir_dtr_sim;

/* All false when memory is short. */
bool weir_dtr_sim_init(weir_dtr_sim *v, const weir_mem_problem *p);
void weir_dtr_sim_free(weir_dtr_sim *v);

/* Runs the step: s is ended. What cannot be done within room is done in more. */
bool weir_dtr_sim_run(weir_dtr_sim *v);

/* For scores. */
const weir_dtr_neighborhood *weir_dtr_sim_neighborhood(weir_dtr_sim *v, uint32_t tensor);
double weir_dtr_sim_class_cost(weir_dtr_sim *v, uint32_t tensor);

/* Runs the step in job's room or, if that does not do, in the smallest room found that does. The
 * better schedule of this one and what is in job->s stays there. */
weir_status weir_dtr_sim_plan(weir_dtr_sim *v, weir_policy_job *job);

#endif
