/* dtr_sim.h - runs a step in order within a limit of bytes: when memory runs out, evicts the tensor
 * with the smallest score; when an evicted tensor is read again, recomputes it. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H
#define WEIR_GRAPH_MEMORY_SEARCH_DTR_SIM_H

#include "graph/memory/search/dtr_score.h"
#include "graph/memory/search/job.h"

/* The evicted tensors connected to one tensor by dependencies through evicted tensors only. */
typedef struct weir_dtr_neighborhood {
    double   above;             /* seconds to recompute the ancestors */
    double   below;             /* seconds to recompute the descendants */
    double   bytes;             /* of the ancestors */
    uint32_t count;             /* of the descendants */
    bool     known;
} weir_dtr_neighborhood;

/* A union-find class of connected evicted tensors. */
typedef struct weir_dtr_class {
    uint32_t parent;
    double   seconds;           /* in the root: seconds of the whole class */
} weir_dtr_class;

typedef struct weir_dtr_sim {
    const weir_mem_problem *p;
    size_t                  limit;       /* bytes of tensors and workspace */
    bool                    use_classes; /* true: maintain union-find classes */
    double       (*score)(struct weir_dtr_sim *v, uint32_t tensor);
    weir_dtr_rule            rule;                    /* for dtr.c */
    double                   time_power, bytes_power; /* for dtr_lookahead.c */
    weir_schedule            s;     /* the answer, ended; not valid if the run was given up */
    /* [ops + 1] seconds of the step before each op, without recomputation */
    double                  *when;
    double                   clock; /* seconds of all runs so far */
    uint32_t                 done;  /* first runs so far: the number of the next op */
    uint32_t                 recomputed; /* repeated runs so far */
    uint64_t                 work;       /* tensors visited and scored so far */
    uint64_t                 most_work;  /* no run goes on beyond it; 0: any number */
    double                   slowest;    /* no run goes on beyond these seconds; 0: any */
    size_t                   live;       /* bytes of tensors on the device */
    uint32_t                *next;       /* [tensors] number of the next use by a first run */
    uint32_t                *locks;      /* [tensors] pending runs that read it; > 0: pinned */
    double                  *used;       /* [tensors] clock when it was last read or made */
    weir_dtr_neighborhood   *near;       /* [tensors] */
    bool                     asks_near;  /* the score asks for neighborhoods: some may be known */
    uint32_t                *class_of;   /* [tensors] its node in class_nodes, once evicted */
    uint32_t                *place;      /* [tensors] its index in `there` */
    /* marks of the traversals; barred: of this eviction */
    uint32_t                *stamp, *op_stamp, *barred;
    uint32_t                 stamps;
    WEIR_VEC(uint32_t)       there; /* temporary tensors on the device */
    WEIR_VEC(uint32_t)       stack, frames, roots;
    WEIR_VEC(weir_dtr_class) class_nodes;
} weir_dtr_sim;

/* Both return false if memory runs out; the caller calls weir_dtr_sim_free in either case. Set
 * limit, score and use_classes before a run. */
bool weir_dtr_sim_init(weir_dtr_sim *v, const weir_mem_problem *p);
void weir_dtr_sim_free(weir_dtr_sim *v);

/* Runs the step and ends v->s. An op that does not fit within the limit even so runs beyond it.
 * Returns false if memory runs out. */
bool weir_dtr_sim_run(weir_dtr_sim *v);

/* For scores: the evicted neighborhood of the tensor (owned by v, valid until the next eviction),
 * and the seconds of the union-find classes that the tensor touches. */
const weir_dtr_neighborhood *weir_dtr_sim_neighborhood(weir_dtr_sim *v, uint32_t tensor);
double weir_dtr_sim_class_cost(weir_dtr_sim *v, uint32_t tensor);

/* Runs the step within the job's limit or, if it does not fit, within the smallest limit that a
 * binary search finds. job->s keeps the better of the schedules and its previous value. Returns
 * WEIR_OK or ERR_NOMEM. */
weir_status weir_dtr_sim_plan(weir_dtr_sim *v, weir_policy_job *job);

#endif
